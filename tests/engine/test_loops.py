"""Loops over blocks of large windows: results against the reference for every way a block may lie in its strides."""

from typing import Any

import jax
import numpy as np
import pytest

import jaxpool
from tests.harness.checks import equations
from tests.random.call_checks import check
from tests.registry.calls import Call

pytestmark = pytest.mark.usefixtures("for_this_platform")

# Not symmetric, so that the windows that hold a cell are another footprint.
FOOTPRINT = jaxpool.footprint(np.arange(110).reshape(10, 11) % 4 > 0)
# More than 64 cells each. Blocks are rows or parts of rows, of windows that share cells, share none, or leave gaps.
WINDOWS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "tiles": ((19, 27), {"kernel_size": (9, 9)}),
    "shared": ((25, 24), {"kernel_size": (10, 9), "stride": (7, 4), "padding": (2, 4)}),
    "gaps": ((27, 30), {"kernel_size": (9, 8), "stride": (13, 11), "padding": (1, 2)}),
    "dilated": ((26, 21), {"kernel_size": (8, 9), "stride": (3, 2), "dilation": (2, 1), "padding": 1}),
    "dilated, gaps": ((4, 47), {"kernel_size": (2, 33), "stride": (2, 13), "dilation": (3, 1), "ceil_mode": True}),
    "dilated rows apart": ((20, 60), {"kernel_size": (3, 23), "stride": (7, 50), "dilation": 2, "padding": (0, 11)}),
    "line": ((300,), {"kernel_size": (130,), "stride": 60, "padding": 20}),
    "cubes": ((11, 6, 9), {"kernel_size": (5, 4, 5), "stride": (5, 2, 3), "padding": (1, 0, 1)}),
    "footprint": ((23, 26), {"kernel_size": FOOTPRINT, "stride": 6}),
}


@pytest.mark.parametrize("cells", ["ties", "mixed"])
@pytest.mark.parametrize("name", WINDOWS)
def test_values_indices_and_derivatives(name: str, cells: str) -> None:
    shape, parameters = WINDOWS[name]
    check(Call("median_pool", shape, {**parameters}, cells=cells))
    check(Call("top_k_pool_with_indices", shape, {**parameters, "k": 2}, cells=cells))


FOOTPRINTS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "every place": (
        (2, 14, 12),
        {"kernel_size": FOOTPRINT, "stride": 1, "padding": (2, 3)},
    ),
    "dilated": ((22, 20), {"kernel_size": FOOTPRINT, "stride": 1, "dilation": (2, 1)}),
    "every other place": ((13, 15), {"kernel_size": FOOTPRINT, "stride": 2}),
}
WEIGHTED: dict[str, dict[str, Any]] = {
    "lp_pool": {"norm_type": 2.5},
    "gem_pool": {"norm_type": np.array(3.3)},
    "smooth_max_pool": {"beta": 30.0},
    "mellowmax_pool": {"beta": np.array(40.0)},
    "soft_pool": {"beta": 30.0},
    "stochastic_pool": {},
    "weighted_pool": {"weights": None},
    "attention_pool": {"logits": None},
    "std_pool": {},
}


@pytest.mark.parametrize("name", WEIGHTED)
@pytest.mark.parametrize("geometry", FOOTPRINTS)
def test_sums_over_large_footprints(geometry: str, name: str) -> None:
    shape, parameters = FOOTPRINTS[geometry]
    random = np.random.default_rng(3)
    own = {key: random.normal(size=shape) ** 2 if value is None else value for key, value in WEIGHTED[name].items()}
    check(Call(name, shape, {**parameters, **own, "axis": (-2, -1)}, cells="distinct"))
    masked = {"where": random.random(shape) < 0.8, "rule": "vjp"}
    check(Call(name, shape, {**parameters, **own, **masked, "axis": (-2, -1)}, cells="ties"))


@pytest.mark.parametrize("kernel_size", [(64, 64), (2, 512)])
@pytest.mark.parametrize("share", [1, 2], ids=["tiles", "halves shared"])
def test_blocks_read_the_cells_of_their_windows_alone(kernel_size: tuple[int, int], share: int) -> None:
    x = jax.ShapeDtypeStruct((256, 1024), np.float32)
    stride = tuple(size // share for size in kernel_size)

    def total(x: jax.Array) -> jax.Array:
        return jaxpool.median_pool(x, kernel_size, stride).sum()

    windows = jax.eval_shape(lambda x: jaxpool.median_pool(x, kernel_size, stride), x).size
    program = jax.make_jaxpr(jax.grad(total))(x).jaxpr
    slices = [one.outvars[0].aval for one in equations(program) if one.primitive.name == "dynamic_slice"]
    read = [each.size for each in slices if each.ndim > 1]
    assert len(read) > 1
    # Not the cells between the blocks.
    assert max(read) <= windows * 128
