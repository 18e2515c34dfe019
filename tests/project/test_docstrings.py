"""Docstrings: every section, arguments that agree with the signature, and the same words for the same meaning."""

import doctest
import inspect
import re
from collections import defaultdict
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jaxpool
from jaxpool import morphology
from tests.project.importing import MODULES, public_members

SECTIONS = ("Args", "Returns", "Raises", "Derivative", "Example")
FUNCTIONS = {name: one for name, one in public_members(jaxpool).items() if inspect.isfunction(one)}
OPERATORS = public_members(morphology)
STAND_INS = [(module, name) for module in MODULES[1:] for name in public_members(module)]
# An argument of several functions has one text, or as many as it has meanings: among the functions of `jaxpool` and,
# where these differ, with those of `morphology`.
MEANINGS = {
    **{"x": 4, "axis": 4, "output_size": 4, "padding": 3, "count_include_pad": 4, "kernel_size": 3, "beta": 3},
    **{"stride": 2, "key": 2, "norm_type": 2},
}
MEANINGS_WITH_OPERATORS = {"axis": 5}


def sections(function: Callable[..., Any]) -> dict[str, str]:
    """The sections of a docstring, in their order, after a summary of one sentence."""
    summary, *found = re.split(rf"^({'|'.join(SECTIONS)}):$", inspect.getdoc(function) or "", flags=re.MULTILINE)
    assert re.match(r"[A-Z][^\n]*\.\n", summary), "the docstring opens with one sentence"
    return dict(zip(found[::2], found[1::2], strict=True))


def entries(section: str) -> dict[str, str]:
    """What is said on each argument or exception, without line breaks."""
    found = re.findall(r"^    (\w+): (.*(?:\n     +\S.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in found}


@pytest.mark.parametrize("name", FUNCTIONS | OPERATORS)
def test_docstring_has_every_section_and_argument(name: str) -> None:
    function = (FUNCTIONS | OPERATORS)[name]
    text, parameters = sections(function), [*inspect.signature(function).parameters]
    # A context without arguments refuses nothing.
    expected = SECTIONS if parameters else ("Returns", "Derivative", "Example")
    assert tuple(text) == expected
    assert [one.lstrip("*") for one in entries(text.get("Args", ""))] == parameters
    assert re.search(rf">>> .*{name}\(", text["Example"])
    if {"x", "values"} & {*parameters}:
        assert {"TypeError", "ValueError"} <= set(entries(text["Raises"])) or name in OPERATORS
    for section in ("Returns", "Derivative"):
        # All operators but the first refer to another one.
        assert len(text[section].split()) > 6 or name in OPERATORS, f"{section} says next to nothing"


@pytest.mark.parametrize(
    ("functions", "meanings"),
    [(FUNCTIONS, MEANINGS), (FUNCTIONS | OPERATORS, MEANINGS | MEANINGS_WITH_OPERATORS)],
    ids=["functions", "with operators"],
)
def test_arguments_of_the_same_meaning_have_the_same_words(
    functions: dict[str, Callable[..., Any]], meanings: dict[str, int]
) -> None:
    texts = defaultdict[str, set[str]](set)
    for function in functions.values():
        for name, text in entries(sections(function).get("Args", "")).items():
            texts[name].add(text)
    assert {name: len(each) for name, each in texts.items() if len(each) != meanings.get(name, 1)} == {}


@pytest.mark.parametrize(("module", "name"), STAND_INS)
def test_stand_in_says_what_differs_from_the_two_that_it_names(module: ModuleType, name: str) -> None:
    text, _, example = (inspect.getdoc(getattr(module, name)) or "").partition("\n\nExample:\n")
    first, *differing = text.split("\n\n")
    original = re.match(rf"As `([\w.]+)\.{name}`; see `(jaxpool\.)?(\w+)`\.", first)
    assert original
    if name.endswith(("1d", "3d")):
        assert original[3] == f"{name[:-2]}2d"
        assert original[3] in public_members(module)
        assert first.endswith(" Differs in the same ways.")
        assert (differing, example) == ([], "")
        return
    assert original[3] in FUNCTIONS
    (differs,) = differing
    assert re.fullmatch(r"Differs in .* and .*\.", " ".join(differs.split()))
    assert re.fullmatch(r"(    .+\n?)+", example), "nothing follows the example"
    names: dict[str, Any] = {"jax": jax, "jnp": jnp}
    (found,) = doctest.DocTestFinder(recurse=False).find(getattr(module, name), name, extraglobs=names)
    source = "".join(one.source for one in found.examples)
    assert re.search(rf"\b{name}\(", source)
    assert module.__name__ in source
    assert found.examples[-1].want
