"""Windows far larger than their array, under `ceil_mode`, are windows over the whole axis; and arrays of many cells."""

import math
from typing import Any

import jax
import numpy as np
import pytest

import jaxpool
from tests.registry.cases import distinct
from tests.registry.records import RECORDS, names

# Sizes that no array has, with strides that let one window be partial.
SIZES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "whole": ({"kernel_size": (2**63 - 1,)}, {"kernel_size": (8,)}),
    "padded": ({"kernel_size": (2**40,), "padding": ((1, 2),)}, {"kernel_size": (11,), "padding": ((1, 2),)}),
    "apart": (
        {"kernel_size": (2**40,), "stride": 2**43, "dilation": 3, "padding": 1},
        {"kernel_size": (4,), "dilation": 3, "padding": 1},
    ),
    "far": ({"kernel_size": (3,), "stride": 2**75, "dilation": 2**70}, {"kernel_size": (1,), "stride": 8}),
    "one": ({"kernel_size": (1,), "stride": 2, "dilation": 2**70}, {"kernel_size": (1,), "stride": 2}),
    "copies": (
        {"kernel_size": (2**40,), "padding": (("REFLECT", (1, 2)),)},
        {"kernel_size": (11,), "padding": (("REFLECT", (1, 2)),)},
    ),
}
SLIDING = names(lambda record: record.windows == "fixed")


@pytest.mark.parametrize("sort", SIZES)
@pytest.mark.parametrize("name", SLIDING)
def test_same_program_as_over_the_whole_axis(name: str, sort: str) -> None:
    x = jax.ShapeDtypeStruct((2, 8), np.float32)

    def program(arguments: dict[str, Any]) -> str:
        def pool(x: jax.Array) -> Any:
            options = {"padding": 0, "ceil_mode": True, **RECORDS[name].options, **arguments}
            return getattr(jaxpool, name)(x, **options)

        def total(x: jax.Array) -> jax.Array:
            return jax.tree.leaves(pool(x))[0].sum()

        return jax.jit(lambda x: (pool(x), jax.grad(total)(x))).lower(x).as_text()

    given, expected = SIZES[sort]
    assert program(given) == program(expected)


@pytest.mark.parametrize("name", ["max_pool_with_indices", "avg_pool", "median_pool"])
def test_values(name: str) -> None:
    x = distinct((2, 8), "oversized")
    pool = getattr(jaxpool, name)
    found = pool(x, (2**63 - 1,), padding=((1, 2),), ceil_mode=True)
    # The reference pads by 1 and 2, of which averages count every cell.
    expected = {
        "max_pool_with_indices": (x.max(1), x.argmax(1)),
        "avg_pool": x.sum(1) / 11,
        "median_pool": np.median(x, 1),
    }
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected[name]), strict=True):
        np.testing.assert_allclose(one[:, 0], other, rtol=1e-12)


@pytest.mark.usefixtures("for_this_platform")
@pytest.mark.parametrize("masked", [False, True], ids=["all", "masked"])
@pytest.mark.parametrize("shape", [(65536, 65537), (46341, 46341), (3, 2**31), (2**32 + 1,)], ids=str)
@pytest.mark.parametrize("name", [*SLIDING, *names(lambda record: record.windows == "whole")])
def test_many_cells_are_pooled_or_refused(name: str, shape: tuple[int, ...], masked: bool) -> None:
    x, mask = jax.ShapeDtypeStruct(shape, np.float32), jax.ShapeDtypeStruct(shape, bool)
    axes = tuple(range(len(shape)))
    windows = {"axis": axes} if RECORDS[name].windows == "whole" else {"kernel_size": jaxpool.whole, "axis": axes}

    def total(x: jax.Array, mask: jax.Array | None = None) -> jax.Array:
        return jax.tree.leaves(getattr(jaxpool, name)(x, **RECORDS[name].options, **windows, where=mask))[0].sum()

    is_counted = masked or name.startswith(("median", "quantile", "top_k", "stochastic")) or name.endswith("indices")
    # As most users have it: without integers of 64 bits.
    with jax.enable_x64(False):
        lowered = jax.jit(jax.value_and_grad(total)).lower
        if max(shape) >= 2**31 or (is_counted and math.prod(shape) >= 2**31):
            with pytest.raises(ValueError, match=f"^{name}: .*int32"):
                lowered(x, *([mask] if masked else []))
        else:
            assert "ui64" not in lowered(x, *([mask] if masked else [])).as_text()
