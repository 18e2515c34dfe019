"""Smooth maxima, mellowmax and soft means under a mask, by sums of the exponentials of present cells."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool._arguments import Rule
from jaxpool._smooth import LogExponentials
from tests.harness.compilation import compiled_as_usual, compiled_fast
from tests.pools.test_sums_of_cells import EXPONENTIALS, LAYOUTS, WINDOWS, check_sums, in_every_window


@in_every_window
@pytest.mark.parametrize("name", EXPONENTIALS)
def test_sums_of_present_cells_are_the_exact_pool(name: str, window: str, layout: str) -> None:
    shape, axis = LAYOUTS[layout]
    random = np.random.default_rng(1)
    x, cotangent = random.normal(size=(2, *shape))
    # Of items, or of all of a batch; with windows of one cell and of none.
    mask = random.random((1, *shape[1:]) if window == "by axis" and 0 not in axis else shape) < 0.3
    x = np.where(mask, x, np.nan)

    def derivatives(x: jax.Array, mask: jax.Array) -> Any:
        def pool(x: jax.Array, rule: Rule = "jvp") -> jax.Array:
            return EXPONENTIALS[name](x, beta=-1.7, axis=axis, where=mask, rule=rule, **WINDOWS[window])

        values, pull_back = jax.vjp(partial(pool, rule="vjp"), x)
        filled = jnp.where(mask, x, 0)
        return values, pull_back(jnp.sin(values)), jax.jvp(jax.grad(lambda x: pool(x).sum()), (filled,), (cotangent,))

    check_sums(derivatives, x, mask)


@pytest.mark.parametrize("name", EXPONENTIALS)
def test_single_cells_keep_their_digits(name: str) -> None:
    x = np.random.default_rng(2).normal(size=(2, 64)).astype(np.float32) * np.float32(1e-3)
    mask = np.arange(64) % 4 == np.arange(64) // 4 % 4
    values = compiled_as_usual(lambda x: EXPONENTIALS[name](x, beta=1.5, kernel_size=(4,), where=mask))(x)
    np.testing.assert_allclose(values, x[:, mask], rtol=3e-7)
    # More than 9 cells, which are sums on a CPU.
    mask = np.arange(64) % 16 == 5
    values = compiled_as_usual(lambda x: EXPONENTIALS[name](x, beta=1.5, kernel_size=(16,), where=mask))(x)
    np.testing.assert_allclose(values, x[:, mask], rtol=3e-7)


def test_windows_without_cells_leave_the_others_to_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_values(pool: Any, x: jax.Array, *_: Any) -> jax.Array:
        return jnp.full(pool.window.output_shape(x.shape), jnp.nan, x.dtype)

    monkeypatch.setattr(LogExponentials, "pool_present", no_values)
    x, mask = np.ones((2, 64), np.float32), np.arange(64) % 16 < 2 * (np.arange(64) // 16)
    with jaxpool.compiling_for("cpu"):
        values = compiled_fast(lambda x: jaxpool.smooth_max_pool(x, 1.0, (16,), where=mask))(x)
    np.testing.assert_allclose(values, [[0, *(1 + np.log([2, 4, 6]))]] * 2, rtol=1e-6)
