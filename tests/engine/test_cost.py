"""The cost of pools besides time: memory, bytes kept for the backward pass, kernels, and the length of the program."""

import math
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_as_usual
from tests.registry.records import slow_but

SHAPES = {"channels first": ((2, 8, 32, 32), (2, 3)), "channels last": ((2, 32, 32, 8), (1, 2))}
WINDOWS: dict[str, dict[str, Any]] = {
    "2": {"kernel_size": 2},
    "3 stride 2": {"kernel_size": 3, "stride": 2, "padding": 1},
    "3 stride 1": {"kernel_size": 3, "stride": 1, "padding": 1},
    "5 stride 1": {"kernel_size": 5, "stride": 1, "padding": 2},
    "7 stride 3": {"kernel_size": 7, "stride": 3, "padding": 3},
    "13 stride 4": {"kernel_size": 13, "stride": 4, "padding": 6},
    "19 stride 1": {"kernel_size": 19, "stride": 1, "padding": 9},
}


def held(function: Any, x: jax.Array) -> list[jax.ShapeDtypeStruct]:
    """The arrays held for the backward pass."""
    return jax.tree.leaves(jax.eval_shape(lambda x: jax.vjp(function, x)[1], x))


def lowered(function: Callable[..., Any], *arguments: Any, platform: str = "cpu") -> str:
    """The text of the program for a platform, before it is compiled."""
    return jax.jit(function).trace(*arguments).lower(lowering_platforms=(platform,)).as_text()


def length(function: Callable[..., Any], *arguments: Any, platform: str = "cpu") -> int:
    """The operations of the program for a platform."""
    return lowered(function, *arguments, platform=platform).count(" = stablehlo.")


def temporary_bytes(function: Callable[..., Any], *arguments: Any) -> int:
    """The memory of the compiled program besides arguments and results."""
    analysis = compiled_as_usual(function).lower(*arguments).compile().memory_analysis()
    assert analysis is not None
    return analysis.temp_size_in_bytes


def gradient(pool: Callable[[jax.Array], jax.Array]) -> Callable[[jax.Array], jax.Array]:
    return jax.grad(lambda x: pool(x).sum())


@pytest.mark.parametrize(
    ("function", "rule"), [("max_pool", "jvp"), ("min_pool", "vjp"), ("max_pool_with_indices", "vjp")]
)
def test_maxima_hold_a_few_bytes_per_output_and_averages_a_number(function: str, rule: Any) -> None:
    for (shape, axis), window in ((layout, window) for layout in SHAPES.values() for window in WINDOWS.values()):
        x, both = jnp.zeros(shape, np.float32), partial(getattr(jaxpool, function), axis=axis, rule=rule, **window)

        def pool(x: jax.Array, both: Any = both) -> jax.Array:
            return jax.tree.leaves(both(x))[0]

        residuals = held(pool, x)
        assert {residual.dtype for residual in residuals} == {np.dtype(np.uint8)}
        size = sum(residual.size for residual in residuals)
        # A byte for each output and, if axes are taken in turn, one for each row of cells that windows start in.
        rows = window.get("stride", 2) if window["kernel_size"] > 3 else 0
        assert size <= (1 + rows) * jax.eval_shape(pool, x).size, window
        divisors = held(partial(jaxpool.avg_pool, axis=axis, rule=rule, **window), x)
        assert sum(residual.size for residual in divisors) <= 1


# Copies of the cells, if weights depend on them, and numbers per output, but no weights of cells in windows.
@pytest.mark.parametrize("rule", ["jvp", "vjp"])
@pytest.mark.parametrize(
    ("pool", "copies", "numbers"),
    [
        (jaxpool.sum_pool, 0, 1),
        (partial(jaxpool.lp_pool, norm_type=2.0), 1, 1),
        (partial(jaxpool.smooth_max_pool, beta=2.0), 1, 2),
        (partial(jaxpool.mellowmax_pool, beta=2.0), 1, 2),
    ],
    ids=["sum", "norm", "smooth maximum", "mellowmax"],
)
def test_sums_of_cells_hold_no_array_of_windows(pool: Any, copies: int, numbers: int, rule: str) -> None:
    x, pool = jnp.ones((2, 20, 21), jnp.float32), partial(pool, kernel_size=(5, 5), stride=1, rule=rule)
    outputs = jax.eval_shape(pool, x).size
    assert sum(one.size for one in held(pool, x)) <= copies * x.size + numbers * outputs + 3


@pytest.mark.parametrize("name", slow_but(("3 stride 1", "13 stride 4"), WINDOWS))
def test_gradients_need_no_copy_per_cell_of_a_window(name: str) -> None:
    # Every window in one layout or the other.
    shape, axis = [*SHAPES.values()][len(name) % 2]
    x = jnp.zeros(shape, np.float32)
    # Padding by half a window on each side turns 32 cells into 63 for the largest window.
    most = 4 * x.nbytes * (1 if WINDOWS[name]["kernel_size"] < 7 else 2)
    for function in (jaxpool.max_pool, jaxpool.avg_pool):
        assert temporary_bytes(gradient(partial(function, axis=axis, **WINDOWS[name])), x) <= most


# The pool, its stride and the most memory for its gradient, in arrays of the cells' size.
MEMORY: dict[str, tuple[Callable[..., jax.Array], int, float]] = {
    "variance": (jaxpool.var_pool, 1, 5.5),
    "attention": (lambda x, *sizes, **axis: jaxpool.attention_pool(x, 2 * x, *sizes, **axis), 2, 6),
    "learnt": (
        lambda x, *sizes, **axis: jaxpool.soft_pool(x, 2 + x.mean((1, 2, 3), keepdims=True), *sizes, **axis),
        2,
        2.5,
    ),
}


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="figures are for a CPU")
@pytest.mark.slow
@pytest.mark.parametrize("name", MEMORY)
def test_derivatives_of_large_arrays_need_few_more(name: str) -> None:
    pool, stride, most = MEMORY[name]
    x = np.random.default_rng(0).normal(size=(4, 64, 64, 32)).astype(np.float32)
    slopes = gradient(lambda x: jnp.tanh(pool(x, (3, 3), stride, axis=(1, 2))))
    program = jax.jit(slopes).lower(x).compile()
    analysis = program.memory_analysis()
    assert analysis is not None
    assert analysis.temp_size_in_bytes <= most * x.nbytes
    images = np.concatenate([jax.jit(slopes)(image[None]) for image in x])
    np.testing.assert_allclose(program(x), images, rtol=1e-5, atol=1e-6)


def test_batches_of_results_carry_the_cells_once() -> None:
    x, boxes = jnp.zeros((32, 32, 8)), jnp.zeros((64, 4))
    pool = partial(jaxpool.roi_pool, output_size=2, axis=(0, 1))
    # Along one axis only, the bins of 64 boxes hold 16 times as many cells.
    assert temporary_bytes(pool, x, boxes) <= 8 * jax.eval_shape(pool, x, boxes).size * x.dtype.itemsize
    # A Jacobian of 256 rows of 2048 cells, of which no second copy is held.
    x = jnp.ones((32, 64), np.float32)
    assert temporary_bytes(jax.jacrev(lambda x: jaxpool.lp_pool(x, 3.0, (8,))), x) <= 1.5 * 256 * x.nbytes


@pytest.mark.parametrize("kernel_size", [(64, 64), (2, 512)])
def test_blocks_of_tiles_read_the_cells_of_their_windows_alone(kernel_size: tuple[int, int]) -> None:
    x, pool = jax.ShapeDtypeStruct((256, 1024), np.float32), partial(jaxpool.median_pool, kernel_size=kernel_size)
    program = lowered(gradient(pool), x)
    slices = re.findall(r"stablehlo\.dynamic_slice.*-> tensor<(\d+x\d[\dx]*)x", program)
    read = [math.prod(map(int, sizes.split("x"))) for sizes in slices]
    assert len(read) > 1
    # Not the cells between the blocks.
    assert max(read) <= 128 * jax.eval_shape(pool, x).size


@pytest.mark.parametrize(
    "function", slow_but(("max_pool", "avg_pool"), ("max_pool", "avg_pool", "lp_pool", "smooth_max_pool"))
)
def test_shared_masks_stay_small(function: str) -> None:
    # Whatever depends on the mask and has both batch axes is a choice between cells or between winners.
    x = jnp.zeros((8, 64, 32, 32), np.float32)
    number = {"lp_pool": (3.0,), "smooth_max_pool": (2.0,)}.get(function, ())

    def whole(*shape: int) -> Counter[str]:
        def both(x: jax.Array, where: Any) -> Any:
            def values(x: jax.Array) -> jax.Array:
                return jax.tree.leaves(getattr(jaxpool, function)(x, *number, (3, 3), 2, 1, where=where))[0]

            found, pull_back = jax.vjp(values, x)
            return found, pull_back(found)

        text = lowered(both, x, np.ones(shape, bool) if shape else None)
        return Counter(re.findall(r"= stablehlo\.(\w+) .*tensor<8x64[x\d]*x(?:u?i\d+)>$", text, re.MULTILINE))

    chooses, plain = {"broadcast_in_dim", "select", "compare"}, whole()
    assert not set(whole(32, 32) - plain) - chooses
    assert not set(whole(8, 1, 32, 32) - plain) - chooses
    if function != "lp_pool":  # which does nothing with a mask but choose
        assert set(whole(8, 64, 32, 32) - plain) - chooses


# What takes k cells or k ranks, and by what factor the program of its gradient may grow from 65 of them to 2,049: in
# pieces of a few cells each time, with five steps instead of two.
GROWING: dict[str, tuple[Callable[[jax.Array, int], jax.Array], float]] = {
    "max": (lambda x, k: jaxpool.max_pool(x, (k,), 1), 3),
    "sum": (lambda x, k: jaxpool.sum_pool(x, (k,), 1), 3),
    "lp": (lambda x, k: jaxpool.lp_pool(x, 2.0, (k,), 1), 4),
    "gem": (lambda x, k: jaxpool.gem_pool(x, 3.5, (k,), 1), 4),
    "smooth": (lambda x, k: jaxpool.smooth_max_pool(x, 2.0, (k,), 1), 4),
    "mellowmax": (lambda x, k: jaxpool.mellowmax_pool(x, 2.0, (k,), 1), 4),
    "soft": (lambda x, k: jaxpool.soft_pool(x, 2.0, (k,), 1), 4),
    "stochastic": (lambda x, k: jaxpool.stochastic_pool(x, (k,), 1), 4),
    "ranks": (lambda x, k: jaxpool.top_k_pool(x, k, jaxpool.whole, axis=-1), 1),
}


@pytest.mark.parametrize("name", slow_but(("max", "sum"), GROWING))
def test_programs_grow_with_the_logarithm_of_the_window(name: str) -> None:
    platform = ("cpu", "cuda", "tpu")[[*GROWING].index(name) % 3]
    (pool, most), x = GROWING[name], jnp.zeros((2, 3, 4000), np.float32)
    lengths = [length(gradient(lambda x, k=k: pool(x, k)), x, platform=platform) for k in (65, 2049)]
    assert lengths[1] <= most * lengths[0]


def test_medians_of_few_cells_are_networks() -> None:
    for cells, most in ((3, 4), (9, 36), (25, 312)):
        program = lowered(partial(jaxpool.median_pool, kernel_size=(cells,), stride=1), jnp.zeros((2, 300), np.float32))
        assert len(re.findall(r"stablehlo\.(?:minimum|maximum)", program)) <= most


def test_no_step_is_evaluated_again_for_every_cell() -> None:
    x = jnp.zeros((2, 12, 12, 3), np.float32)
    pool = compiled_as_usual(lambda x: jaxpool.smooth_max_pool(x, 2.0, (5, 5), 1, 2, axis=(1, 2)))
    text = pool.lower(x).compile().as_text()
    # One exponential for each cell and each window, and one for each pair, for data that do not allow these.
    assert text.count(" exponential(") == 1 + 1 + 25


def test_other_platforms_have_one_fusion() -> None:
    """A call that is not inlined, or a barrier, would be a kernel on a GPU or a TPU."""
    x = jax.ShapeDtypeStruct((2, 8, 32, 32), np.float32)
    slopes = gradient(partial(jaxpool.max_pool, kernel_size=(3, 3), stride=1, padding=1))
    texts = {platform: lowered(slopes, x, platform=platform) for platform in ("cpu", "cuda", "tpu")}
    assert [name for name, text in texts.items() if "optimization_barrier" in text] == ["cpu"]


# What the optimised programs of the five commonest pools launch on a CPU, for values and for gradients. Numbers have no
# noise: what is one kernel with one compiler can be three with the next, and steps of a selection in one kernel are
# evaluated again for every cell.
KERNELS: dict[str, tuple[Callable[..., jax.Array], int, int]] = {
    "max 2×2/2": (lambda x: jaxpool.max_pool(x, 2, axis=(1, 2)), 1, 2),
    "max 3×3/2": (lambda x: jaxpool.max_pool(x, 3, 2, 1, axis=(1, 2)), 1, 6),
    "max 3×3/1": (lambda x: jaxpool.max_pool(x, 3, 1, 1, axis=(1, 2)), 2, 6),
    "avg 2×2/2": (lambda x: jaxpool.avg_pool(x, 2, axis=(1, 2)), 1, 1),
    "global avg": (lambda x: jaxpool.global_avg_pool(x, axis=(1, 2)), 3, 1),
}


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="these are the CPU's kernels")
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_of_the_commonest_gradients(name: str) -> None:
    pool, *expected = KERNELS[name]
    x = jnp.zeros((8, 56, 56, 64), np.float32)
    programs = compiled_as_usual(pool), compiled_as_usual(lambda x, y: jax.vjp(pool, x)[1](y)[0])
    arguments = (x,), (x, jax.eval_shape(pool, x))
    found = []
    for program, given in zip(programs, arguments, strict=True):
        text = program.lower(*given).compile().as_text()
        assert not re.search(r" (copy|sort|while|conditional)\(", text)
        found.append(text.count(" fusion("))
    assert found == expected
