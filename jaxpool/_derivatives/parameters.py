"""The parameter of a pool: a number, known while tracing, or an array that may be learnt."""

import jax

from jaxpool._geometry.window import Window

Parameter = float | jax.Array


def expand_rank(parameter: jax.Array, rank: int) -> jax.Array:
    """Add leading axes of size 1 to the parameter, up to this rank."""
    return parameter.reshape((1,) * (rank - parameter.ndim) + parameter.shape)


def shared_along_windows(parameter: jax.Array, window: Window) -> bool:
    """Whether the parameter, of full rank, is one number along the pooled axes."""
    return all(parameter.shape[axis.axis] == 1 for axis in window.axes)


def either(parameter: jax.Array | None, number: float | None) -> Parameter:
    """The array, or the number if there is none."""
    if parameter is not None:
        return parameter
    assert number is not None
    return number
