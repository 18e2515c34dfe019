"""The size arguments of pooling functions as they are given: ints, or one entry per axis, the axes, and the padding.

The padding is given as amounts, or by words that say how many cells are added to an axis and whether they are copies.
"VALID" adds no cells; "SAME" and "SAME_LOWER" add enough for ⌈n/stride⌉ windows along n cells. With "CAUSAL" a window
ends at its cell, and with "SEMICAUSAL" with the stride that starts there, so that later cells do not matter. "WRAP",
"REFLECT", "SYMMETRIC" and "EDGE" extend the axis by copies of its own cells, as in `np.pad`: by as many as keep its
size at a stride of 1, or by given amounts.
"""

import operator
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal, cast

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxpool._checks import check_no_mask, check_number, check_static

Sizes = int | Sequence[int]
# Axes by their numbers, or a letter for every axis of the array.
Axes = Sizes | str
Extension = Literal["WRAP", "REFLECT", "SYMMETRIC", "EDGE", "wrap", "reflect", "symmetric", "edge"]
PaddingWord = (
    Literal["VALID", "SAME", "SAME_LOWER", "CAUSAL", "SEMICAUSAL"]
    | Literal["valid", "same", "same_lower", "causal", "semicausal"]
    | Extension
)
Padding = int | PaddingWord | Sequence[int | PaddingWord | Sequence[int] | tuple[Extension, int | Sequence[int]]]

OutputSizes = int | Sequence[int | None]
Ratios = float | Sequence[float]

# The words for copies of the array's own cells, and all words.
EXTENSIONS = ("WRAP", "SYMMETRIC", "REFLECT", "EDGE")
PADDING_WORDS = ("VALID", "SAME", "SAME_LOWER", "CAUSAL", "SEMICAUSAL", *EXTENSIONS)
PADDINGS = f"an int, ints per axis, (low, high) pairs per axis, {', '.join(map(repr, PADDING_WORDS[:-1]))} or 'EDGE'"
SEQUENCES = (Sequence, np.ndarray, jax.Array)


def axes_and_sizes(
    function: str,
    shape: Sequence[int],
    name: str,
    given: OutputSizes,
    axis: Axes | None,
    array: str = "x",
    *,
    none_allowed: bool = False,
) -> tuple[tuple[int, ...], tuple[Any, ...]]:
    """The pooled axes of the array of this name, counted from 0, and the sizes `given` for them, in the order given."""
    ndim = len(shape)
    axes = None if axis is None else pooled_axes(function, shape, axis, array)
    if axes is None and is_scalar(given):
        size = integer(function, name, given, least=1)
        last = f"({size}, {size}) for the last two axes" if ndim > 1 else f"({size},) for the last axis"
        named = f"{channels_last(ndim, max(2, ndim - 2))} where channels are last" if ndim > 2 else "axis=-1"
        named = f"axis='NTC' or {named}" if ndim == 3 else named
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
    check_int32(function, f"axis {axis} is pooled and has", size)


def check_int32(function: str, holder: str, cells: int, fix: str = "pool the array in parts") -> None:
    """Raise if there are more cells than int32 can number or count; `holder` says what has them."""
    if cells > 2**31 - 1:
        raise ValueError(f"{function}: {holder} {cells} cells, but int32 indices number {2**31 - 1} at most; {fix}")


def pooled_axes(function: str, shape: Sequence[int], axis: Axes, array: str = "x") -> tuple[int, ...]:
    """The axes that `axis` names, counted from 0, in the order given."""
    if isinstance(axis, str) and (letters := letters_meant(axis, len(shape))):
        raise ValueError(
            f"{function}: axis {axis!r} does not give a letter for each axis of {array}; write axis={letters!r}"
        )
    if isinstance(axis, str) and axis.isalpha() and axis.upper() not in PADDING_WORDS:
        return _lettered_axes(function, shape, axis, array)
    ndim, numbers = len(shape), cast(Sizes, axis)
    axes = sizes(function, "axis", numbers, None, least=None)
    for a in axes:
        if not -ndim <= a < ndim:
            allowed = f"; allowed are {-ndim} to {ndim - 1}" if ndim else ""
            given = f"{function}: axis {a} is out of range for {array} with"
            raise ValueError(f"{given} {_counted(ndim, 'axis')} {tuple(shape)}{allowed}")
    positions = tuple(a % ndim for a in axes)
    if len(set(positions)) < len(positions):
        raise ValueError(f"{function}: axis {axes} names an axis of {array} {tuple(shape)} twice; name each axis once")
    return positions


def channels_last(ndim: int, count: int) -> str:
    """How to name `count` pooled axes where channels are last: by letters, or by numbers where there are too many."""
    if count > 3 or ndim - count not in (1, 2):
        return f"axis={tuple(range(-count - 1, -1))}"
    return f"axis='{'N' * (ndim - count - 1)}{'DHW'[3 - count :]}C'"


def letters_meant(axis: str, ndim: int) -> str:
    """The letters for a layout of Keras or einops, such as "channels_last" or "b h w c"; empty for others."""
    word, words = axis.upper().replace("-", "_").removeprefix("CHANNELS_"), axis.upper().split()
    if word in ("FIRST", "LAST"):
        spatial = "DHW"[5 - ndim :] if 3 <= ndim <= 5 else "HW"
        return f"N{spatial}C" if word == "LAST" else f"NC{spatial}"
    is_spaced = len(words) > 1 and all(map(str.isalpha, words))
    return "".join(word[0] for word in words).replace("B", "N") if is_spaced else ""


def _lettered_axes(function: str, shape: Sequence[int], axis: str, array: str) -> tuple[int, ...]:
    """The axes whose letters are neither N, for the batch, nor C, for the channels, as in "NHWC"."""
    ndim, letters = len(shape), axis.upper()
    given = f"{function}: axis {axis!r}"
    of_array = f"{array} with {_counted(ndim, 'axis')} {tuple(shape)}"
    if len(letters) != ndim:
        named = letters.replace("B", "N") if "N" not in letters else letters
        near = (re.sub("D?HW", "T", named), named.replace("N", ""), named.replace("C", ""), "N" + named)
        fits = [repr(one) for one in near if len(one) == ndim == len(set(one))]
        fix = f"write {' or '.join(fits)}" if fits else "give each axis a letter, N and C to those that are not pooled"
        raise ValueError(f"{given} has {len(letters)} letter{'s' * (len(letters) != 1)} for {of_array}; {fix}")
    twice = [letter for letter in letters if letters.count(letter) > 1]
    if twice:
        raise ValueError(f"{given} has the letter {twice[0]} twice for {of_array}; give each axis a letter of its own")
    if "B" in letters:
        # A last axis of features would be pooled, too.
        named = re.sub("[DEF]$", "C", letters) if "C" not in letters else letters
        fix = f"write {named.replace('B', 'N')!r}" if "N" not in letters else "use another letter"
        why = "B may be a batch" if named == letters else f"B may be a batch and {letters[-1]} channels"
        raise ValueError(f"{given} would pool axis {letters.index('B')}, B, of {of_array}; {fix}, as {why}")
    axes = tuple(number for number, letter in enumerate(letters) if letter not in "NC")
    if not axes:
        raise ValueError(f"{given} leaves no axis of {of_array} to pool, as N and C are not; use others, as in 'NWC'")
    return axes


def sizes(
    function: str, name: str, given: OutputSizes, count: int | None, *, least: int | None, none_allowed: bool = False
) -> tuple[Any, ...]:
    """One int for each of `count` axes, or, if `count` is None, as many as are given; or None, if that is allowed."""
    entries = (given,) * (count or 1) if is_scalar(given) else entries_of(function, name, given, count)
    return tuple(None if one is None and none_allowed else integer(function, name, one, least=least) for one in entries)


def ratios(function: str, name: str, given: Ratios, count: int) -> tuple[float, ...]:
    """One float between 0 and 1 for each of `count` axes."""
    entries: tuple[Any, ...] = (given,) * count if is_scalar(given) else entries_of(function, name, given, count, 0.5)
    words, fix, kind = "between 0 and 1", "write 0.5 for half the cells", "a Python float"
    return tuple(check_number(function, name, one, lambda ratio: 0 < ratio < 1, words, fix, kind) for one in entries)


def entries_of(function: str, name: str, given: Any, count: int | None, example: float = 2) -> tuple[Any, ...]:
    """The entries of a sequence of numbers, of the type of `example`; `count` of them unless it is None."""
    number, one = type(example).__name__, f"{'an' if isinstance(example, int) else 'a'} {type(example).__name__}"
    check_no_mask(function, name, given)
    axes, is_padding = getattr(given, "ndim", 1), name == "padding"
    if isinstance(given, str) or not isinstance(given, SEQUENCES) or axes > (2 if is_padding else 1):
        shown = type(given).__name__ if hasattr(given, "__jax_array__") else repr(given)
        shown = f"an array of shape {given.shape}" if isinstance(given, (jax.Array, np.ndarray)) else shown
        if is_padding:
            raise TypeError(f"{function}: padding must be {PADDINGS}, got {shown}")
        fix = f"write it as in {name}={'(-2, -1)' if name == 'axis' else (example, example)}"
        if isinstance(given, str) and given.upper() in PADDING_WORDS:
            fix = f"write padding={given.upper()!r}"
        elif isinstance(given, str) and given == "whole":
            fix = "write jaxpool.whole"
        elif name == "kernel_size" and getattr(given, "dtype", None) == np.bool_:
            fix = "write kernel_size=jaxpool.footprint(cells) for windows of the cells that are True"
        raise TypeError(f"{function}: {name} must be {one} or a sequence of {number}s, got {shown}; {fix}")
    entries = tuple(given)
    if not entries:
        raise ValueError(f"{function}: {name} () is empty; give one entry per pooled axis")
    if count is not None and len(entries) != count:
        pooled = "axis is" if count == 1 else "axes are"
        fix = f"give one {number} for all axes or {_counted(count, 'entry')}"
        fix += _paddings_like(entries, count) if is_padding else ""
        raise ValueError(
            f"{function}: {name} {entries} has {_counted(len(entries), 'entry')} but {count} {pooled} pooled; {fix}"
        )
    return entries


def _paddings_like(entries: tuple[Any, ...], count: int) -> str:
    """What a padding of the wrong length may mean: a word with its amounts, ints taken in pairs, or else an example."""
    if len(entries) == 2 and isinstance(entries[0], str) and not isinstance(entries[1], str):
        return f"; a word with its amounts is one of them, as in padding={(entries,) * count}"
    pairs = ((1, 1),) * count
    if all(isinstance(one, int) for one in entries) and len(entries) == 2 * count:
        pairs = tuple(zip(entries[::2], entries[1::2], strict=True))
    return f", for (low, high) pairs as in padding={pairs}"


def _counted(number: int, one: Literal["axis", "entry"]) -> str:
    return f"{number} {one if number == 1 else {'axis': 'axes', 'entry': 'entries'}[one]}"


def is_scalar(given: Any) -> bool:
    return isinstance(given, (int, float, np.generic, np.ndarray, jax.Array)) and np.ndim(given) == 0


def integer(function: str, name: str, given: Any, *, least: int | None) -> int:
    check_static(function, name, given, "a Python int")
    value = None
    with suppress(TypeError):
        # Not True, which Python takes for an int.
        value = None if isinstance(given, bool) else operator.index(given)
    if value is None:
        if isinstance(given, jax.Array) and jnp.issubdtype(given.dtype, jax.dtypes.prng_key):
            raise TypeError(f"{function}: {name} must be an int, got a key of jax.random; write key=key")
        whole = f"write {int(given)}, or " if isinstance(given, float) and given.is_integer() else ""
        fix = f"; {whole}divide with //" if isinstance(given, (float, np.floating)) else ""
        raise TypeError(f"{function}: {name} must be an int, got {given!r} of type {type(given).__name__}{fix}")
    if least is not None and value < least:
        raise ValueError(f"{function}: {name} must be at least {least}, got {value}")
    return value


# The names of words elsewhere.
_SYNONYMS = {"CIRCULAR": "WRAP", "REPLICATE": "EDGE", "NEAREST": "EDGE", "MIRROR": "REFLECT"}
# A word, and the cells below and above an axis if they are given.
AxisPadding = tuple[str, tuple[int, int] | None]


def paddings(function: str, padding: Padding, count: int) -> tuple[AxisPadding, ...]:
    """The padding of each of `count` axes."""
    is_one = isinstance(padding, str) or is_scalar(padding)
    entries = (padding,) * count if is_one else entries_of(function, "padding", padding, count)
    return tuple(_of_axis(function, entry) for entry in entries)


def cells_added(padding: AxisPadding, size: int, extent: int, stride: int) -> tuple[int, int, str | None]:
    """The cells added below and above an axis, and the word for copies, for windows of this extent and stride."""
    word, amounts = padding
    same, before = max((-(-size // stride) - 1) * stride + extent - size, 0), max(extent - stride, 0)
    of_words = {
        "VALID": (0, 0),
        "SAME": (same // 2, same - same // 2),
        "SAME_LOWER": (same - same // 2, same // 2),
        "CAUSAL": (extent - 1, 0),
        "SEMICAUSAL": (before, extent - 1 - before),
    }
    low, high = amounts or of_words.get(word, ((extent - 1) // 2, extent // 2))
    # Copies of no cells, as for windows of one cell, make no difference.
    return low, high, word if word in EXTENSIONS and (low or high) else None


def _of_axis(function: str, entry: Any) -> AxisPadding:
    if isinstance(entry, str):
        return _word(function, entry), None
    if not (isinstance(entry, Sequence) and entry and isinstance(entry[0], str)):
        return "VALID", _amounts(function, entry)
    word = _word(function, entry[0])
    start = f"{function}: padding entry {entry!r}"
    if word not in EXTENSIONS:
        raise ValueError(f"{start}: {word!r} itself says how many cells it adds; write {word!r}, or its amounts alone")
    if len(entry) != 2:
        raise ValueError(f"{start} must be a word and its amounts, an int or a pair, as in {(word, (2, 1))}")
    return word, _amounts(function, entry[1])


def _amounts(function: str, given: Any) -> tuple[int, int]:
    pair: Any = (given, given) if is_scalar(given) else given
    if isinstance(pair, str) or not isinstance(pair, SEQUENCES):
        raise TypeError(f"{function}: padding entry {given!r} must be an int or a (low, high) pair")
    pair = tuple(integer(function, "padding", one, least=0) for one in pair)
    if len(pair) != 2:
        raise ValueError(f"{function}: padding entry {pair} must be an int or a (low, high) pair")
    return pair


def _word(function: str, given: str) -> str:
    """The word in upper case, or raise if there is none."""
    word = given.upper()
    if word in PADDING_WORDS:
        return word
    fix = f"write padding={_SYNONYMS[word]!r}" if word in _SYNONYMS else f"use {PADDINGS}"
    raise ValueError(f"{function}: padding {given!r} is unknown; {fix}")
