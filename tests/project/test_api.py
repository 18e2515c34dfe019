"""The package's public interface, by inspection: names, signatures, documentation and modules.

The signatures are repeated next to the records, so that a change of name, order or default must be made there too.
Every public function must have a row in the registry of cases, every docstring section and an entry in the README,
and no module may use private parts of JAX or grow too long to read in one go.
"""

import ast
import inspect
import re
import typing
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import numpy as np
import pytest

import jaxpool
from tests.project.importing import imported_with
from tests.registry.calls import WEIGHTS
from tests.registry.cases import CASES
from tests.registry.records import RECORDS, SIGNATURES, Record

PACKAGE = Path(jaxpool.__file__).parent
MODULES = sorted([*PACKAGE.rglob("*.py"), *(PACKAGE.parent / "examples").rglob("*.py")])
README = PACKAGE.parent / "README.md"

# Names that are no pools: their signatures.
CONTEXTS = {"portable": "()", "compiling_for": "(platform: str)"}

# What goes in the place of a kernel_size: two functions, and a value.
KERNELS = {"bins": "(*sizes)", "footprint": "(cells)"}
VALUES = {"whole"}

SECTIONS_OF_CONTEXTS = ("Returns", "Derivative", "Example")
SECTIONS = ("Args", "Returns", "Raises", "Derivative", "Example")


def public_functions() -> dict[str, Callable[..., Any]]:
    return {
        name: value
        for name, value in vars(jaxpool).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }


def test_public_names_are_the_promised_ones() -> None:
    assert set(public_functions()) == {*SIGNATURES, *CONTEXTS, *KERNELS, *VALUES}
    # Other modules that the import adds as attributes are private; `compat` is imported by name.
    modules = {name for name, value in vars(jaxpool).items() if isinstance(value, ModuleType)}
    assert all(name.startswith("_") for name in modules - {"compat", "morphology"}), modules


def test_public_names_are_defined_in_private_modules_of_the_package() -> None:
    for name, function in public_functions().items():
        assert function.__module__.startswith("jaxpool._"), name
        assert name in VALUES or function.__name__ == function.__qualname__ == name


@pytest.mark.parametrize("name", SIGNATURES)
def test_signature(name: str) -> None:
    signature = inspect.signature(getattr(jaxpool, name))
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    bare = signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)
    assert str(bare) == SIGNATURES[name]


@pytest.mark.parametrize("name", SIGNATURES)
def test_annotations(name: str) -> None:
    function = getattr(jaxpool, name)
    hints = typing.get_type_hints(function)
    assert set(hints) == {*inspect.signature(function).parameters, "return"}
    assert Any not in hints.values()
    returned = tuple[jax.Array, jax.Array] if name.endswith("_with_indices") else jax.Array
    assert hints["return"] == returned


@pytest.mark.parametrize("name", SIGNATURES)
def test_docstring(name: str) -> None:
    docstring = inspect.getdoc(getattr(jaxpool, name)) or ""
    summary, *sections = re.split(rf"^({'|'.join(SECTIONS)}):$", docstring, flags=re.MULTILINE)
    assert tuple(sections[::2]) == SECTIONS
    assert re.match(r"[A-Z][^\n]*\.\n", summary), "the docstring opens with one sentence"
    text = dict(zip(sections[::2], sections[1::2], strict=True))
    described = re.findall(r"^    (\w+):", text["Args"], flags=re.MULTILINE)
    assert described == list(inspect.signature(getattr(jaxpool, name)).parameters)
    assert {"TypeError", "ValueError"} <= set(re.findall(r"^    (\w+):", text["Raises"], flags=re.MULTILINE))
    assert re.search(rf">>> .*{name}\(", text["Example"])
    for section in ("Returns", "Derivative"):
        assert len(text[section].split()) >= 10, f"{section} says next to nothing"


@pytest.mark.parametrize("name", CONTEXTS)
def test_context(name: str) -> None:
    context = getattr(jaxpool, name)
    signature = inspect.signature(context).replace(return_annotation=inspect.Signature.empty)
    assert str(signature).replace("'", "") == CONTEXTS[name]
    sections = SECTIONS if signature.parameters else SECTIONS_OF_CONTEXTS
    assert re.findall(rf"^({'|'.join(SECTIONS)}):$", inspect.getdoc(context) or "", re.MULTILINE) == [*sections]
    assert re.search(rf"\b{name}\b", jaxpool.__doc__ or "")
    assert re.search(rf"\b{name}(\(|`)", README.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", KERNELS)
def test_kernel(name: str) -> None:
    kernel = getattr(jaxpool, name)
    signature = inspect.signature(kernel)
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    assert str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty)) == KERNELS[name]
    docstring = inspect.getdoc(kernel) or ""
    assert re.findall(rf"^({'|'.join(SECTIONS)}):$", docstring, flags=re.MULTILINE) == [*SECTIONS]
    assert re.findall(r"^    (\w+):", docstring.partition("Args:")[2], re.MULTILINE)[0] in signature.parameters


@pytest.mark.parametrize("name", [*KERNELS, *VALUES])
def test_readme_and_help_name_the_kernel(name: str) -> None:
    assert re.search(rf"\b{name}\b", jaxpool.__doc__ or "")
    assert re.search(rf"\b{name}(\(|`)", README.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SIGNATURES)
def test_readme_names_the_function(name: str) -> None:
    # With a backtick or an opening bracket next to it: max_pool_with_indices does not name max_pool.
    assert re.search(rf"\b{name}(\(|`)", README.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SIGNATURES)
def test_help_of_the_package_names_the_function(name: str) -> None:
    assert re.search(rf"\b{name}\b", jaxpool.__doc__ or "")


@pytest.mark.parametrize("name", SIGNATURES)
def test_registry_has_a_row(name: str) -> None:
    assert name in {case.function for case in CASES}


def test_registry_knows_no_other_function() -> None:
    assert {case.function for case in CASES} <= set(SIGNATURES)
    assert set(RECORDS) == set(public_functions()) - {*CONTEXTS, *KERNELS, *VALUES}


@pytest.mark.parametrize("record", RECORDS.values(), ids=list(RECORDS))
def test_records_agree_with_signatures(record: Record) -> None:
    parameters = inspect.signature(getattr(jaxpool, record.function)).parameters
    assert record.has_rule == ("rule" in parameters)
    assert record.has_mask == ("where" in parameters)
    assert record.draws == ("key" in parameters)
    assert set(record.parameters) <= set(parameters)
    required = {name for name, one in parameters.items() if one.default is one.empty} - {"x"}
    assert required <= set(record.parameters) or record.windows == "indices"


@pytest.mark.parametrize("record", RECORDS.values(), ids=list(RECORDS))
def test_records_agree_with_results(record: Record) -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 2, 7, 6)).astype(np.float32)
    values = np.asarray(record.values(x))
    # Unpooling leaves zeros at the other cells, and other maxima have other indices.
    assert record.selects == (set(values.ravel()) - {0.0} <= set(x.ravel()))
    if record.windows != "indices":
        # Weighted means are linear in the cells, but not to JAX: they are differentiable in the weights, too.
        linear = record.linear or record.function in WEIGHTS
        assert linear == np.allclose(record.values(x + y), values + record.values(y), atol=1e-5)


def test_package_is_marked_as_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()


def test_import_brings_in_nothing_but_jax_and_numpy() -> None:
    heavy = ["torch", "flax", "haiku", "equinox", "keras", "optax", "sklearn", "matplotlib", "rich", "pytest"]
    assert imported_with("jaxpool", heavy) == []


STAND_INS = [f"jaxpool.compat.{name}" for name in ("equinox", "flax", "haiku", "keras", "torch")]


def test_stand_ins_are_imported_when_they_are_used() -> None:
    assert imported_with("jaxpool", ["jaxpool.compat", *STAND_INS]) == []
    for name in STAND_INS:
        used = f"jaxpool; jaxpool.compat.{name.rpartition('.')[2]}.__doc__"
        assert imported_with(used, STAND_INS) == [name]
    with pytest.raises(AttributeError, match=r"^module 'jaxpool' has no attribute 'maxpool'$"):
        getattr(jaxpool, "maxpool")  # noqa: B009
    with pytest.raises(AttributeError, match=r"^module 'jaxpool.compat' has no attribute 'tensorflow'$"):
        getattr(jaxpool.compat, "tensorflow")  # noqa: B009


def test_modules_were_found() -> None:
    assert {"__init__.py", "window.py", "_max.py"} <= {module.name for module in MODULES}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: str(module.relative_to(PACKAGE.parent)))
def test_module(module: Path) -> None:
    source = module.read_text(encoding="utf-8")
    tree = ast.parse(source)
    docstring = ast.get_docstring(tree)
    assert docstring, "every module opens with a paragraph that says what it holds"
    assert docstring.rstrip().endswith(".")
    assert len(source.splitlines()) <= 600
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imported = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            imported = [ast.unparse(node)]
        else:
            continue
        assert not [name for name in imported if name.startswith("jax._src")]
        assert not isinstance(node, ast.ImportFrom) or node.level == 0, "imports name their module in full"
