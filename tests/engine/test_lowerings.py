"""Every lowering gives the same as the reference: each choice forced, also where another is faster, on every platform.

`jaxpool.compiling_for` traces a program for one platform only. The program is then the same as on that platform, except
for native operations: a CPU's `reduce_window` and `select-and-scatter` stand in for those of a TPU. Ranks of few cells
have ways of their own, which are at the end; large windows are in `pools/test_hard_windows`.
"""

import itertools
import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool._windows import choices
from tests.harness.checks import check_first_derivatives
from tests.harness.compilation import compiled_as_usual, compiled_fast
from tests.reference import oracle, sliding
from tests.registry.cases import CASES, Case, distinct
from tests.registry.records import slow_but

SLOW = pytest.mark.slow
OTHERS = ("gpu", "tpu")

# Windows of one axis and of two, of the last axes.
WINDOWS: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((12,), {"kernel_size": (3,), "stride": 1, "padding": ((3, 1),), "dilation": 2}),
    ((13,), {"kernel_size": (4,), "stride": 10, "padding": ((3, 1),)}),
    ((24,), {"kernel_size": (8,)}),
    ((20,), {"kernel_size": (9,), "stride": 1, "padding": 4}),
    ((100,), {"kernel_size": (45,), "stride": 1, "padding": 20, "dilation": 2}),
    ((150,), {"kernel_size": (70,), "stride": 3, "padding": ((10, 0),)}),
    ((300,), {"kernel_size": (90,), "stride": 60, "padding": 5, "dilation": 2}),
    ((9, 8), {"kernel_size": (3, 2), "stride": (2, 1), "padding": ((1, 0), (0, 1)), "dilation": (2, 3)}),
    ((9, 10), {"kernel_size": (3, 3), "stride": 2, "padding": 1}),
    ((20, 24), {"kernel_size": (10, 8)}),
    ((21, 15), {"kernel_size": (9, 9), "stride": (4, 2), "padding": (2, 4)}),
]


def always(*_: Any) -> bool:
    return True


def never(*_: Any) -> bool:
    return False


def of_one_axis(part: Any) -> bool:
    return len(part.axes) == 1


def whole(window: Any, *_: Any) -> Any:
    return (window,)


def last_first(window: Any, *_: Any) -> Any:
    return window.split()


PIECES = ("folds_pieces", "takes_pieces")
EACH_AXIS, NO_PIECES = {"reduces_at_once": never}, dict.fromkeys(PIECES, never)
# What each platform may choose for any window, so that every lowering is taken for every window that it can take.
CHOICES: dict[str, tuple[str, dict[str, Any]]] = {
    "at once": (
        "cpu",
        {"reduces_at_once": always} | NO_PIECES | {"selection_order": whole},
    ),
    "pieces, the last axis first": (
        "cpu",
        EACH_AXIS | dict.fromkeys(PIECES, of_one_axis) | {"selection_order": last_first},
    ),
    "slices": ("cpu", EACH_AXIS | NO_PIECES | {"reduces_by_slices": always}),
    "reduce_window": ("cpu", EACH_AXIS | {"reduces_by_slices": never, "folds_pieces": never}),
    "gpu: reduce_window": ("gpu", {"MOST_READS": 0, "MOST_TERMS": 0, "takes_pieces": never}),
    "gpu: slices": ("gpu", {"MOST_READS": 0, "MOST_TERMS": 10**9, "takes_pieces": never}),
    "gpu: pieces": ("gpu", {"MOST_READS": 0, "takes_pieces": of_one_axis}),
    "gpu: at once": ("gpu", {"MOST_READS": 10**9}),
    "tpu": ("tpu", {}),
    "tpu: offsets": ("tpu", {"keeps_cells": never}),
}


@pytest.mark.parametrize("name", slow_but(["pieces, the last axis first"], CHOICES))
def test_every_choice_gives_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    platform, forced = CHOICES[name]
    for predicate, choice in forced.items():
        monkeypatch.setattr(choices, predicate, choice)
    jax.clear_caches()
    random = np.random.default_rng(0)
    given, expected = [], []
    for sizes, window in WINDOWS:
        # Few distinct numbers make ties, also between pieces. Others have better cells beyond the end of a window.
        ramp = np.arange(math.prod(sizes))
        rows = [*random.integers(-3, 4, (3, ramp.size)), random.permutation(ramp), ramp, -ramp]
        x = np.stack(rows).reshape(-1, *sizes).astype(np.float64)
        tables = sliding.tables(x.shape, **window, axis=tuple(range(1, x.ndim)))
        special = np.where(random.random(x.shape) < 0.02, np.nan, x)
        values, winners = sliding.first_winners(special, tables)
        cotangent = random.integers(-3, 4, values.shape).astype(np.float64)
        sums, sent = sliding.in_windows(x, tables, 0).sum(-1), cotangent
        for axis, table in tables.items():
            sent = np.moveaxis(np.tensordot(sliding.holds(table, x.shape[axis]), sent, (0, axis)), 0, axis)
        given.append((x, special, cotangent))
        expected.append((values, winners, sliding.to_winners(cotangent, winners, tables, x.shape), values, sums, sent))

    @compiled_fast
    def everything(given: Any) -> Any:
        found = []
        for (x, special, cotangent), (_, window) in zip(given, WINDOWS, strict=True):
            values, routed, indices = jax.vjp(partial(jaxpool.max_pool_with_indices, **window), special, has_aux=True)
            sums, spread = jax.vjp(partial(jaxpool.sum_pool, **window), x)
            largest = jaxpool.max_pool(special, **window)
            found.append((values, indices, *routed(cotangent), largest, sums, *spread(cotangent)))
        return found

    try:
        with jaxpool.compiling_for(platform):
            found = everything(given)
    finally:
        jax.clear_caches()
    for results, wanted, (sizes, window) in zip(found, expected, WINDOWS, strict=True):
        for one, other in zip(results, wanted, strict=True):
            np.testing.assert_array_equal(one, other, f"{window} of {sizes}")


# Those for which some platform has lowerings of its own: all rows; of others the first and some more.
OWN = ("max_pool", "max_pool_with_indices", "sum_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool")


def rows_of_registry() -> list[Any]:
    """Rows on one other platform or the other, and by default the first row of every third function."""
    rows, seen = [], set[str]()
    for number, case in enumerate(CASES):
        is_first = case.function not in seen
        if is_first or case.function in OWN or number % 3 == 0:
            marks = () if is_first and len(seen) % 3 == 0 else SLOW
            platform = OTHERS[number % 2]
            rows.append(pytest.param(case, platform, id=f"{case.name}-{platform}", marks=marks))
        seen.add(case.function)
    return rows


@pytest.mark.parametrize(("case", "platform"), rows_of_registry())
def test_first_derivatives_of_the_registry(case: Case, platform: str) -> None:
    with jaxpool.compiling_for(platform):
        functions = {"jvp": partial(case.values, rule="jvp")}
        check_first_derivatives(functions, case.x, case.expected.values, case.expected.jacobian(), whole=False)
        if "indices" in case.function:
            np.testing.assert_array_equal(case.outputs(case.x)[1], case.expected.indices)


def test_derivatives_of_every_order_in_float32() -> None:
    """If a TPU keeps the cells: second and third derivatives, and batches of cotangents only."""

    def objective(x: jax.Array) -> jax.Array:
        return (jaxpool.max_pool(x, (3, 3), 2, 1) ** 3).sum()

    def everything(x: jax.Array) -> list[jax.Array]:
        third = jax.grad(lambda x: (jax.jvp(jax.grad(objective), (x,), (x,))[1] ** 2).sum())
        jacobian = jax.jacrev(lambda x: jaxpool.max_pool(x, (3, 3), 2, 1))
        functions = (jax.hessian(objective), jax.jacrev(jax.jacrev(objective)), jacobian, third)
        return [each(x) for each in (*functions, jax.grad(jax.checkpoint(objective)))]

    x = distinct((4, 5), "orders").astype(np.float32)
    expected = compiled_fast(everything)(x)
    with jaxpool.compiling_for("tpu"):
        found = compiled_fast(lambda x: everything(x))(x)
    for result, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-6)


@pytest.mark.parametrize("dtype", slow_but([jnp.bfloat16], [jnp.bfloat16, jnp.float16]))
@pytest.mark.parametrize("platform", OTHERS)
def test_sixteen_bits_are_added_up_in_thirty_two(platform: str, dtype: Any) -> None:
    ones = jnp.ones((2, 40, 40), dtype)
    with jaxpool.compiling_for(platform):
        pool = partial(jaxpool.avg_pool, count_include_pad=False)
        averages = [pool(ones, (k, k), 1, pad) for k, pad in ((7, 3), (31, 15), (40, 0))]
        for average in (*averages, pool(jnp.ones(513, dtype), jaxpool.bins(2))):
            np.testing.assert_array_equal(average, jnp.ones_like(average))


@pytest.mark.parametrize("platform", slow_but(["tpu"], OTHERS))
def test_integers(platform: str) -> None:
    for dtype in (np.bool_, np.int8, np.uint8, np.int32):
        x = np.random.default_rng(0).integers(0, 2 if dtype is np.bool_ else 100, (2, 11, 10)).astype(dtype)
        for function in ("max_pool", "min_pool", "sum_pool", "avg_pool"):
            with jaxpool.compiling_for(platform):
                values = getattr(jaxpool, function)(x, (3, 3), 2, 1)
            wanted = oracle.evaluate(function, x, kernel_size=(3, 3), stride=2, padding=1).values
            np.testing.assert_allclose(values.astype(np.float64), wanted.astype(values.dtype), rtol=1e-7)


@pytest.mark.parametrize(
    ("name", "backend", "rule"),
    [
        *(("tpu", "tpu", "vjp"), ("gpu", "cuda", "jvp"), ("cpu", "cpu", "jvp")),
        *(pytest.param(*pair, "jvp", marks=SLOW) for pair in (("tpu", "tpu"), ("cuda", "cuda"))),
        *(pytest.param(*pair, "vjp", marks=SLOW) for pair in (("gpu", "cuda"), ("cuda", "cuda"), ("cpu", "cpu"))),
    ],
)
def test_what_a_platform_keeps_is_evaluated_anywhere(
    name: str, backend: str, rule: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a rule keeps is chosen for JAX's default platform, as for a named one, and programs may run elsewhere."""
    x = distinct((2, 9, 13), "formats").astype(np.float32)
    window = {"kernel_size": (3, 5), "stride": (2, 1), "padding": (1, 2)}
    expected = oracle.evaluate("max_pool", x, **window)
    cotangent = np.random.default_rng(0).integers(-4, 5, expected.values.shape).astype(np.float32)

    def kept() -> Any:
        _, pull_back = jax.vjp(partial(jaxpool.max_pool, **window, rule=rule), x)
        np.testing.assert_array_equal(pull_back(cotangent)[0], expected.backward(cotangent))
        return [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(pull_back)]

    with jaxpool.compiling_for(name):
        named = kept()
    # Nothing may be known of this machine's platform.
    jax.clear_caches()
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert kept() == named
    jax.clear_caches()


@pytest.mark.parametrize("cells", slow_but((256, 8190), (256, 600, 783, 1000, 3136, 4096, 8190)))
def test_whole_long_axes(cells: int) -> None:
    """Rows that a CPU folds in stretches of neighbouring cells, and rows that no stretches divide."""
    x = np.random.default_rng(cells).integers(-9, 9, (5, 2, cells)).astype(np.float32)
    x[1, 0, [cells // 3, cells // 2]] = np.nan
    x[np.arange(5), 1, [0, 7, 31, cells - 2, cells - 1]] = 20

    @compiled_as_usual
    def everything(x: jax.Array) -> Any:
        largest, pull_back = jax.vjp(partial(jaxpool.global_max_pool, axis=-1, keepdims=False), x)
        sums = jaxpool.sum_pool(x, jaxpool.whole, axis=-1)[..., 0]
        return jaxpool.global_max_pool(x, axis=-1, keepdims=False), largest, *pull_back(jnp.ones_like(largest)), sums

    # NumPy and jaxpool both take the first of equal cells, and the first NaN.
    winners = np.arange(cells) == x.argmax(-1)[..., None]
    for found, expected in zip(everything(x), (x.max(-1), x.max(-1), winners, x.sum(-1)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("for_this_platform")
@pytest.mark.parametrize("cells", slow_but((5, 9), (2, 3, 5, 6, 7, 8, 9, 10, 12)))
def test_every_rank_of_few_cells(cells: int) -> None:
    # What sorts all inputs of zeros and ones by minima and maxima sorts every input.
    inputs = np.array(list(itertools.product((0, 1), repeat=cells))).astype(np.float32)
    shares = [rank / (cells - 1) for rank in range(cells)]

    @compiled_fast
    def ranks(x: jax.Array) -> Any:
        pool = partial(jaxpool.quantile_pool, x, kernel_size=(cells,), method="nearest")
        return [pool(q=share) for share in shares], pool(q=shares)

    each, together = ranks(inputs)
    for found in (np.stack(each), together):
        np.testing.assert_array_equal(found[..., 0], np.sort(inputs, axis=1).T)


@pytest.mark.usefixtures("for_this_platform")
@pytest.mark.parametrize("dtype", slow_but(["bfloat16"], ("bfloat16", "float16", "float64", "int8", "int64", "uint32")))
def test_ranks_on_both_sides_of_64_cells(dtype: str) -> None:
    random, wide, sizes = np.random.default_rng(0), np.float64 if "float" in dtype else dtype, (25, 49, 64, 65, 81)
    if "float" in dtype:
        x = random.choice([-np.inf, -1.0, -0.0, 0.0, 1.0, 1.5, np.inf], (40, 81))
        x = np.where(random.random(x.shape) < 0.01, np.nan, x).astype(dtype)
    else:
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        x = random.choice([least, 0, 1, most // 2 + 1, most], (40, 81)).astype(dtype)
    shares = (0.0, 0.3, 0.5, 1.0)
    pool = partial(jaxpool.quantile_pool, q=shares, method="lower")
    found = compiled_fast(lambda x: [pool(x[:, :cells], kernel_size=(cells,)) for cells in sizes])(x)
    for values, cells in zip(found, sizes, strict=True):
        assert values.dtype == x.dtype
        ordered = np.sort(x[:, :cells].astype(wide))
        # NaN comes last, and takes every rank.
        ordered = np.where(ordered[:, -1:] != ordered[:, -1:], ordered[:, -1:], ordered)
        for share, one in zip(shares, values, strict=True):
            np.testing.assert_array_equal(one[:, 0].astype(wide), ordered[:, math.floor(share * (cells - 1))])
