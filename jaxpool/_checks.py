"""Checks of arguments: arrays of any make, masks, rules, flags, indices, keys, and numbers, static or learnt.

What JAX takes for an array is taken, and what would be lost is refused. Every error names the function, the argument,
what was given and what is allowed.
"""

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, Literal

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

Rule = Literal["jvp", "vjp"]

_ORDERED = "bool, integers of 8 to 64 bits, float16, bfloat16, float32, float64"
_ORDERED_DTYPES = (
    {np.dtype(np.bool_), np.dtype(jnp.bfloat16)}
    | {np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}
    | {np.dtype(f"float{bits}") for bits in (16, 32, 64)}
)
_COMPLEX_DTYPES = {np.dtype(np.complex64), np.dtype(np.complex128)}


def as_jax_takes(function: str, name: str, given: Any) -> Any:
    """An array of JAX or NumPy for what JAX takes as one, and anything else as it is; raise if it is masked."""
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
        fix = f"give {name}.data, and to ignore masked cells of x where=~np.ma.getmaskarray(x)"
        raise TypeError(f"{function}: {name} is a masked array, whose mask would be lost; {fix}")


def check_static(function: str, name: str, given: Any, kind: str) -> None:
    """Raise if what is given is traced where it must be `kind`, or masked."""
    check_no_mask(function, name, given)
    if isinstance(given, jax.core.Tracer):
        # For an entry such as levels[0], the argument that contains it.
        argument = name.partition("[")[0]
        fix = f"pass it as a static argument, known while tracing (jax.jit(..., static_argnames={argument!r}))"
        raise TypeError(f"{function}: {name} must be {kind}, got a traced value; {fix}")


def check_array(function: str, x: Any, name: str = "x", *, complex_allowed: bool = False) -> jax.Array:
    """Return x as a JAX array, or raise if it is not an array or its dtype cannot be pooled."""
    x = as_array(function, name, x)
    if x.dtype in _COMPLEX_DTYPES and not complex_allowed:
        parts = f"{name}.real, {name}.imag or abs({name})"
        raise TypeError(f"{function}: {name} is {x.dtype}, and complex numbers are not supported; pool {parts}")
    if x.dtype not in _ORDERED_DTYPES | _COMPLEX_DTYPES:
        allowed = f"{_ORDERED}{', complex64, complex128' if complex_allowed else ''}{_conversion(name, x.dtype)}"
        raise TypeError(f"{function}: {name} has dtype {x.dtype}, which cannot be pooled; allowed are {allowed}")
    return jnp.asarray(x)


def _conversion(name: str, dtype: Any) -> str:
    """How to convert an array of a narrower dtype to an allowed one without loss; empty if there is no way."""
    wider = {jnp.signedinteger: "int8", jnp.unsignedinteger: "uint8", jnp.floating: "bfloat16"}
    fits = [word for kind, word in wider.items() if dtype.itemsize == 1 and jnp.issubdtype(dtype, kind)]
    return f"; convert it with {name}.astype(jnp.{fits[0]})" if fits else ""


def check_mask(function: str, where: Any, shape: tuple[int, ...], pooled: Sequence[int]) -> jax.Array | None:
    """Return a mask as `fit_to_cells` does, or None, or raise if it is not a mask of x."""
    if where is None:
        return None
    mask = np.asarray(where) if isinstance(where, bool) else as_array(function, "where", where)
    if mask.dtype != np.bool_:
        raise TypeError(f"{function}: where must be bool, got dtype {mask.dtype}; compare it first, as in where != 0")
    return fit_to_cells(function, "where", jnp.asarray(mask), shape, pooled, "a bool")


def fit_to_cells(
    function: str, name: str, array: jax.Array, shape: tuple[int, ...], pooled: Sequence[int], each: str
) -> jax.Array:
    """Return an array of the rank of x, of full size along the pooled axes, or raise if it does not broadcast to x.

    The other axes keep their sizes, so that what they share is evaluated once.
    """
    _check_broadcasts(function, name, array.shape, "x", shape, f"{each} for every cell")
    full = (1,) * (len(shape) - array.ndim) + array.shape
    return jnp.broadcast_to(array.reshape(full), [shape[a] if a in pooled else size for a, size in enumerate(full)])


def _check_broadcasts(
    function: str, name: str, shape: tuple[int, ...], target: str, full: tuple[int, ...], each: str
) -> None:
    """Raise if an array of this shape does not broadcast to the target, whose shape is `full`."""
    # Not with NumPy, which does not support symbolic sizes.
    pairs = zip(reversed(shape), reversed(full), strict=False)
    if len(shape) > len(full) or not all(size in (1, whole) for size, whole in pairs):
        do = "do" if name.endswith("s") else "does"
        raise ValueError(
            f"{function}: {name} of shape {shape} {do} not broadcast to {target} {full}; give {each}, or an array "
            f"with 1 along the axes that share a value{_reshaped(name, shape, full)}"
        )


def _reshaped(name: str, shape: tuple[int, ...], full: tuple[int, ...]) -> str:
    """How to reshape an array so that it broadcasts to `full`; empty if its axes cannot be matched uniquely."""
    choices = [axes for axes in combinations(range(len(full)), len(shape)) if tuple(full[a] for a in axes) == shape]
    if len(choices) != 1 or not shape:
        return ""
    aligned = tuple(size if axis in choices[0] else 1 for axis, size in enumerate(full))[choices[0][0] :]
    *first, last = map(str, choices[0])
    axes = f"axes {', '.join(first)} and {last}" if first else f"axis {last}"
    return f", as in {name}.reshape{aligned} for {axes}"


def check_rule(function: str, rule: Any) -> str:
    """Return the rule, or raise if it is unknown."""
    if not isinstance(rule, str) or rule not in ("jvp", "vjp"):
        raise ValueError(f"{function}: rule {rule!r} is unknown; use 'jvp' (every mode and order) or 'vjp' (reverse)")
    return rule


def check_flag(function: str, name: str, value: Any) -> bool:
    """Return a flag as a bool, or raise if it is something else."""
    check_static(function, name, value, "True or False")
    if not isinstance(value, (bool, np.bool_)) and not (isinstance(value, int) and value in (0, 1)):
        raise TypeError(f"{function}: {name} must be True or False, got {value!r}")
    return bool(value)


def check_indices(function: str, indices: Any, shape: tuple[int, ...]) -> jax.Array:
    """Return indices as a JAX array, or raise if they are not integers of the `shape` of the values."""
    indices = as_array(function, "indices", indices)
    if not jnp.issubdtype(indices.dtype, jnp.integer):
        raise TypeError(f"{function}: indices must be integers, got dtype {indices.dtype}; give those of the max pool")
    if indices.shape != shape:
        raise ValueError(
            f"{function}: indices of shape {indices.shape} do not match values of shape {shape}; give one per value"
        )
    if isinstance(indices, np.ndarray) and indices.itemsize > 4:
        # JAX may keep 32 bits, in which others would be indices of cells.
        indices = np.where((indices >= 0) & (indices < 2**31), indices.astype(np.int32), np.int32(-1))
    return jnp.asarray(indices)


def check_key(function: str, key: Any) -> jax.Array:
    """Return a single key of `jax.random`, typed or raw, or raise if it is not one."""
    fix = "make one with jax.random.key(0)"
    key = as_jax_takes(function, "key", key)
    if not isinstance(key, (jax.Array, np.ndarray)):
        raise TypeError(f"{function}: key must be a key of jax.random, got {key!r}; {fix}")
    typed = jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if not (typed or key.dtype == np.uint32):
        raise TypeError(f"{function}: key must be a key of jax.random, got dtype {key.dtype}; {fix}")
    # A raw key belongs to JAX's configured implementation, which determines its shape.
    one = () if typed else jax.eval_shape(lambda: jax.random.key_data(jax.random.key(0))).shape
    if key.ndim > len(one) and key.shape[key.ndim - len(one) :] == one:
        entry = ", ".join("0" * (key.ndim - len(one)))
        raise ValueError(
            f"{function}: key must be a single key, got an array of shape {key.shape}; give one, as key[{entry}], or "
            f"use jax.vmap over keys and arrays"
        )
    if key.shape != one:
        raise ValueError(
            f"{function}: key must be a key of jax.random, got uint32 numbers of shape {key.shape} in place of {one}; "
            f"{fix}, or say whose numbers they are, as in jax.random.wrap_key_data(key, impl='rbg')"
        )
    return jnp.asarray(key)


def check_parameter(
    function: str,
    name: str,
    value: Any,
    output_shape: tuple[int, ...],
    allowed: Callable[[Any], Any],
    words: str,
    fix: str,
) -> tuple[jax.Array | None, float | None]:
    """Return an array, traced or not, that broadcasts to the output, or a Python number as a float; the other is None.

    Raise if it is neither, or if a value known while tracing is not `allowed`, which `words` describe.
    """
    value = as_jax_takes(function, name, value)
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        return None, check_number(function, name, value, allowed, words, fix, "a number or an array")
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (np.generic, np.ndarray, jax.Array)):
        given = type(value).__name__
        converts = isinstance(value, (list, tuple)) or (hasattr(value, "__array__") and not isinstance(value, np.bool_))
        given = f"{given}; convert it with jnp.asarray({name})" if converts else f"{value!r} of type {given}"
        raise TypeError(f"{function}: {name} must be a number or an array, got {given}")
    if not (jnp.issubdtype(value.dtype, jnp.floating) or jnp.issubdtype(value.dtype, jnp.integer)):
        raise TypeError(f"{function}: {name} must be real, got dtype {value.dtype}")
    _check_broadcasts(function, name, value.shape, "the output", output_shape, "a number")
    if not isinstance(value, jax.core.Tracer) and getattr(value, "is_fully_addressable", True):
        known = np.asarray(value)
        wrong = known[~(allowed(known) & np.isfinite(known))]
        if wrong.size:
            raise ValueError(f"{function}: {name} must be {words}, and finite in an array, got {wrong[0]}; {fix}")
    # Beyond the range of the dtype that JAX gives it; families take the nearest number that they can use.
    with np.errstate(over="ignore"):
        return jnp.asarray(value), None


def check_number(
    function: str, name: str, given: Any, allowed: Callable[[Any], Any], words: str, fix: str, kind: str
) -> float:
    """Return a Python number as a float, or raise if it is something else or not `allowed`, which `words` describe."""
    check_static(function, name, given, kind)
    if isinstance(given, (bool, np.bool_)) or not isinstance(given, (int, float, np.integer, np.floating)):
        raise TypeError(f"{function}: {name} must be {kind}, got {given!r}; {fix}")
    try:
        number = float(given)
    except OverflowError:
        raise ValueError(f"{function}: {name} must be finite, got an int of {int(given).bit_length()} bits") from None
    if not allowed(number):
        raise ValueError(f"{function}: {name} must be {words}, got {given}; {fix}")
    return number


def check_not_negative(function: str, name: str, given: Any, fix: str, kind: str) -> float:
    """Return a finite Python number as a float, or raise if it is negative or something else."""
    words = "finite and not negative"
    return check_number(function, name, given, lambda number: 0 <= number < math.inf, words, fix, kind)


def check_divisor(function: str, divisor: Any) -> float | None:
    """Return the divisor as a float, or None, or raise if it is 0, not finite or not a number."""
    name = "divisor_override"
    check_no_mask(function, name, divisor)
    if isinstance(divisor, (jax.Array, np.ndarray)):
        given = "a traced value" if isinstance(divisor, jax.core.Tracer) else "an array"
        fix = "divide the result of sum_pool by it instead"
        raise TypeError(f"{function}: {name} must be a Python number, got {given}; {fix}")
    if divisor is None:
        return None
    words, fix, kind = "finite and not 0", "use None for the number of cells", "a Python number or None"
    return check_number(function, name, divisor, lambda number: 0 < abs(number) < math.inf, words, fix, kind)
