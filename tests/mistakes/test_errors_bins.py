"""Wrong arguments of adaptive and global pools, and similar ones that are correct.

Each row has the exception, the message after the function's name, and the wrong arguments. Arguments shared with
functions of fixed windows (arrays, masks and rules) are tested in `test_errors_values.py`.
"""

import re
from typing import Any

import jax
import jax.export
import numpy as np
import pytest

from tests.mistakes.errors import (
    COMPLEX,
    IMAGE,
    LAST_AXES,
    OTHERS,
    REQUIRED,
    Row,
    Traced,
    call,
    check_wrong_call,
    zeros,
)

STATIC = r"{0} must be a Python int, got a traced value; .*static_argnames='{0}'"
ADAPTIVE = [function for function in OTHERS if function.startswith("adaptive")]
GLOBAL = [function for function in OTHERS if function.startswith("global")]


def output(output_size: Any, **others: Any) -> dict[str, Any]:
    """Arguments that begin with an output_size."""
    return {"output_size": output_size, **others}


def shaped(*sizes: Any, dtype: Any = np.float32) -> Traced:
    """A traced array that takes no memory; some of its sizes may be symbolic."""
    return Traced(jax.ShapeDtypeStruct(sizes, dtype))


def _shape_of_working(function: str) -> tuple[int, ...]:
    """The output shape for working arguments."""
    if function in GLOBAL:
        return (2, 1, 1)
    return (2, 5) if function == "spatial_pyramid_pool" else (2, 2, 2) if function in ADAPTIVE else (2, 4, 4)


# Mistakes in output_size, for adaptive pools and for unpooling; {array} is the function's name for its array.
SIZES: list[Row] = [
    (
        ValueError,
        r"output_size 3 does not say .*write output_size=\(3, 3\) .*axis=\(-3, -2\) where channels",
        output(3),
    ),
    (ValueError, r"output_size 3 does not say .*write output_size=\(3, 3\)", output(np.array(3))),
    *(
        (ValueError, rf"output_size must be at least 1, got {given}$", arguments)
        for given in (0, -7)
        for arguments in (output(given), output((given, 2)), output(np.array([2, given])), output(given, axis=1))
    ),
    *(
        (TypeError, r"output_size must be an int, got .*2\.0", output(given))
        for given in (2.0, (2, 2.0), np.array([2.0, 2.0]), np.float32(2))
    ),
    *((TypeError, r"output_size must be an int, got .*True", output(given)) for given in (True, (2, True))),
    *(
        (TypeError, rf"output_size must be an int, got {re.escape(repr(given))} of type", output((2, given)))
        for given in ("2", (2, 2), object)
    ),
    *(
        (TypeError, rf"output_size must be an int or a sequence of ints, got {re.escape(repr(given))}", output(given))
        for given in ("2", None, {2, 3}, object)
    ),
    (TypeError, r"output_size must be an int or a sequence of ints, got None", output(None, axis=1)),
    (ValueError, r"output_size \(\) is empty; give one entry per pooled axis", output(())),
    (
        ValueError,
        r"output_size \(2, 3, 4, 5\) has 4 entries but {array} has 3 axes \(2, 8, 8\); give one entry for each axis",
        output((2, 3, 4, 5)),
    ),
    (ValueError, r"output_size \(2, 3\) has 2 entries but 1 axis is .*; give one int", output((2, 3), axis=-1)),
    (
        ValueError,
        r"output_size \(2,\) has 1 entry but 2 axes are pooled; give one int",
        output((2,), axis=(1, 2)),
    ),
    *(
        (TypeError, STATIC.format("output_size"), output(given))
        for given in (Traced(2), (2, Traced(2)), Traced(np.array([2, 2])), Traced(2.0))
    ),
]

# None keeps an axis in adaptive pools; what the message repeats is what was given.
KEPT: list[Row] = [
    (
        ValueError,
        r"output_size \(None, 2, None, 3\) has 4 entries but x has 3 axes \(2, 8, 8\); give one entry for each axis",
        output((None, 2, None, 3)),
    ),
    (ValueError, r"output_size \(None, 3\) has 2 entries but 1 axis is .*; give one int", output((None, 3), axis=-1)),
    (ValueError, r"output_size must be at least 1, got 0", output((None, 0))),
    (ValueError, r"axis 1 is pooled but has no cells; pool arrays with", output((None, 2), x=zeros(8, 0, 8))),
]

AXES: list[Row] = [
    (ValueError, r"axis 3 is out of range for {array} with 3 axes \(2, 8, 8\)", {"axis": (1, 3)}),
    (ValueError, r"axis -4 is out of range for {array} with 3 axes \(2, 8, 8\)", {"axis": (-4, 1)}),
    (ValueError, r"axis \(-1, 2\) names an axis of {array} \(2, 8, 8\) twice; name each", {"axis": (-1, 2)}),
    (ValueError, r"axis \(\) is empty; give one entry per pooled axis", {"axis": ()}),
    (TypeError, r"axis must be an int, got 1\.0", {"axis": 1.0}),
    (TypeError, r"axis must be an int, got True", {"axis": True}),
    (TypeError, r"axis must be an int, got None", {"axis": (None, 1)}),
    *(
        (TypeError, rf"axis must be an int or a sequence of ints, got {re.escape(repr(given))}", {"axis": given})
        for given in ("1", {1, 2}, object)
    ),
    (TypeError, STATIC.format("axis"), {"axis": Traced(1)}),
    (TypeError, STATIC.format("axis"), {"axis": (1, Traced(2))}),
]

UNKNOWN = (2, *jax.export.symbolic_shape("n"), 8)
ARRAYS: list[Row] = [
    (ValueError, r"axis 1 is pooled but has no cells; pool arrays with at least one", {"x": zeros(8, 0, 8)}),
    (TypeError, r"axis 1 has the symbolic size n; a pooled axis needs a known size", {"x": shaped(*UNKNOWN)}),
]

WHOLE: list[Row] = [
    (TypeError, r"axis must be an int or a sequence of ints, got None", {"axis": None}),
    (ValueError, r"axis 0 is out of range for x with 0 axes \(\)", {"x": zeros(), "axis": 0}),
    *(
        (TypeError, rf"keepdims must be True or False, got {re.escape(repr(given))}", {"keepdims": given})
        for given in (0, 1, None, "no", np.array(True))
    ),
    (TypeError, r"keepdims must be True or False, got a traced value; .*static", {"keepdims": Traced(True)}),
]

LARGE = shaped(65536, 65536)
NUMBERS: list[Row] = [
    (ValueError, r"the pooled axes \(65536, 65536\) hold 4294967296 cells, but int32 .*; pool .* parts", given)
    for given in (output((2, 2), x=LARGE), output((3, None), x=LARGE), output(7, x=LARGE, axis=(1, 0)))
]

ROWS = [
    *((function, *row) for function in ADAPTIVE for row in SIZES + KEPT + AXES + ARRAYS),
    *((function, *row) for function in GLOBAL for row in AXES + ARRAYS + WHOLE),
    *(("adaptive_max_pool_with_indices", *row) for row in NUMBERS),
]


@pytest.mark.parametrize(("function", "exception", "message", "arguments"), ROWS)
def test_wrong_argument(function: str, exception: type[Exception], message: str, arguments: dict[str, Any]) -> None:
    check_wrong_call(function, exception, message.replace("{array}", "x"), arguments)


# Calls that look like mistakes but are correct, and the shapes of their results.
MASKS = (
    True,
    False,
    np.True_,
    np.array(True),
    *(np.ones(shape, bool) for shape in ((1,), (8, 1), (2, 1, 1), (1, 1, 8))),
)
RIGHT: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    *(
        (function, arguments, shape)
        for function in ADAPTIVE
        for arguments, shape in (
            (output([np.int64(3), np.array(4)]), (2, 3, 4)),
            (output(np.array([3, 4], np.uint8)), (2, 3, 4)),
            (output((None, 3)), (2, 8, 3)),
            (output((None, None, None)), (2, 8, 8)),
            (output((None,), axis=0), (2, 8, 8)),
            (output((5, None), axis=[-1, 0]), (2, 8, 5)),
            (output((9, 20)), (2, 9, 20)),
            (output(np.int32(3), axis=np.array([0, 2])), (3, 8, 3)),
            (output((1, 3, 8)), (1, 3, 8)),
            ({"x": zeros(0, 8, 8)}, (0, 2, 2)),
            (output((3, 3), x=zeros(0, 8, 8)), (0, 3, 3)),
            ({"x": np.zeros((8, 8), bool)}, (2, 2)),
        )
    ),
    *(
        (function, arguments, shape)
        for function in GLOBAL
        for arguments, shape in (
            ({"axis": 1}, (2, 1, 8)),
            ({"axis": [-1, 0]}, (1, 8, 1)),
            ({"axis": np.array([1, 2])}, (2, 1, 1)),
            ({"axis": np.int64(-3), "keepdims": False}, (8, 8)),
            ({"axis": [2, 0], "keepdims": False}, (8,)),
            ({"axis": (0, 1, 2), "keepdims": np.False_}, ()),
            ({"keepdims": np.True_}, (2, 1, 1)),
            ({"x": zeros(0, 8, 8)}, (0, 1, 1)),
            ({"x": np.zeros((8, 8), np.uint8)}, (1, 1)),
        )
    ),
    *(
        (function, {"where": mask}, _shape_of_working(function))
        for function in OTHERS
        for mask in (*MASKS, Traced(np.ones((8, 1), bool)))
    ),
    *((function, {"where": mask}, (2, 4, 4)) for function in REQUIRED for mask in MASKS),
    ("adaptive_avg_pool", COMPLEX, (2, 2)),
    ("global_avg_pool", COMPLEX, (1, 1)),
    ("adaptive_max_pool_with_indices", output(2, x=LARGE, axis=1), (65536, 2)),
    ("adaptive_max_pool", output((2, 2), x=LARGE), (2, 2)),
]


@pytest.mark.parametrize(("function", "arguments", "shape"), RIGHT)
def test_right_argument(function: str, arguments: dict[str, Any], shape: tuple[int, ...]) -> None:
    array = arguments.get("x", IMAGE)
    outputs = call(function, {**arguments, "x": array if isinstance(array, Traced) else Traced(array)})
    assert {output.shape for output in jax.tree.leaves(outputs)} == {(*shape, *LAST_AXES.get(function, ()))}
