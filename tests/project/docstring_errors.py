"""The error conditions in docstrings, listed in full; those that apply appear in this order.

Choices and slots work as in `docstring_paragraphs.py`.
"""

from tests.project.docstring_keys import (
    COMPLEX,
    EXPONENTIALS,
    INDEXED,
    SLIDING_EXTREMES,
    TORCH_AVERAGES,
    TORCH_MAXIMA,
    TORCH_UNPOOLS,
    Choice,
)

ERRORS: dict[str, tuple[Choice, ...]] = {
    "TypeError": (
        {COMPLEX: "{array} is not an array", "": "{array} is complex or not an array"},
        {"keepdims": "an axis is not an int", "": "a size is not an int"},
        {"": "another argument has the wrong type"},
    ),
    "ValueError": (
        {"samples": "not exactly one of `output_size` and `output_ratio` is given"},
        {"samples": "not exactly one of `key` and `samples` is given"},
        {"samples": "a ratio is not between 0 and 1"},
        {"q": "q is not in [0, 1]"},
        {
            "flax": "inputs and sizes do not match",
            "haiku": "value, sizes and `channel_axis` do not match",
            TORCH_UNPOOLS: "input, indices and sizes do not match",
            "torch": "input and sizes do not match",
            "keras": "inputs and sizes do not match",
            "keepdims": "x, axes{parameter} and `where` do not match",
            "boxes": "x, boxes, sizes and axes do not match",
            "indices": "values, indices, sizes and axes do not match",
            "levels": "x, levels, axes and `where` do not match",
            "samples": "x, samples, sizes and axes do not match",
            "": "x, sizes, axes{parameter} and `where` do not match",
        },
        {"levels": "there is no level"},
        {"sampling_ratio": "`sampling_ratio` is less than 1"},
        {
            "norm_type": "`norm_type` is not positive",
            "smooth_max_pool": "`beta` is 0 or not finite",
            "beta": "`beta` is not finite",
            "alpha": "`alpha` is not finite",
        },
        {"eps": "`eps` is negative or not finite"},
        {"divisor_override": "`divisor_override` is 0 or not finite"},
        {"keepdims": "a pooled axis has no cells"},
        {"haiku": "`padding` is unknown"},
        {
            "keras.max_pool keras.average_pool": "`padding` or `data_format` is unknown",
            "keras": "`data_format` is unknown",
        },
        {f"{TORCH_MAXIMA} {TORCH_AVERAGES}": "`padding` is more than half a window"},
        {"_random_samples": "`_random_samples` or the number of windows is missing"},
        {"method": "`method` or `rule` is unknown", "kind": "`kind` or `rule` is unknown", "rule": "`rule` is unknown"},
        {
            f"{SLIDING_EXTREMES} {TORCH_MAXIMA}": "a window holds only padding",
            "avg_pool": "a window holds only padding, with neither `count_include_pad` nor `divisor_override`",
            f"gem_pool {EXPONENTIALS}": "a window holds only padding, without `count_include_pad`",
        },
        {f"{INDEXED} return_indices roi_pool": "the pooled axes have too many cells for int32"},
        {f"max_unpool {TORCH_UNPOOLS}": "the output has too many cells for int32"},
    ),
}
