"""Arrays of any make as they are given: what JAX takes for an array is taken, and what would be lost is refused."""

from typing import Any

import jax
import numpy as np


def as_jax_takes(function: str, name: str, given: Any) -> Any:
    """An array of JAX or NumPy for what JAX takes as one; anything else, numbers included, as it is.

    Raise if it is a masked array, whose mask NumPy and JAX would drop.
    """
    check_no_mask(function, name, given)
    if not isinstance(given, (jax.Array, np.ndarray)) and hasattr(given, "__jax_array__"):
        given = given.__jax_array__()
    if isinstance(given, np.ndarray) and not given.dtype.isnative:
        # JAX knows one order of bytes.
        return given.astype(given.dtype.newbyteorder("="))
    return given


def as_array(function: str, name: str, given: Any) -> jax.Array | np.ndarray:
    """An array of JAX or NumPy, or raise if what is given is not one."""
    array = as_jax_takes(function, name, given)
    if isinstance(array, np.generic):
        return np.asarray(array)
    if not isinstance(array, (jax.Array, np.ndarray)):
        fix = f"convert it with jnp.asarray({name})"
        if isinstance(given, tuple) and given and all(isinstance(one, (jax.Array, np.ndarray)) for one in given):
            fix = f"of (values, indices) give the values, {name}[0]"
        raise TypeError(f"{function}: {name} must be a JAX or NumPy array, got {type(given).__name__}; {fix}")
    return array


def check_no_mask(function: str, name: str, given: Any) -> None:
    """Raise if what is given is a masked array of NumPy."""
    if isinstance(given, np.ma.MaskedArray):
        raise TypeError(
            f"{function}: {name} is a masked array, whose mask would be lost; give {name}.data, and which cells of x "
            f"to leave out by where=~np.ma.getmaskarray(x)"
        )
