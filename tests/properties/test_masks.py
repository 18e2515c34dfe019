"""Masks: a cell that `where` leaves out is as if it were not there, however the mask is given.

It never wins, adds nothing and is never counted; a window without cells is 0, with index -1, and passes nothing on.
Masked cells hold values that would win or spread if they counted.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_fast
from tests.reference import oracle
from tests.registry.calls import MOMENTS
from tests.registry.cases import PLAIN, Case, distinct
from tests.registry.records import RECORDS, by_function

pytestmark = pytest.mark.usefixtures("for_this_platform")

RULES = ("jvp", "vjp")
INF, NAN = math.inf, math.nan


def values_of(function: str, **arguments: Any) -> Callable[..., jax.Array]:
    return lambda x, **more: jax.tree.leaves(getattr(jaxpool, function)(x, **arguments, **more))[0]


@by_function(PLAIN, quick=("max_pool_with_indices", "lp_pool", "adaptive_max_pool"))
def test_empty_windows(case: Case) -> None:
    numbers = {jnp.bfloat16: NAN, np.int8: 127, np.bool_: True}
    numbers |= {np.complex64: NAN} if RECORDS[case.function].linear else {}
    # The first plane is masked, the second is not; the declared padding of a masked plane does not count as a cell.
    options = {"count_include_pad": False} if case.function == "smooth_max_pool" else {}
    mask = np.array([[[False]], [[True]]])

    def one(x: jax.Array) -> Any:
        outputs = case.call(x, **case.parameters, **options, where=mask)
        values, indices = outputs if isinstance(outputs, tuple) else (outputs, jnp.full(outputs.shape, -1))
        plain = jax.tree.leaves(case.call(x, **case.parameters, **options))[0]
        derivatives = []
        if jnp.issubdtype(x.dtype, jnp.inexact):
            masked = values_of(case.function, **case.parameters, **options, where=mask)
            derivatives = [jax.vjp(partial(masked, rule=rule), x)[1](jnp.ones_like(plain))[0][0] for rule in RULES]
            derivatives.append(jax.jvp(masked, (x,), (jnp.ones_like(x),))[1][0])
        return values, plain, indices[0], derivatives

    planes = [np.stack([np.full((7, 6), one), np.ones((7, 6))]).astype(dtype) for dtype, one in numbers.items()]
    for values, unmasked, indices, derivatives in compiled_fast(lambda inputs: list(map(one, inputs)))(planes):
        assert values.dtype == unmasked.dtype
        assert not values[0].any()
        assert unmasked.all() or case.function in MOMENTS
        np.testing.assert_allclose(values[1].astype(complex), unmasked[1].astype(complex), rtol=1e-3)
        assert (indices == -1).all()
        assert not any(part.any() for part in derivatives)


@by_function(PLAIN, quick=("avg_pool", "adaptive_max_pool"))
def test_traced_masks(case: Case) -> None:
    random = np.random.default_rng(0)
    xs = np.stack([case.x, -case.x, case.x[::-1]])
    masks = random.random(xs.shape) < 0.5
    masks[:, 0, :3, :3] = False
    weights = random.uniform(1, 2, case.expected.values.shape)

    def one(x: jax.Array, mask: jax.Array) -> Any:
        values, pull_back = jax.vjp(values_of(case.function, **case.parameters, where=mask), x)
        return values, pull_back(weights)[0]

    @compiled_fast
    def everything(xs: jax.Array, masks: jax.Array) -> dict[str, Any]:
        return {
            "both batched": jax.vmap(one)(xs, masks),
            "mask batched": jax.vmap(one, (None, 3))(xs[0], jnp.moveaxis(masks, 0, 3)),
            "x batched": jax.vmap(one, (0, None))(xs, masks[0]),
            "scan": jax.lax.scan(lambda _, both: (None, one(*both)), None, (xs, masks))[1],
        }

    for name, (values, gradients) in everything(xs, masks).items():
        for n, (value, gradient) in enumerate(zip(values, gradients, strict=True)):
            x, mask = xs[0 if name == "mask batched" else n], masks[0 if name == "x batched" else n]
            expected = oracle.evaluate(case.function, x, **case.parameters, where=mask)
            np.testing.assert_allclose(value, expected.values, rtol=1e-12, atol=1e-13, err_msg=name)
            np.testing.assert_allclose(gradient, expected.backward(weights), rtol=1e-12, atol=1e-13, err_msg=name)


@by_function(PLAIN, quick=("max_pool_with_indices", "lp_pool", "blur_pool"))
def test_a_mask_may_be_learnt_around(case: Case) -> None:
    # The mask is computed from the cells that are learnt. Those left out are NaN or infinite, and get zeros.
    mask = case.x > -1
    x = np.where(mask, case.x, np.resize([NAN, -INF, -INF], case.shape))

    @compiled_fast
    def learnt(x: jax.Array) -> Any:
        def loss(x: jax.Array, rule: str) -> jax.Array:
            return (values_of(case.function, **case.parameters, where=x > -1, rule=rule)(x) ** 2).sum()

        gradients = [jax.grad(partial(loss, rule=rule)) for rule in RULES]
        return [jax.jvp(gradient, (x,), (jnp.ones_like(x),)) for gradient in gradients]

    expected = oracle.evaluate(case.function, case.x, **case.parameters, where=mask)
    for first, second in learnt(x):
        np.testing.assert_allclose(first, expected.backward(2 * expected.values), rtol=1e-10, atol=1e-10)
        assert np.isfinite(second).all()
        np.testing.assert_array_equal(np.where(mask, 0, second), 0)


@by_function(PLAIN, quick=("max_pool_with_indices", "lp_pool"))
def test_masks_of_fewer_axes(case: Case) -> None:
    # Cells of equal magnitude, so that winners also show which cells a mask keeps. The first mask has an empty window.
    small: list[np.ndarray] = [np.array([[True]] * 3 + [[False]] * 4), np.array([[[True] * 3 + [False] * 3]] * 2)]
    x = np.sign(case.x) * 0.5

    @compiled_fast
    def everything(x: jax.Array, masks: Any) -> Any:
        def one(where: Any) -> Any:
            outputs, pull_back = jax.vjp(values_of(case.function, **case.parameters, where=where), x)
            indices = jax.tree.leaves(case.call(x, **case.parameters, where=where))[1:]
            return outputs, indices, pull_back(jnp.ones_like(outputs))[0]

        return list(map(one, masks)), [one(where) for where in (None, True, np.bool_(False))]

    full = [np.broadcast_to(where, x.shape) for where in (*small, True, False)]
    (*narrow, alone, none), (plain, true, false) = everything(x, [*small, np.array(True), np.array([False])])
    wide, _ = everything(x, full)
    pairs = [*zip(narrow, wide[:2], strict=True), (alone, plain), (true, plain), (none, false), (wide[2], plain)]
    for left, right in (*pairs, (wide[3], false)):
        for first, second in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
            np.testing.assert_allclose(first, second, rtol=1e-13, atol=1e-14)


# Samples of different sizes, the largest first, the last one without cells, padded to the size of the first.
SAMPLES = ((5, 7), (3, 5), (1, 3), (5, 0))
# In these windows those of a sample by itself are the first ones of the batch, and all others are empty: a window that
# starts in a sample may end beyond it, as `ceil_mode` allows.
RAGGED: dict[str, Any] = {"kernel_size": (3, 3), "stride": 2, "padding": ((1, 0), (1, 0)), "ceil_mode": True}


@by_function({name: case for name, case in PLAIN.items() if RECORDS[name].windows in ("fixed", "whole")})
def test_ragged_batches(case: Case) -> None:
    arguments = {**case.parameters, **(RAGGED if RECORDS[case.function].windows == "fixed" else {})}
    if case.function in ("avg_pool", "smooth_max_pool", "gem_pool", "mellowmax_pool", "soft_pool", "mixed_pool"):
        # Padding declared beside the batch is not beside its samples.
        arguments["count_include_pad"] = False
    corners = [tuple(slice(size) for size in sample) for sample in SAMPLES]
    mask = np.zeros((len(SAMPLES), *SAMPLES[0]), bool)
    for n, corner in enumerate(corners):
        mask[n][corner] = True
    cells = distinct(mask.shape, "ragged")
    x = np.where(mask, cells, np.resize([NAN, INF, -INF], mask.shape))
    pool = values_of(case.function, **arguments, where=mask)
    cotangent = 1 + np.random.default_rng(0).random(jax.eval_shape(pool, x).shape)

    @compiled_fast
    def everything(x: jax.Array) -> Any:
        outputs = jax.tree.leaves(case.call(x, **arguments, where=mask))
        return [*outputs, None][:2], [jax.vjp(partial(pool, rule=rule), x)[1](cotangent)[0] for rule in RULES]

    (values, indices), gradients = everything(x)
    for n, (size, corner) in enumerate(zip(SAMPLES, corners, strict=True)):
        # Empty windows, and cells outside the sample, are 0.
        wanted, slopes, winners = np.zeros(values.shape[1:]), np.zeros(SAMPLES[0]), np.full(values.shape[1:], -1)
        if 0 not in size:
            alone = oracle.evaluate(case.function, cells[n][corner], **arguments)
            windows = tuple(slice(count) for count in alone.values.shape)
            wanted[windows] = alone.values
            slopes[corner] = alone.backward(cotangent[n][windows])
            places = np.unravel_index(np.maximum(alone.indices, 0), size)
            winners[windows] = np.where(alone.indices < 0, -1, np.ravel_multi_index(places, SAMPLES[0]))
        np.testing.assert_allclose(values[n], wanted, rtol=1e-12, atol=1e-13, err_msg=f"sample {size}")
        for gradient in gradients:
            np.testing.assert_allclose(gradient[n], slopes, rtol=1e-12, atol=1e-13, err_msg=f"sample {size}")
        if indices is not None:
            np.testing.assert_array_equal(indices[n], winners)
