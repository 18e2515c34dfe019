"""The documentation: it is built without a warning, has all of the public functions in full, and fetches nothing.

One build, in a process of its own, serves all tests. It is told to take warnings for errors, so that a link to nowhere,
a docstring that does not render or a section of the README that is gone fails it.
"""

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.project.importing import MODULES, public_members

pytest.importorskip("sphinx")
pytest.importorskip("myst_nb")

ROOT = Path(__file__).parents[2]
SECTIONS = ("Parameters", "Returns", "Raises", "Derivative", "Example")
NAMES = [f"{module.__name__}.{name}" for module in MODULES for name in public_members(module)]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fresh build."""
    pages = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", str(pages)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return pages


def test_public_names_were_found() -> None:
    assert {"jaxpool.max_pool", "jaxpool.compat.flax.min_pool", "jaxpool.compat.haiku.MaxPool"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_entry(site: Path, name: str) -> None:
    page = (site / "api.html").read_text(encoding="utf-8")
    entry = re.split(r'<dt class="sig[^>]* id="|<section id="', page.partition(f' id="{name}">')[2])[0]
    text = html.unescape(re.sub(r"<[^>]*>", "", entry))
    # Classes are functions with most arguments given, and say the rest in a sentence or leave it to these.
    shown = SECTIONS if name.rpartition(".")[2].islower() else ("Parameters", "Example")
    places = [text.find(section) for section in shown]
    assert min(places) > 0, places
    assert places == sorted(places)
    assert ">>> " in text
    assert "`" not in text


def test_every_page_is_reached(site: Path) -> None:
    sources = {*(ROOT / "docs").glob("*.md"), *(ROOT / "notebooks").glob("*.ipynb")}
    index = (site / "index.html").read_text(encoding="utf-8")
    assert len(sources) > 15
    for source in sources - {ROOT / "docs" / "index.md"}:
        assert f"{source.stem}.html" in index, source


def test_nothing_is_fetched(site: Path) -> None:
    for page in site.rglob("*.html"):
        tags = re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page.read_text(encoding="utf-8"))
        assert tags
        assert not [tag for tag in tags if re.search(r'(?:src|href)="(?:https?:)?//', tag)], page
