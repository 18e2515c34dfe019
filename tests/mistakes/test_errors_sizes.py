"""Wrong axes, windows, strides, dilations, paddings, bins, levels and boxes."""

import re
from typing import Any

import jax
import jax.export
import numpy as np
import pytest

from tests.mistakes.errors import (
    IMAGE,
    OTHERS,
    PLACED,
    REQUIRED,
    Row,
    Traced,
    check_wrong_calls,
    wrong_type,
    wrong_value,
    zeros,
)
from tests.registry.records import RECORDS, one_of_each_kind

STATIC = "{0} must be a Python int, got a traced value; .*static_argnames='{0}'"
INTS = "{} must be an int or a sequence of ints, got {}"
OBJECT = object()


def shaped(*sizes: Any, dtype: Any = np.float32) -> Traced:
    """A traced array that takes no memory; some of its sizes may be symbolic."""
    return Traced(jax.ShapeDtypeStruct(sizes, dtype))


# Of every function; ARRAY stands for the name of its array, of which the shape is (2, 8, 8).
AXES: list[Row] = [
    wrong_value(r"axis 3 is out of range for ARRAY with 3 axes \(2, 8, 8\); allowed are -3 to 2$", axis=(1, 3)),
    wrong_value(r"axis -4 is out of range for ARRAY with 3 axes \(2, 8, 8\)", axis=(1, -4)),
    wrong_value(r"axis \(-1, 2\) names an axis of ARRAY \(2, 8, 8\) twice; name each", axis=(-1, 2)),
    wrong_value(r"axis \(\) is empty; give one entry per pooled axis", axis=()),
    wrong_type(r"axis must be an int.*, got 1\.0", axis=1.0),
    wrong_type("axis must be an int.*, got True", axis=True),
    wrong_type("axis must be an int.*, got None", axis=(None, 1)),
    wrong_type(INTS.format("axis", "'1'") + r"; write it as in axis=\(-2, -1\)$", axis="1"),
    # The entries of a set have no order that those of the kernel could follow.
    wrong_type(INTS.format("axis", r"\{1, 2\}"), axis={1, 2}),
    wrong_type(INTS.format("axis", "<object"), axis=OBJECT),
    wrong_type(STATIC.format("axis"), axis=Traced(1)),
    wrong_type(STATIC.format("axis"), axis=(1, Traced(2))),
    wrong_value("axis 'NHWC' has 4 letters for ARRAY with 3 axes .*; write 'NTC' or 'HWC' or 'NHW'$", axis="NHWC"),
    wrong_value(r"axis 'HW' has 2 letters for ARRAY with 3 axes \(2, 8, 8\); write 'NHW'$", axis="HW"),
    *(
        wrong_value(f"axis '{given}' does not give a letter for each axis of ARRAY; write axis='{fix}'$", axis=given)
        for fix, words in (
            ("NWC", ("channels_last", "last")),
            ("NCW", ("channels_first",)),
            ("NHW", ("b h w", "b he wi")),
        )
        for given in words
    ),
    wrong_value("axis 'W' has 1 letter for ARRAY with 3 .*; give each axis a letter, N and C to", axis="W"),
    wrong_value(r"axis 'nhh' has the letter H twice for ARRAY with 3 axes \(2, 8, 8\); give", axis="nhh"),
    wrong_value(r"axis 'BHW' would pool axis 0, B, of ARRAY .*\(2, 8, 8\); write 'NHW'", axis="BHW"),
    wrong_value("axis 'BNW' would pool axis 0, B, of ARRAY .*; use another letter", axis="BNW"),
]

KERNELS: list[Row] = [
    wrong_value(r"kernel_size \(2, 2\) has 2 entries but x has 0 axes \(\); give one entry for each axis", x=zeros()),
    wrong_value(r"kernel_size \(2, 2\) has 2 entries but x has 1 axis \(8,\)", x=zeros(8)),
    wrong_value(r"kernel_size 3 .*write kernel_size=\(3, 3\) .*axis='HWC' where channels", kernel_size=3),
    wrong_value(r"kernel_size 3 .*write kernel_size=\(3, 3\) .*axis=-1$", kernel_size=np.int64(3), x=zeros(8, 8)),
    wrong_value(r"kernel_size 3 .*write kernel_size=\(3,\) for the last axis, .*axis=-1$", kernel_size=3, x=zeros(8)),
    wrong_value(r"kernel_size \(2, 2\) has 2 entries but 1 axis is .*one int .* or 1 entry$", axis=-1),
    wrong_value(r"kernel_size \(2, 2, 2\) has 3 entries but 2 axes are pooled", kernel_size=(2, 2, 2), axis=(1, 2)),
    wrong_value(r"kernel_size \(\) is empty; give one entry per pooled axis", kernel_size=()),
    wrong_value(r"axis 0 is out of range for x with 0 axes \(\)$", kernel_size=2, axis=0, x=zeros()),
    wrong_value("axis 'channels_last' .*; write axis='NHWC'$", axis="channels_last", x=zeros(1, 8, 8, 2)),
    wrong_value("axis 'b c h w' does not give .*; write axis='NCHW'$", axis="b c h w", x=zeros(1, 2, 8, 8)),
    wrong_value(r"axis 'NC' leaves no axis of x with 2 axes \(8, 8\) to pool", axis="NC", x=zeros(8, 8)),
    wrong_type("axis must be an int.*, got 'same'; write padding='SAME'$", axis="same"),
    wrong_type(INTS.format("kernel_size", r"'2'; write .*=\(2, 2\)$"), kernel_size="2"),
    wrong_type(INTS.format("kernel_size", "None"), kernel_size=None),
    wrong_type(INTS.format("stride", "'2'"), stride="2"),
    wrong_type(INTS.format("dilation", "None"), dilation=None),
    wrong_value("kernel_size 9 along axis 2 spans 9 cells but the input has 8 and 0 of padding;", kernel_size=(2, 9)),
    wrong_value(
        "kernel_size 5 .* 13 cells with dilation 3 .* 4 of padding;", kernel_size=5, dilation=3, padding=2, axis=2
    ),
    # With channels last the channels are the last axis, which was not named.
    wrong_value(r"kernel_size 4 along axis 3 .*=True, or axis='NHWC' where", kernel_size=(4, 4), x=zeros(2, 8, 8, 3)),
    wrong_value("kernel_size 4 .*=True, or axis='WC' where", kernel_size=(4,), x=zeros(8, 3)),
    wrong_value(r"kernel_size 4 .*=True, or axis=\(-2,\) where", kernel_size=(4,), x=zeros(2, 8, 8, 3)),
    wrong_value("kernel_size 4 along axis 3 .*=True$", kernel_size=4, x=zeros(2, 8, 8, 3), axis=(-2, -1)),
    wrong_value("kernel_size 4 along axis 1 .* or ceil_mode=True$", kernel_size=(2, 4), x=zeros(8, 3)),
    # A stride of 1 reaches no partial window, and ceil_mode is on already, so the message must not advise it.
    wrong_value("kernel_size 20 along axis 2 ((?!ceil_mode=).)*$", kernel_size=(2, 20), stride=1, ceil_mode=True),
    wrong_value("axis 1 is pooled but has no cells; pool arrays with", x=zeros(8, 0, 8)),
    wrong_value("axis 1 is pooled but has no cells; pool arrays with", x=zeros(8, 0), padding=1),
]
for name, least in (("kernel_size", 1), ("stride", 1), ("dilation", 1), ("padding", 0)):
    KERNELS += [
        wrong_value(f"{name} must be at least {least}, got .*{least - 1}", **{name: (2, least - 1)}),
        wrong_value(f"{name} must be at least {least}, got .*-7", **{name: (-7, 2)}),
        wrong_type(rf"{name} must be .*, got 2\.0 of type float; write 2, or divide with //$", **{name: (2.0, 2)}),
        wrong_type(rf"{name} must be an int.*, got 1\.5 of type float; divide with //$", **{name: 1.5}),
        wrong_type(rf"{name} must be an int.*, got .*2\.0", **{name: np.array([2.0, 2.0])}),
        wrong_type(rf"{name} must be an int.*, got .*True of type bool$", **{name: (True, 2)}),
        *(wrong_type(f"{name} must be an int.*, got an array of shape", **{name: x}) for x in (IMAGE, Traced(IMAGE))),
        wrong_type(rf"{name} must be an int.*, got \{{2, 3\}}", **{name: {2, 3}}),
        *(wrong_type(f"{name} .*must be an int", **{name: (given, 2)}) for given in (None, OBJECT)),
        *(
            wrong_type(STATIC.format(name), **{name: given})
            for given in (Traced(2), (2, Traced(2)), Traced(np.array([2, 2])), Traced(2.0))
        ),
    ]
for name in ("stride", "dilation", "padding"):
    KERNELS += [
        wrong_value(rf"{name} \(1, 1, 1\) has 3 entries but 2 axes are pooled; give one int", **{name: (1, 1, 1)}),
        wrong_value(rf"{name} \(1,\) has 1 entry but 2 axes are pooled; give one int", **{name: (1,)}),
        wrong_value(rf"{name} \(\) is empty; give one entry per pooled axis", **{name: ()}),
    ]
for name in ("kernel_size", "stride", "dilation"):
    KERNELS += [wrong_type(f"{name} must be an int, got '2'", **{name: ("2", 2)})]

PAIR = r"padding entry {} must be an int or a \(low, high\) pair"
PADDING: list[Row] = [
    wrong_value("padding 'full' is unknown; use an int, .* pairs per axis, 'VALID', 'SAME',", padding="full"),
    wrong_type("padding must be an int, .* pairs per axis, 'VALID', .*'REFLECT' or 'EDGE', got None$", padding=None),
    *(
        wrong_value(f"padding '{given}' is unknown; write padding='{word}'$", padding=given)
        for given, word in (("circular", "WRAP"), ("replicate", "EDGE"), ("nearest", "EDGE"), ("mirror", "REFLECT"))
    ),
    wrong_value("padding 'Circular' is unknown; write padding='WRAP'$", padding=("Circular", 1)),
    *(wrong_value(f"padding '{given}' is unknown; use .* or 'EDGE'$", padding=(given, 1)) for given in ("full", "2")),
    wrong_value(r"padding entry \('SAME', 1\): 'SAME' itself says how many", padding=(("SAME", 1), 0)),
    wrong_value(r"padding entry \('EDGE', 1, 2\) must be a word and its amounts", padding=(("EDGE", 1, 2), 0)),
    wrong_value("padding 'full' is unknown; use an int, ", padding=(("full", 1), 0)),
    wrong_value("padding must be at least 0, got -1$", padding=(("EDGE", (0, -1)), 0)),
    wrong_type(PAIR.format("'EDGE'"), padding=(("EDGE", "EDGE"), 0)),
    wrong_type(STATIC.format("padding"), padding=(("EDGE", Traced(1)), 0)),
    wrong_value(
        rf"padding .* is one of them, as in padding={re.escape(str((('EDGE', (2, 1)),) * 3))}$",
        kernel_size=(2, 2, 2),
        padding=("EDGE", (2, 1)),
    ),
    wrong_value(PAIR.format(r"\(1, 1, 1\)"), padding=((1, 1, 1), 0)),
    wrong_value(PAIR.format(r"\(1,\)"), padding=((1,), (1,))),
    wrong_value("padding must be at least 0, got .*-1", padding=((0, -1), 0)),
    wrong_type(r"padding .*must be an int.*\(1, 1\)", padding=(((1, 1), 1), 1)),
    wrong_type(STATIC.format("padding"), padding=((1, Traced(1)), 0)),
    wrong_value(r"padding \(1, 0\) has 2 .* but 1 .* padding=\(\(1, 0\),\)$", kernel_size=(2,), padding=(1, 0)),
    *(
        wrong_value(rf"padding .* but 2 axes are .*pairs as in padding={re.escape(str(pairs))}$", padding=padding)
        for padding, pairs in (
            ((0, 1, 2, 3), ((0, 1), (2, 3))),
            (((2, 2),), ((1, 1), (1, 1))),
            (((0, 0), (0, 0), 1, 1), ((1, 1), (1, 1))),
            (np.ones((3, 2), int), ((1, 1), (1, 1))),
        )
    ),
]

# Of adaptive pools, of unpooling, and in part of the others that have an output_size.
BINS: list[Row] = [
    wrong_value(r"output_size 3 does not say .*write output_size=\(3, 3\)", output_size=3),
    wrong_value(r"output_size 3 does not say .*write output_size=\(3, 3\)", output_size=np.array(3)),
    *(
        wrong_value(f"output_size must be at least 1, got {given}$", **arguments)
        for given in (0, -7)
        for arguments in (
            *({"output_size": sizes} for sizes in (given, (given, 2), np.array([2, given]))),
            {"output_size": given, "axis": 1},
        )
    ),
    *(
        wrong_type(r"output_size must be an int, got .*2\.0", output_size=given)
        for given in (2.0, (2, 2.0), np.array([2.0, 2.0]), np.float32(2))
    ),
    *(wrong_type("output_size must be an int, got .*True", output_size=given) for given in (True, (2, True))),
    *(
        wrong_type(f"output_size must be an int, got {re.escape(repr(given))} of type", output_size=(2, given))
        for given in ("2", (2, 2), object)
    ),
    *(
        wrong_type(INTS.format("output_size", re.escape(repr(given))), output_size=given)
        for given in ("2", None, {2, 3}, object)
    ),
    wrong_type(INTS.format("output_size", "None"), output_size=None, axis=1),
    wrong_value(r"output_size \(\) is empty; give one entry per pooled axis", output_size=()),
    wrong_value(
        r"output_size \(1, 2, 3, 4\) has 4 entries but ARRAY has 3 axes .*; give one", output_size=(1, 2, 3, 4)
    ),
    wrong_value(r"output_size \(2, 3\) has 2 entries but 1 axis is .*; give one int", output_size=(2, 3), axis=-1),
    wrong_value(r"output_size \(2,\) has 1 entry but 2 axes are pooled; give one int", output_size=(2,), axis=(1, 2)),
    *(
        wrong_type(STATIC.format("output_size"), output_size=given)
        for given in (Traced(2), (2, Traced(2)), Traced(np.array([2, 2])), Traced(2.0))
    ),
]

UNKNOWN = (2, *jax.export.symbolic_shape("n"), 8)
ARRAYS: list[Row] = [
    wrong_value("axis 1 is pooled but has no cells; pool arrays with at least one", x=zeros(8, 0, 8)),
    wrong_type("axis 1 has the symbolic size n; a pooled axis needs a known size", x=shaped(*UNKNOWN)),
]
# None keeps an axis in adaptive pools; what the message repeats is what was given.
KEPT: list[Row] = [
    wrong_value(r"output_size \(None, 2, None, 3\) has 4 entries but x has 3 axes", output_size=(None, 2, None, 3)),
    wrong_value(r"output_size \(None, 3\) has 2 entries but 1 axis is .*; give one", output_size=(None, 3), axis=-1),
    wrong_value("output_size must be at least 1, got 0", output_size=(None, 0)),
    wrong_value("axis 1 is pooled but has no cells", output_size=(None, 2), x=zeros(8, 0, 8)),
    wrong_value(r"output_size 3 .*axis='HWC' where channels", output_size=3),
]
WHOLE: list[Row] = [
    wrong_type(INTS.format("axis", "None"), axis=None),
    wrong_value(r"axis 0 is out of range for x with 0 axes \(\)", x=zeros(), axis=0),
]
# The number of windows at random positions, and boxes.
WINDOWS: list[Row] = [
    wrong_value(r"output_size 8 windows of 2 cells along axis 1, which has 8; give 1 to 7$", output_size=(8, 2)),
    wrong_value("output_size must be at least 1, got 0", output_size=(0, 2)),
    wrong_value(r"output_size \(2,\) has 1 entry but 2 axes are pooled", output_size=(2,)),
    wrong_type(r"output_size must be an int, got 2\.0 .*write 2", output_size=2.0),
    wrong_type(STATIC.format("output_size"), output_size=Traced(2)),
    wrong_value("kernel_size 9 along axis 1 spans 9 cells but .* 8; use a smaller window$", kernel_size=(9, 2)),
    wrong_value(r"output_size 2 windows of 8 cells .* has 8; use a kernel_size below 8$", kernel_size=(8, 2)),
    wrong_value("kernel_size 2 does not say how many axes to pool; write", kernel_size=2),
    wrong_value("give output_size or output_ratio, got neither; write output_size=.4, 4.", output_size=None),
    wrong_value(r"give output_size or output_ratio, got both; write .* or output_ratio=0\.5$", output_ratio=0.5),
    *(
        (exception, f"output_ratio {message}", {"output_size": None, "output_ratio": given})
        for exception, message, given in (
            (ValueError, r"must be between 0 and 1, got 1\.0; write 0\.5", 1.0),
            (ValueError, r"must be between 0 and 1, got -0\.5", (0.5, -0.5)),
            (ValueError, "must be between 0 and 1, got nan", np.nan),
            (ValueError, r"\(0\.5,\) has 1 entry but .*; give one float for all axes or 2", (0.5,)),
            (ValueError, r"0\.1 gives 0 windows .*; give 1 to 7$", 0.1),
            (TypeError, r"must be a float or a sequence of floats, got 'half'; .*=\(0\.5, 0\.5\)$", "half"),
            (TypeError, "must be a Python float, got 'half'; write 0.5", ("half", 0.5)),
            (TypeError, "must be a Python float, got a traced value", Traced(0.5)),
        )
    ),
]
BOXES: list[Row] = [
    wrong_type(r"boxes must be floats, got dtype int32; write boxes\.astype", boxes=np.zeros((3, 4), np.int32)),
    wrong_type(r"boxes must be a JAX or NumPy array, got list; convert it with jnp\.asarray\(boxes\)", boxes=[1]),
    wrong_value(r"boxes of shape \(3, 5\) do not match 2 pooled axes; give .*\(count, 4\)", boxes=zeros(3, 5)),
    wrong_value(r"boxes of shape \(4,\) do not match 2 pooled axes; give .*\(count, 4\)", boxes=zeros(4)),
    wrong_value(r"boxes of shape \(2, 3, 4\) .*write jax\.vmap\(lambda x, boxes:", boxes=zeros(2, 3, 4)),
    wrong_value(r"boxes of shape \(3, 4\) do not match 1 pooled axes; give .*\(count, 2\)", output_size=(2,)),
    wrong_value(r"output_size 2 does not say how many axes to pool; write output_size=\(2, 2\)", output_size=2),
    wrong_value("output_size must be at least 1, got 0", output_size=(0, 2)),
    wrong_type(STATIC.format("output_size"), output_size=(2, Traced(2))),
    wrong_value("axis 3 is out of range", axis=(2, 3)),
    wrong_value("axis 1 is pooled but has no cells", x=zeros(2, 0, 8)),
]
SAMPLES: list[Row] = [
    wrong_value("sampling_ratio must be at least 1, got 0", sampling_ratio=0),
    wrong_type(r"sampling_ratio must be an int, got 1\.5", sampling_ratio=1.5),
    wrong_type(STATIC.format("sampling_ratio"), sampling_ratio=Traced(2)),
]
LEVELS: list[Row] = [
    wrong_type("levels must be a sequence of output sizes, got 2; write levels=", levels=2),
    wrong_value("levels is empty; give at least one output size", levels=()),
    wrong_value(r"levels\[0\] must be at least 1, got 0", levels=((0, 1),)),
    wrong_value(r"levels\[0\] 2 does not say .* axes to pool; write levels\[0\]=\(2, 2\)", levels=(2,)),
    wrong_value(r"levels\[1\] \(2, 3\) has 2 entries but 1 axis is pooled", levels=(1, (2, 3)), axis=1),
    wrong_value(r"levels\[1\] \(1, 2, 3, 4\) has 4 entries but x has 3", levels=((1, 1), (1, 2, 3, 4))),
    wrong_value(r"levels\[1\] \(\) is empty", levels=((1, 1), ())),
    wrong_type(r"levels\[0\] must be an int, got 2\.0 .*; write 2", levels=(2.0,), axis=1),
    wrong_type(r"levels\[0\] must be an int or a sequence of ints, got None", levels=(None,), axis=1),
    wrong_type(
        r"levels\[1\] must be a Python int, got a traced value; .*static_argnames='levels'",
        levels=(1, Traced(2)),
        axis=1,
    ),
    wrong_value(r"levels\[1\] \(2,\) pools axes \(2,\) but levels\[0\] \(1, 1\) pools \(1, 2\)", levels=((1, 1), (2,))),
]
LARGE = shaped(65536, 65536)
TOO_MANY = r"the pooled axes \(65536, 65536\) hold 4294967296 cells, but int32 indices number 2147483647 at most; pool"

OWN: dict[str, list[Row]] = {
    **{name: KERNELS + PADDING for name in REQUIRED},
    **{name: BINS + KEPT + ARRAYS for name in OTHERS if name.startswith("adaptive")},
    **{name: ARRAYS + WHOLE for name in OTHERS if name.startswith("global")},
    **{name: WINDOWS for name in ("fractional_max_pool", "fractional_max_pool_with_indices")},
    "roi_align": BOXES + SAMPLES,
    "roi_pool": [*BOXES, wrong_value("output_size 50000 is too large; give at most 46340", output_size=(2, 50000))],
    "spatial_pyramid_pool": LEVELS,
    "max_unpool": BINS,
}
INDEXED: dict[str, list[dict[str, Any]]] = {
    "max_pool_with_indices": [{}],
    "min_pool_with_indices": [{}],
    "adaptive_max_pool_with_indices": [{}, {"output_size": (3, None)}, {"output_size": 7, "axis": (1, 0)}],
    "fractional_max_pool_with_indices": [{"samples": zeros(2)}],
}


@pytest.mark.parametrize("function", one_of_each_kind(RECORDS))
def test_wrong_sizes(function: str) -> None:
    array = "values" if function == "max_unpool" else "x"
    # An int is for all of the axes that are given.
    int_kernel = {"kernel_size": 2} if function in REQUIRED else {}
    axes = [(one, message, {**int_kernel, **arguments}) for one, message, arguments in AXES]
    large = [wrong_value(TOO_MANY, x=LARGE, **arguments) for arguments in INDEXED.get(function, [])]
    rows = [*(axes if function not in PLACED else []), *OWN.get(function, []), *large]
    check_wrong_calls(function, [(one, message.replace("ARRAY", array), given) for one, message, given in rows])
