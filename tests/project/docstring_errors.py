"""The error conditions in docstrings, listed in full; those that apply appear in this order.

Choices and slots work as in `docstring_paragraphs.py`.
"""

from tests.project.docstring_keys import COMPLEX, EXPONENTIALS, INDEXED, MOMENTS, SLIDING_EXTREMES, WEIGHED, Choice

ERRORS: dict[str, tuple[Choice, ...]] = {
    "TypeError": (
        {
            "bins": "a number is not an int",
            "footprint": "`cells` is not bool, or traced",
            COMPLEX: "{array} is not an array",
            "": "{array} is complex or not an array",
        },
        {"bins footprint": "", "keepdims": "an axis is not an int", "": "a size is not an int"},
        {"bins footprint": "", "": "another argument has the wrong type"},
    ),
    "ValueError": (
        {"samples": "not exactly one of `output_size` and `output_ratio`, or of `key` and `samples`, is given"},
        {"samples": "a ratio is not between 0 and 1"},
        {"q": "q is not in [0, 1]"},
        {"k": "k is less than 1"},
        {
            "bins": "there is no number, or one is less than 1",
            "footprint": "`cells` has no axis, has rows of different lengths, or none is True",
            "compiling_for": "there is no such platform",
            "values": "arguments do not fit `values`",
            "": "arguments do not fit x",
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
        {"correction": "`correction` is negative or not finite"},
        {"keepdims": "a pooled axis has no cells"},
        {"method": "`method` or `rule` is unknown", "kind": "`kind` or `rule` is unknown", "rule": "`rule` is unknown"},
        {
            f"{SLIDING_EXTREMES} {WEIGHED} k": "a window holds only padding",
            "avg_pool": "a window holds only padding, with neither `count_include_pad` nor `divisor_override`",
            f"gem_pool {EXPONENTIALS} {MOMENTS}": "a window holds only padding, without `count_include_pad`",
        },
        {
            f"{INDEXED} top_k_pool_with_indices": "indices exceed int32",
            "roi_pool": "there are too many cells or bins for int32",
            "max_unpool": "the output has too many cells for int32",
        },
    ),
}
