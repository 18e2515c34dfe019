"""On eight virtual devices, run by `test_sharding`: random pools of randomly sharded arrays in explicit meshes.

Each case follows from its number. Arrays have ties, zeros of either sign, NaN and infinities, and axes of any kind are
sharded over 2, 4 or 8 devices, or two axes over as many each. The results are those on one device.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import jaxpool
from tests.properties.sharded_values import NAMES, as_users_have_it, compare, mesh_of
from tests.registry.records import RECORDS, Record

# A fixture, which every test here uses as well.
__all__ = ["as_users_have_it"]

MESHES = ((2,), (4,), (8,), (2, 2), (2, 4), (4, 2))


class Case(NamedTuple):
    """What is pooled, and how it is sharded."""

    function: str
    x: np.ndarray
    parameters: dict[str, Any]
    mesh: tuple[int, ...]
    spec: PartitionSpec

    def outputs(self, x: jax.Array) -> tuple[Any, jax.Array]:
        """The results, and the gradient for the cotangents 0, 1, 2 and so on, modulo 5."""
        values, pull_back, *others = jax.vjp(self.pool, x, has_aux=True)
        cotangent = np.arange(values.size).reshape(values.shape) % 5
        return (values, *others), pull_back(cotangent.astype(values.dtype))[0]

    def pool(self, x: jax.Array) -> tuple[jax.Array, Any]:
        """Values, and indices or None."""
        if self.function == "max_unpool":
            axis = self.parameters["axis"]
            return RECORDS["max_unpool"].values(x, axis), None
        results = getattr(jaxpool, self.function)(x, **self.parameters)
        return results if isinstance(results, tuple) else (results, None)


def draw(number: int) -> Case:
    """The case of this number."""
    random = np.random.default_rng((5, number))
    record = RECORDS[list(RECORDS)[random.integers(len(RECORDS))]]
    mesh = MESHES[random.integers(len(MESHES))]
    rank = int(random.integers(max(2, len(mesh)), 5))
    axis = tuple(sorted(random.choice(rank, 2, replace=False).tolist()))
    sharded = random.choice(rank, len(mesh), replace=False).tolist()
    devices = dict(zip(sharded, mesh, strict=True))
    # Several cells a device along pooled axes, and few elsewhere.
    sizes = [int(random.integers(1, 7 if number in axis else 3)) for number in range(rank)]
    least = [4 if number in axis and number not in devices else 1 for number in range(rank)]
    shape = [
        max(size, low) * devices.get(number, 1) for number, (size, low) in enumerate(zip(sizes, least, strict=True))
    ]
    spec = PartitionSpec(*(NAMES[sharded.index(number)] if number in devices else None for number in range(rank)))
    special = random.choice([-np.inf, np.inf, np.nan, 0.0, -0.0], shape, p=(0.1, 0.05, 0.1, 0.4, 0.35))
    x = np.where(random.random(shape) < random.choice([0, 0.1, 0.5]), special, random.integers(-3, 4, shape))
    return Case(record.function, x.astype(np.float32), _parameters(random, record, shape, axis), mesh, spec)


def _parameters(random: np.random.Generator, record: Record, shape: list[int], axis: tuple[int, ...]) -> dict[str, Any]:
    parameters = {**record.parameters, "axis": axis}
    lengths = [shape[number] for number in axis]
    if record.windows == "fixed":
        kernel = [int(random.integers(1, 1 + min(length, random.choice([3, 5, 16])))) for length in lengths]
        stride = [int(random.integers(1, 2 + size)) for size in kernel] if random.random() < 0.7 else None
        padding = [tuple(random.integers(0, size // 2 + 1, 2).tolist()) for size in kernel]
        parameters |= {"kernel_size": tuple(kernel), "stride": stride and tuple(stride)}
        parameters |= {"padding": str(random.choice(["VALID", "SAME", "REFLECT"]))} if random.random() < 0.4 else {}
        parameters |= {"padding": tuple(padding)} if "padding" not in parameters or random.random() < 0.7 else {}
        parameters |= {"dilation": 2} if random.random() < 0.1 else {}
        parameters |= {"ceil_mode": True} if random.random() < 0.2 else {}
    if record.windows == "bins":
        parameters["output_size"] = tuple(int(random.integers(1, 1 + length)) for length in lengths)
    if record.windows == "random":
        kept = [size for number, size in enumerate(shape) if number not in axis]
        parameters["samples"] = np.full((*kept, 2), 0.4, np.float32)
    if record.has_rule and random.random() < 0.3:
        parameters["rule"] = "vjp"
    if record.has_mask and random.random() < 0.3:
        sizes = [size if number in axis else 1 for number, size in enumerate(shape)]
        parameters["where"] = random.random(sizes) < random.choice([0.2, 0.7])
    return parameters


@pytest.mark.slow
@pytest.mark.parametrize("number", range(60))
def test_random_pools_are_those_of_one_device(number: int) -> None:
    case = draw(number)
    try:
        jax.eval_shape(case.pool, case.x)
    except ValueError:
        pytest.skip("these sizes are refused")
    expected = jax.jit(case.outputs)(case.x)
    sharded = jax.device_put(case.x, NamedSharding(mesh_of(case.mesh, "Explicit"), case.spec))
    compare(jax.jit(case.outputs)(sharded), expected, str(case), 2e-5, 2e-5)
