"""A separate program: nested derivatives of arrays on two virtual devices scatter nothing.

`python -m tests.properties.nested_on_devices TYPE` needs XLA_FLAGS=--xla_force_host_platform_device_count=2 in its
environment; the mesh has axes of that type, Auto or Explicit. The first axis of the cells is sharded: a batch, or the
first one that is pooled. Programs are lowered, not compiled; each row that is checked is printed.
"""

import sys

import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import jaxpool
from tests.harness.nestings import lowered, scatters
from tests.properties.test_nestings import WITHOUT_SCATTER


def main() -> None:
    """Check the rows of the default part."""
    jax.config.update("jax_enable_x64", True)
    mesh = jax.make_mesh((2,), ("devices",), axis_types=(AxisType[sys.argv[1]],))
    for row in WITHOUT_SCATTER:
        if row.kept:
            sharding = NamedSharding(mesh, PartitionSpec("devices"))
            with jax.set_mesh(mesh), jaxpool.compiling_for("cpu"):
                assert not scatters(lowered(row.pool, row.arrays, row.levels, ("jvp",), sharding)), row.name
            print(row.name)


if __name__ == "__main__":
    main()
