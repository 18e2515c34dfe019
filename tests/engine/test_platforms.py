"""The lowerings of GPUs and TPUs, run on this machine's CPU and compared with the reference.

`jaxpool.compiling_for` traces a program for one platform only. The program is then the same as on that platform, except
for native operations: a CPU's `reduce_window` and `select-and-scatter` stand in for those of a TPU.
"""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool._derivatives import extremes
from tests.harness.checks import check_first_derivatives, check_gradient_and_hessian, cubed
from tests.harness.compilation import compiled_fast, flags
from tests.harness.parts import case_row
from tests.reference import oracle
from tests.registry.calls import WITHOUT_RULE
from tests.registry.cases import CASES, PLAIN, Case, distinct

OTHERS = ("gpu", "tpu")
# Functions for which a TPU has its own lowerings.
REDUCED = ("max_pool", "min_pool", "sum_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool", "global_avg_pool")
# Windows without dilation, as kernels, strides and paddings: apart, overlapping the next window, and further ones.
WINDOWS = {
    "2/2": ((2, 2), 2, 0),
    "2×3/3": ((2, 3), 3, (0, 1)),
    "3/2": ((3, 3), 2, 1),
    "3×2/1": ((3, 2), 1, (1, 0)),
    "5/2": ((5, 5), 2, ((2, 1), (1, 2))),
    "whole": ((7, 8), 1, 0),
}
# Geometries that some lowering treats differently.
DISTINCT = ("line-gaps", "line-9", "line-31", "plane-overlap", "plane-last", "dilated", "ceil", "odd-axes")
DISTINCT += ("volume-odd", "many-cells", "wide-plane", "one-window", "blocks", "copies", "bins", "bins-even")
DISTINCT += ("bins-many-cells", "footprint")
CELLS = {
    "ties": lambda random, shape: random.integers(-2, 2, shape),
    "NaN": lambda random, shape: np.where(random.random(shape) < 0.1, np.nan, random.integers(-2, 2, shape)),
    "infinities": lambda random, shape: random.choice([-np.inf, -np.inf, 0, np.inf], shape),
}


def rows() -> list[Any]:
    """By default every function has a geometry on each platform; functions with special lowerings have all kinds."""
    return [
        case_row(case, platform, id=f"{case.name}-{platform}", kept=platform in kept_for(case))
        for case in CASES
        for platform in OTHERS
        if platform == "gpu" or (case.function in REDUCED and case is not PLAIN.get(case.function))
    ]


def kept_for(case: Case) -> tuple[str, ...]:
    """The platforms on which a row runs by default."""
    masked = "where" in case.parameters
    if case.function in ("max_pool", "sum_pool", "adaptive_max_pool", "adaptive_avg_pool") and not masked:
        if case.geometry not in DISTINCT:
            return ()
        # A TPU has more special lowerings; the effect of a geometry on GPUs is the same for all functions.
        return OTHERS if case.function == "max_pool" else OTHERS[1:]
    if case.function == "max_pool_with_indices":
        return OTHERS if case.geometry in ("plane-last", "many-cells") or masked else ()
    first = next(one for one in CASES if one.function == case.function)
    last = [one for one in CASES if one.function == case.function][-1]
    return OTHERS if case in (first, last) else ()


@pytest.mark.parametrize(("case", "platform"), rows())
def test_first_derivatives(case: Case, platform: str) -> None:
    check_first_order(case, platform, "jvp")


# The rules share their maps, whatever the platform: one case of each function.
@pytest.mark.slow
@pytest.mark.parametrize("platform", OTHERS)
@pytest.mark.parametrize("case", {case.function: case for case in CASES if case.function not in WITHOUT_RULE}.values())
def test_first_derivatives_by_the_other_rule(case: Case, platform: str) -> None:
    check_first_order(case, platform, "vjp")


def check_first_order(case: Case, platform: str, rule: str) -> None:
    """Compare values, tangents, cotangents and indices on a platform with the reference."""
    with jaxpool.compiling_for(platform):
        functions = {rule: partial(case.values, rule=rule)}
        check_first_derivatives(functions, case.x, case.expected.values, case.expected.jacobian(), whole=False)
        if "indices" in case.function:
            np.testing.assert_array_equal(case.outputs(case.x)[1], case.expected.indices)


@pytest.mark.parametrize(
    ("function", "platform"),
    [
        # Weighted means are evaluated on a TPU as on a GPU.
        case_row(function, platform, id=f"{function}-{platform}", kept=platform == "gpu" or function == "max_pool")
        for function in ("max_pool", "lp_pool", "smooth_max_pool", "mellowmax_pool", "soft_pool")
        for platform in OTHERS
    ],
)
def test_gradients_and_hessians(function: str, platform: str) -> None:
    case = PLAIN[function]
    with jaxpool.compiling_for(platform):
        check_gradient_and_hessian({"jvp": cubed(case.values)}, case.x)


@pytest.mark.parametrize("cells", CELLS)
@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("platform", OTHERS)
def test_winners(platform: str, name: str, cells: str) -> None:
    """In float32, which TPUs support, both rules, both modes and a batch: ties, NaN and infinities next to padding."""
    kernel_size, stride, padding = WINDOWS[name]
    random = np.random.default_rng(0)
    x = CELLS[cells](random, (3, 7, 8, 2)).astype(np.float32)
    tangent = random.integers(-4, 5, x.shape).astype(np.float32)
    expected = oracle.evaluate("max_pool", x, kernel_size=kernel_size, stride=stride, padding=padding, axis=(1, 2))
    cotangent = random.integers(-4, 5, expected.values.shape).astype(np.float32)

    def pool(x: jax.Array, rule: Any, axis: tuple[int, int]) -> jax.Array:
        return jaxpool.max_pool(x, kernel_size, stride, padding, axis=axis, rule=rule)

    @compiled_fast
    def everything(x: jax.Array, tangent: jax.Array, cotangent: jax.Array) -> list[jax.Array]:
        found = []
        for rule in ("jvp", "vjp"):
            values, pull_back = jax.vjp(partial(pool, rule=rule, axis=(1, 2)), x)
            one = partial(pool, rule=rule, axis=(0, 1))
            found += [values, pull_back(cotangent)[0]]
            found.append(jax.vmap(lambda x, c, one=one: jax.vjp(one, x)[1](c)[0])(x, cotangent))
        found.append(jax.jvp(partial(pool, rule="jvp", axis=(1, 2)), (x,), (tangent,))[1])
        one = partial(pool, rule="jvp", axis=(0, 1))
        found.append(jax.vmap(lambda x, t: jax.jvp(one, (x,), (t,))[1])(x, tangent))
        return found

    backward = expected.backward(cotangent)
    forward = np.tensordot(expected.jacobian(), tangent.astype(np.float64), x.ndim)
    with jaxpool.compiling_for(platform):
        found = everything(x, tangent, cotangent)
    results = [*[expected.values, backward, backward] * 2, forward, forward]
    for result, wanted in zip(found, results, strict=True):
        np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("platform", OTHERS)
def test_derivatives_of_every_order_in_float32(platform: str) -> None:
    """If a TPU keeps the cells: second and third derivatives, and batches of cotangents only."""
    x = distinct((4, 5), "orders").astype(np.float32)

    def objective(x: jax.Array) -> jax.Array:
        return (jaxpool.max_pool(x, (3, 3), 2, 1) ** 3).sum()

    def everything(x: jax.Array) -> list[jax.Array]:
        hessians = [jax.hessian(objective), jax.jacrev(jax.jacrev(objective)), jax.jacfwd(jax.jacfwd(objective))]
        third = jax.grad(lambda x: (jax.jvp(jax.grad(objective), (x,), (x,))[1] ** 2).sum())
        whole = jax.grad(jax.checkpoint(objective))
        return [
            *(hessian(x) for hessian in hessians),
            jax.jacrev(lambda x: jaxpool.max_pool(x, (3, 3), 2, 1))(x),
            third(x),
            whole(x),
        ]

    expected = everything(jnp.asarray(x))
    with jaxpool.compiling_for(platform):
        found = jax.jit(everything)(x)
    for result, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-6)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("platform", OTHERS)
def test_sixteen_bits_are_added_up_in_thirty_two(platform: str, dtype: Any) -> None:
    ones = jnp.ones((2, 40, 40), dtype)
    with jaxpool.compiling_for(platform):
        pool = partial(jaxpool.avg_pool, count_include_pad=False)
        averages = [pool(ones, (k, k), 1, pad) for k, pad in ((7, 3), (31, 15), (40, 0))]
        for average in (*averages, pool(jnp.ones(513, dtype), jaxpool.bins(2))):
            np.testing.assert_array_equal(average, jnp.ones_like(average))
        # Each cell except those at the edge is the winner of nine windows; 1 + 2⁻⁸ is not a bfloat16.
        peak = jnp.zeros((1, 9, 9), dtype).at[0, 4, 4].set(1)
        cotangent = jnp.full((1, 9, 9), 1 + 2**-7, dtype)
        for rule in ("jvp", "vjp"):
            pool = partial(jaxpool.max_pool, kernel_size=(3, 3), stride=1, padding=1, rule=rule)
            (gradient,) = jax.vjp(pool, peak)[1](cotangent)
            assert gradient[0, 4, 4] == (9 * cotangent[0, 0, 0].astype(jnp.float32)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8, np.int32], ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("platform", OTHERS)
def test_integers(platform: str, dtype: Any) -> None:
    x = np.random.default_rng(0).integers(0, 2 if dtype is np.bool_ else 100, (2, 11, 10)).astype(dtype)
    with jaxpool.compiling_for(platform):
        found = {
            function: getattr(jaxpool, function)(x, (3, 3), 2, 1)
            for function in ("max_pool", "min_pool", "sum_pool", "avg_pool")
        }
    for function, values in found.items():
        wanted = oracle.evaluate(function, x, kernel_size=(3, 3), stride=2, padding=1).values
        np.testing.assert_allclose(values.astype(np.float64), wanted.astype(values.dtype), rtol=1e-7)


@pytest.mark.parametrize("platform", OTHERS)
def test_formats_of_every_platform_evaluate_on_this_one(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The residuals of a rule are chosen for JAX's default platform, and every platform must accept them."""
    # A unique shape, so that nothing traced before is reused.
    x = distinct((2, 9, 13 + OTHERS.index(platform)), "formats").astype(np.float32)
    window = {"kernel_size": (3, 5), "stride": (2, 1), "padding": (1, 2)}
    expected = oracle.evaluate("max_pool", x, **window)
    cotangent = np.random.default_rng(0).integers(-4, 5, expected.values.shape).astype(np.float32)
    monkeypatch.setattr(extremes, "default_platform", lambda: platform)
    for rule in ("jvp", "vjp"):
        _, pull_back = jax.vjp(partial(jaxpool.max_pool, **window, rule=rule), x)
        kept = [leaf.dtype for leaf in jax.tree.leaves(pull_back) if leaf.size > 1]
        assert kept == ([np.uint8] if platform == "gpu" else [np.float32, np.float32])
        np.testing.assert_array_equal(pull_back(cotangent)[0], expected.backward(cotangent))


@pytest.mark.parametrize("part", [case_row(part, id=part, kept=False) for part in ("overlapping", "all")])
def test_sharded_axes_get_the_same(part: str) -> None:
    """Derivatives at the edges of shards, and paddings of one array by several values in one program."""
    script = Path(__file__).with_name("sharded_platforms.py")
    environment = os.environ | {
        "XLA_FLAGS": flags("--xla_force_host_platform_device_count=4"),
        "JAX_PLATFORMS": "cpu",
    }
    done = subprocess.run(
        [sys.executable, str(script), part], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
