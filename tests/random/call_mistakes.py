"""Random calls without regard to what a function allows: right by accident, or refused with a proper message.

The tables of mistakes say which message goes with which argument. Here a few odd arguments are combined with all others
at random, and the only requirement is that none of them causes another exception or a wrong result.
"""

import inspect
import math
from typing import Any

import numpy as np
from hypothesis import strategies as st

import jaxpool
from tests.random.call_strategies import MOST_CELLS, calls
from tests.random.call_windows import beside_centres
from tests.registry.calls import COMPLEX, FUNCTIONS, Call

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
    **dict.fromkeys(("kernel_size", "stride", "padding", "dilation", "axis", "output_size", "blur_size", "k"), SIZES),
    "kernel_size": (
        *(*SIZES, jaxpool.bins(2), jaxpool.bins(3, None), jaxpool.whole),
        *(jaxpool.footprint(np.tri(2, 3) > 0), jaxpool.footprint(np.arange(3) != 1)),
    ),
    "axis": (*SIZES, "NC", "NHWC", "HWC", "nwc", "HH", "BHW"),
    **dict.fromkeys(("norm_type", "beta", "alpha", "eps", "q", "divisor_override", "correction"), NUMBERS),
    **dict.fromkeys(
        ("weights", "logits"),
        (
            None,
            1.0,
            "2",
            [1.0],
            2j,
            *(np.ones(shape) for shape in ((), (1,), (2,), (3, 1), (0,), (1,) * 5)),
            np.ones(1, bool),
        ),
    ),
    "sampling_ratio": (1, 2, 3, 0, -1, True, 1.5, None, "2", (), (1, 2), {1}, np.int64(2), np.array([1, 1])),
    "method": ("linear", "lower", "higher", "nearest", None, 1),
    **dict.fromkeys(("ceil_mode", "count_include_pad", "keepdims", "aligned"), FLAGS),
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
    "levels": (
        *(None, 2, "12", (), (0,), (1,), (1, 2), (2, -1), (True,), (1.5,), [3], {1}, (None,), np.array([1, 2])),
        *(((1,),), ((2, 2), (1, 3)), ((1,), (1, 1)), [[2, 1], [None, 1]], ((2, 0),), (1, (1, 2)), ("SAME",)),
    ),
    "kind": ("max", "avg", "mean", None, 1),
    "output_ratio": (0.5, 0.9, 0, 1, 1.5, -0.5, math.nan, True, None, "0.5", (), (0.5,), (0.6, 0.7), [1], {0.5}),
    "key": (
        *(None, 0, (0, 1), "key", np.zeros(2, np.uint32), np.ones(2, np.uint32), np.zeros(2), np.uint32(1)),
        *(np.zeros(shape, np.uint32) for shape in ((0,), (3,), (2, 2), ())),
    ),
    "samples": (
        *(None, 0.5, [0.5], np.array(0.5), np.zeros(1, np.int32), np.zeros(2, bool)),
        *(np.full(shape, 0.5, np.float32) for shape in ((1,), (2,), (3,), (1, 1), (2, 2), (0,), (0, 1))),
    ),
    "boxes": (
        *(None, 0.5, [[0.5, 1.5]], (), np.array(0.5), np.zeros((1, 2), np.int32), np.zeros((1, 4), bool)),
        *(np.ones(shape) for shape in ((2,), (4,), (1, 2), (0, 4), (2, 6), (1, 3), (1, 5, 4), (2, 0))),
    ),
}
# All arguments but the array. The draws of stochastic pools have no reference.
ARGUMENTS = {
    function: [name for name in [*inspect.signature(getattr(jaxpool, function)).parameters][1:] if name != left_out]
    for function in FUNCTIONS
    for left_out in ["key" if function == "stochastic_pool" else None]
}


@st.composite
def arbitrary_calls(draw: st.DrawFn, function: str) -> Call:
    """A call of the function in which one argument or two, and at times the array, are replaced by odd ones."""
    call = draw(calls(function, 60))
    parameters = dict(call.parameters)
    if "boxes" in parameters:
        # Bins other than those for which the boxes were drawn.
        parameters["boxes"] = beside_centres(parameters["boxes"])
    for name in draw(st.lists(st.sampled_from(ARGUMENTS[function]), min_size=1, max_size=2, unique=True)):
        parameters[name] = draw(st.sampled_from(ODD[name]))
    shape = draw(st.sampled_from([*[call.shape] * 6, call.shape[1:], (0, *call.shape[1:]), (*call.shape[:-1], 0)]))
    dtype = draw(st.sampled_from([*[call.dtype] * 6, "float32", COMPLEX[1]]))
    cells = call.cells if dtype == call.dtype else "ties"
    # The numbers of traced arrays are not checked: any result for a wrong one is right.
    mode = "compiled" if call.mode == "traced" else call.mode
    return Call(function, shape, parameters, dtype, cells, call.seed, mode, arbitrary=True)


@st.composite
def any_calls(draw: st.DrawFn, function: str) -> Call:
    """A call of either kind, sometimes with an array of thousands of cells, for which programs may differ."""
    if draw(st.integers(0, 6)) == 6:
        return draw(arbitrary_calls(function))
    return draw(calls(function, draw(st.sampled_from([60, MOST_CELLS, MOST_CELLS, 6000]))))
