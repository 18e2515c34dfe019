"""The size arguments of pooling functions as they are given: ints, one entry per axis, or words for padding.

Every error is a TypeError or ValueError, raised while the program is traced, that names the function, the argument,
what was given and what is allowed. Of the words, "VALID" adds no cells; "SAME" and "SAME_LOWER" add enough for
⌈n/stride⌉ windows along n cells; "WRAP", "REFLECT" and "EDGE" surround the axis by copies of its own cells, as in
`np.pad`.
"""

import operator
from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

Sizes = int | Sequence[int]
Padding = int | Sequence[int | Sequence[int]] | Literal["VALID", "SAME", "SAME_LOWER", "WRAP", "REFLECT", "EDGE"]

OutputSizes = int | Sequence[int | None]
Ratios = float | Sequence[float]

# The words for copies of the array's own cells, and all words.
EXTENSIONS = ("WRAP", "REFLECT", "EDGE")
PADDING_WORDS = ("VALID", "SAME", "SAME_LOWER", *EXTENSIONS)
_SEQUENCES = (Sequence, np.ndarray, jax.Array)
_PADDINGS = (
    "an int, ints per axis, (low, high) pairs per axis, 'VALID', 'SAME', 'SAME_LOWER', 'WRAP', 'REFLECT' or 'EDGE'"
)
# Their names elsewhere.
_SYNONYMS = {"CIRCULAR": "WRAP", "REPLICATE": "EDGE"}


def axes_and_sizes(
    function: str,
    shape: Sequence[int],
    name: str,
    given: OutputSizes,
    axis: Sizes | None,
    array: str = "x",
    *,
    none_allowed: bool = False,
) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """The pooled axes, counted from 0, and the sizes `given` for them under `name`, in the order given.

    `array` is the caller's name for the array of this shape. With `none_allowed` a size may be None.
    """
    ndim = len(shape)
    axes = None if axis is None else pooled_axes(function, shape, axis, array)
    if axes is None and _is_scalar(given):
        size = _integer(function, name, given, least=1)
        last = f"({size}, {size}) for the last two axes" if ndim > 1 else f"({size},) for the last axis"
        named = "axis=(-3, -2) where channels are last" if ndim > 2 else "axis=-1"
        raise ValueError(
            f"{function}: {name} {size} does not say how many axes to pool; write {name}={last}, "
            f"or name the axes, as in {named}"
        )
    entries = sizes(function, name, given, None if axes is None else len(axes), least=1, none_allowed=none_allowed)
    if len(entries) > ndim:
        raise ValueError(
            f"{function}: {name} {entries} has {_counted(len(entries), 'entry')} but {array} has "
            f"{_counted(ndim, 'axis')} {tuple(shape)}; give one entry for each axis to pool"
        )
    axes = axes or tuple(range(ndim - len(entries), ndim))
    for a in axes:
        check_pooled_axis(function, a, shape[a])
    return axes, entries


def check_pooled_axis(function: str, axis: int, size: Any) -> None:
    """Raise if an axis has no cells, or an unknown number of them."""
    if not isinstance(size, int):
        raise TypeError(f"{function}: axis {axis} has the symbolic size {size}; a pooled axis needs a known size")
    if size == 0:
        raise ValueError(f"{function}: axis {axis} is pooled but has no cells; pool arrays with at least one cell")


def pooled_axes(function: str, shape: Sequence[int], axis: Sizes, array: str = "x") -> tuple[int, ...]:
    """The axes that `axis` names, counted from 0, in the order given."""
    ndim = len(shape)
    axes = sizes(function, "axis", axis, None, least=None)
    for a in axes:
        if not -ndim <= a < ndim:
            allowed = f"; allowed are {-ndim} to {ndim - 1}" if ndim else ""
            raise ValueError(
                f"{function}: axis {a} is out of range for {array} with {_counted(ndim, 'axis')} {tuple(shape)}"
                f"{allowed}"
            )
    positions = tuple(a % ndim for a in axes)
    if len(set(positions)) < len(positions):
        raise ValueError(f"{function}: axis {axes} names an axis of {array} {tuple(shape)} twice; name each axis once")
    return positions


def paddings(function: str, padding: Padding, count: int) -> tuple[tuple[int, int] | str, ...]:
    """A (low, high) pair for each of `count` axes, or the padding word given instead."""
    if isinstance(padding, str):
        if padding not in PADDING_WORDS:
            word = _SYNONYMS.get(padding.upper(), padding.upper())
            fix = f"write padding={word!r}" if word in PADDING_WORDS else f"use {_PADDINGS}"
            raise ValueError(f"{function}: padding {padding!r} is unknown; {fix}")
        return (padding,) * count
    entries = (padding,) * count if _is_scalar(padding) else _entries(function, "padding", padding, count)
    pairs = []
    for entry in entries:
        pair: Any = (entry, entry) if _is_scalar(entry) else entry
        if isinstance(pair, str) or not isinstance(pair, _SEQUENCES):
            word = "; a word such as 'SAME' is given by itself, for all axes" if isinstance(pair, str) else ""
            raise TypeError(f"{function}: padding entry {entry!r} must be an int or a (low, high) pair{word}")
        pair = tuple(_integer(function, "padding", one, least=0) for one in pair)
        if len(pair) != 2:
            raise ValueError(f"{function}: padding entry {pair} must be an int or a (low, high) pair")
        pairs.append(pair)
    return tuple(pairs)


def cells_added(word: str, size: int, extent: int, stride: int) -> tuple[int, int]:
    """The cells that a word adds below and above an axis of `size` cells, for windows of this extent and stride."""
    if word == "VALID":
        return 0, 0
    if word in EXTENSIONS:
        return (extent - 1) // 2, extent // 2
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    half = total // 2
    return (half, total - half) if word == "SAME" else (total - half, half)


def copied_cells(positions: Any, size: int, word: str) -> Any:
    """The cells of an axis of this size that its extension holds at these positions, counted from the first cell.

    Outside, cells continue from the other end, are mirrored repeatedly without repeating the outermost one, or repeat
    the outermost one. Positions are a NumPy or JAX array.
    """
    if word == "WRAP":
        return positions % size
    if word == "EDGE":
        return positions.clip(0, size - 1)
    last = size - 1
    return last - abs(last - positions % max(1, 2 * last))


def sizes(
    function: str, name: str, given: OutputSizes, count: int | None, *, least: int | None, none_allowed: bool = False
) -> tuple[Any, ...]:
    """One int for each of `count` axes, or, if `count` is None, as many as are given; or None, if that is allowed."""
    entries = (given,) * (count or 1) if _is_scalar(given) else _entries(function, name, given, count)
    return tuple(
        None if one is None and none_allowed else _integer(function, name, one, least=least) for one in entries
    )


def ratios(function: str, name: str, given: Ratios, count: int) -> tuple[float, ...]:
    """One float between 0 and 1 for each of `count` axes."""
    entries: tuple[Any, ...] = (given,) * count if _is_scalar(given) else _entries(function, name, given, count, 0.5)
    for one in entries:
        if isinstance(one, jax.core.Tracer):
            raise TypeError(f"{function}: {name} must be a Python float, got a traced value; sizes are static")
        if isinstance(one, (bool, np.bool_)) or not isinstance(one, (int, float, np.integer, np.floating)):
            raise TypeError(f"{function}: {name} must be a float, got {one!r} of type {type(one).__name__}")
        if not 0 < one < 1:
            raise ValueError(f"{function}: {name} must be between 0 and 1, got {one}; write 0.5 for half the cells")
    return tuple(float(one) for one in entries)


def _entries(function: str, name: str, given: Any, count: int | None, example: float = 2) -> tuple[Any, ...]:
    """The entries of a sequence of numbers, of the type of `example`; `count` of them unless it is None."""
    number, one = type(example).__name__, f"{'an' if isinstance(example, int) else 'a'} {type(example).__name__}"
    axes = given.ndim if isinstance(given, (np.ndarray, jax.Array)) else 1
    if isinstance(given, str) or not isinstance(given, _SEQUENCES) or axes > (2 if name == "padding" else 1):
        if name == "padding":
            raise TypeError(f"{function}: padding must be {_PADDINGS}, got {_shown(given)}")
        fix = f"write it as in {name}={'(-2, -1)' if name == 'axis' else (example, example)}"
        if isinstance(given, str) and given.upper() in PADDING_WORDS:
            fix = f"write padding={given.upper()!r}"
        raise TypeError(f"{function}: {name} must be {one} or a sequence of {number}s, got {_shown(given)}; {fix}")
    entries = tuple(given)
    if not entries:
        raise ValueError(f"{function}: {name} () is empty; give one entry per pooled axis")
    if count is not None and len(entries) != count:
        pooled = "axis is" if count == 1 else "axes are"
        fix = f"give one {number} for all axes or {_counted(count, 'entry')}"
        if name == "padding":
            fix += f", for (low, high) pairs as in padding={_pairs(entries, count)}"
        raise ValueError(
            f"{function}: {name} {entries} has {_counted(len(entries), 'entry')} but {count} {pooled} pooled; {fix}"
        )
    return entries


def _pairs(entries: tuple[Any, ...], count: int) -> tuple[tuple[int, int], ...]:
    """What a padding of the wrong length may mean: its ints taken in pairs, or else an example."""
    if all(isinstance(one, int) for one in entries) and len(entries) == 2 * count:
        return tuple(zip(entries[::2], entries[1::2], strict=True))
    return ((1, 1),) * count


def _counted(number: int, one: Literal["axis", "entry"]) -> str:
    return f"{number} {one if number == 1 else {'axis': 'axes', 'entry': 'entries'}[one]}"


def _shown(given: Any) -> str:
    return f"an array of shape {given.shape}" if isinstance(given, (jax.Array, np.ndarray)) else repr(given)


def _is_scalar(given: Any) -> bool:
    return isinstance(given, (int, float, np.generic, np.ndarray, jax.Array)) and np.ndim(given) == 0


def _integer(function: str, name: str, given: Any, *, least: int | None) -> int:
    if isinstance(given, jax.core.Tracer):
        # For an entry such as levels[0], the argument that contains it.
        argument = name.partition("[")[0]
        raise TypeError(
            f"{function}: {name} must be a Python int, got a traced value; sizes must be known while tracing, so pass "
            f"them as static arguments (jax.jit(..., static_argnames={argument!r}))"
        )
    if isinstance(given, (bool, np.bool_)) or not hasattr(given, "__index__"):
        if isinstance(given, jax.Array) and jnp.issubdtype(given.dtype, jax.dtypes.prng_key):
            raise TypeError(f"{function}: {name} must be an int, got a key of jax.random; write key=key")
        whole = f"write {int(given)}, or " if isinstance(given, float) and given.is_integer() else ""
        fix = f"; {whole}divide with //" if isinstance(given, (float, np.floating)) else ""
        raise TypeError(f"{function}: {name} must be an int, got {given!r} of type {type(given).__name__}{fix}")
    try:
        value = operator.index(given)
    except TypeError:
        raise TypeError(f"{function}: {name} must be an int, got {given!r}") from None
    if least is not None and value < least:
        raise ValueError(f"{function}: {name} must be at least {least}, got {value}")
    return value


def check_flag(function: str, name: str, value: Any) -> bool:
    """Return a flag as a bool, or raise if it is something else."""
    if isinstance(value, jax.core.Tracer):
        raise TypeError(
            f"{function}: {name} must be True or False, got a traced value; pass it as a static argument "
            f"(jax.jit(..., static_argnames={name!r}))"
        )
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{function}: {name} must be True or False, got {value!r}")
    return bool(value)
