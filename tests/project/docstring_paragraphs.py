"""The text on arguments in docstrings: one row per wording, which `docstrings.py` writes into them.

A choice is read from top to bottom, and a function gets the text of the first key that names it: by its name
(`flax.max_pool` is that of `jaxpool.compat.flax`), by its module (`flax`), or by an argument that it has. An empty key
names all functions. A function that no key names keeps its own words. Text in braces is another choice, in `SLOTS`,
and empty if that has nothing for a function; {function} is its name.
"""

from tests.project.docstring_keys import (
    COMPLEX,
    TORCH_FAMILIES,
    TORCH_NORMS,
    TORCH_RANDOM,
    TORCH_UNPOOLS,
    Choice,
    of_torch,
)

_SIDES = '"VALID" (none), "SAME" (n/stride windows, rounded up; an odd cell goes high)'
_LEARNT = (
    "that broadcasts to the output{reduced} (one per channel, say) and may be learnt. Traced values are not checked."
)
_BINS = "Number of bins, one int per pooled axis: (7, 7) pools two axes."
_OF_EVERY_AXIS = "An int is for every axis in `axis`."

SLOTS: dict[str, Choice] = {
    "axes": {
        of_torch(*TORCH_FAMILIES, ranks=(1,)): "L",
        f"{of_torch(*TORCH_FAMILIES, ranks=(2,))} torch.fractional_max_pool2d": "H, W",
        "torch": "D, H, W",
    },
    "array": {"input": "input", "inputs": "inputs", "value": "value", "values": "`values`", "": "x"},
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
    "layer": {"haiku.MaxPool": "max_pool", "haiku.AvgPool": "avg_pool"},
    "rank": {"torch.fractional_max_pool2d": "2", "torch": "3"},
    "reduced": {"global_gem_pool": " with `keepdims`"},
    "sign": {"smooth_max_pool": " ≠ 0", "": " of any sign, 0 included"},
    "source": {"soft_pool": " (1 in the source)"},
    "mapped": {
        "": "Under `jax.vmap` a key that is not mapped gives every item the same random numbers: map over "
        "jax.random.split(key, n) as well."
    },
}

ARGUMENTS: dict[str, Choice] = {
    "x": {
        "boxes": "Array of any shape; bool, integers, float16, bfloat16, {floats}. All boxes refer to this one array: "
        "for a batch of images, each with its own boxes, write "
        "jax.vmap(lambda x, boxes: jaxpool.{function}(x, boxes, (7, 7)))(images, boxes).",
        "": "Array of any shape; bool, integers, float16, bfloat16, {floats}.",
    },
    "input": {"": "Array of shape (N, C, {axes}) or (C, {axes}); bool, integers, float16, bfloat16, {floats}."},
    "indices": {
        "torch": "Integers of the same shape: row-major positions in the pooled axes of the output, as returned by the "
        "pool. One out of range writes nothing.",
        "": "Integers of the same shape: row-major positions in the pooled axes of the output, as returned by "
        "`max_pool_with_indices`. An index below 0 or past the end writes nothing.",
    },
    "values": {"": "Array of any shape; bool, integers, float16, bfloat16, {floats}."},
    "inputs": {
        "keras": "Array with an axis of batch, the spatial axes and one axis of channels, which comes second if the "
        "format is channels first; bool, integers, float16, bfloat16, {floats}.",
        "": "Array with any number of batch axes, or none, then the spatial axes, then one axis of features; bool, "
        "integers, float16, bfloat16, {floats}.",
    },
    "value": {"": "Array of any shape, or a list of numbers; bool, integers, float16, bfloat16, {floats}."},
    "kernel_size": {
        TORCH_UNPOOLS: "Window size of the pool, an int for all axes or one per axis.",
        "torch equinox": "Window size, an int for all axes or one per axis.",
        "": f"Window size, one int per pooled axis: (3, 3) pools two axes. {_OF_EVERY_AXIS}{{two_axes}}",
    },
    "window_shape": {
        "flax": "Window size, one int per spatial axis.",
        "haiku.MaxPool haiku.AvgPool": "Window size, as for `{layer}`.",
        "": "Window size, one int per axis; if there are fewer ints than axes, they are for the last ones. An int is "
        "for every axis but the first and `channel_axis`.",
    },
    "stride": {
        "equinox": "Cells from one window to the next, an int or one per axis.",
        TORCH_UNPOOLS: "Stride of the pool, an int or one per axis; `kernel_size` if None.",
        "torch": "Cells from one window to the next, an int or one per axis; `kernel_size` if None.",
        "": "{stepping} to the next: an int, or one int per axis; `kernel_size` if None.",
    },
    "strides": {
        "keras": "Cells from one window to the next, an int for all spatial axes or one per axis; `pool_size` if None.",
        "flax": "Cells from one window to the next, one int per spatial axis; 1 along all of them if None.",
        "": "Cells from one window to the next, given like `window_shape`.",
    },
    "pool_size": {"": "Window size, an int for all spatial axes or one per axis."},
    "data_format": {
        "": '"channels_last", "channels_first" or, if None, that of `keras.config`: channels last without Keras.'
    },
    "padding": {
        "keras": '"valid" (none) or "same" (n/stride windows, rounded up; an odd cell goes high).',
        "equinox": "Cells added on each side: an int, an int per axis or a (low, high) pair per axis; at most "
        "`kernel_size`.",
        TORCH_UNPOOLS: "Padding of the pool, an int or one per axis.",
        "torch": "Cells added on both sides, an int or one per axis; at most half a window.",
        "flax.max_pool": f'{_SIDES}, "SAME_LOWER" (an odd cell goes low) or a (low, high) pair per spatial axis.',
        "flax": '"VALID", "SAME", "SAME_LOWER" or a (low, high) pair per spatial axis.',
        "haiku.MaxPool haiku.AvgPool": '"VALID" or "SAME".',
        "haiku": '"VALID" (none) or "SAME" (n/stride windows, rounded up; an odd cell goes high).',
        "max_pool": "Cells added on each side: an int, an int per axis, a (low, high) pair per axis, "
        f'{_SIDES} or "SAME_LOWER" (an odd cell goes low). Or copies of the cells of x, as in `np.pad`: "WRAP" (from '
        'the other end), "REFLECT" (mirrored, without repeating the outermost cell) or "EDGE" (of the outermost cell), '
        "(e - 1)//2 low and e//2 high, with e as below. Copies are real cells: they may win, and the derivative with "
        "respect to a cell is the sum over its copies.",
        "max_blur_pool": "How the maxima are padded before they are blurred, as in `blur_pool`: with copies of them "
        '("WRAP", "REFLECT" or "EDGE") or with zeros (an int, an int per axis, a (low, high) pair per axis, "VALID", '
        '"SAME" or "SAME_LOWER"). The cells themselves are not padded.',
        "": 'Cells added on each side, as in `max_pool`: 1, (1, 2), ((0, 1), (2, 1)), "SAME", "REFLECT" or others.'
        "{drawn}",
    },
    "dilation": {"": "Cells from one cell of a window to the next: an int, or one int per axis."},
    "ceil_mode": {
        TORCH_NORMS: "Whether a last window may extend past the end; its norm is scaled to a whole window.",
        "": "Whether a last window that starts before the high padding may end past it; nothing there counts.",
    },
    "use_ceil": {
        "": "Whether another stride is added to the high padding of an axis where the windows do not end with its "
        "cells."
    },
    "target_shape": {"": "Number of bins, an int for all axes or one per axis; at most the number of cells."},
    "count_include_pad": {
        "divisor_override flax.avg_pool torch.avg_pool1d": "Whether padded cells count in the divisor.",
        "mixed_pool": "Whether padded cells count in the divisor of the average; they are never the maximum.",
        "": "Whether padded cells take part, as zeros.{zeros}",
    },
    "divisor_override": {"": "Number by which every sum is divided instead; finite and not 0."},
    "norm_type": {"": f"Exponent p > 0: a Python number, inf included, or an array of finite numbers {_LEARNT}"},
    "alpha": {
        "": "Share α of the maximum, dimensionless: 1 for the maximum, 0 for the average. A finite number, or an array "
        f"{_LEARNT}"
    },
    "beta": {"": f"Sharpness β{{sign}}, in units of 1/x{{source}}. A finite number, or an array {_LEARNT}"},
    "output_size": {
        TORCH_UNPOOLS: "Size of the output, with or without N and C in front: any that the pool would have made the "
        "shape of input of. If None, (n - 1)·stride + kernel_size - 2·padding.",
        TORCH_RANDOM: "Number of windows, an int for all axes or one per axis. Give this or `output_ratio`.",
        "torch": "Number of bins, an int for all axes or one per axis; None keeps an axis as it is.",
        "keras": "Number of bins, an int for all spatial axes or one per axis.",
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
    "return_indices": {"": "Whether to return the position of every value too."},
    "_random_samples": {
        "": "Required: floats in [0, 1) of shape (N, C, {rank}), with N = 1 where input has none, as drawn by "
        "`jax.random.uniform`."
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
        "keepdims": "The pooled axes, an int or several.",
        "": "The pooled axes, in the order of {sizes}; the last ones if None. For channels last: (-3, -2).",
    },
    "channel_axis": {"": "Axis that an int leaves unpooled, besides the first one; none if None."},
    "keepdims": {"": "Whether the pooled axes remain, with size 1: (N, 1, 1, C); if not, they are dropped: (N, C)."},
    "where": {"": "Boolean mask that broadcasts to x.shape, or None. Cells where it is False are treated as absent."},
    "rule": {"": '"jvp" for every mode and order of differentiation; "vjp" for a hand-written backward pass only.'},
    "name": {"": 'Name of the layer; "{layer}" if None.'},
}
