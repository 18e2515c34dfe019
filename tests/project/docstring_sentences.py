"""The text on results and derivatives in docstrings: sentences that functions share.

Choices and slots work as in `docstring_paragraphs.py`. A sentence is identified by its opening words, which are its key
here; sentences that open differently are a function's own.
"""

from tests.project import docstring_paragraphs
from tests.project.docstring_keys import (
    COMPUTED,
    EXPONENTIALS,
    INDEXED,
    MOMENTS,
    NORMS,
    SLIDING_EXTREMES,
    SUMMED,
    WEIGHED,
    WINNERS,
    Choice,
)

SLOTS: dict[str, Choice] = {
    **docstring_paragraphs.SLOTS,
    "window": {"kernel_size": "window", "output_size levels": "bin", "": "window"},
    "values": {
        "max_pool_with_indices": "max_pool",
        "min_pool_with_indices": "min_pool",
        "adaptive_max_pool_with_indices": "adaptive_max_pool",
        "fractional_max_pool_with_indices": "fractional_max_pool",
    },
    "Array": {f"{INDEXED} top_k_pool_with_indices": "Values", "": "Array"},
    "promoted": {
        "sum_pool": " (int32 for bool, which is counted)",
        "quantile_pool": " (if `method` averages, integers and bool: float32)",
        "stochastic_pool": " (without a key, integers and bool: float32)",
        "spatial_pyramid_pool": ' (with "avg", integers and bool: float32)',
        f"{SUMMED} {COMPUTED} median_pool roi_align": " (integers and bool: float32)",
    },
    "size": {
        "blur_pool": "1 (n/stride, rounded up, where cells are copied)",
        "": "1 without `ceil_mode`",
    },
    "numbered": {
        "max_pool_with_indices min_pool_with_indices": ", without padding",
        "adaptive_max_pool_with_indices": ", those kept by None included",
    },
    "copied": {"max_pool_with_indices min_pool_with_indices": "; a copy has that of its cell"},
    "weight": {"sum_pool": "1", "": "1/d[o]"},
    "constant": {
        "fractional_max_pool": ", and there is none for the samples",
        "fractional_max_pool_with_indices": " and the samples",
        "roi_pool": ", and there is none for the boxes, which are rounded",
    },
    "everything": {"mixed_pool": "the share of the maximum", "": "all"},
    "last": {"quantile_pool": ", so that q = 1 takes the last of equal maxima", "k": ", the first cell first"},
    "passed_on": {"max_blur_pool": " and reaches the outputs that hold it"},
    "magnitudes": {"global_gem_pool": "cells", "": "magnitudes"},
    "mean": {"gem_pool": "mean", "": "norm"},
    "infinity": {"min_pool": "+inf", "": "-inf"},
    "empty": {
        f"{INDEXED} top_k_pool_with_indices": "has the value 0, the index -1 and derivative 0",
        "": "is 0 with derivative 0",
    },
}

SENTENCES: dict[str, dict[str, Choice]] = {
    "Returns": {
        "{Array} of": {
            "max_pool fractional_max_pool max_blur_pool spatial_pyramid_pool": "Array of x's dtype{promoted}.",
            "top_k_pool": "Array of x's dtype and `max_pool`'s shape, with a new last axis of k cells: a pooled axis "
            "of n cells becomes floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + {size}.",
            "top_k_pool_with_indices": "Values of x's dtype and int32 indices, both of `top_k_pool`'s shape: that of "
            "`max_pool`, and a last axis of k cells.",
            "max_pool_with_indices min_pool_with_indices": "Values of x's dtype and int32 indices, both of "
            "`max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + {size}.",
            "stride": "Array of `max_pool`'s shape, floor((n + low + high - dilation·(kernel_size - 1) - 1)/stride) + "
            "{size}, and x's dtype{promoted}.",
            "values": "Array of the dtype of `values`; the pooled axes have the sizes in `output_size`.",
            "samples": "Values of x's dtype and int32 indices; a pooled axis of n cells becomes `output_size`, or "
            "⌊n·output_ratio⌋.",
            "adaptive_max_pool_with_indices": "Values of x's dtype and int32 indices; the pooled axes have the "
            "sizes in `output_size`.",
            "boxes": "Array of x's dtype{promoted} and of shape (count, …): the boxes, then the axes of x, the pooled "
            "ones with the sizes in `output_size`.",
            "adaptive_max_pool adaptive_avg_pool": "Array of x's dtype{promoted}; the pooled axes have the sizes in "
            "`output_size`.",
            "keepdims": "Array of x's dtype{promoted}; the pooled axes have size 1, or are dropped without `keepdims`.",
        },
        "An index is": {
            "top_k_pool_with_indices": "An index is the row-major position of a cell in x's pooled axes, without "
            "padding, in x's own order; a copy has that of its cell.",
            INDEXED: "An index is the winner's row-major position in x's pooled axes{numbered}, in x's own "
            "order{copied}.",
        },
        "16-bit floats": {
            "sum_pool": "16-bit floats are summed in float32 and rounded once.",
            COMPUTED: "16-bit floats are computed in float32 and rounded once.",
        },
        "Sums are": {f"{SUMMED} roi_align": "Sums are in float32 or wider and rounded once."},
        "Other axes": {
            "max_pool": "Other axes are unchanged.",
            "fractional_max_pool": "Other axes are unchanged; each of their entries has its own windows.",
        },
    },
    "Derivative": {
        "∂y[o]/∂x[i] = 1": {
            WINNERS: "∂y[o]/∂x[i] = 1 if i is the winner of {window} o, else 0; higher derivatives are 0{constant}.",
            "sum_pool avg_pool adaptive_avg_pool": "∂y[o]/∂x[i] = {weight} for i in {window} o, else 0; "
            "higher derivatives are 0.",
        },
        "That of `{values}` for the values": {
            INDEXED: "That of `{values}` for the values: 1 at the winner, else 0; none for the indices{constant}."
        },
        "Ties: the first": {
            f"{WINNERS} {INDEXED} mixed_pool max_blur_pool global_max_pool": "Ties: the first winner in "
            "row-major order takes {everything}."
        },
        "Ties: equal cells": {"median_pool quantile_pool k": "Ties: equal cells are sorted in row-major order{last}."},
        "Ties: for p = inf": {
            "norm_type": "Ties: for p = inf, the first of the largest {magnitudes} in row-major order takes all."
        },
        "Zeros are ordinary": {"mixed_pool spatial_pyramid_pool": "Zeros are ordinary."},
        "Ties share equally": {f"{EXPONENTIALS} {MOMENTS}": "Ties share equally; zeros are ordinary."},
        "Ties and zeros": {
            f"sum_pool avg_pool blur_pool adaptive_avg_pool global_avg_pool roi_align {WEIGHED}": "Ties and zeros are "
            "ordinary."
        },
        "+0 and -0": {"median_pool quantile_pool k": "+0 and -0 tie."},
        "A cell of 0": {NORMS: "A cell of 0 has derivative 0, also for p < 1, where it would be infinite."},
        "A window that is": {
            NORMS: "A window that is all zeros, all padding or emptied by `where` is 0; it and, for finite p, an "
            "infinite {mean} have derivative 0 at every order."
        },
        "NaN wins": {
            f"{WINNERS} {INDEXED} max_blur_pool global_max_pool": "NaN wins over numbers{passed_on}; NaNs "
            "tie, as +0 and -0 do."
        },
        "NaN stays": {
            f"{NORMS} {EXPONENTIALS} {MOMENTS} {WEIGHED} mixed_pool": "NaN stays in its windows.",
        },
        "NaN and infinities reach": {
            "sum_pool avg_pool blur_pool adaptive_avg_pool": "NaN and infinities reach only their {window}s, "
            "no derivative.",
            "global_avg_pool": "NaN and infinities reach no derivative.",
        },
        "NaN: a window": {"median_pool quantile_pool": "NaN: a window with NaN is NaN, and its first NaN takes all."},
        "A window that holds an infinity": {MOMENTS: "A window that holds an infinity is NaN, too."},
        "A window that has no more": {
            MOMENTS: "A window that has no more than c cells, or that `where` empties, is 0 with derivative 0."
        },
        "NaN comes": {"k": "NaN comes before every number, the first NaN first."},
        "A rank that": {
            "k": "A rank that a window does not have {empty}; those of a window that `where` empties are of this kind."
        },
        "A mean of infinities": {"median_pool quantile_pool": "A mean of infinities of both signs is NaN."},
        "A cell of -inf": {
            EXPONENTIALS: "A cell of -inf (for β < 0: +inf) has weight 0, a window of infinite value derivative 0."
        },
        "Padding and masked": {
            "max_pool min_pool": "Padding and masked cells never win, not even against {infinity}.",
        },
        "Masked cells": {
            "adaptive_max_pool global_max_pool": "Masked cells never win, not even against -inf.",
        },
        "A {window} that `where`": {
            f"{SLIDING_EXTREMES} avg_pool adaptive_max_pool adaptive_max_pool_with_indices adaptive_avg_pool levels "
            "mellowmax_pool soft_pool samples": "A {window} that `where` empties {empty}.",
        },
        "A window that holds": {
            "sum_pool blur_pool": "A window that holds only padding, or that `where` empties, is 0 with derivative 0."
        },
        "Where `where` leaves": {"keepdims": "Where `where` leaves no cell, y is 0 with derivative 0."},
        "No {window} is empty": {"roi_align": "No {window} is empty."},
        "For 16-bit floats": {
            "boxes": "For 16-bit floats, the cotangents of a cell are summed in float32; a GPU may add them in any "
            "order."
        },
    },
}
