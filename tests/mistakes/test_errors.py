"""Wrong axes, kernel sizes, strides, dilations and paddings: one table of mistakes for all functions of fixed windows.

Each row has the exception, the message after the function's name, and the wrong arguments. The last test makes similar
calls that must work.
"""

import re
from typing import Any

import jax
import numpy as np
import pytest

import jaxpool
from tests.mistakes.errors import (
    COMPLEX,
    IMAGE,
    LAST_AXES,
    OTHERS,
    PLACED,
    REQUIRED,
    Row,
    Traced,
    call,
    check_wrong_call,
    kernel,
    zeros,
)

STATIC = r"{0} must be a Python int, got a traced value; .*static_argnames='{0}'"
OBJECT = object()

AXES: list[Row] = [
    (
        ValueError,
        r"kernel_size \(3, 3, 3\) has 3 entries but x has 2 axes \(64, 64\); give one entry for each axis to pool$",
        kernel((3, 3, 3), x=zeros(64, 64)),
    ),
    (ValueError, r"kernel_size \(2, 2\) has 2 entries but x has 0 axes \(\)", {"x": zeros()}),
    (ValueError, r"kernel_size \(2, 2\) has 2 entries but x has 1 axis \(8,\)", {"x": zeros(8)}),
    (ValueError, r"kernel_size 3 .*write kernel_size=\(3, 3\) .*axis=\(-3, -2\) where channels", kernel(3)),
    (ValueError, r"kernel_size 3 .*write kernel_size=\(3, 3\) .*axis=-1$", kernel(np.int64(3), x=zeros(8, 8))),
    (ValueError, r"kernel_size 3 .*write kernel_size=\(3,\) for the last axis, .*axis=-1$", kernel(3, x=zeros(8))),
    (ValueError, r"kernel_size \(2, 2\) has 2 entries but 1 axis is .*one int .* or 1 entry$", kernel((2, 2), axis=-1)),
    (ValueError, r"kernel_size \(2, 2, 2\) has 3 entries but 2 axes are pooled", kernel((2, 2, 2), axis=(1, 2))),
    (ValueError, r"kernel_size \(\) is empty; give one entry per pooled axis", kernel(())),
    (ValueError, r"axis 3 is out of range for x with 3 axes \(2, 8, 8\); allowed are -3 to 2$", kernel(2, axis=3)),
    (ValueError, r"axis 0 is out of range for x with 0 axes \(\)$", kernel(2, axis=0, x=zeros())),
    (ValueError, r"axis -4 is out of range for x with 3 axes \(2, 8, 8\)", kernel(2, axis=(1, -4))),
    (ValueError, r"axis \(-1, 2\) names an axis of x \(2, 8, 8\) twice; name each", kernel(2, axis=(-1, 2))),
    (ValueError, r"axis \(\) is empty; give one entry per pooled axis", kernel(2, axis=())),
    (TypeError, r"axis must be an int.*, got 1\.0", kernel(2, axis=1.0)),
    (TypeError, r"axis must be an int.*, got '1'; write it as in axis=\(-2, -1\)$", kernel(2, axis="1")),
    (TypeError, r"axis must be an int.*, got True", kernel(2, axis=True)),
    (TypeError, r"axis must be an int.*, got None", kernel(2, axis=(None,))),
    (TypeError, r"axis must be an int.*, got <object", kernel(2, axis=OBJECT)),
    # The entries of a set have no order that those of the kernel could follow.
    (TypeError, r"axis must be an int or a sequence of ints, got \{1, 2\}", kernel((2, 3), axis={1, 2})),
    (
        ValueError,
        r"axis 'NHWC' has 4 letters for x with 3 axes .*; write 'HWC' or 'NHW'$",
        kernel(2, axis="NHWC"),
    ),
    (ValueError, r"axis 'HW' has 2 letters for x with 3 axes \(2, 8, 8\); write 'NHW'$", kernel(2, axis="HW")),
    (
        ValueError,
        r"axis 'bhwc' has 4 letters for x with 3 axes .*; write 'HWC' or 'NHW'$",
        kernel(2, axis="bhwc"),
    ),
    *(
        (
            ValueError,
            rf"axis '{given}' does not give a letter for each axis of x; write axis='{fix}'$",
            kernel(2, axis=given),
        )
        for given, fix in (
            ("channels_last", "NWC"),
            ("channels_first", "NCW"),
            ("last", "NWC"),
            ("b h w", "NHW"),
            ("batch height width", "NHW"),
        )
    ),
    (
        ValueError,
        r"axis 'channels_last' .*; write axis='NHWC'$",
        kernel(2, axis="channels_last", x=zeros(1, 8, 8, 2)),
    ),
    (
        ValueError,
        r"axis 'b c h w' does not give .*; write axis='NCHW'$",
        kernel(2, axis="b c h w", x=zeros(1, 2, 8, 8)),
    ),
    (ValueError, r"axis 'W' has 1 letter for x with 3 .*; give each axis a letter, N and C to", kernel(2, axis="W")),
    (ValueError, r"axis 'nhh' has the letter H twice for x with 3 axes \(2, 8, 8\); give", kernel(2, axis="nhh")),
    (ValueError, r"axis 'NNW' has the letter N twice", kernel(2, axis="NNW")),
    (ValueError, r"axis 'NC' leaves no axis of x with 2 axes \(8, 8\) to pool", kernel(2, axis="NC", x=zeros(8, 8))),
    (ValueError, r"axis 'BHW' would pool axis 0, B, of x .*\(2, 8, 8\); write 'NHW'", kernel(2, axis="BHW")),
    (ValueError, r"axis 'BNW' would pool axis 0, B, of x .*; use another letter", kernel(2, axis="BNW")),
    (ValueError, r"kernel_size \(2, 2\) has 2 entries but 1 axis is pooled", kernel((2, 2), axis="NWC")),
    (TypeError, r"axis must be an int.*, got 'same'; write padding='SAME'$", kernel(2, axis="same")),
    (TypeError, STATIC.format("axis"), kernel(2, axis=Traced(1))),
    (TypeError, STATIC.format("axis"), kernel(2, axis=(1, Traced(2)))),
]

SIZES: list[Row] = []
for name, least in (("kernel_size", 1), ("stride", 1), ("dilation", 1), ("padding", 0)):
    SIZES += [
        (ValueError, rf"{name} must be at least {least}, got .*{least - 1}", {name: (2, least - 1)}),
        (ValueError, rf"{name} must be at least {least}, got .*-7", {name: (-7, 2)}),
        (TypeError, rf"{name} must be an int.*, got 2\.0 of type float; write 2, or divide with //$", {name: (2.0, 2)}),
        (TypeError, rf"{name} must be an int.*, got 1\.5 of type float; divide with //$", {name: 1.5}),
        (TypeError, rf"{name} must be an int.*, got .*2\.0", {name: np.array([2.0, 2.0])}),
        (TypeError, rf"{name} must be an int.*, got .*True of type bool$", {name: (True, 2)}),
        (TypeError, rf"{name} must be an int.*, got an array of shape \(2, 8, 8\)", {name: IMAGE}),
        (TypeError, rf"{name} must be an int.*, got an array of shape \(2, 8, 8\)", {name: Traced(IMAGE)}),
        (TypeError, rf"{name} must be an int.*, got \{{2, 3\}}", {name: {2, 3}}),
        (TypeError, rf"{name} .*must be an int", {name: ("2", 2)}),
        (TypeError, rf"{name} .*must be an int", {name: (None, 2)}),
        (TypeError, rf"{name} .*must be an int", {name: (OBJECT, 2)}),
        (TypeError, STATIC.format(name), {name: Traced(2)}),
        (TypeError, STATIC.format(name), {name: (2, Traced(2))}),
        (TypeError, STATIC.format(name), {name: Traced(np.array([2, 2]))}),
        (TypeError, STATIC.format(name), {name: Traced(2.0)}),
    ]
for name in ("stride", "dilation", "padding"):
    SIZES += [
        (ValueError, rf"{name} \(1, 1, 1\) has 3 entries but 2 axes are pooled; give one int", {name: (1, 1, 1)}),
        (ValueError, rf"{name} \(1,\) has 1 entry but 2 axes are pooled; give one int", {name: (1,)}),
        (ValueError, rf"{name} \(\) is empty; give one entry per pooled axis", {name: ()}),
    ]
SIZES += [
    (TypeError, r"kernel_size must be an int or a sequence of ints, got '2'; write .*=\(2, 2\)$", kernel("2")),
    (TypeError, r"kernel_size must be an int or a sequence of ints, got None", kernel(None)),
    (TypeError, r"stride must be an int or a sequence of ints, got '2'", {"stride": "2"}),
    (TypeError, r"stride must be an int or a sequence of ints, got 'same'; write padding='SAME'$", {"stride": "same"}),
    (TypeError, r"dilation must be an int or a sequence of ints, got None", {"dilation": None}),
    (ValueError, r"kernel_size 9 along axis 2 spans 9 cells but the input has 8 and 0 of padding; use", kernel((2, 9))),
    (
        ValueError,
        r"kernel_size 5 along axis 2 spans 13 cells with dilation 3 but the input has 8 and 4 of padding; use",
        kernel((2, 5), dilation=3, padding=(0, 2)),
    ),
    # With channels last the channels are the last axis, which was not named.
    *(
        (ValueError, rf"kernel_size 4 along axis {axis} {message}", kernel((4, 4), x=zeros(2, 8, 8, 3), **named))
        for axis, message, named in (
            (3, r".* or ceil_mode=True, or axis=\(-3, -2\) where channels are last$", {}),
            (3, r".* or ceil_mode=True$", {"axis": (-2, -1)}),
        )
    ),
    (ValueError, r"kernel_size 9 along axis 1 .* or ceil_mode=True$", kernel((9, 2))),
    (ValueError, r"kernel_size 4 along axis 1 .* or ceil_mode=True$", kernel((2, 4), x=zeros(8, 3))),
    # A stride of 1 reaches no partial window, and ceil_mode is on already, so the message must not advise it.
    (ValueError, r"kernel_size 20 along axis 2 ((?!ceil_mode=).)*$", kernel((2, 20), stride=1, ceil_mode=True)),
    (ValueError, r"axis 1 is pooled but has no cells; pool arrays with", {"x": zeros(8, 0, 8)}),
    (ValueError, r"axis 1 is pooled but has no cells; pool arrays with", {"x": zeros(8, 0), "padding": 1}),
]

PADDING: list[Row] = [
    (ValueError, r"padding 'full' is unknown; use an int, .* pairs per axis, 'VALID', 'SAME',", {"padding": "full"}),
    (
        TypeError,
        r"padding must be an int, .* pairs per axis, 'VALID', .*'REFLECT' or 'EDGE', got None$",
        {"padding": None},
    ),
    (ValueError, r"padding 'circular' is unknown; write padding='WRAP'$", {"padding": "circular"}),
    (ValueError, r"padding 'replicate' is unknown; write padding='EDGE'$", {"padding": "replicate"}),
    (ValueError, r"padding 'Circular' is unknown; write padding='WRAP'$", {"padding": ("Circular", 1)}),
    (TypeError, r"padding entry 'full' must be an int or a \(low, high\) pair, or a known", {"padding": ("full", 1)}),
    (ValueError, r"padding entry \('SAME', 1\): 'SAME' itself says how many", {"padding": (("SAME", 1), 0)}),
    (ValueError, r"padding entry \('EDGE', 1, 2\) must be a word and its amounts", {"padding": (("EDGE", 1, 2), 0)}),
    (ValueError, r"padding 'full' is unknown; use an int, ", {"padding": (("full", 1), 0)}),
    (ValueError, r"padding must be at least 0, got -1$", {"padding": (("EDGE", (0, -1)), 0)}),
    (TypeError, r"padding entry 'EDGE' must be an int or a \(low, high\) pair", {"padding": (("EDGE", "EDGE"), 0)}),
    (TypeError, STATIC.format("padding"), {"padding": (("EDGE", Traced(1)), 0)}),
    *(
        (ValueError, rf"padding .* is one of them, as in padding={re.escape(str((given,) * axes))}$", arguments)
        for axes in (1, 3)
        for given in (("EDGE", (2, 1)),)
        for arguments in (kernel((2,) * axes, padding=given),)
    ),
    (ValueError, r"padding entry \(1, 1, 1\) must be an int or a \(low, high\) pair", {"padding": ((1, 1, 1), 0)}),
    (ValueError, r"padding entry \(1,\) must be an int or a \(low, high\) pair", {"padding": ((1,), (1,))}),
    (ValueError, r"padding must be at least 0, got .*-1", {"padding": ((0, -1), 0)}),
    (TypeError, r"padding .*must be an int.*\(1, 1\)", {"padding": (((1, 1), 1), 1)}),
    (TypeError, STATIC.format("padding"), {"padding": ((1, Traced(1)), 0)}),
    (
        ValueError,
        r"padding \(1, 0\) has 2 entries but 1 axis is .*\(low, high\) pairs as in padding=\(\(1, 0\),\)$",
        kernel((2,), padding=(1, 0)),
    ),
    *(
        (ValueError, rf"padding .* but 2 axes are .*pairs as in padding={re.escape(str(pairs))}$", {"padding": padding})
        for padding, pairs in (
            ((0, 1, 2, 3), ((0, 1), (2, 3))),
            (((2, 2),), ((1, 1), (1, 1))),
            (((0, 0), (0, 0), 1, 1), ((1, 1), (1, 1))),
            (np.ones((3, 2), int), ((1, 1), (1, 1))),
        )
    ),
]


@pytest.mark.parametrize("function", REQUIRED)
@pytest.mark.parametrize(("exception", "message", "arguments"), AXES + SIZES + PADDING)
def test_wrong_sizes(function: str, exception: type[Exception], message: str, arguments: dict[str, Any]) -> None:
    check_wrong_call(function, exception, message, arguments)


def test_every_function_is_covered() -> None:
    public = {name for name, value in vars(jaxpool).items() if callable(value) and not name.startswith("_")}
    assert {*REQUIRED, *OTHERS, *PLACED, "max_unpool", "portable", "compiling_for", "bins", "footprint"} == public


# Calls that look like mistakes but are correct, and the shapes of their results.
RIGHT: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    *((function, {"x": Traced(zeros(0, 8, 8))}, (0, 4, 4)) for function in REQUIRED),
    *((function, kernel(2, axis=-1), (2, 8, 4)) for function in REQUIRED),
    *(
        (function, {name: np.array(2)}, shape)
        for function in REQUIRED
        for name, shape in (("stride", (2, 4, 4)), ("dilation", (2, 3, 3)))
    ),
    ("max_pool", kernel(np.array([2, 4])), (2, 4, 2)),
    ("max_pool", kernel(np.array(2), axis=np.array([2, 1])), (2, 4, 4)),
    *((function, kernel((2, 4), axis="hwc"), (1, 2, 8)) for function in REQUIRED),
    ("max_pool", kernel([2, 2], padding=[[0, 1], (1, 0)], axis=[1, 2]), (2, 4, 4)),
    ("max_pool", kernel((9, 20), ceil_mode=True), (2, 1, 1)),
    *(("max_pool", kernel(3, stride=2, padding=word, axis=-1), (2, 8, 4)) for word in ("same", "Same_Lower")),
    ("max_pool", kernel((2, 2), padding=["SAME", ["EDGE", np.array([1, 2])]]), (2, 4, 5)),
    ("max_pool", {"x": Traced(np.zeros((2, 8, 8), bool))}, (2, 4, 4)),
    ("sum_pool", {"padding": 2}, (2, 6, 6)),
    ("sum_pool", COMPLEX, (4, 4)),
    ("lp_pool", {"padding": 2}, (2, 6, 6)),
    ("lp_pool", {"norm_type": Traced(zeros(2, 1, 4) + 1)}, (2, 4, 4)),
    ("avg_pool", {"padding": 2}, (2, 6, 6)),
    ("avg_pool", {"padding": 2, "count_include_pad": False, "divisor_override": -2}, (2, 6, 6)),
    ("avg_pool", COMPLEX, (4, 4)),
    ("smooth_max_pool", {"padding": 2}, (2, 6, 6)),
]


@pytest.mark.parametrize(("function", "arguments", "shape"), RIGHT)
def test_right_argument(function: str, arguments: dict[str, Any], shape: tuple[int, ...]) -> None:
    traced_x = arguments.get("x", IMAGE)
    outputs = call(function, {**arguments, "x": traced_x if isinstance(traced_x, Traced) else Traced(traced_x)})
    assert {output.shape for output in jax.tree.leaves(outputs)} == {(*shape, *LAST_AXES.get(function, ()))}
