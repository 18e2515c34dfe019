"""The public interface: names, signatures, types, modules, and the records of the registry, which must agree with it.

Signatures are repeated next to the records, so that a change of name, order or default must be made there too.
"""

import inspect
import pickle
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
from tests.registry.records import RECORDS, SIGNATURES, Record, slow_but

PACKAGE = Path(jaxpool.__file__).parent
# Names that are no pools: two contexts, and what goes in the place of a kernel_size, one of which is a value.
OTHERS = {"portable": "()", "compiling_for": "(platform)", "bins": "(*sizes)", "footprint": "(cells)"}
VALUES = {"whole"}
STAND_INS = [f"jaxpool.compat.{name}" for name in ("equinox", "flax", "haiku", "keras", "torch")]


def public() -> dict[str, Callable[..., Any]]:
    return {name: one for name, one in vars(jaxpool).items() if name[0] != "_" and not isinstance(one, ModuleType)}


def test_public_names_are_the_promised_ones() -> None:
    assert set(public()) == {*SIGNATURES, *OTHERS, *VALUES}
    # Other modules that the import adds as attributes are private; `compat` is imported by name.
    modules = {name for name, value in vars(jaxpool).items() if isinstance(value, ModuleType)}
    assert all(name.startswith("_") for name in modules - {"compat", "morphology"}), modules
    for name, one in public().items():
        assert one.__module__.startswith("jaxpool._"), name
        assert pickle.loads(pickle.dumps(one)) == one
        assert name in VALUES or one.__name__ == one.__qualname__ == name


@pytest.mark.parametrize("name", [*SIGNATURES, *OTHERS])
def test_signature(name: str) -> None:
    signature = inspect.signature(getattr(jaxpool, name))
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    bare = str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))
    assert bare == {**SIGNATURES, **OTHERS}[name]


@pytest.mark.parametrize("name", SIGNATURES)
def test_annotations(name: str) -> None:
    function = getattr(jaxpool, name)
    hints = typing.get_type_hints(function)
    assert set(hints) == {*inspect.signature(function).parameters, "return"}
    assert Any not in hints.values()
    # Types by name: expanded, these are unions of many lines.
    assert not re.search(r"Union|Literal|collections", str(inspect.signature(function)))
    returned = tuple[jax.Array, jax.Array] if name.endswith("_with_indices") else jax.Array
    assert hints["return"] == returned


def test_readme_and_help_name_everything() -> None:
    readme = (PACKAGE.parent / "README.md").read_text(encoding="utf-8")
    # With a backtick or an opening bracket next to it: max_pool_with_indices does not name max_pool.
    assert [name for name in public() if not re.search(rf"\b{name}(\(|`)", readme)] == []
    assert [name for name in public() if not re.search(rf"\b{name}\b", jaxpool.__doc__ or "")] == []


def test_registry_has_rows_of_every_function_and_of_no_other() -> None:
    assert {case.function for case in CASES} == set(SIGNATURES) == set(RECORDS)


@pytest.mark.parametrize("record", RECORDS.values(), ids=list(RECORDS))
def test_records_agree_with_signatures_and_results(record: Record) -> None:
    parameters = inspect.signature(getattr(jaxpool, record.function)).parameters
    assert record.has_rule == ("rule" in parameters)
    assert record.has_mask == ("where" in parameters)
    assert record.draws == ("key" in parameters)
    assert set(record.parameters) <= set(parameters)
    required = {name for name, one in parameters.items() if one.default is one.empty} - {"x"}
    assert required <= set(record.parameters) or record.windows == "indices"
    x, y = np.random.default_rng(0).normal(size=(2, 2, 7, 6)).astype(np.float32)
    values = np.asarray(record.values(x))
    # Unpooling leaves zeros at the other cells.
    assert record.selects == (set(values.ravel()) - {0.0} <= set(x.ravel()))
    if record.windows != "indices":
        # Weighted means are linear in the cells, but not to JAX: they are differentiable in the weights, too.
        linear = record.linear or record.function in WEIGHTS
        assert linear == np.allclose(record.values(x + y), values + record.values(y), atol=1e-5)


def test_import_brings_in_nothing_but_jax_and_numpy() -> None:
    heavy = ["torch", "flax", "haiku", "equinox", "keras", "optax", "sklearn", "matplotlib", "rich", "pytest"]
    assert imported_with("jaxpool", heavy) == []


@pytest.mark.parametrize("name", slow_but(["jaxpool.compat.flax"], STAND_INS))
def test_a_stand_in_is_imported_when_it_is_used(name: str) -> None:
    used = f"jaxpool; jaxpool.compat.{name.rpartition('.')[2]}.__doc__"
    assert imported_with(used, STAND_INS) == [name]


def test_stand_ins_are_not_imported_with_the_package() -> None:
    assert imported_with("jaxpool", ["jaxpool.compat", *STAND_INS]) == []
    with pytest.raises(AttributeError, match=r"^module 'jaxpool' has no attribute 'colour'$"):
        getattr(jaxpool, "colour")  # noqa: B009
    with pytest.raises(AttributeError, match=r"^module 'jaxpool.compat' has no attribute 'tensorflow'$"):
        getattr(jaxpool.compat, "tensorflow")  # noqa: B009
