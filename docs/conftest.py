"""What the examples of these pages need: libraries to compare with, and a home for Keras.

A page that compares with a library which is not installed is left out, as the tests of that comparison are. So are the
modules that make the site, and what they copy or write here: notebooks and examples are run where they come from.
"""

from importlib.util import find_spec
from pathlib import Path

import pytest

COMPARED = {
    "from_pytorch.md": {"torch"},
    "from_flax.md": {"flax"},
    "from_haiku.md": {"haiku"},
    "from_equinox.md": {"equinox"},
    "from_keras.md": {"keras"},
    "conformance.md": {"torch", "flax", "haiku", "equinox", "keras", "scipy"},
}

collect_ignore = [
    *(module.name for module in Path(__file__).parent.glob("*.py")),
    "notebooks",
    "reference",
    *(page for page, libraries in COMPARED.items() if not all(map(find_spec, libraries))),
]


@pytest.fixture(autouse=True)
def _settings_of_keras(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # Keras reads both when it is imported, and writes a file of settings into its home.
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
