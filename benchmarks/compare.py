"""All results are compared with one reference before anything is timed, on random numbers without ties.

The reference is plain JAX in float32 or wider: in 16 bits its sums round at every addition on a CPU. Variances are in
float64, as plain JAX subtracts squares. It has no derivative of dilated maxima; there the windows are written out as
slices, which it can differentiate.
"""

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import pools
from benchmarks.cases import Case
from benchmarks.programs import FUNCTIONS

MOMENTS = ("var", "std")
# Relative to the largest magnitude of the result.
_TOLERANCES = {"bfloat16": 4e-2, "float16": 5e-3, "float32": 1e-4, "float64": 1e-9}


class Mismatch(Exception):
    """A result differs from the reference."""


def draw(case: Case, dtype: np.dtype, output_shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    """The input, a cotangent and a tangent."""
    random = np.random.default_rng(0)
    if dtype.itemsize == 2 and case.group in ("adaptive max", "global max"):
        # Here plain JAX splits a gradient among ties, and normal random numbers in 16 bits often tie.
        x = _without_ties(case, dtype, random)
    else:
        x = random.normal(size=case.shape)
    # PyTorch's Lp pools do not take magnitudes: they expect the output of a rectifier.
    x = np.abs(x) if case.group in ("lp", "stochastic") else x
    arrays = {"x": x, "cotangent": random.normal(size=output_shape), "tangent": random.normal(size=case.shape)}
    return {name: array.astype(dtype) for name, array in arrays.items()}


def expected(case: Case, what: str, arguments: tuple[jax.Array, ...], plain: Any) -> Any:
    """The reference for `what`: `plain`, the result of plain JAX, if it exists and can be trusted."""
    if case.group in MOMENTS:
        with jax.enable_x64(True):
            wide = [np.asarray(array).astype(np.float64) for array in arguments]
            return jax.jit(FUNCTIONS[what](pools.JAX_LIBRARIES["plain"](case)))(*wide)
    if plain is not None and arguments[0].dtype.itemsize > 2:
        return plain
    wide = [array.astype(np.float32) if array.dtype.itemsize == 2 else array for array in arguments]
    try:
        return jax.jit(FUNCTIONS[what](pools.JAX_LIBRARIES["plain"](case)))(*wide)
    except NotImplementedError:
        return jax.jit(FUNCTIONS[what](_written_out(case)))(*wide)


def check(case: Case, library: str, what: str, dtype: np.dtype, found: Any, reference: Any) -> None:
    """Raise `Mismatch` unless all arrays agree."""
    tolerance = _TOLERANCES[dtype.name]
    if what == "tangent":
        # On some devices plain JAX packs a double and its tangent into too few bits.
        tolerance = max(tolerance, _TOLERANCES["float32"])
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(reference), strict=True):
        # In float64 with NumPy, since a float32 difference would round as coarsely as what is compared.
        one, other = np.asarray(one).astype(np.float64), np.asarray(other).astype(np.float64)
        check_shape(case, library, one.shape, other.shape)
        # Minima of relu(x) may all be 0.
        difference = np.max(np.abs(one - other)) / (np.max(np.abs(other)) or 1)
        if not difference <= tolerance:
            raise Mismatch(
                f"{case.group} {case.name}: {what} of {library} is off by {difference:.1e} of its largest magnitude"
            )


def check_shape(case: Case, library: str, found: tuple[int, ...], reference: tuple[int, ...]) -> None:
    """Raise `Mismatch` unless the shapes agree."""
    if found != reference:
        raise Mismatch(f"{case.group} {case.name}: {library} gives shape {found}, not {reference}")


def _written_out(case: Case) -> Callable[[jax.Array], jax.Array]:
    """Select maxima or minima among slices, one for every cell of a window; the first of equal cells wins."""
    identity, choose = (np.inf, jnp.argmin) if case.group == "min" else (-np.inf, jnp.argmax)

    def pool(x: jax.Array) -> jax.Array:
        padding = [(case.padding,) * 2 if axis in case.axes else (0, 0) for axis in range(x.ndim)]
        padded = jnp.pad(x, padding, constant_values=identity)
        length = (case.size + 2 * case.padding - case.dilation * (case.kernel - 1) - 1) // case.stride + 1
        cells = []
        for offsets in itertools.product(range(0, case.dilation * case.kernel, case.dilation), repeat=case.rank):
            index = [slice(None)] * x.ndim
            for axis, offset in zip(case.axes, offsets, strict=True):
                index[axis] = slice(offset, offset + (length - 1) * case.stride + 1, case.stride)
            cells.append(padded[tuple(index)])
        stacked = jnp.stack(cells)
        return jnp.take_along_axis(stacked, choose(stacked, 0, keepdims=True), 0)[0]

    return pool


def _without_ties(case: Case, dtype: np.dtype, random: np.random.Generator) -> np.ndarray:
    """Numbers below 4 that are distinct within every picture and channel."""
    cells = case.size**case.rank
    largest = int(np.array(4, dtype).view(np.uint16))
    magnitudes = np.arange(largest - (cells + 1) // 2, largest, dtype=np.uint16).view(dtype).astype(np.float32)
    numbers = np.concatenate([magnitudes, -magnitudes])[:cells]
    planes = random.permuted(np.tile(numbers, (case.batch * case.channels, 1)), axis=1)
    planes = planes.reshape(case.batch, case.channels, *(case.size,) * case.rank)
    return np.moveaxis(planes, 1, -1) if case.channels_last else planes
