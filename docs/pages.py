"""A page for every function, for morphology and for every module of `jaxpool.compat`, written before Sphinx reads.

The pages are made of docstrings, of the families of `catalogue` and of the pictures of `drawing`, and git ignores them.
They are written anew where anything that they are made of has changed since.
"""

import importlib
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from catalogue import CONTEXTS, FAMILIES, KERNELS, LIBRARIES, MORPHOLOGY, OTHER_NAMES, function_called
from drawing import figure, moving_window
from sphinx.application import Sphinx

HERE = Path(__file__).parent.resolve()
FOLDER = "reference"

_FUNCTION = """# {name}: {known_as}

{summary}

```{{raw}} html
{figure}<!-- MOVING WINDOW: {name} -->
```

```{{eval-rst}}
.. currentmodule:: jaxpool

.. {entry}
```

{other_names}{related}See also [](../choosing.md), [](../models.md), [](../conventions.md) and [](../speed.md).
"""

_CONTEXT = """# {name}: {known_as}

{summary}

```{{raw}} html
<!-- MOVING WINDOW: {name} -->
```

```{{eval-rst}}
.. currentmodule:: jaxpool

.. autofunction:: {name}
```

See also [](../models.md) and [](../accelerators.md).
"""

_MORPHOLOGY = """# jaxpool.morphology: grey-scale dilation, erosion and their chains

```{{eval-rst}}
.. automodule:: jaxpool.morphology
   :no-members:
```

A flat element is a size, such as `(3, 3)`, or a bool array. Floats are heights, which a dilation adds and an erosion
subtracts: `dilation(x, np.ones((3, 3)))` is flat in scikit-image, and 1 higher here. Write `element=footprint != 0`.

{entries}
See also [](../choosing.md), [](../conventions.md) and the notebook [](../notebooks/10_morphology.ipynb).
"""

_OPERATOR = """## {known_as}

{summary}

```{{raw}} html
{figure}```

```{{eval-rst}}
.. autofunction:: jaxpool.{name}
```
"""

_MODULE = """# {title}

```{{eval-rst}}
.. automodule:: {module}
   :no-members:

.. rubric:: Contents

{names}

{entries}
```
"""


def write_pages(app: Sphinx) -> None:
    """Write all pages, and take away those of functions that are gone."""
    folder = HERE / FOLDER
    folder.mkdir(exist_ok=True)
    made_of = [*HERE.glob("*.py"), *HERE.glob("*.html"), *(HERE.parent / "jaxpool").rglob("*.py")]
    changed = max(file.stat().st_mtime for file in made_of)
    families = (*FAMILIES.values(), KERNELS)
    names = [
        *(name for family in families for name in family),
        *CONTEXTS,
        "morphology",
        *map(_page_of_module, LIBRARIES),
    ]
    for page in folder.glob("*.md"):
        if page.stem not in names:
            page.unlink()
    if all((page := folder / f"{name}.md").exists() and page.stat().st_mtime > changed for name in names):
        return
    for family in families:
        for name, known_as in family.items():
            others = ", ".join(f"`{other}`" for other in family if other != name)
            related = f"Of the same family: {others}.\n\n" if others else ""
            other_names = f"Also known as {OTHER_NAMES[name]}.\n\n" if name in OTHER_NAMES else ""
            page = _FUNCTION.format(
                name=name,
                known_as=known_as,
                summary=_summary(name),
                figure=figure(name),
                entry=f"{'autofunction' if callable(function_called(name)) else 'autodata'}:: {name}",
                other_names=other_names,
                related=related,
            )
            (folder / f"{name}.md").write_text(page, encoding="utf-8")
    for name, known_as in CONTEXTS.items():
        page = _CONTEXT.format(name=name, known_as=known_as, summary=_summary(name))
        (folder / f"{name}.md").write_text(page, encoding="utf-8")
    (folder / "morphology.md").write_text(_morphology(), encoding="utf-8")
    for module, library in LIBRARIES.items():
        (folder / f"{_page_of_module(module)}.md").write_text(_module(module, library), encoding="utf-8")


def fill_lists(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the lists of all functions where a page asks for them."""
    for asked, lines in (("FUNCTIONS", _functions), ("PAGES", _contents)):
        source[0] = source[0].replace(f"<!-- {asked} -->", "\n".join(lines()))


def put_moving_window(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Put the window that moves into the finished page, as the search would find the words of its controls."""

    def moving(comment: re.Match[str]) -> str:
        shown = moving_window(comment[1])
        if not shown or 'figure class="pool"' in context["body"]:
            return shown
        # Where there is no picture besides it is open; without JavaScript, the picture of the pool takes its place.
        picture = "" if comment[1] in KERNELS else f"<noscript>{figure(comment[1])}</noscript>"
        return picture + shown.replace("<details", "<details open", 1)

    context["body"] = re.sub(r"<!-- MOVING WINDOW: (\w+) -->", moving, context.get("body", ""))


def _functions() -> Iterator[str]:
    """A table for each family: the function, and the first sentence of its docstring."""
    for family, names in FAMILIES.items():
        yield from ("", f"## {family}", "", "```{table}", ":class: functions", "", "| function | result |", "|---|---|")
        yield from (f"| [`{name}`]({FOLDER}/{name}.md) | {_summary(name)} |" for name in names)
        yield "```"
    yield from ("", "## Grey-scale morphology", "", "```{table}", ":class: functions", "")
    yield from ("| function | result |", "|---|---|")
    operators = [name for names in MORPHOLOGY.values() for name in names]
    yield from (f"| [`{name}`]({FOLDER}/morphology.md) | {_summary(name)} |" for name in operators)
    yield "```"
    yield from ("", "## In the place of a kernel_size", "", "| name | windows |", "|---|---|")
    yield from (f"| [`{name}`]({FOLDER}/{name}.md) | {_summary(name)} |" for name in KERNELS)
    yield from ("", "## Contexts", "", "| context | effect |", "|---|---|")
    yield from (f"| [`{name}`]({FOLDER}/{name}.md) | {_summary(name)} |" for name in CONTEXTS)


def _contents() -> Iterator[str]:
    """The table of contents, in which the functions have their own names only."""
    yield from ("```{toctree}", ":hidden:", "")
    yield from (f"{name} <{FOLDER}/{name}>" for family in FAMILIES.values() for name in family)
    yield from (f"{name} <{FOLDER}/{name}>" for name in (*KERNELS, *CONTEXTS))
    yield f"morphology <{FOLDER}/morphology>"
    yield from (f"compat.{module} <{FOLDER}/{_page_of_module(module)}>" for module in LIBRARIES)
    yield "```"


def _summary(name: str) -> str:
    opening = (function_called(name).__doc__ or "").partition("\n\n")[0]
    return " ".join(opening.split()).replace("|", r"\|")


def _page_of_module(module: str) -> str:
    return f"compat_{module}"


def _morphology() -> str:
    operators = [names.items() for names in MORPHOLOGY.values()]
    entries = [
        _OPERATOR.format(name=name, known_as=known_as.capitalize(), summary=_summary(name), figure=figure(name))
        for name, known_as in itertools.chain(*operators)
    ]
    return _MORPHOLOGY.format(entries="\n".join(entries))


def _module(module: str, library: str) -> str:
    name = f"jaxpool.compat.{module}"
    members = {
        key: value
        for key, value in vars(importlib.import_module(name)).items()
        if key[0] != "_" and callable(value) and value.__module__.startswith(name)
    }
    entries = [f".. auto{'class' if isinstance(value, type) else 'function'}:: {key}" for key, value in members.items()]
    return _MODULE.format(
        title=f"{name}: pooling with the signatures of {library}",
        module=name,
        names=", ".join(f":py:obj:`{key}`" for key in members),
        entries="\n".join(entries),
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.connect("builder-inited", write_pages)
    app.connect("source-read", fill_lists)
    app.connect("html-page-context", put_moving_window)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
