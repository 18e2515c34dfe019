"""How docstrings, examples, names and formulas are shown: a small extension of Sphinx, used by `conf.py` only.

Docstrings are written to be read in a terminal, where |x| is a magnitude; reStructuredText takes it for a substitution.
Formulas of notebooks are written in LaTeX, and become MathML, which browsers show without a script and without a net.
"""

import re
from typing import Any

from catalogue import CONTEXTS, FAMILIES, KERNELS, MORPHOLOGY
from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

_BEFORE_NAPOLEON = 400
_NAMES = {name for family in (*FAMILIES.values(), *MORPHOLOGY.values(), KERNELS, CONTEXTS) for name in family}
_LIBRARIES = {"jax": "jax", "jnp": "jax.numpy", "lax": "jax.lax", "np": "numpy", "nnx": "flax.nnx"}
_OPENING = re.compile(r"^(Formula|Source)\b")
_SECTION = re.compile(r"(Returns|Derivative):$")

# What the converter of docutils does not know, said so that it does: larger delimiters of no side are those of the
# left; an underscore in a name of code is one; an accented letter is a group, so that a subscript stands beside it and
# not below.
_LATEX = (
    (r"\\([bB]igg?)(?![A-Za-z])", r"\\\1l"),
    (r"(?<=[a-z])\\_(?=[a-z])", "_"),
    (r"\\(dot|bar|hat|tilde)(?![A-Za-z])\s*(\{[^{}]*\}|[A-Za-z])", r"{\\\1 \2{}}"),
)


class SearchNames(SearchEnglish):
    """What the search finds: names as a whole and by their words, and arguments that are mere words elsewhere."""

    stopwords = frozenset(SearchEnglish.stopwords) - {"where", "same"}

    def split(self, input: str) -> list[str]:
        """The words of a text, and those of its names."""
        words = super().split(input)
        return words + [part for word in words if "_" in word for part in word.split("_") if part]


def prepare_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Say in reStructuredText what a docstring says in plain text."""
    if what not in {"function", "method", "data"}:
        return
    if name.removeprefix("jaxpool.") in _NAMES:
        # The first sentence is above the picture.
        del lines[: lines.index("") + 1]
    prepared, example = [], False
    for line in lines:
        # What is indented below Example is code, and the paragraph after it is not.
        example = line == "Example:" or (example and line[:1] in {"", " "})
        prepared.append(line if example else _OPENING.sub(r"**\1**", line.replace("|", r"\|")))
        if _SECTION.match(line):
            # Napoleon takes what stands before a colon in the first line for a type: give it a line that shows nothing.
            prepared.append("    \N{WORD JOINER}\\")
    lines[:] = prepared


def trim_code(app: Sphinx, document: nodes.document) -> None:
    """Take away the empty line by which doctest knows that an output has ended."""
    for block in document.findall(nodes.literal_block):
        # Sphinx colours a block only if its text is its source.
        if block.rawsource == block.astext():
            block.rawsource = block.astext().rstrip()
            block[:] = [nodes.Text(block.rawsource)]


def link_names(app: Sphinx, document: nodes.document) -> None:
    """Make links of names of jaxpool, but for those on the page of the function itself, of JAX, NumPy and Flax."""
    page = app.env.docname
    for link in document.findall(addnodes.pending_xref):
        link["reftarget"] = _in_full(link["reftarget"]) or link["reftarget"]
    for code in [*document.findall(nodes.literal)]:
        name = code.astext().removeprefix("jaxpool.")
        target = f"jaxpool.{name}" if name in _NAMES else _in_full(name)
        inside = isinstance(code.parent, nodes.title | nodes.reference | addnodes.pending_xref)
        if target and not inside and page != f"reference/{name}":
            link = addnodes.pending_xref(
                "", refdomain="py", reftype="obj", reftarget=target, refdoc=page, refexplicit=True
            )
            code.replace_self(link)
            link += code


def _in_full(name: str) -> str | None:
    """A name of another library, which may begin as programs shorten it."""
    start, _, rest = name.partition(".")
    return f"{_LIBRARIES[start]}.{rest}" if start in _LIBRARIES and re.fullmatch(r"[\w.]+", rest) else None


def inline_formula(translator: Any, node: nodes.math) -> None:
    """A formula in a line of text."""
    translator.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def displayed_formula(translator: Any, node: nodes.math_block) -> None:
    """A formula on lines of its own."""
    translator.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def _mathml(node: nodes.Node, as_block: bool) -> str:
    latex = node.astext()
    for pattern, replacement in _LATEX:
        latex = re.sub(pattern, replacement, latex)
    # Without the newlines that are put between tags, no space is shown that was not meant.
    return re.sub(r">\s*\n\s*<", "><", tex2mathml(latex, as_block=as_block))


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.add_search_language(SearchNames)
    app.connect("autodoc-process-docstring", prepare_docstring, priority=_BEFORE_NAPOLEON)
    app.connect("doctree-read", trim_code)
    app.connect("doctree-read", link_names)
    app.add_html_math_renderer("mathml", (inline_formula, None), (displayed_formula, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
