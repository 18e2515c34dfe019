"""How a wrong call is made and judged: the functions, traced values, and the form of every message.

A message starts with the function's name, names the argument, repeats what was given and says what is allowed or
what to do instead, in one line; the exception is a plain TypeError or ValueError, raised while tracing. The tables of
wrong calls are in the test files that use this one.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

import jaxpool
from tests.registry.records import RECORDS

# What each function of fixed windows needs besides x and kernel_size, and every other function besides x.
REQUIRED = {name: record.options for name, record in RECORDS.items() if record.windows == "fixed"}
_SMALLEST: dict[str, dict[str, Any]] = {
    "blurred": {"kernel_size": (2, 2)},
    "bins": {"output_size": (2, 2)},
    "whole": {"axis": (-2, -1)},
    "levels": {"levels": ((1, 1), (2, 2))},
}
# What follows the shape of the pooled array in that of the result: the largest cells of a window.
LAST_AXES = {name: (options["k"],) for name, options in REQUIRED.items() if "k" in options}
OTHERS = {
    name: {**_SMALLEST[record.windows], **record.options}
    for name, record in RECORDS.items()
    if record.windows in _SMALLEST
}
IMAGE = np.zeros((2, 8, 8), np.float32)
# The arguments of pools whose windows are given by other arrays.
_PLACES: dict[str, dict[str, Any]] = {
    "random": {"kernel_size": (2, 2), "output_size": (2, 2), "samples": IMAGE[:, :2, 0]},
    "boxes": {"boxes": IMAGE[0, :3, :4], "output_size": (2, 2)},
}
PLACED = {name: _PLACES[record.windows] for name, record in RECORDS.items() if record.windows in _PLACES}
# The arguments of unpooling, which has no x.
UNPOOL: dict[str, Any] = {"values": IMAGE, "indices": np.zeros(IMAGE.shape, np.int32), "output_size": (16, 16)}
COMPLEX = {"x": np.zeros((8, 8), np.complex64)}


@dataclass(frozen=True)
class Traced:
    """A value that is an argument of `jax.jit` in the call, and so has no number yet."""

    value: Any


def working(function: str) -> dict[str, Any]:
    """Arguments that work, every one that the function needs."""
    if function == "max_unpool":
        return UNPOOL
    if function in OTHERS | PLACED:
        return {"x": IMAGE, **(OTHERS | PLACED)[function]}
    return {"x": IMAGE, "kernel_size": (2, 2), **REQUIRED[function]}


def call(function: str, arguments: dict[str, Any]) -> Any:
    """Call the function with working arguments, overridden by `arguments`."""
    arguments = {**working(function), **arguments}
    leaves, structure = jax.tree.flatten(arguments)
    values = {place: leaf.value for place, leaf in enumerate(leaves) if isinstance(leaf, Traced)}
    if not values:
        return getattr(jaxpool, function)(**arguments)

    def traced(values: dict[int, Any]) -> Any:
        given = [values.get(place, leaf) for place, leaf in enumerate(leaves)]
        return getattr(jaxpool, function)(**jax.tree.unflatten(structure, given))

    return jax.eval_shape(traced, values)


Row = tuple[type[Exception], str, dict[str, Any]]  # the exception, the message after "function: ", the arguments


def wrong_type(message: str, **arguments: Any) -> Row:
    """A call that raises a TypeError, with the message after the function's name."""
    return TypeError, message, arguments


def wrong_value(message: str, **arguments: Any) -> Row:
    """A call that raises a ValueError, with the message after the function's name."""
    return ValueError, message, arguments


def zeros(*shape: int) -> np.ndarray:
    """A float32 array."""
    return np.zeros(shape, np.float32)


def check_wrong_calls(function: str, rows: Iterable[Row]) -> None:
    """Check that each call raises the exception with the message, for an array and for a tracer."""
    name = "values" if function == "max_unpool" else "x"
    complaints = []
    for exception, message, arguments in rows:
        array = arguments.get(name, IMAGE)
        traceable = isinstance(array, np.ndarray) and array.dtype in (np.float32, np.complex64)
        for traced in {False, traceable}:
            try:
                found = repr(call(function, {**arguments, name: Traced(array)} if traced else arguments))
            except Exception as error:
                # JAX's own errors are subclasses.
                is_right = type(error) is exception and re.search(f"^{function}: {message}", str(error))
                if is_right and "\n" not in str(error):
                    continue
                found = repr(error)
            complaints.append(f"{arguments}, {traced=}\n  {exception.__name__}: {message}\n  {found}")
    assert not complaints, "\n".join([f"{function}: calls, what they must raise, what they do", *complaints])


def check_wrong_call(function: str, exception: type[Exception], message: str, arguments: dict[str, Any]) -> None:
    """Check a single wrong call."""
    check_wrong_calls(function, [(exception, message, arguments)])


def check_right_calls(function: str, calls: Iterable[tuple[dict[str, Any], tuple[int, ...]]]) -> None:
    """Check that calls that look like mistakes are traced, and the shapes of their results."""
    name = "values" if function == "max_unpool" else "x"
    for arguments, shape in calls:
        array = arguments.get(name, IMAGE)
        outputs = call(function, {**arguments, name: array if isinstance(array, Traced) else Traced(array)})
        found = {output.shape for output in jax.tree.leaves(outputs)}
        assert found == {(*shape, *LAST_AXES.get(function, ()))}, arguments
