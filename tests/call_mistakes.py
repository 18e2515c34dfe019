"""Calls put together with no regard to what a function allows: right by accident, or to be refused in so many words.

The tables of mistakes say which message goes with which argument. Here a few odd arguments meet all others at random,
and all that is asked for is that none of them brings another exception, or a wrong result.
"""

import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.call_strategies import MOST_CELLS, calls
from tests.calls import COMPLEX, Call

SIZES: tuple[Any, ...] = (
    *(0, 1, 2, 5, 40, -1, True, 1.5, None, "2", "SAME", "same", {1}),
    *((), (0,), (1,), (2, 1), (0, 1), (1, -1), (2, 1.0), (1, 1, 1), [3], [2, 2], (None,), (None, 2), (1, "SAME")),
    *(((1, 0),), ((1, 0), (0, 1)), ((1, 2, 3),), [2, [1, 1]]),
)
NUMBERS: tuple[Any, ...] = (
    *(0, 1, 2, -1, 7, 1.5, math.nan, math.inf, 10**400, np.float32(0.5), 2j, True, None, "2", [2.0]),
    *(np.ones(1), np.ones(3), np.zeros(2), np.full((1, 1), math.inf), np.array(2.0), np.array([True])),
)
FLAGS: tuple[Any, ...] = (True, False, np.True_, 0, 1, None, "yes")
ODD: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("kernel_size", "stride", "padding", "dilation", "axis", "output_size"), SIZES),
    **dict.fromkeys(("norm_type", "beta", "alpha", "eps", "q", "divisor_override"), NUMBERS),
    "method": ("linear", "lower", "higher", "nearest", None, 1),
    **dict.fromkeys(("ceil_mode", "count_include_pad", "keepdims"), FLAGS),
    "where": (
        *(True, False, 1, None, [True], "yes", np.array(False), np.ones(2)),
        *(np.ones(shape, bool) for shape in ((1,), (3,), (2, 1), (0,), (1,) * 5)),
    ),
    "rule": ("jvp", "vjp", "JVP", None, 1),
    "indices": (
        None,
        [0],
        0,
        *(np.zeros(shape, dtype) for shape in ((3,), (2, 2), ()) for dtype in ("int32", "float32")),
    ),
}
# Arguments of all functions of fixed windows that a call need not have, and those that single functions add.
OPTIONAL = ("stride", "padding", "dilation", "ceil_mode", "axis")
OWN = {
    "avg_pool": ("divisor_override", "count_include_pad"),
    **dict.fromkeys(
        ("smooth_max_pool", "gem_pool", "mellowmax_pool", "soft_pool", "mixed_pool"), ("count_include_pad",)
    ),
    "global_gem_pool": ("keepdims", "eps"),
    "quantile_pool": ("q", "method"),
    "global_max_pool": ("keepdims",),
    "global_avg_pool": ("keepdims",),
}


@st.composite
def arbitrary_calls(draw: st.DrawFn, function: str) -> Call:
    """A call of the function in which one argument or two, and at times the array, are replaced by odd ones."""
    call = draw(calls(function, 60))
    parameters = dict(call.parameters)
    names = {*parameters, *OWN.get(function, ()), *(OPTIONAL if "kernel_size" in parameters else ())}
    names |= {"axis"} if function == "max_unpool" else {"axis", "where", "rule"}
    for name in draw(st.lists(st.sampled_from(sorted(names)), min_size=1, max_size=2, unique=True)):
        parameters[name] = draw(st.sampled_from(ODD[name]))
    shape = draw(st.sampled_from([*[call.shape] * 6, call.shape[1:], (0, *call.shape[1:]), (*call.shape[:-1], 0)]))
    dtype = draw(st.sampled_from([*[call.dtype] * 6, "float32", COMPLEX[1]]))
    cells = call.cells if dtype == call.dtype else "ties"
    # Of traced arrays the numbers are not checked: whatever comes of a wrong one is right.
    mode = "compiled" if call.mode == "traced" else call.mode
    return Call(function, shape, parameters, dtype, cells, call.seed, mode, arbitrary=True)


@st.composite
def any_calls(draw: st.DrawFn, function: str) -> Call:
    """A call of either sort, at times of an array of thousands of cells, of which other programs may be made."""
    if draw(st.integers(0, 6)) == 6:
        return draw(arbitrary_calls(function))
    return draw(calls(function, draw(st.sampled_from([60, MOST_CELLS, MOST_CELLS, 6000]))))
