"""Faults to plant in the lowerings of GPUs and TPUs, and in the communication between devices."""

from tests.project.fault import Fault

FAULTS = (
    Fault(
        "select-and-scatter among NaN",
        "if_all(jnp.isfinite(values), native",
        "if_all(~jnp.isnan(values).all(), native",
        "test_platforms -k winners",
    ),
    Fault(
        "select-and-scatter at edges",
        "if not (on_one_device() or all(axis.extent < 2 * axis.stride for axis in window.axes)):",
        "if False:",
        "test_platforms -k sharded",
    ),
    Fault(
        "bins summed in 16 bits",
        "lax.reduce(cells.astype(dtype), identity(op, dtype), op, (axis.axis,)) for cells",
        "lax.reduce(cells, identity(op, cells.dtype), op, (axis.axis,)).astype(dtype) for cells",
        "test_platforms -k sixteen",
    ),
    Fault(
        "stages of arrays that devices do not divide",
        'if call.apart and platform == "cpu" and most_devices() == 1:',
        'if call.apart and platform == "cpu":',
        "test_sharding -k several_devices",
    ),
    Fault(
        "cotangents of what devices share, by masks that differ",
        "vector = jax.tree.map(lambda each: vary_with(each, *others), vector)",
        "vector = jax.tree.map(lambda each: each, vector)",
        "test_sharding -k several_devices",
    ),
    Fault(
        "second derivatives of sums inside shard_map",
        "in pool.platforms and lowered_for_one_device()",
        "in pool.platforms and (lowered_for_one_device() or not jax.sharding.get_abstract_mesh().empty)",
        "test_sharding -k several_devices",
    ),
    Fault(
        "windows that another device has",
        "self.windows + self.bounds[:-1] - self.first",
        "self.windows",
        "test_sharding -k several_devices",
    ),
    Fault(
        "positions among the cells of a device",
        "[index + first.get(axis.axis, 0) for index, axis in indices]",
        "[index for index, axis in indices]",
        "test_sharding -k several_devices",
    ),
    Fault(
        "parts of rows that come later",
        "late = [axis for axis in window.axes if axis.axis < parts.along.axis]",
        "late: list = []",
        "test_sharding -k several_devices",
    ),
    Fault(
        "padding of the first device for all",
        "[self.kinds.index(padding) for padding in self.paddings]",
        "[0 for padding in self.paddings]",
        "test_sharding -k several_devices",
    ),
    Fault(
        "base dilation, outputs side by side",
        "return low, high, self.spacing - 1",
        "return low, high + (self.outputs - 1) * (self.spacing - 1), 0",
        "test_platforms -k tpu and max",
    ),
    Fault(
        "the last of pairs",
        "swapped = one[1] > other[1]",
        "swapped = one[1] < other[1]",
        "test_platforms -k winners",
    ),
    Fault(
        "zeros between, shifted",
        "before = axis.extent - 1 - axis.low\n        length",
        "before = axis.extent - axis.low\n        length",
        "test_platforms -k tpu and (sum or avg)",
    ),
    Fault(
        "paddings of neighbours reused",
        "_rounded_to_more_bits(array, 1 if fill < 0 else 2) if np.isinf(fill) else array",
        "array",
        "test_platforms -k sharded",
    ),
    Fault(
        "types that do not vary",
        "math.prod((jnp.ones_like(other, shape=(), dtype=array.dtype) for other in others), start=array)",
        "array",
        "test_sharding -k loops",
    ),
    Fault("axes that devices do not divide", "spec[axis] = None", "pass", "test_sharding"),
    Fault(
        "bins that end at an edge, on a TPU",
        "(starts <= first) & (end <= ends)",
        "(starts <= first) & (end < ends)",
        "test_platforms -k bins and tpu",
    ),
    Fault(
        "cells of float32 kept in 16 bits",
        "x.dtype if narrow is None else narrow",
        "jnp.bfloat16",
        "test_contexts",
    ),
)
