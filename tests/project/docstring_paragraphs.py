"""The text on arguments in docstrings: one row per wording, which `docstrings.py` writes into them.

A choice is read from top to bottom, and a function gets the text of the first key that names it: by its name, or by an
argument that it has. An empty key names all functions. A function that no key names keeps its own words. Text in braces
is another choice, in `SLOTS`, and empty if that has nothing for a function; {function} is its name.
"""

from tests.project.docstring_keys import COMPLEX, Choice

_SIDES = (
    '"VALID" (none), "SAME" (n/stride windows, rounded up; an odd cell goes high), "SAME_LOWER" (an odd cell goes '
    'low), "CAUSAL" (e - 1 low) or "SEMICAUSAL" (max(e - stride, 0) low, the rest of e - 1 high), with e as below.'
)
_LEARNT = "that broadcasts to the output{reduced} (one per channel, say) and may be learnt. {unchecked}"
_BINS = "Number of bins, one int per pooled axis: (7, 7) pools two axes."
_OF_EVERY_AXIS = "An int is for every axis in `axis`."
_WINDOW = f"Window size, one int per pooled axis: (3, 3) pools two axes. {_OF_EVERY_AXIS}"

SLOTS: dict[str, Choice] = {
    "array": {"values": "`values`", "": "x"},
    "floats": {COMPLEX: "float32, float64, complex64 or complex128", "": "float32 or float64"},
    "sizes": {
        "kernel_size": "`kernel_size`",
        "levels": "each level",
        "": "`output_size`",
    },
    "two_axes": {"blur_pool": " The default is for two axes; for one, write (3,), or 3 and an axis."},
    "stepping": {"max_blur_pool": "Maxima from one output", "": "Cells from one window"},
    "drawn": {"stochastic_pool": " Added cells are never drawn, but copies may be."},
    "zeros": {"smooth_max_pool": " If not, the limits are `max_pool` and `min_pool`."},
    "reduced": {"global_gem_pool": " with `keepdims`"},
    "sign": {"smooth_max_pool": " ≠ 0", "": " of any sign, 0 included"},
    "unchecked": {
        "norm_type": "A traced p of 0 or less gives NaN, so train raw in 1 + jax.nn.softplus(raw).",
        "": "Traced values are not checked.",
    },
    "source": {"soft_pool": " (1 in the source)"},
    "mapped": {
        "": "Under `jax.vmap` an unmapped key gives all items the same numbers: map over jax.random.split(key, n) too."
    },
}

ARGUMENTS: dict[str, Choice] = {
    "x": {
        "boxes": "Array of any shape; bool, integers, float16, bfloat16, {floats}. All boxes refer to this one array: "
        "for a batch of images, each with its own boxes, write "
        "jax.vmap(lambda x, boxes: jaxpool.{function}(x, boxes, (7, 7)))(images, boxes).",
        "": "Array of any shape; bool, integers, float16, bfloat16, {floats}.",
    },
    "indices": {
        "": "Integers of the same shape: row-major positions in the pooled axes of the output, as returned by "
        "`max_pool_with_indices`. An index below 0 or past the end writes nothing.",
    },
    "values": {"": "Array of any shape; bool, integers, float16, bfloat16, {floats}."},
    "k": {"": "The number of cells, an int of at least 1; it may exceed that of the cells of a window."},
    "kernel_size": {
        "blur_pool blur_size samples": f"{_WINDOW}{{two_axes}}",
        "": f"{_WINDOW} Or `bins`, `whole` or a `footprint`.",
    },
    "stride": {
        "": "{stepping} to the next: an int, or one int per axis; `kernel_size` if None.",
    },
    "padding": {
        "max_pool": "Cells added on each side: an int, an int per axis, a (low, high) pair per axis, "
        f'{_SIDES} Or copies of the cells of x, as in `np.pad`: "WRAP" (from the other end), "REFLECT" (mirrored, '
        'without repeating the outermost cell), "SYMMETRIC" (mirrored with it) or "EDGE" (of the outermost cell), '
        "(e - 1)//2 low and e//2 high. Copies are real cells: they may win, and the derivative with respect to a cell "
        "is the sum over its copies. An entry for an axis may be a word too, or a word for copies with amounts, as in "
        'padding=("CAUSAL", ("REFLECT", (2, 1)), (0, 1)). Words may be in lower case.',
        "max_blur_pool": "How the maxima are padded before they are blurred, as in `blur_pool`: with copies of them "
        '("REFLECT" and similar words) or with zeros (an int, an int per axis, a (low, high) pair per axis, "SAME" and '
        "similar words). The cells themselves are not padded.",
        "": 'Cells added on each side, as in `max_pool`: 1, (1, 2), ((0, 1), (2, 1)), "SAME", "REFLECT" or others.'
        "{drawn}",
    },
    "dilation": {"": "Cells from one cell of a window to the next: an int, or one int per axis."},
    "ceil_mode": {
        "": "Whether a last window that starts before the high padding may end past it; nothing there counts.",
    },
    "count_include_pad": {
        "divisor_override": "Whether padded cells count in the divisor.",
        "mixed_pool": "Whether padded cells count in the divisor of the average; they are never the maximum.",
        "": "Whether padded cells take part, as zeros.{zeros}",
    },
    "correction": {
        "": "Number c ≥ 0 that is subtracted from the number of cells: 0 for the variance of the cells, 1 for an "
        "unbiased estimate of that of a population, PyTorch's default.",
    },
    "divisor_override": {"": "Number by which every sum is divided instead; finite and not 0."},
    "norm_type": {"": f"Exponent p > 0: a Python number, inf included, or an array of finite numbers {_LEARNT}"},
    "alpha": {
        "": "Share α of the maximum, dimensionless: 1 for the maximum, 0 for the average. A finite number, or an array "
        f"{_LEARNT}"
    },
    "beta": {"": f"Sharpness β{{sign}}, in units of 1/x{{source}}. A finite number, or an array {_LEARNT}"},
    "output_size": {
        "kernel_size": "Number of windows, an int or one per axis, up to n - kernel_size + 1. Give this or "
        "`output_ratio`.",
        "max_unpool": "Size of the output, one int per pooled axis: (8, 8) for two axes; all of x.shape only if all "
        f"axes were pooled. It is not the window, which is PyTorch's third argument. {_OF_EVERY_AXIS}",
        "boxes": f"{_BINS} {_OF_EVERY_AXIS}",
        "": f"{_BINS} It may exceed the number of cells; None keeps an axis as it is. {_OF_EVERY_AXIS}",
    },
    "output_ratio": {"": "Windows per cell of the input: a float between 0 and 1, or one float per axis."},
    "key": {
        "samples": "A `jax.random` key, typed or raw uint32, that draws the windows. Give this or `samples`. {mapped}",
        "": "A `jax.random` key, typed or raw uint32: the same key draws the same cells. None for the mean. {mapped}",
    },
    "samples": {
        "": "The numbers u in [0, 1), for windows that are known: floats whose shape is that of the axes of x that are "
        "not pooled, then the number of pooled axes, in the order of `kernel_size`. For two pooled axes of (N, C, H, "
        "W) that is (N, C, 2), and PyTorch's `_random_samples` is samples[..., ::-1]; for three it is `samples`."
    },
    "boxes": {
        "": "Floats of shape (count, 2·D) for D pooled axes, in cells of x: the low corner, then the high corner, each "
        "in the order of the pooled axes. Torchvision's (x1, y1, x2, y2) on the axes (height, width) becomes "
        "boxes[:, jnp.array([1, 0, 3, 2])] * spatial_scale. A box may extend beyond x."
    },
    "axis": {
        "keepdims": 'The pooled axes, an int or several, or letters for all axes: "NHWC" pools those but N and C.',
        "": 'The pooled axes, in the order of {sizes}; the last ones if None. Channels last: "NHWC" or (-3, -2).',
    },
    "keepdims": {"": "Whether the pooled axes remain, with size 1: (N, 1, 1, C); if not, they are dropped: (N, C)."},
    "where": {"": "Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent."},
    "rule": {
        "": '"jvp" for every mode and order of differentiation; "vjp" for reverse mode only, as a `jax.custom_vjp`.'
    },
}
