"""Tracing costs nothing that grows with the number of cells: neither time, nor program text, nor host memory.

Arrays are abstract, so nothing is run. Fixed windows have programs of one length; whole axes and bins, whose windows
grow with the array, programs that grow with the logarithm of their size. No program holds a table of cells or windows.
"""

import re
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.registry.records import RECORDS, names, row, slow_but

pytestmark = pytest.mark.usefixtures("for_this_platform")

# Both beyond the axes that have tables.
FEW, MANY = 10**4, 10**8
# The bytes of program text, of a table in it, and of host memory while tracing, at any size.
TEXT, TABLE, MEMORY = 200_000, 1024, 2**24

SLIDING: dict[str, dict[str, Any]] = {
    "overlapping": {"kernel_size": (5,), "stride": 1, "padding": 2},
    "strided": {"kernel_size": (5,), "stride": 4, "padding": 2},
    "with gaps": {"kernel_size": (3,), "stride": 5, "padding": ((1, 0),), "ceil_mode": True},
    "dilated": {"kernel_size": (3,), "stride": 2, "dilation": 3, "padding": 1},
    "footprint": {"kernel_size": jaxpool.footprint(np.array([1, 0, 1, 1], bool)), "stride": 1, "padding": 1},
    "whole": {"kernel_size": jaxpool.whole, "axis": -1},
    "bins": {"kernel_size": jaxpool.bins(7)},
}
# Those of functions whose windows are placed in another way.
OTHERS: dict[str, dict[str, Any]] = {
    "bins": {"output_size": (7,)},
    "whole": {"axis": -1},
    "levels": {"levels": ((1,), (3,))},
    "random": {"kernel_size": (3,), "output_ratio": 0.3},
    "blurred": {"kernel_size": (3,), "stride": 1, "padding": "REFLECT"},
    "indices": {},
}
# Whose windows grow with the array.
GROWING = ("whole", "bins", "levels", "random")


# Every function with its windows, and those that slide with every kind.
ROWS = [
    (name, windows)
    for name in names(lambda record: record.windows != "boxes")
    for windows in (SLIDING if RECORDS[name].windows == "fixed" else [RECORDS[name].windows])
]
QUICK = [
    *(("max_pool", windows) for windows in ("overlapping", "bins", "footprint")),
    *(("var_pool", windows) for windows in ("strided", "whole")),
    *[("median_pool", "dilated"), ("max_blur_pool", "blurred"), ("max_unpool", "indices")],
]


def _length_and_tables(function: Callable[..., Any], shapes: Sequence[Any]) -> tuple[int, int]:
    """The length of the program, and of the longest table in it."""
    text = jax.jit(function).trace(*shapes).lower().as_text()
    return len(text), max((len(table) for table in re.findall(r"dense<([^>]*)>", text)), default=0)


def _gradient(name: str, windows: str, cells: int, *, masked: bool = True) -> tuple[Callable[..., Any], Any]:
    record = RECORDS[name]
    placed = SLIDING[windows] if record.windows == "fixed" else OTHERS[windows]
    options = {key: value for key, value in {**record.options, **placed}.items() if key not in ("weights", "logits")}

    def pool(x: jax.Array, mask: jax.Array | None) -> jax.Array:
        if mask is not None and record.windows == "indices":
            return jaxpool.max_unpool(x, mask.astype(jnp.int32), (cells,))
        weights = {key: x for key in ("weights", "logits") if key in record.options}
        draws = {"samples": jnp.full((1,), 0.4, jnp.float32)} if record.windows == "random" else {}
        outputs = getattr(jaxpool, name)(x, **options, **weights, **draws, where=mask)
        return outputs[0] if isinstance(outputs, tuple) else outputs

    def value_and_gradient(x: jax.Array, mask: jax.Array | None = None) -> Any:
        value, pull_back = jax.vjp(lambda x: pool(x, mask), x)
        return value, pull_back(jnp.ones_like(value))

    x = jax.ShapeDtypeStruct((cells,), jnp.float32)
    return value_and_gradient, (x, *([jax.ShapeDtypeStruct((cells,), bool)] if masked else []))


@pytest.mark.parametrize(("name", "windows"), [row(*one, id="-".join(one), quick=one in QUICK) for one in ROWS])
def test_programs_do_not_grow_with_the_cells(name: str, windows: str) -> None:
    (short, _), (length, table) = (_length_and_tables(*_gradient(name, windows, cells)) for cells in (FEW, MANY))
    # Long windows are taken in steps, as many as their length has digits.
    assert length <= 1.3 * short + (200_000 if windows in GROWING else 0), (short, length)
    assert windows in GROWING or length <= TEXT
    assert table <= TABLE


@pytest.mark.parametrize("windows", SLIDING)
@pytest.mark.parametrize("name", slow_but(["max_pool"], ("max_pool", "avg_pool", "var_pool")))
def test_traces_hold_no_array_of_all_windows(name: str, windows: str) -> None:
    gradient, arguments = _gradient(name, windows, MANY, masked=False)
    tracemalloc.start()
    try:
        _length_and_tables(gradient, arguments)
        _, memory = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert memory <= MEMORY
