"""Faults to plant in the lowerings of GPUs and TPUs, and in the communication between devices."""

from tests.project.fault import Fault

FAULTS = (
    Fault(
        "select-and-scatter among NaN",
        "lax.cond((~jnp.isfinite(values)).any(), exact",
        "lax.cond(jnp.isnan(values).all(), exact",
        "test_platforms -k winners",
    ),
    Fault(
        "select-and-scatter at edges",
        "if not (on_one_device() or choose.reaches_next_alone(window)):",
        "if False:",
        "test_platforms -k sharded",
    ),
    Fault(
        "shifts along a sharded axis that forget those before",
        "lax.pad(found[last], fill, config)",
        "lax.pad(found[0], fill, config)",
        "test_sharding -k several_devices",
    ),
    Fault(
        "one window for all cells of a row of a sharded axis",
        "if not following:",
        "if True:",
        "test_sharding -k several_devices",
    ),
    Fault(
        "sharded axes that are taken for whole",
        "if '\"' in names)",
        "if not names)",
        "test_sharding -k several_devices",
    ),
    Fault(
        "base dilation, offsets backwards",
        "axis.extent - 1 - along * axis.dilation",
        "along * axis.dilation",
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
        "0 if not np.isinf(fill) else 1 if fill < 0 else 2",
        "0",
        "test_platforms -k sharded",
    ),
    Fault(
        "types that do not vary",
        "math.prod((jnp.ones_like(other, shape=(), dtype=array.dtype) for other in arrays), start=array)",
        "array",
        "test_sharding -k loops",
    ),
    Fault("axes that devices do not divide", "spec[axis] = None", "pass", "test_sharding"),
)
