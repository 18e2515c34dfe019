"""The rows of morphology: dilation and erosion by a flat square as wide as a window, and the chains of the two.

Their results are as large as the picture, and cells beyond its borders are left out.
"""

from collections.abc import Callable

import jax
import numpy as np
from jax import lax

from examples.demonstration import exact, window
from examples.demonstration.exact import Evaluation, Exact, StartsAndCounts
from examples.demonstration.size import Rule, Size
from examples.demonstration.variant import Variant
from jaxpool import morphology


def _clipped(starts: np.ndarray, kernel: int) -> StartsAndCounts:
    first, last = np.maximum(starts, 0), np.minimum(starts + kernel, len(starts))
    return first, last - first


def _below(length: int, size: Size) -> StartsAndCounts:
    """The windows of a dilation, which is mirrored: of an even size, the cell itself is the lower one in the middle."""
    return _clipped(np.arange(length) - (size.kernel - 1) // 2, size.kernel)


def _above(length: int, size: Size) -> StartsAndCounts:
    """The windows of an erosion, in which it is the higher one."""
    return _clipped(np.arange(length) - size.kernel // 2, size.kernel)


def _chain(*parts: Exact) -> Exact:
    """One after the other; none of them leave the picture as it is."""

    def evaluate(picture: np.ndarray, cotangent: np.ndarray, size: Size) -> Evaluation:
        pictures = [picture.astype(np.float64)]
        for part in parts:
            (values,), _ = part(pictures[-1], cotangent, size)
            pictures.append(values)
        for part, given in zip(reversed(parts), reversed(pictures[:-1]), strict=True):
            _, cotangent = part(given, cotangent, size)
        return (pictures[-1],), cotangent.astype(np.float64)

    return evaluate


def _difference(upper: Exact, lower: Exact) -> Exact:
    def evaluate(picture: np.ndarray, cotangent: np.ndarray, size: Size) -> Evaluation:
        ((high,), of_high), ((low,), of_low) = (part(picture, cotangent, size) for part in (upper, lower))
        return (high - low,), of_high - of_low

    return evaluate


_DILATED, _ERODED = exact.windowed(_below, window.largest), exact.windowed(_above, window.smallest)
_OPENED, _CLOSED, _GIVEN = _chain(_ERODED, _DILATED), _chain(_DILATED, _ERODED), _chain()


def _dilation(x: jax.Array, size: Size) -> jax.Array:
    kernel = (size.kernel, size.kernel, 1)
    return lax.reduce_window(x, -np.inf, lax.max, kernel, (1, 1, 1), "SAME")


def _erosion(x: jax.Array, size: Size) -> jax.Array:
    kernel = (size.kernel, size.kernel, 1)
    return lax.reduce_window(x, np.inf, lax.min, kernel, (1, 1, 1), "SAME_LOWER")


def _row(
    function: Callable[..., jax.Array], evaluated: Exact, plain: Callable[[jax.Array, Size], jax.Array]
) -> Variant:
    def operator(x: jax.Array, size: Size, rule: Rule) -> jax.Array:
        return function(x, size.kernel, axis=(0, 1), rule=rule)

    return Variant(f"morphology.{function.__name__}", operator, evaluated, plain, detail="a flat square")


VARIANTS: tuple[Variant, ...] = (
    _row(morphology.dilation, _DILATED, _dilation),
    _row(morphology.erosion, _ERODED, _erosion),
    _row(morphology.opening, _OPENED, lambda x, size: _dilation(_erosion(x, size), size)),
    _row(morphology.closing, _CLOSED, lambda x, size: _erosion(_dilation(x, size), size)),
    _row(
        morphology.white_top_hat,
        _difference(_GIVEN, _OPENED),
        lambda x, size: x - _dilation(_erosion(x, size), size),
    ),
    _row(
        morphology.black_top_hat,
        _difference(_CLOSED, _GIVEN),
        lambda x, size: _erosion(_dilation(x, size), size) - x,
    ),
    _row(
        morphology.gradient,
        _difference(_DILATED, _ERODED),
        lambda x, size: _dilation(x, size) - _erosion(x, size),
    ),
)
