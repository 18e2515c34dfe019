"""Pools with a learnt β by sums of exponentials of cells: as exact as the exact pools, with respect to β, too."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpool._engine.platforms import only_for
from tests.harness.compilation import compiled_fast
from tests.pools.test_sums_of_cells import EXPONENTIALS, LAYOUTS, WINDOWS, in_every_window


@in_every_window
@pytest.mark.parametrize("name", EXPONENTIALS)
def test_sums_of_cells_with_a_learnt_number_are_the_exact_pool(name: str, window: str, layout: str) -> None:
    shape, axis = LAYOUTS[layout]
    random = np.random.default_rng(0)
    x = random.normal(size=shape)
    # A number for all, and one for every channel, of both signs.
    betas = np.array(1.3), random.uniform(-3, 3, [1 if number in axis else size for number, size in enumerate(shape)])

    def derivatives(x: jax.Array, beta: jax.Array) -> Any:
        pool = partial(EXPONENTIALS[name], axis=axis, **WINDOWS[window])
        gradient = jax.grad(lambda x, beta: jnp.sin(pool(x, beta)).sum(), (0, 1))
        # The second derivatives of all three are those of the exact pools.
        second = jax.jvp(gradient, (x, beta), (x, beta)) if name == "smooth" else gradient(x, beta)
        return jax.jvp(pool, (x, beta), (jnp.cos(x), jnp.cos(beta))), second

    for beta in betas if name == "smooth" else betas[1:]:
        with only_for("gpu"):
            expected = compiled_fast(derivatives)(x, beta)
        for platform in ("cpu", "tpu"):
            with only_for(platform):
                program = compiled_fast(derivatives)
                found, narrow = program(x, beta), program(x.astype(np.float32), beta.astype(np.float32))
            for one, other, exact in zip(*map(jax.tree.leaves, (found, narrow, expected)), strict=True):
                np.testing.assert_allclose(one, exact, rtol=1e-11, atol=1e-12)
                np.testing.assert_allclose(other, exact, rtol=0, atol=5e-5 * max(1, np.abs(exact).max()))


@pytest.mark.parametrize("name", ["mellowmax", "soft"])
@pytest.mark.parametrize("size", [3, 8])
def test_slopes_of_a_learnt_number_far_from_zero_keep_their_digits(name: str, size: int) -> None:
    # Differences of sums would lose the square of 100, and of exponentials that of β.
    x = (100 + np.random.default_rng(1).uniform(-1, 1, (2, 8, 8, 3))).astype(np.float32)
    x[0, 0, 0, 0] = -np.inf if name == "mellowmax" else -1e30
    slopes = compiled_fast(jax.jacfwd(lambda beta, x: EXPONENTIALS[name](x, beta, (size, size), 1, axis=(1, 2))))
    for beta in (1e-5, -1e-3, 0.1):
        x = np.where(np.abs(x) > 1e3, np.copysign(x, -beta), x)
        found, exact = slopes(np.float32(beta), x), slopes(float(np.float32(beta)), x.astype(np.float64))
        np.testing.assert_allclose(found, exact, rtol=2e-5)
        assert np.isfinite(found).all()
