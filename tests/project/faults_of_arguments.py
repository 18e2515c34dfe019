"""Faults to plant in what arguments mean: words for padding, letters for axes, windows that end beyond the padding."""

from tests.project.fault import Fault

FAULTS = (
    Fault(
        "copies without the outermost cell",
        "last - abs(2 * size - 1 - 2 * (positions % (2 * size))) // 2",
        "last - abs(last - positions % max(1, 2 * last))",
        "test_extension",
    ),
    Fault("semicausal as causal", "max(extent - stride, 0)", "extent - 1", "test_extension"),
    Fault(
        "padding lost beside copies",
        "a if a.extension is None else a.after_padding()",
        "a.after_padding()",
        "test_extension",
    ),
    Fault("channels pooled", 'if letter not in "NC"', 'if letter != "N"', "test_errors test_newcomers"),
    Fault(
        "high padding without weight",
        "(cells < axis.size + axis.high) @",
        "(cells < axis.size) @",
        "test_blur test_values -k blur",
    ),
    Fault(
        "masked cells at random positions",
        "= extremes(wide, mask,",
        "= extremes(wide, None,",
        "test_values -k fractional",
    ),
    Fault(
        "indices of the largest cell",
        "values_and_residuals(_Winners(kept, op, x.dtype)",
        "values_and_residuals(_Winners(kept, lax.max, x.dtype)",
        "test_identities",
    ),
)
