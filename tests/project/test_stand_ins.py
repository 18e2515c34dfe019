"""The docstrings of stand-ins: the short form, whose words are those of the table, and an example that is run."""

import doctest
import inspect
import re
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import jaxpool
from tests.project.docstrings import rewritten, sources, stand_ins
from tests.project.importing import MODULES, public_members
from tests.project.stand_ins import LIBRARIES, family

STAND_INS = [(module, name) for module in MODULES[1:] for name in public_members(module)]
SOURCES = sources()
PATHS = {one.name: path for path, source in SOURCES.items() for one in stand_ins(path, source)}


def library(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


def test_stand_ins_were_found() -> None:
    assert {"flax.min_pool", "haiku.AvgPool", "torch.lp_pool2d", "equinox.MaxPool1d"} <= set(PATHS)
    assert set(PATHS) == {f"{library(module)}.{name}" for module, name in STAND_INS}
    assert set(LIBRARIES) == {library(module) for module in MODULES[1:]}


@pytest.mark.parametrize(("module", "name"), STAND_INS)
def test_short_form(module: ModuleType, name: str) -> None:
    table = LIBRARIES[library(module)]
    text, _, example = (inspect.getdoc(getattr(module, name)) or "").partition("\n\nExample:\n")
    first, *differing = text.split("\n\n")
    assert re.fullmatch(r"(    .+\n?)+", example), "nothing follows the example"
    if name.endswith(("1d", "3d")):
        sibling = f"{name[:-2]}2d"
        assert sibling in public_members(module)
        assert first == f"As `{table.originals}.{name}`; see `{sibling}`. Differs in the same ways."
        assert differing == []
        return
    named = re.fullmatch(r"As `([\w.]+)`; see `jaxpool\.(\w+)`\.", first)
    assert named
    assert named[1] == f"{table.originals}.{name}"
    assert named[2] in public_members(jaxpool)
    said = [
        text for texts in table.differences.values() for text, families in texts.items() if family_in(families, name)
    ]
    assert [" ".join(one.split()) for one in differing] == [f"Differs in {', '.join(said[:-1])} and {said[-1]}."]


def family_in(families: str, name: str) -> bool:
    return not families or family(name) in families.split()


@pytest.mark.parametrize(("module", "name"), STAND_INS)
def test_example(module: ModuleType, name: str) -> None:
    names: dict[str, Any] = {"jax": jax, "jnp": jnp}
    (example,) = doctest.DocTestFinder(recurse=False).find(getattr(module, name), name, extraglobs=names)
    source = "".join(one.source for one in example.examples)
    assert re.search(rf"\b{name}\(", source)
    assert f"{module.__name__}" in source
    assert example.examples[-1].want


@pytest.mark.parametrize("module", MODULES[1:], ids=library)
def test_module_says_more_on_every_difference(module: ModuleType) -> None:
    entries = re.findall(r"^- ((?:.|\n  )*)", inspect.getdoc(module) or "", re.MULTILINE)
    openings = list(LIBRARIES[library(module)].differences)
    assert [entry for entry in entries if not entry.startswith(tuple(openings))] == []
    assert [opening for opening in openings if sum(entry.startswith(opening) for entry in entries) != 1] == []


@pytest.mark.parametrize("module", MODULES[1:], ids=library)
def test_every_row_is_used(module: ModuleType) -> None:
    table, members = LIBRARIES[library(module)], public_members(module)
    families = {family(name) for name in members}
    assert set(table.functions) == families
    for texts in table.differences.values():
        assert texts
        assert {word for named in texts.values() for word in named.split()} <= families


@pytest.mark.parametrize("name", ["torch.max_pool2d", "flax.min_pool", "haiku.MaxPool", "equinox.AvgPool1d"])
def test_changed_word_is_found_and_mended(name: str) -> None:
    path = PATHS[name]
    right = SOURCES[path]
    for words in ("; see", "Differs in", "refused"):
        wrong = right.replace(words, f"{words} altered", 1)
        assert rewritten(path, wrong) == right != wrong
