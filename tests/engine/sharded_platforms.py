"""A separate program, with four virtual devices: pools of sharded axes by the lowerings of GPUs and TPUs.

`python tests/engine/sharded_platforms.py` needs XLA_FLAGS=--xla_force_host_platform_device_count=4 in its environment.
It prints what differs from the same pools of unsharded arrays, and exits with 1 if anything does. With the argument
`overlapping` it leaves out windows within a shard, and cases in which only the pooled axis is sharded.
"""

import sys
from collections.abc import Callable

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxpool

# Kernel, stride and padding; windows of the first two cross the edges of shards.
WINDOWS = ((3, 2, 1), (3, 1, 1), (2, 2, 0), (4, 2, 1))
# Of images in two rows of two pieces, and of images and axes one at a time.
SPECS = tuple(PartitionSpec(*spec) for spec in ((None, "rows", "columns"), (("rows", "columns"),), (None, "rows")))

MASK = np.random.default_rng(1).random((16, 16, 1)) < 0.7


def main() -> int:
    """Compare, and return the exit status."""
    mesh = jax.make_mesh((2, 2), ("rows", "columns"), axis_types=(AxisType.Auto,) * 2)
    windows, specs = (WINDOWS[:2], SPECS[:1]) if sys.argv[1:] == ["overlapping"] else (WINDOWS, SPECS)
    x = np.random.default_rng(0).integers(-3, 4, (4, 16, 16, 3)).astype(np.float32)
    wrong = 0
    for platform in ("gpu", "tpu"):
        for kernel, stride, padding in windows:
            window = {"kernel_size": kernel, "stride": stride, "padding": padding, "axis": (1, 2)}

            def pools(x: jax.Array, window: dict = window) -> list[jax.Array]:
                # One array, padded by -inf, by inf and by 0.
                names = ("max_pool", "min_pool", "sum_pool")
                return [
                    *(getattr(jaxpool, name)(x, **window) for name in names),
                    jaxpool.max_pool(x, **window, where=MASK),
                    jaxpool.lp_pool(x, 2, **window),
                    jaxpool.smooth_max_pool(x, 2, **window),
                ]

            def gradient(x: jax.Array, pools: Callable[..., list[jax.Array]] = pools) -> jax.Array:
                return jax.grad(lambda x: sum((values**2).sum() for values in pools(x)))(x)

            with jaxpool.compiling_for(platform):
                expected = jax.jit(lambda x: (pools(x), gradient(x)))(x)
                for spec in specs:
                    found = jax.jit(lambda x: (pools(x), gradient(x)))(jax.device_put(x, NamedSharding(mesh, spec)))
                    for number, pair in enumerate(zip(*map(jax.tree.leaves, (found, expected)), strict=True)):
                        if not np.allclose(*pair, rtol=1e-5, atol=1e-4):
                            wrong += 1
                            print(f"{platform}, {kernel}×{kernel}/{stride}, {spec}: result {number}")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
