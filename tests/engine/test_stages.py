"""Stages: separate in programs for the CPU, absent from others, and plain functions under every transformation.

Everything is tested with and without the interfaces of JAX that make calls, which a future version may lack.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.interpreters import mlir

import jaxpool
from jaxpool._engine.stages import in_one_row, materialize, stage
from jaxpool._platforms import inside
from tests.harness.compilation import compiled_as_usual
from tests.harness.parts import case_row, crossed
from tests.registry.cases import distinct

X = np.linspace(-1, 1, 12).reshape(3, 4)
NUMBERS = np.arange(4, dtype=np.int32)


@pytest.fixture(params=["call", "barrier"])
def kept_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """What separates stages: calls, or barriers if JAX lacks the interfaces for calls."""
    # Neither may reuse what was compiled with the other.
    jax.clear_caches()
    if request.param == "barrier":
        monkeypatch.delattr(mlir, "core_call_lowering")
    yield request.param
    jax.clear_caches()


def scaled(x: jax.Array, numbers: jax.Array) -> jax.Array:
    return jnp.cumsum(x * numbers.astype(x.dtype).reshape((1,) * (x.ndim - 1) + (-1,)), axis=-1)


def in_stages(x: jax.Array, numbers: Any = NUMBERS) -> jax.Array:
    return jnp.sin(stage(scaled, stage(jnp.cos, x), jnp.asarray(numbers)))


def plain(x: jax.Array, numbers: Any = NUMBERS) -> jax.Array:
    return jnp.sin(scaled(jnp.cos(x), jnp.asarray(numbers)))


def computations(function: Callable[..., Any], *arguments: Any) -> list[str]:
    text = compiled_as_usual(function).lower(*arguments).compile().as_text()
    assert text is not None
    return text.split("\n\n")


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="only the CPU's programs have stages")
def test_steps_are_in_loops_of_their_own(kept_by: str) -> None:
    if kept_by == "barrier" and jax.__version_info__ < (0, 11, 2):
        pytest.skip("this compiler ignores barriers, and this JAX has the interfaces for calls")

    def share_a_loop(function: Callable[..., Any]) -> bool:
        return any("cosine(" in one and "exponential(" in one for one in computations(function, X))

    assert share_a_loop(lambda x: jnp.exp(jnp.cos(x)))
    assert not share_a_loop(lambda x: stage(jnp.exp, jnp.cos(x)))
    assert not share_a_loop(lambda x: jnp.exp(stage(jnp.cos, x)))
    assert not share_a_loop(lambda x: jnp.exp(materialize(jnp.cos(x))))
    text = "".join(computations(lambda x: jnp.exp(materialize(jnp.cos(x))), X))
    assert ("inlineable" in text) == (kept_by == "call")


TRANSFORMED: dict[str, Callable[[Callable[..., jax.Array]], Any]] = {
    "value": lambda function: function(jnp.asarray(X)),
    "compiled": lambda function: jax.jit(function)(X),
    "vmap": lambda function: jax.jit(jax.vmap(function))(X),
    "vmap of numbers": lambda function: jax.jit(jax.vmap(function, (None, 0)))(
        X[0], np.stack([NUMBERS, NUMBERS[::-1]])
    ),
    "jvp": lambda function: jax.jit(lambda x: jax.jvp(function, (x,), (x,)))(X),
    "gradient": lambda function: jax.jit(jax.grad(lambda x: function(x).sum()))(X),
    "hessians": lambda function: [
        jax.jit(outer(inner(lambda x: function(x).sum())))(X[0])
        for outer in (jax.jacfwd, jax.jacrev)
        for inner in (jax.jacfwd, jax.jacrev)
    ],
    "checkpoint": lambda function: jax.jit(jax.grad(lambda x: jax.checkpoint(function)(x).sum()))(X),
    "gradient of loop": lambda function: jax.jit(jax.grad(lambda x: lax.map(function, x).sum()))(X),
}


# By default each way of separating them has every other transformation.
@pytest.mark.parametrize(
    ("name", "kept_by"),
    [
        case_row(name, way, id=f"{name}-{way}", kept=kept)
        for name, way, kept in crossed([*TRANSFORMED], ("call", "barrier"), 2)
    ],
    indirect=["kept_by"],
)
def test_stages_are_plain_functions_to_transformations(name: str, kept_by: str) -> None:
    transformed = TRANSFORMED[name]
    expected = jax.tree.leaves(transformed(plain))
    results = jax.tree.leaves(transformed(in_stages))
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-12, atol=1e-12)


def test_stages_are_transposed_in_what_they_are_linear_in(kept_by: str) -> None:
    def transpose(step: Callable[..., jax.Array]) -> Any:
        return jax.jit(lambda y: jax.linear_transpose(step, jnp.asarray(X))(y))(X)

    numbers = jnp.asarray(NUMBERS)
    (result,), (expected,) = transpose(lambda x: stage(scaled, x, numbers)), transpose(lambda x: scaled(x, numbers))
    np.testing.assert_allclose(result, expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int32, jnp.bfloat16, np.float64, np.complex64])
def test_arrays_of_every_kind_are_finished(dtype: Any, kept_by: str) -> None:
    x = jnp.asarray([[0, 1, 0], [1, 1, 0]], dtype)
    finished = jax.jit(materialize)(x)
    assert finished.dtype == dtype
    np.testing.assert_array_equal(finished, x)


@pytest.mark.parametrize("kernel", [3, 9])
def test_pools_are_the_same_whatever_keeps_stages_apart(kernel: int, kept_by: str) -> None:
    x = distinct((2, 8, 32, 32), "stages")

    def objective(x: jax.Array) -> jax.Array:
        return (jaxpool.max_pool(x, (kernel, kernel), 1, kernel // 2) ** 2).sum()

    padded = np.pad(x, ((0, 0), (0, 0), *[(kernel // 2, kernel // 2)] * 2), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))
    winners = windows.max((-2, -1))
    value, gradient = compiled_as_usual(jax.value_and_grad(objective))(x)
    np.testing.assert_allclose(value, (winners**2).sum(), rtol=1e-12)
    # No two cells are equal, so a cell wins exactly the windows of which it is the largest cell.
    counts = np.bincount(np.searchsorted(np.sort(x, axis=None), winners).ravel(), minlength=x.size)
    order = np.argsort(x, axis=None)
    np.testing.assert_allclose(gradient.ravel()[order], 2 * counts * x.ravel()[order], rtol=1e-12)


def test_stages_are_for_the_processor_alone(kept_by: str) -> None:
    gradient = jax.jit(jax.grad(lambda x: jaxpool.max_pool(x, (3, 3), 1, 1).sum())).trace(
        jax.ShapeDtypeStruct((2, 8, 32, 32), np.float32)
    )
    sign = {"call": "inlineable", "barrier": "optimization_barrier"}[kept_by]
    texts = {platform: gradient.lower(lowering_platforms=(platform,)).as_text() for platform in ("cpu", "cuda", "tpu")}
    assert [platform for platform, text in texts.items() if re.search(sign, text)] == ["cpu"]


@pytest.mark.parametrize("shape", [(), (0, 7), (3, 5), (4, 16)])
def test_elementwise_functions_in_one_row(shape: tuple[int, ...]) -> None:
    x, y = np.random.default_rng(0).normal(size=(2, *shape))

    def both(x: jax.Array, y: jax.Array) -> Any:
        with inside("cpu", 1):
            return in_one_row(lambda x, y: (jnp.sin(x) * y, x + y), x, y)

    product, total = jax.jit(both)(x, y)
    np.testing.assert_allclose(product, np.sin(x) * y, rtol=1e-12)
    np.testing.assert_array_equal(total, x + y)
    reshaped = "reshape" in str(jax.make_jaxpr(both)(x, y))
    assert reshaped == (len(shape) > 0 and 0 not in shape and shape[-1] % 8 != 0)


@pytest.mark.parametrize(("size", "rows"), [(4, 4), (7, 8), (13, 16), (16, 16), (17, 17)])
def test_short_rows_of_selections_fill_vectors(size: int, rows: int) -> None:
    x = distinct((3, 2, size, size), "rows").astype(np.float32)
    sent = np.random.default_rng(0).integers(-9, 9, x.shape).astype(np.float32)

    def largest(x: jax.Array) -> jax.Array:
        return lax.reduce_window(x, -np.inf, lax.max, (1, 1, 3, 3), (1, 1, 1, 1), "SAME")

    def gradient(x: Any, pool: Callable[..., Any] = lambda x: jaxpool.max_pool(x, 3, 1, 1, axis=(2, 3))) -> jax.Array:
        return jax.vjp(pool, x)[1](sent)[0]

    np.testing.assert_array_equal(jax.jit(gradient)(x), jax.jit(lambda x: gradient(x, largest))(x))
    text = jax.jit(gradient).lower(x).as_text()
    assert all(f"3x2x{size}x{rows}x{kind}" in text for kind in ("f32", "ui8", "i1"))
    # Arrays in a mesh stay as they are.
    if size != rows:
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), "d", axis_types=(jax.sharding.AxisType.Explicit,))
        with jax.set_mesh(mesh):
            on_mesh = jax.device_put(x, jax.NamedSharding(mesh, jax.P("d")))
            assert f"3x2x{size}x{rows}x" not in jax.jit(gradient).lower(on_mesh).as_text()


# The pool, its stride and the most memory for its gradient, in arrays of the cells' size.
_DERIVATIVES_IN_SLABS: dict[str, tuple[Callable[..., jax.Array], int, float]] = {
    "variance": (jaxpool.var_pool, 1, 4.5),
    "attention": (lambda x, *sizes, **axis: jaxpool.attention_pool(x, 2 * x, *sizes, **axis), 2, 6),
    "learnt": (
        lambda x, *sizes, **axis: jaxpool.soft_pool(x, 2 + x.mean((1, 2, 3), keepdims=True), *sizes, **axis),
        2,
        2.5,
    ),
}


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="only the CPU's programs take them in slabs")
@pytest.mark.parametrize("name", _DERIVATIVES_IN_SLABS)
def test_derivatives_of_large_arrays_are_in_slabs(name: str) -> None:
    pool, stride, most = _DERIVATIVES_IN_SLABS[name]
    x = np.random.default_rng(0).normal(size=(4, 64, 64, 32)).astype(np.float32)

    def gradient(x: Any) -> jax.Array:
        return jax.grad(lambda x: jnp.tanh(pool(x, (3, 3), stride, axis=(1, 2))).sum())(x)

    program = jax.jit(gradient).lower(x).compile()
    analysis = program.memory_analysis()
    assert analysis is not None
    # All at once they need 5.2, 8.8 and 4.5.
    assert analysis.temp_size_in_bytes <= most * x.nbytes
    images = np.concatenate([jax.jit(gradient)(image[None]) for image in x])
    np.testing.assert_allclose(program(x), images, rtol=1e-5, atol=1e-6)
