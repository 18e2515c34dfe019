"""Norms and smooth maxima as functions of the learnt numbers p and β, compared with closed forms to many digits.

The closed forms are evaluated window by window in decimals of 60 digits, so that only the library's rounding is
measured. Cells are spread so that several in every window matter, whatever its p or β, and no error is hidden by a
saturated window.
"""

import itertools
import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool._arguments import Rule
from tests.harness.compilation import compiled_as_usual, compiled_fast
from tests.harness.parts import case_row
from tests.registry.cases import distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

RULES: tuple[Rule, ...] = ("jvp", "vjp")
EXPONENTS = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 7.25, 16.0, 64.0])
SHARPNESSES = np.array([1e-3, -1e-3, 0.1, -1.0, 2.0, -30.0, 1e3, -1e3])

# Value, gradient and Hessian of one window as a function of its cells, then its p or β.
Derivatives = tuple[float, np.ndarray, np.ndarray]


def norm(x: np.ndarray, p: Decimal) -> Derivatives:
    """With u = |x|/y, q = u^p, l = log u and L = Σ q·l: ∂log y/∂p = L/p, ∂l/∂p = -L/p, ∂q/∂p = q·(l - L)."""
    logs = np.array([abs(cell).ln() for cell in x])
    log_y = logs.max() + np.exp(p * (logs - logs.max())).sum().ln() / p
    y, logs = log_y.exp(), logs - log_y
    q = np.exp(p * logs)
    mean, slopes = q @ logs, q * y / x
    second = y / p * (q @ (logs - mean) ** 2 + (mean * mean - 2 * mean) / p)
    corner = (p - 1) / y * (np.diag(q * (y / x) ** 2) - np.multiply.outer(slopes, slopes))
    return joined(y, slopes, y / p * mean, corner, slopes * (logs - (p - 1) * mean / p), second)


def smooth(x: np.ndarray, beta: Decimal) -> Derivatives:
    """With the softmax w of β·x and M = Σ w·x: ∂y/∂β = (M - y)/β and ∂w/∂β = w·(x - M)."""
    largest = (beta * x).max()
    w = np.exp(beta * x - largest)
    y, w = (largest + w.sum().ln()) / beta, w / w.sum()
    mean = w @ x
    second = (w @ (x - mean) ** 2 - 2 * (mean - y) / beta) / beta
    corner = beta * (np.diag(w) - np.multiply.outer(w, w))
    return joined(y, w, (mean - y) / beta, corner, w * (x - mean), second)


def joined(y: Decimal, slopes: np.ndarray, slope: Decimal, corner: Any, mixed: Any, second: Decimal) -> Derivatives:
    hessian = np.block([[corner, mixed[:, None]], [mixed[None], np.array([[second]])]])
    return float(y), np.array([*slopes, slope], float), hessian.astype(float)


POOLS: dict[str, Any] = {"p": (jaxpool.lp_pool, norm), "beta": (jaxpool.smooth_max_pool, smooth)}


def reference(
    name: str, x: np.ndarray, number: np.ndarray, mask: np.ndarray, kernel: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, Jacobian and Hessians of windows of stride 1 over the last two axes, over all cells and numbers."""
    shape = (*x.shape[:-2], *(n - k + 1 for n, k in zip(x.shape[-2:], kernel, strict=True)))
    positions = np.arange(x.size).reshape(x.shape)
    columns = np.broadcast_to(x.size + np.arange(number.size).reshape(number.shape), shape)
    size = x.size + number.size
    values, jacobian, hessian = np.zeros(shape), np.zeros((*shape, size)), np.zeros((*shape, size, size))
    for o in np.ndindex(shape):
        here = (*o[:-2], *(slice(at, at + k) for at, k in zip(o[-2:], kernel, strict=True)))
        held = positions[here][mask[here]]
        if held.size:
            at = [*held, columns[o]]
            with localcontext(prec=60):
                cells = np.array([Decimal(float(cell)) for cell in x.reshape(-1)[held]])
                one = Decimal(float(number.reshape(-1)[columns[o] - x.size]))
                values[o], jacobian[(*o, at)], hessian[(*o, *np.ix_(at, at))] = POOLS[name][1](cells, one)
    return values, jacobian, hessian


def spread_cells(name: str, shape: tuple[int, ...], number: np.ndarray) -> np.ndarray:
    """Cells whose terms in a window are within a few orders of magnitude of each other, of both signs for norms."""
    cells = distinct(shape, name) * np.minimum(1, 2 / np.abs(number))
    return 0.75 + cells if name == "beta" else np.exp(cells) * np.random.default_rng(0).choice([-1.0, 1.0], shape)


def roads(pool: Callable[..., jax.Array], every: bool) -> Callable[[jax.Array], dict[str, Any]]:
    """First and second derivatives by every mix of modes that the two rules allow, or by the main ones."""

    def everything(point: jax.Array) -> dict[str, Any]:
        found: dict[str, Any] = {"value": pool(point, rule="jvp")}
        for rule, first in (("jvp", jax.jacrev), ("jvp", jax.jacfwd), ("vjp", jax.jacrev)):
            slopes = first(partial(pool, rule=rule))
            found[f"{first.__name__}, {rule}"] = slopes(point)
            for second in (jax.jacfwd, jax.jacrev):
                if every or (first, second) == (jax.jacrev, jax.jacfwd):
                    found[f"{second.__name__} of {first.__name__}, {rule}"] = second(slopes)(point)
        return found

    return compiled_fast(everything)


def compare(found: np.ndarray, expected: np.ndarray, cells: int, what: str) -> None:
    """Compare each block of derivatives, for cells and numbers, of each window to 1e-9 of its largest entry."""
    parts = (slice(0, cells), slice(cells, None))
    for block in itertools.product(parts, repeat=expected.ndim):
        atol = 1e-9 * (np.abs(expected[block]).max() or 1e-6)
        np.testing.assert_allclose(found[block], expected[block], rtol=0, atol=atol, err_msg=what)


# Shapes of the numbers against the outputs (channels, 2, 2); a number shared by all takes its values in turn.
LAYOUTS: dict[str, tuple[int, ...]] = {"masked channels": (8, 1, 1), "shared": (), "along rows": (4, 2, 1)}
SHARED = (("p", "along rows"), ("beta", "shared"))


# Masked channels have every mix of modes; for one of the pools there are also numbers along an axis.
@pytest.mark.parametrize(
    ("name", "layout"),
    [
        case_row(name, layout, id=f"{name}-{layout}", kept=layout == "masked channels" or (name, layout) in SHARED)
        for name in POOLS
        for layout in LAYOUTS
    ],
)
def test_closed_forms(name: str, layout: str) -> None:
    numbers, shape = EXPONENTS if name == "p" else SHARPNESSES, LAYOUTS[layout]
    mask = np.ones((shape[0] if shape else 1, 3, 3), bool)
    if layout == "masked channels":
        # One window of four is left empty, and one short of a cell in every other channel.
        mask[:, :2, 1:] = mask[::2, 2, 0] = False

    def pool(point: jax.Array, rule: Rule) -> jax.Array:
        x, number = point[: mask.size].reshape(mask.shape), point[mask.size :].reshape(shape)
        return POOLS[name][0](x, number, (2, 2), 1, where=None if mask.all() else mask, rule=rule)

    everything = roads(pool, layout == "masked channels")
    for number in [numbers.reshape(shape)] if shape else numbers:
        sharpest = np.abs(number).max(-2, keepdims=True) if shape else number
        x = np.where(mask, spread_cells(name, mask.shape, sharpest), math.nan)
        expected = reference(name, x, number, mask, (2, 2))
        for what, found in everything(jnp.asarray(np.concatenate([x.reshape(-1), number.reshape(-1)]))).items():
            for o in np.ndindex(*found.shape[:3]):
                compare(np.asarray(found[o]), expected[found.ndim - 3][o], mask.size, f"{what}, window {o}")


@pytest.mark.parametrize("scales", [(1e-30,), (1e30,), (1.0, 1e30), (1e-30, 1e30)])
def test_norms_of_tiny_and_huge_cells(scales: tuple[float, ...]) -> None:
    p = np.array([1.0, 1.5, 3.0, 16.0]).reshape(4, 1, 1)
    x = (distinct((4, 1, 6), "scale") * np.resize(scales, 6)).astype(np.float32)
    values, jacobian, _ = reference("p", x, p, np.ones(x.shape, bool), (1, 3))

    def pool(x: jax.Array, p: jax.Array, rule: Rule = "jvp") -> jax.Array:
        return jaxpool.lp_pool(x, p, (1, 3), 1, rule=rule)

    ways = [jax.jacfwd(pool, (0, 1)), *(jax.jacrev(partial(pool, rule=rule), (0, 1)) for rule in RULES)]
    everything = compiled_as_usual(lambda *at: (pool(*at), [way(*at) for way in ways]))
    found, slopes = jax.tree.map(np.asarray, everything(x, p.astype(np.float32)))
    np.testing.assert_allclose(found, values, rtol=1e-6)
    for by_cell, by_exponent in slopes:
        np.testing.assert_allclose(by_cell.reshape(4, 1, 4, -1), jacobian[..., : x.size], rtol=1e-4, atol=1e-6)
        # In units of the norm: a window with one unmasked cell has only the rounding of the norm.
        found, expected = by_exponent.reshape(4, 1, 4, -1), jacobian[..., x.size :]
        np.testing.assert_allclose(found / values[..., None], expected / values[..., None], rtol=1e-5, atol=1e-6)


def test_exponents_that_differ_along_an_axis_have_no_derivative_at_zeros() -> None:
    def pool(joint: jax.Array) -> jax.Array:
        return jaxpool.lp_pool(joint[:5], joint[5:], (2,), 1)

    third = compiled_fast(jax.jacfwd(jax.jacfwd(jax.jacrev(pool))))
    found = third(jnp.array([0, 0, 0, 0, -2, 0.5, 2.0, 3.0, 16.0], jnp.float32))
    np.testing.assert_array_equal(found[:3], 0)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_infinite_norms_are_maxima_of_magnitudes(rule: Rule, zeros: bool) -> None:
    x = np.random.default_rng(0).integers(-2, 3, (5, 7)).astype(np.float64)
    x[:2, :3] = 0
    x = np.where(x == 0, 0 if zeros else 1, x)
    cotangent = np.random.default_rng(1).normal(size=(4, 5))
    first = np.zeros_like(x)
    for o in np.ndindex(4, 5):
        window = x[o[0] : o[0] + 2, o[1] : o[1] + 3]
        row, column = np.unravel_index(np.abs(window).argmax(), (2, 3))
        first[o[0] + row, o[1] + column] += np.sign(window[row, column]) * cotangent[o]
    values, pull_back = jax.vjp(lambda x: jaxpool.lp_pool(x, math.inf, (2, 3), 1, rule=rule), x)
    np.testing.assert_array_equal(values, jaxpool.max_pool(abs(x), (2, 3), 1))
    np.testing.assert_allclose(pull_back(cotangent)[0], first, rtol=1e-14)


SHARP = [(1e6, 1.0), (-1e6, 1.0), (1e3, 1e3), (-1.0, 1e6)]
# Weights are accurate to |β·y| units in the last place of y. If cells are far apart, one of them has all the weight.
FAR, NEAR = False, True
ACCURACY = [(np.float32, FAR, 1e-5), (np.float32, NEAR, 0.12), (np.float64, FAR, 2e-9), (np.float64, NEAR, 2e-9)]


@pytest.mark.parametrize(("dtype", "close", "rtol"), ACCURACY)
@pytest.mark.parametrize("rule", RULES)
def test_sharp_maxima(dtype: type, close: bool, rtol: float, rule: Rule) -> None:
    beta, scale = (np.array(one).reshape(4, 1, 1) for one in zip(*SHARP, strict=True))
    # Ties, cells one or two units of 1/β apart, and a cell that does not count; or cells far apart.
    cells = np.array([0.0, 0.0, 1.0, 3.0, -0.5 * 1e6]) / beta if close else np.array([0.3, -0.1, 0.2, -0.4, 0]) * scale
    x = (cells.reshape(4, 1, 5) + scale).astype(dtype)
    values, jacobian, _ = reference("beta", x, beta, np.ones(x.shape, bool), (1, 3))

    def pool(x: jax.Array, beta: jax.Array) -> jax.Array:
        return jaxpool.smooth_max_pool(x, beta, (1, 3), 1, rule=rule)

    everything = compiled_as_usual(lambda *at: (pool(*at), *jax.jacrev(pool, (0, 1))(*at)))
    found, by_cell, by_beta = map(np.asarray, everything(x, beta.astype(dtype)))
    np.testing.assert_allclose(found, values, rtol=min(rtol, 1e-6))
    np.testing.assert_allclose(by_cell.reshape(4, 1, 3, -1), jacobian[..., : x.size], rtol=0, atol=rtol)
    relative = [np.reshape(one, (4, 1, 3, -1)) * beta[..., None] ** 2 for one in (by_beta, jacobian[..., x.size :])]
    np.testing.assert_allclose(*relative, rtol=0, atol=rtol if close else 1e6 * np.finfo(dtype).eps)
    if not close:
        limits = jnp.where(beta > 0, jaxpool.max_pool(x, (1, 3), 1), jaxpool.min_pool(x, (1, 3), 1))
        np.testing.assert_allclose(found, limits, rtol=rtol)


@pytest.mark.parametrize("rule", RULES)
def test_smooth_maxima_of_one_cell(rule: Rule) -> None:
    x, beta = distinct((8, 3), "ones"), SHARPNESSES.reshape(8, 1)
    values, pull_back = jax.vjp(partial(jaxpool.smooth_max_pool, kernel_size=(1,), rule=rule), x, beta)
    for found, expected in zip((values, *pull_back(x)), (x, x, 0 * beta), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_third_derivatives_of_norms_of_exponent_one() -> None:
    def plain(v: jax.Array) -> jax.Array:
        return (abs(v[:-1]) ** v[-1]).sum() ** (1 / v[-1])

    third = (jax.jacfwd(jax.jacfwd(jax.jacrev(f))) for f in (lambda v: jaxpool.lp_pool(v[:-1], v[-1:], (4,))[0], plain))
    found, expected = (compiled_fast(one)(np.array([1.3, -0.7, 2.1, 0.4, 1.0])) for one in third)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
