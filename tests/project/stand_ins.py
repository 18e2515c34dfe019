"""The text of stand-ins in one table: what each stands for, the function of jaxpool below it, and all that differs.

The docstring of a stand-in names both and lists the differences in a few words each, which `docstrings.py` writes;
arguments, results, errors and derivatives are those of the two, and are not repeated. Of functions or layers for one,
two and three axes, those for two axes do so, and the others name these. Only the example is a stand-in's own. A list in
the docstring of the module says more on every difference, with an entry for each.
"""

import re
from typing import NamedTuple


class Library(NamedTuple):
    """One library: where its pools are, and those of jaxpool for each family of them, which has one for each rank.

    `differences` has, for the opening words of every entry in the list of the module, what differs, in a few words, and
    the families that it concerns: all if none is named.
    """

    originals: str
    functions: dict[str, str]
    differences: dict[str, dict[str, str]]

    def function(self, name: str) -> str:
        """The function of jaxpool that a stand-in evaluates."""
        return self.functions[family(name)]

    def opening(self, name: str) -> tuple[str, ...]:
        """The paragraphs of the docstring of a stand-in before its example."""
        original = f"As `{self.originals}.{name}`"
        if name != for_two_axes(name):
            return (f"{original}; see `{for_two_axes(name)}`. Differs in the same ways.",)
        differing = [
            text
            for texts in self.differences.values()
            for text, families in texts.items()
            if not families or family(name) in families.split()
        ]
        first = f"{original}; see `jaxpool.{self.function(name)}`."
        return first, f"Differs in {', '.join(differing[:-1])} and {differing[-1]}."


def family(name: str) -> str:
    """The name without its rank."""
    return re.sub(r"[123]d$", "", name)


def for_two_axes(name: str) -> str:
    """The stand-in of the same family for two axes, if the name has a rank."""
    return re.sub(r"[13]d$", "2d", name)


_NAN = "NaN (always wins)"
_PADDING = "padding (takes no part)"
_HALVES = "16-bit floats (summed in float32)"
_INTEGERS = "integers (sums do not wrap)"
_QUOTIENTS = "quotients (rounded once)"
_COMPLEX = "complex numbers (refused)"
_SYMBOLIC = "symbolic sizes of pooled axes (refused)"
_COUNTS = "16-bit counts (exact)"

LIBRARIES: dict[str, Library] = {
    "torch": Library(
        "torch.nn.functional",
        {
            "max_pool": "max_pool",
            "avg_pool": "avg_pool",
            "lp_pool": "lp_pool",
            "adaptive_max_pool": "adaptive_max_pool",
            "adaptive_avg_pool": "adaptive_avg_pool",
            "fractional_max_pool": "fractional_max_pool",
            "max_unpool": "max_unpool",
        },
        {
            "Indices are int32": {
                "indices (int32 unless `jax_enable_x64`)": "max_pool adaptive_max_pool fractional_max_pool",
            },
            "NaN wins in its window in both.": {
                "NaN (the first of several wins)": "max_pool adaptive_max_pool fractional_max_pool",
            },
            "`lp_pool` uses magnitudes": {
                "signs (norms are of magnitudes)": "lp_pool",
                "cells of 0 (derivative 0 for every p)": "lp_pool",
                "large norms (no overflow on the way)": "lp_pool",
                "`norm_type` (may be a learnt array; p ≤ 0 is refused)": "lp_pool",
            },
            "Averages of integers are float32.": {"averages of integers (float32)": "avg_pool adaptive_avg_pool"},
            "`max_unpool` leaves out values": {
                "indices out of range (write nothing if traced, negative or beyond `output_size`)": "max_unpool",
                "repeated indices (the last value is written, and alone has a gradient)": "max_unpool",
            },
            "`fractional_max_pool` needs": {
                "`_random_samples` (required: (N, C, pooled axes) floats in [0, 1))": "fractional_max_pool",
                "`output_ratio` (may be one float)": "fractional_max_pool",
            },
            "Not accepted are windows": {
                "windows of only padding (refused)": "max_pool",
                "`output_size=0` (refused)": "adaptive_max_pool adaptive_avg_pool",
            },
            "Errors are TypeError and ValueError.": {
                "dtypes (any real one)": "max_pool adaptive_max_pool fractional_max_pool lp_pool",
                "dtypes (any)": "avg_pool adaptive_avg_pool max_unpool",
                "channels (may be 0)": "",
                "errors": "",
            },
        },
    ),
    "flax": Library(
        "flax.nnx",
        {"max_pool": "max_pool", "min_pool": "min_pool", "avg_pool": "avg_pool"},
        {
            "Windows without overlap drop NaN": {_NAN: "max_pool min_pool"},
            "Padding of -inf ties": {_PADDING: "max_pool min_pool"},
            "float16 and bfloat16 are summed": {_HALVES: "avg_pool"},
            "Sums of integers wrap": {_INTEGERS: "avg_pool"},
            "Division multiplies": {_QUOTIENTS: "avg_pool"},
            "(low, high) pairs fail": {"pairs and lists (always work)": ""},
            "Not accepted are": {_COMPLEX: "max_pool min_pool", _SYMBOLIC: "", "an empty `window_shape` (refused)": ""},
        },
    ),
    "haiku": Library(
        "haiku",
        {"max_pool": "max_pool", "avg_pool": "avg_pool", "MaxPool": "max_pool", "AvgPool": "avg_pool"},
        {
            "The classes are not": {"modules (a dataclass, also outside `hk.transform`)": "MaxPool AvgPool"},
            "Windows without overlap drop NaN": {_NAN: "max_pool MaxPool"},
            "Padding of -inf ties": {_PADDING: "max_pool MaxPool"},
            "float16 and bfloat16 are summed": {_HALVES: "avg_pool AvgPool"},
            "Sums of integers wrap": {_INTEGERS: "avg_pool AvgPool"},
            '"SAME" counts cells': {_COUNTS: "avg_pool AvgPool"},
            "Division multiplies": {_QUOTIENTS: "avg_pool AvgPool"},
            "Not accepted are": {_COMPLEX: "max_pool MaxPool", _SYMBOLIC: "", "empty sizes (refused)": ""},
        },
    ),
    "equinox": Library(
        "equinox.nn",
        {
            "MaxPool": "max_pool",
            "AvgPool": "avg_pool",
            "AdaptiveMaxPool": "max_pool",
            "AdaptiveAvgPool": "avg_pool",
        },
        {
            "The layers are dataclasses": {"modules (a dataclass)": ""},
            "Windows without overlap drop NaN": {_NAN: "MaxPool AdaptiveMaxPool"},
            "Padding of -inf ties": {_PADDING: "MaxPool"},
            "Adaptive maxima share": {"ties (the first cell wins)": "AdaptiveMaxPool"},
            "float16 and bfloat16 are summed": {_HALVES: "AvgPool AdaptiveAvgPool"},
            "Sums of integers wrap": {_INTEGERS: "AvgPool AdaptiveAvgPool"},
            "Division multiplies": {_QUOTIENTS: "AvgPool AdaptiveAvgPool"},
            "`use_ceil` fails": {"`use_ceil` (always works)": "MaxPool AvgPool"},
            "Not accepted are": {_COMPLEX: "MaxPool AdaptiveMaxPool", _SYMBOLIC: ""},
            "Errors are TypeError and ValueError": {"errors": ""},
        },
    ),
    "keras": Library(
        "keras.ops",
        {
            "max_pool": "max_pool",
            "average_pool": "avg_pool",
            "adaptive_max_pool": "adaptive_max_pool",
            "adaptive_average_pool": "adaptive_avg_pool",
        },
        {
            "`strides=None` and lists fail": {"`strides=None` and lists (always work)": "max_pool average_pool"},
            "Windows without overlap drop NaN": {_NAN: "max_pool"},
            "Padding of -inf ties": {_PADDING: "max_pool"},
            "float16 and bfloat16 are summed": {_HALVES: "average_pool adaptive_average_pool"},
            '"same" counts cells': {_COUNTS: "average_pool"},
            "Sums of integers wrap": {_INTEGERS: "average_pool adaptive_average_pool"},
            "Division multiplies": {_QUOTIENTS: "average_pool adaptive_average_pool"},
            "Adaptive maxima resolve": {"ties (the first cell wins)": "adaptive_max_pool"},
            "Edges of adaptive bins": {"edges of bins (exact)": "adaptive_max_pool adaptive_average_pool"},
            "Not accepted are": {
                _COMPLEX: "max_pool adaptive_max_pool",
                _SYMBOLIC: "",
                "tensors of a model that is being built (refused)": "",
            },
            "Errors are TypeError and ValueError": {"errors": ""},
        },
    ),
}
