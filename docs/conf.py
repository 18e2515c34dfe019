"""How the pages of this folder become a site: `python -m sphinx -W -b html docs build/docs`, from the root.

Nothing is fetched while the site is read: fonts are the reader's own, formulas are MathML, and all scripts are files of
the site. While it is made, lists of other libraries' names are, if there is a network. Sphinx reads only what is inside
this folder, so the notebooks are copied here first, and the page of each function is written here by `pages`; git
ignores both. What the README says is included from there, section by section.
"""

import os
import shutil
import sys
from pathlib import Path
from urllib.parse import urlparse

HERE = Path(__file__).parent.resolve()

# The package beside this folder is documented, whichever is installed.
sys.path[:0] = [str(HERE), str(HERE.parent)]

import jaxpool  # noqa: E402

# Notebooks that are gone must go here too. Copies keep their dates, so that only changed ones are read again.
shutil.rmtree(HERE / "notebooks", ignore_errors=True)
shutil.copytree(HERE.parent / "notebooks", HERE / "notebooks", ignore=shutil.ignore_patterns(".*", "__pycache__"))

project = "jaxpool"
author = "the authors of jaxpool"
project_copyright = author
release = jaxpool.__version__
html_title = f"jaxpool {release}"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "notfound.extension",
    "sphinx_copybutton",
    "sphinxext.opengraph",
    "rendering",
    "pages",
    "thumbnails",
    "costs",
]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
exclude_patterns = ["**/.ipynb_checkpoints"]

myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
nb_execution_mode = "off"
nb_merge_streams = True
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"

# Names of other libraries are links. Without a network those are that are in the lists here.
_LIBRARIES = {
    "jax": "https://docs.jax.dev/en/latest/",
    "numpy": "https://numpy.org/doc/stable/",
    "flax": "https://flax.readthedocs.io/en/latest/",
}
intersphinx_mapping = {name: (site, (None, f"inventories/{name}.txt")) for name, site in _LIBRARIES.items()}
intersphinx_timeout = 5

# Each page has a description, for those who find it by a search engine, and there is one for links that lead nowhere.
ogp_social_cards = {"enable": False}
# Where a host of pages says nothing else, the site is all of that host.
notfound_urls_prefix = urlparse(os.environ.get("READTHEDOCS_CANONICAL_URL", "/")).path
notfound_context = {
    "title": "No such page",
    "body": f"""<h1>No such page</h1>

<p>Go to the <a href="{notfound_urls_prefix}index.html">first page</a>. The menu has all pages, and the search finds
functions by what they do.</p>""",
}

# In docstrings single backticks hold code, which is a link where it is a name of jaxpool, and quotes stay as they are.
# Types are in their words; the annotations are long unions.
default_role = "py:obj"
smartquotes_action = "D"
autodoc_typehints = "none"
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Derivative", "returns_style")]
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_favicon = "static/favicon.svg"
pygments_dark_style = "github-dark"
html_static_path = ["static"]
html_css_files = ["site.css", "moving_window.css"]
html_js_files = [("tables.js", {"defer": "defer"}), ("moving_window.js", {"defer": "defer"})]
html_math_renderer = "mathml"
html_show_sphinx = False
html_search_scorer = str(HERE / "search.js")
html_theme_options = {"navigation_with_keys": True}
copybutton_prompt_text = r">>> |\.\.\. "
copybutton_prompt_is_regexp = True
