"""The documentation builds without warnings, has a page for each public function, and loads nothing from elsewhere.

One build, in a separate process, serves all tests. Warnings are errors, so a broken link, a docstring that does not
render, or a missing section of the README makes it fail.
"""

import html
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import jaxpool
from jaxpool import morphology
from tests.harness.compilation import environment_of_fast_processes
from tests.project.browser import needs_browser, shown
from tests.project.importing import MODULES, public_members

pytest.importorskip("sphinx")
pytest.importorskip("myst_nb")
pytest.importorskip("matplotlib")
pytest.importorskip("notfound")
pytest.importorskip("sphinxext.opengraph")

ROOT = Path(__file__).parents[2]
SECTIONS = ("Parameters", "Returns", "Raises", "Derivative", "Example")
NAMES = [f"{module.__name__}.{name}" for module in (*MODULES, morphology) for name in public_members(module)]
CATALOGUE = runpy.run_path(str(ROOT / "docs" / "catalogue.py"))
MORPHOLOGY = [name for names in CATALOGUE["MORPHOLOGY"].values() for name in names]
FUNCTIONS = [name for name in public_members(jaxpool) if name not in CATALOGUE["CONTEXTS"] | CATALOGUE["KERNELS"]]


# One process builds the pages, in as long as a hundred other tests take.
pytestmark = [pytest.mark.xdist_group("docs"), pytest.mark.slow]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a fresh build."""
    pages = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", str(pages)]
    with environment_of_fast_processes():
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return pages


@pytest.mark.parametrize("name", NAMES)
def test_entry(site: Path, name: str) -> None:
    *module, function = name.removeprefix("jaxpool.").split(".")
    page = (site / "reference" / f"{'_'.join(module) or function}.html").read_text(encoding="utf-8")
    entry = re.split(r'<dt class="sig[^>]* id="|<section id="', page.partition(f' id="{name}">')[2])[0]
    text = html.unescape(re.sub(r"<[^>]*>", "", entry))
    shown = SECTIONS
    if "compat" in module:
        # Stand-ins say what differs from the functions whose arguments and results they have, or refer to those in 2d.
        shown = ("As ", "Differs in") if function.endswith(("1d", "3d")) else ("As ", "Differs in", "Example")
    if function in CATALOGUE["CONTEXTS"]:
        shown = ("Returns", "Derivative", "Example")
    places = [text.find(section) for section in shown]
    assert min(places) > 0, places
    assert places == sorted(places)
    assert (">>> " in text) == ("Example" in shown)
    assert "`" not in text


def test_every_function_is_in_one_family() -> None:
    listed = [name for family in CATALOGUE["FAMILIES"].values() for name in family]
    assert sorted(listed) == sorted(FUNCTIONS)
    assert sorted(MORPHOLOGY) == sorted(f"morphology.{name}" for name in public_members(morphology))
    assert set(CATALOGUE["OTHER_NAMES"]) <= set(FUNCTIONS)
    assert {f"jaxpool.compat.{module}" for module in CATALOGUE["LIBRARIES"]} == {one.__name__ for one in MODULES[1:]}


@pytest.mark.parametrize(("page", "functions"), [*((name, 1) for name in FUNCTIONS), ("morphology", len(MORPHOLOGY))])
def test_pictures(site: Path, page: str, functions: int) -> None:
    text = (site / "reference" / f"{page}.html").read_text(encoding="utf-8")
    pictures = re.findall(r"<svg viewBox.*?</svg>", text, re.DOTALL)
    assert len(pictures) == 2 * functions
    for signal, patch in zip(pictures[::2], pictures[1::2], strict=True):
        for kind in ("of-input", "of-result", "of-gradient"):
            assert f'class="{kind}"' in signal
        assert patch.count("data:image/png;base64,") == 3
        assert "nan" not in re.sub(r'href="[^"]*"', "", signal + patch)


def test_windows_that_move(site: Path) -> None:
    moving = (ROOT / "docs" / "moving_window.html").read_text(encoding="utf-8")
    pools = [name for name in re.findall(r">(\w+)</option>", moving) if name in FUNCTIONS]
    assert len(pools) > 25
    for name in FUNCTIONS:
        page = (site / "reference" / f"{name}.html").read_text(encoding="utf-8")
        assert re.findall(r" selected>(\w+_pool\w*)</option>", page) == [name] * (name in pools)
    # It is open where there is no picture besides.
    for page, is_open in {"conventions": " open", "reference/bins": "", "reference/footprint": ""}.items():
        assert f'<details{is_open} class="moving-window">' in (site / f"{page}.html").read_text(encoding="utf-8")
    assert (site / "_static" / "moving_window.js").read_text(encoding="utf-8").count("\n") <= 250


def test_titles_have_the_usual_names(site: Path) -> None:
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    titles = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))["titles"]
    assert "global_avg_pool: global average pooling (GAP)" in titles
    for family in CATALOGUE["FAMILIES"].values():
        assert {f"{name}: {known_as}" for name, known_as in family.items()} <= set(titles)


@pytest.mark.parametrize(
    ("page", "link"),
    [
        ("reference/min_pool.html", "max_pool.html#jaxpool.max_pool"),  # from a docstring
        ("choosing.html", "reference/soft_pool.html#jaxpool.soft_pool"),  # from a page
        ("api.html", "reference/roi_align.html"),
        ("choosing.html", "reference/whole.html"),
        ("models.html", "https://docs.jax.dev/en/latest/_autosummary/jax.vmap.html#jax.vmap"),
        ("conventions.html", "https://docs.jax.dev/en/latest/_autosummary/jax.numpy.argmax.html#jax.numpy.argmax"),
        ("models.html", "https://flax.readthedocs.io/en/latest/api_reference/flax.nnx/variables.html#flax.nnx.Param"),
    ],
)
def test_names_are_links(site: Path, page: str, link: str) -> None:
    assert f'href="{link}"' in (site / page).read_text(encoding="utf-8")


def test_figures_of_the_page_on_speed_are_those_of_the_benchmark(site: Path) -> None:
    page = (site / "speed.html").read_text(encoding="utf-8")
    results = {path.stem for path in (ROOT / "benchmarks" / "results").glob("cpu-*.json")}
    # A table and a picture for every version of JAX, the two tables of the README, and that of all pools.
    assert page.count("<table") == len(results) + 3
    assert page.count("×</strong>") > 10 * len(results)
    assert {path.stem for path in (site / "_images").glob("cpu-*.png")} == results
    for name in results:
        assert f"JAX {name.partition('-jax-')[2]}" in page


# The pages that come first, and what people type.
SEARCHES = {
    ("reference/max_pool",): ("max pool", "max_pool", "Max Pooling", "MaxPool2d"),
    ("reference/avg_pool",): ("average pool", "avg pool", "AveragePooling2D"),
    ("reference/global_avg_pool",): ("global average pool", "GAP"),
    ("reference/attention_pool",): ("attention",),
    ("reference/max_unpool",): ("unpooling", "MaxUnpool2d"),
    ("reference/whole",): ("whole",),
    ("conventions",): ("NHWC", "NCHW", "channels last", "padding", "stride", "ceil_mode", "SAME", "mask"),
    ("choosing", "models"): ("learnable", "trainable"),
    ("choosing", "models", "reference/max_unpool"): ("upsample", "upsampling"),
    ("models", "data"): ("variable length",),
    ("index", "policy"): ("license", "cite"),
}
# Asks the search of the site, as its page does.
ASKING = """<!doctype html><html data-content_root="./"><body><div id="search-progress"></div><pre></pre>
<script src="_static/documentation_options.js"></script><script src="_static/sphinx_highlight.js"></script>
<script src="_static/doctools.js"></script><script src="_static/language_data.js"></script>
<script src="_static/searchtools.js"></script><script src="searchindex.js"></script>
<script>
const found = QUERIES.map((query) => {
  history.replaceState(null, "", "?q=" + encodeURIComponent(query));
  return Search._performSearch(...Search._parseQuery(query)).reverse().map((result) => result[0]);
});
document.querySelector("pre").textContent = "FOUND" + JSON.stringify(found) + "END";
</script>"""


@needs_browser
def test_search_finds_what_people_type(site: Path, tmp_path: Path) -> None:
    expected = {query: pages for pages, queries in SEARCHES.items() for query in queries}
    page = site / "asking.html"
    page.write_text(ASKING.replace("QUERIES", json.dumps([*expected])), encoding="utf-8")
    results = json.loads(html.unescape(re.findall(r"FOUND(.*?)END", shown(page, tmp_path))[0]))
    page.unlink()
    for (query, pages), found in zip(expected.items(), results, strict=True):
        first = [*dict.fromkeys(found)]
        assert {*first[: len(pages)]} == {*pages}, (query, first[:4])
        # Notebooks have most words in them, and come last.
        is_notebook = ["notebooks/" in one for one in first]
        assert is_notebook == sorted(is_notebook), query


def test_every_page_is_reached(site: Path) -> None:
    sources = {*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "reference").glob("*.md")}
    sources |= {*(ROOT / "notebooks").glob("*.ipynb")}
    index = (site / "index.html").read_text(encoding="utf-8")
    assert len(sources) > 50
    for source in sources - {ROOT / "docs" / "index.md"}:
        assert f"{source.stem}.html" in index, source


def test_pages_have_descriptions(site: Path) -> None:
    descriptions = set()
    for page in (*site.glob("*.html"), *site.glob("reference/*.html")):
        if page.stem not in {"404", "genindex", "py-modindex", "search"}:
            (found,) = re.findall(r'<meta name="description" content="([^"]+)"', page.read_text(encoding="utf-8"))
            descriptions.add(found)
    assert len(descriptions) > 50
    lost = (site / "404.html").read_text(encoding="utf-8")
    assert "No such page" in lost
    # It is shown wherever a link leads nowhere.
    assert 'href="/reference/max_pool.html"' in lost
    assert 'href="/index.html">first page<' in lost
    assert (site / "_static" / "favicon.svg").exists()


def test_nothing_is_fetched(site: Path) -> None:
    for page in site.rglob("*.html"):
        tags = re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page.read_text(encoding="utf-8"))
        assert tags
        assert not [tag for tag in tags if re.search(r'(?:src|href)="(?:https?:)?//', tag)], page
