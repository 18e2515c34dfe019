"""Faults to plant in windows given as values, in footprints and morphology, and in words that stand for numbers."""

from tests.project.fault import Fault

FAULTS = (
    Fault(
        "one number of bins for one axis",
        "numbers[0] if len(numbers) == 1 and axis is not None else None",
        "None",
        "test_kernel_sizes -k names",
    ),
    Fault(
        "smaller bins counted as full",
        "or window.zeros or window.is_full",
        "or window.zeros or not window.has_padding",
        "test_kernel_sizes -k bins",
    ),
    Fault(
        "footprints in the order of axis",
        "footprint.in_order(np.argsort(pooled_axes(function, shape, axis)).tolist())",
        "footprint.in_order(range(len(footprint.shape)))",
        "test_values -k footprint",
    ),
    Fault(
        "cells of the box counted",
        "total = self.held.astype(np.int64)",
        "total = np.ones(self.shape, np.int64)",
        "test_values -k footprint",
    ),
    Fault(
        "variances over the cells of the box",
        "cells=float(window.held)",
        "cells=float(window.cells)",
        "test_variance -k footprints",
    ),
    Fault(
        "cotangents of the cells of the box",
        "covered = bool(held.all()) or jnp.asarray(held)",
        "covered = True",
        "test_derivatives -k footprint",
    ),
    Fault(
        "offsets of ranks without the gaps of a footprint",
        "np.diff(window.numbers, append=window.cells)",
        "1",
        "test_derivatives -k footprint",
    ),
    Fault(
        "footprints sent back in the same direction",
        "footprint=self.footprint.mirrored()",
        "footprint=self.footprint",
        "test_large_footprints",
    ),
    Fault(
        "winners of runs in the order of their lengths",
        "of_one_length, in_any_order), cells, window, runs)",
        "of_one_length, in_order), cells, window, runs)",
        "test_large_footprints -k ties",
    ),
    Fault(
        "runs that hold the cell after their last",
        "within < number(length)[()]",
        "within <= number(length)[()]",
        "test_large_footprints -k ties",
    ),
    Fault(
        "winners sent from runs in the padding lost",
        "for low, high in [(0, 0) if axis is along else (axis.low, axis.overhang)]",
        "for low, high in [(axis.low, axis.overhang)]",
        "test_large_footprints -k ties",
    ),
    Fault(
        "sums of runs that share cells",
        "rest if disjoint or not made else known[-1]",
        "known[-1] if made else rest",
        "test_large_footprints",
    ),
    Fault(
        "all cells of a block",
        "jax.tree.map(partial(jnp.where, held[first + number]), folded, result)",
        "folded",
        "test_large_footprints",
    ),
    Fault(
        "places of quantiles by one method",
        "self.q * (1 - alpha - beta) + alpha - 1",
        "-self.q",
        "test_quantiles",
    ),
    Fault(
        "amounts beside a word for copies",
        "if self.amounts is not None:\n            return",
        "if self.amounts is not None and self.extension is None:\n            return",
        "test_extension",
    ),
    Fault(
        "heights of dilations not mirrored",
        "        heights = jnp.flip(heights, own)\n",
        "        heights = heights\n",
        "test_morphology",
    ),
    Fault(
        "heights in the order of the array",
        "own = axes if heights.ndim > len(axes) else range(heights.ndim)",
        "own = axes if heights.ndim == array.ndim else range(heights.ndim)",
        "test_morphology -k order_of_the_axes",
    ),
    Fault(
        "footprints of dilations not mirrored",
        "element.mirrored() if isinstance(element, Footprint) and mirrored else element",
        "element",
        "test_morphology",
    ),
    Fault(
        "heights of erosions with the sign of dilations",
        "values_dot += _sign(op) * apply_linear_map(read, heights_dot, offsets, like=values)",
        "values_dot += apply_linear_map(read, heights_dot, offsets, like=values)",
        "test_morphology",
    ),
    Fault(
        "heights of -inf as cells",
        "is_present & (height != -jnp.inf)",
        "is_present",
        "test_morphology",
    ),
    Fault(
        "heights of one row for all channels",
        "rows = jnp.arange(math.prod(shape), dtype=np.int32).reshape(shape) * np.int32(cells)",
        "rows = jnp.zeros(shape, np.int32)",
        "test_morphology",
    ),
    Fault("GPUs compiled for as CPUs", '"cuda": "gpu", "rocm": "gpu"', '"cuda": "cpu", "rocm": "cpu"', "test_contexts"),
)
