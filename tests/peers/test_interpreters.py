"""Pools inside `jaxpool.portable()` in other interpreters of programs: Taylor mode, forward Laplacians and ONNX.

Expected values are those of the same pools without `portable`, by JAX's own modes of differentiation.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.jet import jet

import jaxpool
from tests.harness.compilation import settings_of_users
from tests.registry.cases import distinct
from tests.registry.records import RECORDS, one_of_each_kind, slow_but

X: Any = distinct((2, 7, 6), "portable")[:1]
DIRECTION = distinct((2, 7, 6), "direction")[:1]
# Pools that draw cells need keys, which few interpreters know. Without a key, means are drawn from nothing.
NAMES = [name for name, record in RECORDS.items() if not record.draws or name == "stochastic_pool"]


# By default a pool that selects, and one with a nonlinear rule.
each_function = pytest.mark.parametrize("name", slow_but(("max_pool", "lp_pool"), NAMES))


def loss(name: str) -> Callable[[jax.Array], jax.Array]:
    return lambda x: (RECORDS[name].values(x) ** 2).sum()


def test_programs_have_nothing_of_ours() -> None:
    for name in NAMES:
        with jaxpool.portable():
            program = str(jax.make_jaxpr(jax.vmap(RECORDS[name].values))(X[None]))
        for word in ("custom_jvp", "custom_vjp", "platform_call", "barrier"):
            assert word not in program, (name, word)


@each_function
def test_values_and_gradients(name: str) -> None:
    """The context is part of the key of caches: the same function is traced inside and outside."""
    function = jax.jit(jax.value_and_grad(loss(name)))
    expected = function(X)
    with jaxpool.portable():
        found = function(X)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_infinite_cells_and_logits() -> None:
    x, logits = np.array([np.inf, 1.0, 2.0]), np.array([-np.inf, 0.5, 0.5])
    with jaxpool.portable():
        np.testing.assert_array_equal(jaxpool.median_pool(x, (2,), stride=1, padding=1), [np.inf, np.inf, 1.5, 2.0])
        np.testing.assert_array_equal(jaxpool.median_pool(x, (3,), where=x != 1.0), [np.inf])
        np.testing.assert_allclose(jaxpool.attention_pool(X[0, 0, :3], logits, (3,)), [X[0, 0, 1:3].mean()])


# With a number, or with weights or logits.
LEARNT: dict[str, Any] = {
    **dict.fromkeys(("lp_pool", "gem_pool", "smooth_max_pool", "mellowmax_pool", "soft_pool"), jnp.float32(1.5)),
    **dict.fromkeys(("weighted_pool", "attention_pool"), np.arange(42.0).reshape(1, 7, 6) % 5 / 4),
}


@pytest.mark.parametrize("size", [(3, 3), pytest.param(jaxpool.whole, marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("name", slow_but(("lp_pool", "weighted_pool"), LEARNT))
def test_derivatives_beside_masked_cells(name: str, size: Any) -> None:
    """JAX differentiates what takes the place of a masked cell, too."""
    mask = distinct(X.shape, "mask") > 0

    def loss(x: jax.Array, learnt: jax.Array) -> jax.Array:
        return (getattr(jaxpool, name)(x, learnt, size, axis=(-2, -1), where=mask) ** 2).sum()

    both = jax.jit(jax.value_and_grad(loss, (0, 1)))
    expected = both(X, LEARNT[name])
    with jaxpool.portable():
        found = both(X, LEARNT[name])
    for one, other in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", [row for row in one_of_each_kind(NAMES) if not row.marks])
def test_checks_of_every_operation(name: str) -> None:
    """JAX's checks for NaN and divisions by 0 are operations of the traced program, and not of lowerings."""
    flags = ("jax_error_checking_behavior_nan", "jax_error_checking_behavior_divide")
    try:
        for flag in flags:
            jax.config.update(flag, "raise")
        with jaxpool.portable():
            jax.jit(jax.grad(loss(name))).lower(X)
    finally:
        for flag in flags:
            jax.config.update(flag, "ignore")


@each_function
def test_taylor_mode(name: str) -> None:
    def slope(x: jax.Array) -> jax.Array:
        return jax.jvp(RECORDS[name].values, (x,), (DIRECTION,))[1]

    with jaxpool.portable():
        value, series = jax.jit(lambda x: jet(RECORDS[name].values, (x,), ([DIRECTION, jnp.zeros_like(x)],)))(X)
    expected, slopes = RECORDS[name].values(X), jax.jvp(slope, (X,), (DIRECTION,))
    for one, other in zip((value, *series), (expected, *slopes), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


@each_function
def test_forward_laplacian(name: str) -> None:
    folx = pytest.importorskip("folx")

    def flat(x: jax.Array) -> jax.Array:
        return loss(name)(x.reshape(X.shape))

    # The library broadcasts over ranks.
    with jax.numpy_rank_promotion("allow"), jaxpool.portable():
        found = jax.jit(folx.forward_laplacian(loss(name)))(X)
    np.testing.assert_allclose(found.x, loss(name)(X), rtol=1e-9)
    np.testing.assert_allclose(found.laplacian, jnp.trace(jax.jit(jax.hessian(flat))(X.ravel())), rtol=1e-6, atol=1e-6)


# Cells beyond the array, which the pool reads as its nearest cells, are errors there; so are keys made of the bits of
# floats.
NOT_IN_ONNX = {
    "roi_pool": "ONNX Runtime clips no indices",
    **dict.fromkeys(("top_k_pool", "top_k_pool_with_indices"), "ONNX Runtime has no bit casts"),
}


@pytest.mark.filterwarnings("default")
@each_function
def test_onnx(name: str, request: pytest.FixtureRequest) -> None:
    if name in NOT_IN_ONNX:
        request.applymarker(pytest.mark.xfail(strict=True, reason=NOT_IN_ONNX[name]))
    jax2onnx, onnxruntime = pytest.importorskip("jax2onnx"), pytest.importorskip("onnxruntime")
    if jax.__version_info__ >= (0, 12):
        pytest.skip("jax2onnx 0.17 converts no jitted function of this JAX")
    x = X.astype(np.float32)
    with settings_of_users():
        expected = RECORDS[name].values(x)
        with jaxpool.portable():
            model = jax2onnx.to_onnx(RECORDS[name].values, [jax.ShapeDtypeStruct(x.shape, x.dtype)])
    # The converter leaves traces with its own primitives in the caches.
    jax.clear_caches()
    session = onnxruntime.InferenceSession(model.SerializeToString())
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
