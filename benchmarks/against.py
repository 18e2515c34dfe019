"""Another version of jaxpool beside the one that is imported, in the same process."""

import importlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def load(revision: str) -> Any:
    """The package as it was at a revision of git, as a module; the imported one stays as it is."""
    folder = tempfile.mkdtemp(prefix="jaxpool-")
    archive = subprocess.run(["git", "archive", revision, "jaxpool"], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "--extract", "--directory", folder], input=archive.stdout, check=True)
    ours = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "jaxpool"}
    sys.path.insert(0, folder)
    try:
        before = importlib.import_module("jaxpool")
    finally:
        sys.path.remove(folder)
        for name in [name for name in sys.modules if name.partition(".")[0] == "jaxpool"]:
            del sys.modules[name]
        sys.modules.update(ours)
    return before
