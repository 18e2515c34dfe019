"""What the pictures of the functions show: a signal and a patch of a photograph, pooled, and where the gradient goes.

Each function is called as a reader would call it, with few numbers, and its gradient is that of the sum of all results.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from catalogue import function_called
from matplotlib import cbook, image

import jaxpool

LENGTH, SIDE = 15, 30
_SIGNAL = (0.35, 0.7, 0.2, 0.55, 0.9, 0.4, 0.15, 0.3, 0.1, 0.6, 0.8, 1.0, 0.5, 0.25, 0.45)
# The pictures are the same on every device, and one that is busy is left alone.
jax.config.update("jax_platforms", "cpu")
# Programs that run once, over a few cells: compiling is what takes the time.
_COMPILER = {"xla_backend_optimization_level": 0}

_AXES: dict[int, int | tuple[int, ...]] = {1: -1, 2: (-2, -1)}

Span = tuple[float, float]


class Call(NamedTuple):
    """How a function is called: numbers, sizes, arrays by the number of axes; and the cells that each result is of."""

    spans: Sequence[Span]
    numbers: Sequence[float] = ()
    sizes: Mapping[str, Any] = {}
    arrays: Mapping[str, Callable[[int], jax.Array]] = {}

    def sizes_along(self, axes: int) -> Mapping[str, Any]:
        """Of a patch, whose sides are twice as long as the signal, twice as many results."""
        sizes = {key: value(axes) if callable(value) else value for key, value in self.sizes.items()}
        return {key: value * axes if key == "output_size" else value for key, value in sizes.items()}

    def text(self, name: str, axes: int) -> str:
        """The call in Python."""
        sizes = [f"{key}={_written(value)}" for key, value in self.sizes_along(axes).items()]
        name = _POOLS.get(name, name)
        values = next(iter(inspect.signature(function_called(name)).parameters))
        arguments = [values, *map(str, self.numbers), *(f"{key}={key}" for key in self.arrays), *sizes]
        return f"{name}({', '.join(arguments)}, axis={_AXES[axes]})" + ("[..., 1]" if _has_ranks(name) else "")


def _written(size: Any) -> str:
    """A size in Python; what is in the place of one by its full name."""
    shape = {(3,): "[True, False, True]", (5, 5): "disk"}
    if isinstance(size, int | tuple):
        return repr(size)
    return f"jaxpool.footprint({shape[size.shape]})" if hasattr(size, "shape") else f"jaxpool.{size!r}"


class Evaluation(NamedTuple):
    """What goes in, what comes out, and the gradient with respect to what goes in."""

    given: np.ndarray
    result: np.ndarray
    gradient: np.ndarray
    indices: np.ndarray | None


def _tiles(width: float, count: int, start: float = 0) -> list[Span]:
    return [(start + width * one, start + width * (one + 1)) for one in range(count)]


def _bins(count: int) -> list[Span]:
    return [(one * LENGTH // count, -(-(one + 1) * LENGTH // count)) for one in range(count)]


def _around(count: int, low: int, high: int) -> list[Span]:
    """Every second cell with its neighbours."""
    return [(max(0, 2 * one - low), min(LENGTH, 2 * one + 1 + high)) for one in range(count)]


def _fractional() -> list[Span]:
    # Of 15 cells 6 windows of 3, which start 2.4 cells apart on average; what is rounded down starts at 1/2.
    starts = [int((one + 0.5) * 2.4) - int(0.5 * 2.4) for one in range(5)]
    return [(start, start + 3) for start in (*starts, LENGTH - 3)]


def _box(low: float, high: float) -> Callable[[int], jax.Array]:
    """The same part of every axis, between two places of the signal; a patch has two cells for one of a signal."""
    return lambda axes: jnp.array([[low * axes] * axes + [high * axes] * axes], jnp.float32)


def _growing(axes: int) -> jax.Array:
    """Numbers of all cells that repeat along the last axis."""
    return jnp.arange(LENGTH * axes, dtype=jnp.float32) % 3


_WINDOWS, _THREE, _FOUR = _tiles(3, 5), {"kernel_size": 3}, {"output_size": 4}
# What is in the place of a kernel_size is shown by a pool; the footprints are the ends of three cells, and a disk.
_POOLS = {"bins": "max_pool", "whole": "std_pool", "footprint": "max_pool"}
_ENDS = jaxpool.footprint([True, False, True])
_DISK = jaxpool.footprint(np.hypot(*np.mgrid[-2:3, -2:3]) <= 2)
_SAMPLES = {"samples": lambda axes: jnp.full(axes, 0.5)}
_FRACTIONAL = Call(_fractional(), (), {"kernel_size": 3, "output_size": 6}, _SAMPLES)

_CALLS: dict[str, Call] = {
    "max_unpool": Call(_tiles(1, LENGTH), (), {"output_size": LENGTH}, {"indices": lambda axes: _winners(axes)[1]}),
    "lp_pool": Call(_WINDOWS, (2.0,), _THREE),
    "soft_pool": Call(_WINDOWS, (5.0,), _THREE),
    "weighted_pool": Call(_WINDOWS, (), _THREE, {"weights": lambda axes: _growing(axes)}),
    "attention_pool": Call(_WINDOWS, (), _THREE, {"logits": lambda axes: _growing(axes)}),
    "stochastic_pool": Call(_WINDOWS, (), _THREE, {"key": lambda axes: jax.random.key(8)}),
    "blur_pool": Call(_around(8, 1, 1), (), _THREE),
    "max_blur_pool": Call(_around(7, 1, 2), (), {"kernel_size": 2}),
    "bins": Call(_bins(4), (), {"kernel_size": lambda axes: jaxpool.bins(*[4 * axes] * axes)}),
    "whole": Call([(0, LENGTH)], (), {"kernel_size": jaxpool.whole}),
    "footprint": Call(_WINDOWS, (), {"kernel_size": lambda axes: _DISK if axes == 2 else _ENDS}),
    "spatial_pyramid_pool": Call([*_bins(1), *_bins(2), *_bins(4)], (), {"levels": (1, 2, 4)}),
    "fractional_max_pool": _FRACTIONAL,
    "fractional_max_pool_with_indices": _FRACTIONAL,
    "roi_align": Call(_tiles(3, 3, 3.5), (), {"output_size": 3}, {"boxes": _box(3.5, 12.5)}),
    "roi_pool": Call(_tiles(3, 3, 3), (), {"output_size": 3}, {"boxes": _box(3, 11)}),
}
_NUMBERS = {"norm_type": 3.0, "beta": 10.0, "alpha": 0.5, "q": 0.75, "k": 2}


def call_of(name: str) -> Call:
    """The call of a function in its picture: if it has none of its own, 3 cells, 4 bins or all cells."""
    parameters = inspect.signature(function_called(_POOLS.get(name, name))).parameters
    numbers = [number for parameter, number in _NUMBERS.items() if parameter in parameters]
    if "element" in parameters:
        usual = Call(_tiles(1, LENGTH), (), {"element": 3})
    elif "kernel_size" in parameters:
        usual = Call(_WINDOWS, numbers, _THREE)
    else:
        usual = Call(_bins(4), numbers, _FOUR) if "output_size" in parameters else Call([(0, LENGTH)], numbers)
    return _CALLS.get(name, usual)


def _has_ranks(name: str) -> bool:
    """Whether the results have an entry for each of several cells of a window."""
    return "k" in inspect.signature(function_called(_POOLS.get(name, name))).parameters


@cache
def _photograph() -> jax.Array:
    """The face of Grace Hopper, from the photograph that comes with matplotlib, as means of square blocks."""
    grey = image.imread(str(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False))).mean(-1) / 255
    top, left, block = 20, 105, 10
    face = grey[top : top + block * SIDE, left : left + block * SIDE]
    return jnp.asarray(face.reshape(SIDE, block, SIDE, block).mean((1, 3)), jnp.float32)


def _signal_or_patch(axes: int) -> jax.Array:
    return jnp.array(_SIGNAL) if axes == 1 else _photograph()


def _winners(axes: int) -> tuple[jax.Array, jax.Array]:
    return jaxpool.max_pool_with_indices(_signal_or_patch(axes), 3, axis=_AXES[axes])


def evaluate(name: str, axes: int) -> Evaluation:
    """Call a function on the signal (one axis) or on the patch (two axes)."""
    call, function = call_of(name), function_called(_POOLS.get(name, name))
    given = _winners(axes)[0] if name == "max_unpool" else _signal_or_patch(axes)
    options = {
        **{key: make(axes) for key, make in call.arrays.items()},
        **call.sizes_along(axes),
        "axis": _AXES[axes],
    }

    def results(x: jax.Array) -> tuple[jax.Array, jax.Array | None]:
        outputs = function(x, *call.numbers, **options)
        # Of the largest cells the picture shows the second: the first are those of maxima.
        outputs = jax.tree.map(lambda each: each[..., 1], outputs) if _has_ranks(name) else outputs
        return outputs if isinstance(outputs, tuple) else (outputs, None)

    def results_and_gradient(x: jax.Array) -> tuple[Any, jax.Array]:
        return results(x), jax.grad(lambda x: results(x)[0].sum())(x)

    (result, indices), gradient = jax.jit(results_and_gradient, compiler_options=_COMPILER)(given)
    positions = None if indices is None else np.asarray(indices)
    return Evaluation(np.asarray(given), np.asarray(result), np.asarray(gradient), positions)
