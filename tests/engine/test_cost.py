"""The cost of pools besides time: memory held for the backward pass, temporary memory, the length of the program."""

from collections import Counter
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool._arguments import Rule
from tests.harness.checks import equations, programs_within
from tests.harness.compilation import compiled_as_usual
from tests.harness.parts import case_row, crossed

SHAPES = {"channels first": ((2, 8, 32, 32), (2, 3)), "channels last": ((2, 32, 32, 8), (1, 2))}
WINDOWS: dict[str, dict[str, Any]] = {
    "2": {"kernel_size": 2},
    "2 stride 1": {"kernel_size": 2, "stride": 1},
    "3 stride 2": {"kernel_size": 3, "stride": 2, "padding": 1},
    "3 stride 1": {"kernel_size": 3, "stride": 1, "padding": 1},
    "5 stride 1": {"kernel_size": 5, "stride": 1, "padding": 2},
    "5 stride 2": {"kernel_size": 5, "stride": 2, "padding": 2},
    "7 stride 3": {"kernel_size": 7, "stride": 3, "padding": 3},
    "13 stride 4": {"kernel_size": 13, "stride": 4, "padding": 6},
    "19 stride 1": {"kernel_size": 19, "stride": 1, "padding": 9},
}


def held(function: Any, x: jax.Array) -> list[jax.ShapeDtypeStruct]:
    """The arrays held for the backward pass."""
    return jax.tree.leaves(jax.eval_shape(lambda x: jax.vjp(function, x)[1], x))


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
@pytest.mark.parametrize("layout", SHAPES)
@pytest.mark.parametrize("name", WINDOWS)
def test_maxima_hold_a_few_bytes_per_output(name: str, layout: str, rule: Rule) -> None:
    shape, axis = SHAPES[layout]
    x = jnp.zeros(shape, np.float32)

    def pool(x: jax.Array) -> jax.Array:
        return jaxpool.max_pool(x, axis=axis, rule=rule, **WINDOWS[name])

    residuals = held(pool, x)
    assert {residual.dtype for residual in residuals} == {np.dtype(np.uint8)}
    size = sum(residual.size for residual in residuals)
    assert size <= (2 if WINDOWS[name].get("stride", 2) == 1 else 4) * jax.eval_shape(pool, x).size


@pytest.mark.parametrize("rule", ["jvp", "vjp"])
def test_averages_hold_their_divisor_alone(rule: Rule) -> None:
    x = jnp.zeros((2, 8, 32, 32), np.float32)
    residuals = held(lambda x: jaxpool.avg_pool(x, (3, 3), 2, 1, rule=rule), x)
    assert sum(residual.size for residual in residuals) <= 1


@pytest.mark.parametrize(
    ("name", "layout"),
    [case_row(name, layout, id=f"{name}-{layout}", kept=kept) for name, layout, kept in crossed([*WINDOWS], SHAPES, 2)],
)
@pytest.mark.parametrize("function", [jaxpool.max_pool, jaxpool.avg_pool], ids=["max", "avg"])
def test_gradients_need_no_copy_per_cell_of_a_window(function: Any, name: str, layout: str) -> None:
    shape, axis = SHAPES[layout]
    x = jnp.zeros(shape, np.float32)
    gradient = compiled_as_usual(jax.grad(lambda x: function(x, axis=axis, **WINDOWS[name]).sum()))
    analysis = gradient.lower(x).compile().memory_analysis()
    assert analysis is not None
    # Padding by half a window on each side turns 32 cells into 63 for the largest window.
    assert analysis.temp_size_in_bytes <= 4 * x.nbytes * (1 if WINDOWS[name]["kernel_size"] < 7 else 2)


@pytest.mark.parametrize(
    "pool", [jaxpool.lp_pool, jaxpool.gem_pool, jaxpool.smooth_max_pool, jaxpool.mellowmax_pool, jaxpool.soft_pool]
)
def test_tangents_of_weighted_pools_read_the_cells(pool: Any) -> None:
    x = jnp.zeros((2, 8, 32, 32), np.float32)

    def tangent(x: jax.Array) -> Any:
        return jax.jvp(lambda x: pool(x, 3.0, (3, 3), 2, 1), (x,), (x,))

    # The transpose of the map back to the cells would pad one array of the output's shape per cell of a window.
    pads = [one for one in equations(jax.make_jaxpr(tangent)(x).jaxpr) if one.primitive.name == "pad"]
    assert pads
    assert (2, 8, 16, 16) not in {pad.invars[0].aval.shape for pad in pads}


@pytest.mark.parametrize("function", [jaxpool.smooth_max_pool, jaxpool.mellowmax_pool])
def test_axes_share_no_loop_of_exponentials_where_padding_takes_part(function: Any) -> None:
    x = jnp.zeros((2, 12, 12, 3), np.float32)
    program = compiled_as_usual(lambda x: function(x, 2.0, (5, 5), 1, 2, axis=(1, 2))).lower(x).compile().as_text()
    loops = [loop.count(" exponential(") for loop in program.split("\n\n")]
    # In addition to a loop with one exponential per cell, for data that allow it.
    assert sorted(count for count in loops if count) == [1, 5, 5]


@pytest.mark.parametrize("axis", [(1, 2), (2, 3)])
def test_pools_of_the_same_bins_store_no_gathers(axis: tuple[int, int]) -> None:
    x = jnp.zeros((2, 31, 31, 31))

    def both(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        return jaxpool.max_pool(x, jaxpool.bins(7, 7), axis=axis), jaxpool.avg_pool(x, jaxpool.bins(7, 7), axis=axis)

    analysis = compiled_as_usual(both).lower(x).compile().memory_analysis()
    assert analysis is not None
    # Those of each along its first axis.
    assert analysis.temp_size_in_bytes <= 0.7 * x.nbytes


def test_boxes_carry_their_bins_alone() -> None:
    x, boxes = jnp.zeros((32, 32, 8)), jnp.zeros((64, 4))
    pool = compiled_as_usual(lambda x, boxes: jaxpool.roi_pool(x, boxes, 2, axis=(0, 1)))
    analysis = pool.lower(x, boxes).compile().memory_analysis()
    assert analysis is not None
    # Along one axis only, the bins of 64 boxes hold 16 times as many cells.
    assert analysis.temp_size_in_bytes <= 8 * analysis.output_size_in_bytes


@pytest.mark.parametrize("function", [jaxpool.max_pool, jaxpool.sum_pool], ids=["max", "sum"])
def test_programs_grow_with_the_logarithm_of_the_window(function: Any) -> None:
    def length(kernel: int) -> int:
        x = jnp.zeros((2, 3, 150), np.float32)

        def gradient(x: jax.Array, cotangent: jax.Array) -> jax.Array:
            return jax.vjp(lambda x: function(x, (kernel,), 1), x)[1](cotangent)[0]

        cotangent = jnp.zeros((2, 3, 151 - kernel), np.float32)
        return len(list(equations(jax.make_jaxpr(gradient)(x, cotangent).jaxpr)))

    assert length(65) <= 2 * length(15)
    assert length(129) <= 2 * length(65)


def test_programs_of_large_windows_do_not_grow() -> None:
    # A program as long as the window would take forever to compile.

    def length(kernel: int) -> int:
        gradient = jax.grad(lambda x: jaxpool.sum_pool(x, (kernel,), 1).sum())
        return len(list(equations(jax.make_jaxpr(gradient)(jnp.zeros(kernel + 1)).jaxpr)))

    assert length(1024) < 2 * length(128)


def test_programs_of_many_ranks_do_not_grow() -> None:
    def length(k: int) -> int:
        def total_and_indices(x: jax.Array) -> tuple[jax.Array, jax.Array]:
            values, indices = jaxpool.top_k_pool_with_indices(x, k, jaxpool.whole, axis=-1)
            return values.sum(), indices

        gradient = jax.grad(total_and_indices, has_aux=True)
        return len(list(equations(jax.make_jaxpr(gradient)(jnp.zeros((2, 300))).jaxpr)))

    assert length(200) == length(20)


@pytest.mark.parametrize("platform", ["cpu", "gpu", "tpu"])
@pytest.mark.parametrize(
    ("function", "options"),
    [
        ("lp_pool", {"norm_type": 2}),
        ("gem_pool", {"norm_type": 3.5}),
        ("smooth_max_pool", {"beta": 2.0}),
        ("mellowmax_pool", {"beta": 2.0}),
        ("soft_pool", {"beta": 2.0}),
        ("stochastic_pool", {}),
    ],
)
def test_programs_of_weighted_pools_grow_with_the_logarithm_of_the_window(
    function: str, options: dict[str, Any], platform: str
) -> None:
    def length(kernel: int) -> int:
        x = jnp.zeros((2, 3, 4000), np.float32)

        def gradient(x: jax.Array) -> jax.Array:
            return jax.grad(lambda x: getattr(jaxpool, function)(x, **options, kernel_size=(kernel,), stride=1).sum())(
                x
            )

        with jaxpool.compiling_for(platform):
            return len(list(equations(jax.make_jaxpr(gradient)(x).jaxpr)))

    # Pieces of a few cells each time, in five steps instead of two.
    assert length(2049) <= 4 * length(65)


@pytest.mark.parametrize("function", ["max_pool", "max_pool_with_indices", "avg_pool", "lp_pool", "smooth_max_pool"])
def test_shared_masks_stay_small(function: str) -> None:
    # Whatever depends on the mask and has both batch axes is a choice between cells or between winners.
    x = jnp.zeros((8, 64, 32, 32))
    options = {"norm_type": 3.0} if function == "lp_pool" else {"beta": 2.0} if function == "smooth_max_pool" else {}
    parameters = {"kernel_size": (3, 3), "stride": 2, "padding": 1, **options}
    chooses = {"broadcast_in_dim", "select_n", "eq", "ne"}

    def whole(*shape: int) -> Counter[str]:
        where = np.ones(shape, bool) if shape else None

        def pool(x: jax.Array, where: Any) -> jax.Array:
            return jax.tree.leaves(getattr(jaxpool, function)(x, **parameters, where=where))[0]

        def both(x: jax.Array, where: Any) -> Any:
            values, pull_back = jax.vjp(partial(pool, where=where), x)
            return values, pull_back(values)

        return Counter(
            equation.primitive.name
            for equation in equations(jax.make_jaxpr(both)(x, where))
            if not programs_within(equation)
            for made in equation.outvars
            if made.aval.shape[:2] == (8, 64) and not jnp.issubdtype(made.aval.dtype, jnp.inexact)
        )

    plain = whole()
    assert not set(whole(32, 32) - plain) - chooses
    assert not set(whole(8, 1, 32, 32) - plain) - chooses
    if function != "lp_pool":  # which does nothing with a mask but choose
        assert set(whole(8, 64, 32, 32) - plain) - chooses


def test_jacobians_hold_the_cells_once() -> None:
    """The batch of cotangents has a row for every output; the cells and the norms are those of the one array."""
    x = jnp.ones((8, 64), np.float32)
    jacobian = jax.jit(jax.jacrev(lambda x: jaxpool.lp_pool(x, 3.0, (8,))))
    program = jax.make_jaxpr(jacobian)(x).jaxpr
    (linear_map,) = (one for one in equations(program) if "linear_map" in str(one.params.get("call")))
    assert [one.aval.size for one in linear_map.invars] == [64 * 64, x.size, 64]
