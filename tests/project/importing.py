"""What an import provides: the public names of a module, and the other modules that it imports."""

import json
import subprocess
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import jaxpool
from jaxpool.compat import equinox, flax, haiku, keras, torch

MODULES = (jaxpool, equinox, flax, haiku, keras, torch)


def public_members(module: ModuleType) -> dict[str, Any]:
    """The module's own functions and classes."""
    return {name: getattr(module, name) for name in dir(module) if name[0] != "_" and callable(getattr(module, name))}


def imported_with(modules: str, names: Sequence[str]) -> list[str]:
    """Which of the top-level modules `names` a fresh process has after it has imported `modules`."""
    program = f"import json, sys, {modules}; print(json.dumps([name for name in {list(names)} if name in sys.modules]))"
    command = [sys.executable, "-W", "error", "-c", program]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
