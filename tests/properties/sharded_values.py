"""On eight virtual devices, run by `test_sharding`: pools of sharded arrays give the same as those of arrays on one.

Values and gradients are compared with NaN among the data. If batch or channels are sharded a pool needs no
communication, and if a pooled axis is, neighbours exchange what crosses their borders: no shard collects the others'.
Random calls, each of which follows from its number, are at the end.
"""

import math
import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import jaxpool
from tests.harness.nestings import lowered, scatters
from tests.properties.test_nestings import WITHOUT_SCATTER, Row
from tests.registry.records import RECORDS, Record

# Integers of 64 bits would be exchanged, too.
pytestmark = pytest.mark.usefixtures("as_users_have_it")

Pool = Callable[[jax.Array], Any]

X = np.random.default_rng(0).normal(size=(8, 32, 9, 8)).astype(np.float32)
# In few images and channels, so that global pools have numbers too.
X[np.random.default_rng(4).random(X.shape) < 0.02 * (np.arange(8) == 5)] = np.nan
X[3, 12:14, 4, 2] = np.nan
MASK = np.random.default_rng(1).random((32, 9, 1)) < 0.7
BETA = np.linspace(0.5, 2, 8, dtype=np.float32)
SLIDING: dict[str, Any] = {"kernel_size": 3, "stride": 2, "padding": 1, "axis": (1, 2)}
DENSE: dict[str, Any] = {**SLIDING, "stride": 1}
POOLS: dict[str, Pool] = {
    name: partial(record.values, axis=(1, 2)) for name, record in RECORDS.items() if record.windows != "boxes"
} | {
    "max_pool, stride 1": partial(jaxpool.max_pool, **DENSE),
    "max_pool, large": lambda x: jaxpool.max_pool(x, 9, 1, 4, axis=(1, 2)),
    "max_pool of blocks": lambda x: jaxpool.max_pool(x, (4, 3), axis=(1, 2)),
    "max_pool masked": lambda x: jaxpool.max_pool_with_indices(x, **SLIDING, where=MASK)[0],
    "min_pool by the other rule": partial(jaxpool.min_pool, **SLIDING, rule="vjp"),
    "avg_pool masked": partial(jaxpool.avg_pool, **SLIDING, where=MASK, rule="vjp"),
    # Rows of the backward pass would start in the padding.
    "lp_pool of 4": lambda x: jaxpool.lp_pool(x, 3.0, 4, 2, 1, axis=(1, 2)),
    "lp_pool, large": lambda x: jaxpool.lp_pool(x, 1.5, 9, 1, 4, axis=(1, 2)),
    "smooth_max_pool masked": lambda x: jaxpool.smooth_max_pool(x, BETA, **SLIDING, where=MASK),
    "blur_pool masked": partial(jaxpool.blur_pool, **SLIDING, where=MASK),
    "global_avg_pool masked": partial(jaxpool.global_avg_pool, axis=(1, 2), keepdims=False, where=MASK),
    # The two read the same cells through the same windows, with different padding.
    "max beside sum": lambda x: jaxpool.max_pool(x, **DENSE) + jaxpool.sum_pool(x, **DENSE),
    "max beside min": lambda x: jaxpool.max_pool(x, **DENSE) - jaxpool.min_pool(x, **DENSE),
}
# Indices and samples may point to any shard, the levels of a pyramid are concatenated, and a maximum to blur has fewer
# cells than the array, and one with zeros in its padding more, so devices that divide one do not divide the other.
COLLECTED = ("max_unpool", "fractional_max_pool", "fractional_max_pool_with_indices", "spatial_pyramid_pool")
COLLECTED += ("max_blur_pool", "smooth_max_pool", "mellowmax_pool", "soft_pool")
# Outputs that the devices do not divide, windows that cross from shard to shard without overlap, or copied cells.
BINS: Pool = partial(jaxpool.adaptive_max_pool, output_size=(5, 7), axis=(1, 2))
UNEVEN: dict[str, Pool] = {
    "max_pool": lambda x: jaxpool.max_pool(x, 3, 1, axis=(1, 2)),
    "avg_pool of blocks": lambda x: jaxpool.avg_pool(x, 3, axis=(1, 2)),
    "lp_pool": lambda x: jaxpool.lp_pool(x, 2.0, 3, 2, axis=(1, 2)),
    "max_pool of copies": lambda x: jaxpool.max_pool(x, 3, 1, "REFLECT", axis=(1, 2)),
    "adaptive_max_pool": BINS,
    "adaptive_avg_pool": lambda x: jaxpool.adaptive_avg_pool(x, (7, 2), axis=(1, 2)),
    # One window over all shards, and a few cells of one, at a stride that leaves the others out.
    **{
        f"{name}, whole": partial(RECORDS[name].values, axis=(1, 2), kernel_size=(32, 9), stride=None, padding=0)
        for name in ("lp_pool", "smooth_max_pool", "soft_pool", "stochastic_pool")
    },
    # Windows in gaps, one that crosses shards, and windows that reach beyond the next shard.
    "sum_pool, apart": lambda x: jaxpool.sum_pool(x, (5, 2), (10, 2), axis=(1, 2)),
    "max_pool, once": lambda x: jaxpool.max_pool(x, (10, 2), 31, axis=(1, 2)),
    "max_pool, far": lambda x: jaxpool.max_pool(x, (14, 3), padding=(2, 0), axis=(1, 2)),
    "adaptive_max_pool, tangent": lambda x: jax.jvp(BINS, (x,), (x[:, ::-1],))[1],
    "lp_pool, once": lambda x: jaxpool.lp_pool(x, 2.0, 2, 31, axis=(1, 2)),
}

NAMES = ("devices", "others")
# How many devices, and the type of the mesh's axes; every pool takes its turn.
MESHES = ((2, "Auto"), (4, "Explicit"), (8, "Auto"), (4, "Auto"), (8, "Explicit"))
BATCH, POOLED, CHANNEL = (PartitionSpec(*(None,) * axis, "devices") for axis in (0, 1, 3))
# On a mesh of two axes.
BATCH_AND_CHANNEL, BATCH_AND_POOLED = PartitionSpec("devices", None, None, "others"), PartitionSpec("others", "devices")
ANY = "all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter"
COLLECTING = "all-gather|all-to-all"


def mesh_of(sizes: int | tuple[int, ...], kind: str) -> Mesh:
    """A mesh of the first devices, whose axes are of that type."""
    sizes = (sizes,) if isinstance(sizes, int) else sizes
    devices = jax.devices()[: math.prod(sizes)]
    return jax.make_mesh(sizes, NAMES[: len(sizes)], axis_types=(AxisType[kind],) * len(sizes), devices=devices)


def collectives(program: str, kinds: str) -> list[str]:
    """The types of what the operations of some kinds move between devices in a compiled program.

    The bools of a mask are exempt: the mask is not sharded itself, and the oldest supported JAX collects it again.
    """
    return re.findall(rf"= (?!pred)(.*?) (?:{kinds})(?:-start)?\(", program)


def bytes_sent(program: str, kinds: str = ANY) -> int:
    """The bytes that a device receives from others in a compiled program, by some kinds of operations."""
    shapes = re.findall(rf"= (.*?) (?:{kinds})(?:-start)?\(", program)
    arrays = [array for shape in shapes for array in re.findall(r"(pred|[a-z]+(\d+))\[([\d,]*)\]", shape)]
    return sum(
        int(bits or 8) // 8 * math.prod(int(size) for size in sizes.split(",") if size) for _, bits, sizes in arrays
    )


def value_and_gradient(pool: Pool) -> Callable[[jax.Array], tuple[jax.Array, jax.Array]]:
    """The values, and the gradient of half the sum of their squares: every output has a different cotangent."""

    def both(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        values, pull_back = jax.vjp(pool, x)
        return values, pull_back(values)[0]

    return both


def compare(found: Any, expected: Any, name: str, rtol: float = 2e-6, atol: float = 1e-6) -> None:
    for one, other in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol, err_msg=name)


def on(mesh: Mesh, function: Callable[..., Any], spec: PartitionSpec, *arrays: np.ndarray) -> Any:
    """The results for arrays that are sharded like this."""
    with jax.set_mesh(mesh):
        return jax.jit(function)(*(jax.device_put(array, NamedSharding(mesh, spec)) for array in arrays))


@cache
def expected(pool: Pool) -> tuple[jax.Array, jax.Array]:
    """The result on one device."""
    return jax.jit(value_and_gradient(pool))(X)


def check(name: str, pool: Pool, mesh: Mesh, spec: PartitionSpec, forbidden: str | None) -> str:
    """Compare values and gradient with those on one device; return the program, without forbidden collectives."""
    sharding = NamedSharding(mesh, spec)
    with jax.set_mesh(mesh):
        sharded = jax.device_put(X, sharding)
        compiled = jax.jit(value_and_gradient(pool)).lower(sharded).compile()
        found = compiled(sharded)
    program = compiled.as_text() or ""
    assert forbidden is None or not collectives(program, forbidden), name
    # Windows over several shards, and the cotangents spread from them, belong to no single shard.
    over_shards = forbidden is None or name.startswith("global") or (name.startswith("adaptive") and mesh.size > 4)
    if not (spec in (POOLED, BATCH_AND_POOLED) and over_shards):
        assert found[1].sharding.is_equivalent_to(sharding, X.ndim), name
    compare(found, expected(pool), name)
    return program


def check_pooled(name: str, pool: Pool, mesh: Mesh, spec: PartitionSpec = POOLED) -> None:
    """Shard a pool by the first of its pooled axes, and perhaps by others."""
    # Four bins of two shards each: see docs/many_devices.md.
    crossing = name.startswith("adaptive") and mesh.shape["devices"] > 4
    program = check(name, pool, mesh, spec, None if crossing or name in COLLECTED else COLLECTING)
    if crossing:
        # For fewer windows than devices, on an explicit mesh, results of an eighth of the array are collected; on an
        # automatic one the compiler collects one array, the gradient, besides values.
        automatic = X.nbytes + expected(pool)[0].nbytes
        most = X.nbytes // 8 if AxisType.Explicit in mesh.axis_types else automatic
        assert 0 < bytes_sent(program, COLLECTING) <= most, name


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in ("max_pool", "soft_pool") else pytest.mark.slow) for name in POOLS]
)
def test_values_and_gradients(name: str) -> None:
    number, pool = [*POOLS].index(name), POOLS[name]
    check(name, pool, mesh_of(*MESHES[number % 5]), (BATCH, CHANNEL)[number % 2], ANY)
    check_pooled(name, pool, mesh_of(*MESHES[(number + 2) % 5]))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in POOLS if name in RECORDS])
def test_two_axes_are_sharded(name: str) -> None:
    kind = ("Auto", "Explicit")[len(name) % 2]
    check(name, POOLS[name], mesh_of((2, 2), kind), BATCH_AND_CHANNEL, ANY)
    check_pooled(name, POOLS[name], mesh_of((2, 2), "Explicit"), BATCH_AND_POOLED)


@pytest.mark.slow
@pytest.mark.parametrize("name", UNEVEN)
def test_uneven_windows(name: str) -> None:
    number = [*UNEVEN].index(name)
    for mesh in (MESHES[number % 5], MESHES[(number + 1) % 5]):
        program = check(name, UNEVEN[name], mesh_of(*mesh), POOLED, None)
        # On four devices no function that the compiler keeps apart gets the whole array.
        assert (name, mesh) != ("max_pool of copies", (4, "Auto")) or bytes_sent(program) <= 2.5 * X.nbytes


# NaN, infinities and zeros of either sign among the cells, and pools whose results depend on each of them.
SPECIAL = np.where(np.random.default_rng(6).random(X.shape) < 0.1, np.float32(-0.0), X)
SPECIAL = np.where(np.random.default_rng(7).random(X.shape) < 0.01, np.float32(np.nan), SPECIAL)
SPECIAL = np.where(np.random.default_rng(8).random(X.shape) < 0.2, np.float32(-np.inf), SPECIAL)
ON_SPECIAL: dict[str, Pool] = {
    "indices": lambda x: jaxpool.max_pool_with_indices(x, **SLIDING),
    "indices of uneven windows": lambda x: jaxpool.max_pool_with_indices(x, 3, 1, axis=(1, 2)),
    "indices of dilated windows": lambda x: jaxpool.max_pool_with_indices(x, 3, 2, 2, dilation=2, axis=(1, 2)),
    "indices of copies beside padding": lambda x: jaxpool.max_pool_with_indices(
        x, 3, 1, ("CAUSAL", ("WRAP", (2, 1))), axis=(1, 2)
    ),
    "masked bins": lambda x: jaxpool.adaptive_max_pool(x, (5, 7), axis=(1, 2), where=MASK),
    "bools of bins": lambda x: jaxpool.adaptive_max_pool(x > 1, (5, 7), axis=(1, 2)),
    # The sharded axis is the second: the first winner may be on another device than the first part of the bin.
    "first winners of bins": jax.grad(lambda x: jaxpool.adaptive_max_pool(x, (3, 5), axis=(0, 1)).sum()),
    "signs": lambda x: jax.numpy.signbit(jaxpool.max_pool(jax.numpy.minimum(x, -0.0), 3, 1, axis=(1, 2))),
    "batches": jax.vmap(lambda x: jaxpool.max_pool(x, 3, 2, 1, axis=(0, 1))),
    "second derivatives": lambda x: jax.jvp(
        jax.grad(lambda x: (jaxpool.min_pool(x, 3, 1, axis=(1, 2)) ** 2).sum()), (x,), (x,)
    )[1],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_SPECIAL)
def test_special_values_across_borders(name: str) -> None:
    count = (2, 4, 8)[[*ON_SPECIAL].index(name) % 3]
    found = on(mesh_of(count, "Explicit"), ON_SPECIAL[name], POOLED, SPECIAL)
    compare(found, jax.jit(ON_SPECIAL[name])(SPECIAL), name, 1e-6, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in POOLS if name in RECORDS])
def test_inside_shard_map(name: str) -> None:
    """Its types say what varies over devices; differentiated inside and outside."""
    pool, mesh = POOLS[name], mesh_of(4, "Auto")

    @jax.jit
    def by_shard_map(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        inside = jax.shard_map(value_and_gradient(pool), mesh=mesh, in_specs=BATCH, out_specs=BATCH)(x)
        outside = value_and_gradient(jax.shard_map(pool, mesh=mesh, in_specs=BATCH, out_specs=BATCH))(x)
        return *inside, outside[1]

    compare(by_shard_map(X), (*expected(pool), expected(pool)[1]), name)


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["jvp", "vjp"])
def test_a_shared_parameter_gets_the_sum_over_devices(rule: Any) -> None:
    def loss(x: jax.Array, p: jax.Array) -> jax.Array:
        return (jaxpool.lp_pool(x, p, **SLIDING, rule=rule) ** 2).sum()

    def local(x: jax.Array, p: jax.Array) -> jax.Array:
        return jax.lax.psum(loss(x, p), "devices")

    specs = {"in_specs": (BATCH, PartitionSpec()), "out_specs": PartitionSpec()}
    shared = jax.shard_map(local, mesh=mesh_of(4, "Auto"), **specs)
    here, there = (jax.jit(jax.grad(function, 1))(X, 1 + BETA) for function in (loss, shared))
    compare(there, here, rule, 2e-5)


@pytest.mark.slow
def test_masks_of_devices_select_from_shared_cells() -> None:
    """The cotangent of an array that devices share is a sum over them, if only what selects its cells differs."""
    mesh = mesh_of(4, "Auto")
    x, masks = X[0, :8, 0], np.random.default_rng(10).random((mesh.size, 8, 1)) < 0.6
    pools: list[Callable[..., jax.Array]] = [
        lambda x, mask: jaxpool.max_pool(x, 2, axis=0, where=mask),
        lambda x, mask: jaxpool.top_k_pool(x, 2, 4, axis=0, where=mask),
        lambda x, mask: jaxpool.min_pool(x, jaxpool.bins(3), axis=0, where=mask, rule="vjp"),
        lambda x, mask: jaxpool.max_unpool(x, mask + 2 * np.arange(8)[:, None] + 0 * x.astype(int), 16, axis=0),
    ]
    for pool in pools:

        def loss(x: jax.Array, mask: jax.Array, pool: Callable[..., jax.Array] = pool) -> jax.Array:
            return (pool(x, mask) ** 2).sum()

        def local(x: jax.Array, masks: jax.Array, loss: Callable[..., jax.Array] = loss) -> jax.Array:
            return jax.lax.psum(loss(x, masks[0]), "devices")

        shared = jax.shard_map(local, mesh=mesh, in_specs=(PartitionSpec(), BATCH), out_specs=PartitionSpec())
        expected = sum(jax.grad(loss)(x, mask) for mask in masks)
        np.testing.assert_allclose(jax.jit(jax.grad(shared))(x, masks), expected, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lp_pool", "smooth_max_pool", "soft_pool", "attention_pool"])
def test_each_device_decides_whether_its_sums_are_moderate(name: str) -> None:
    """Some have images that are large, far below 1, or hold NaN. Second derivatives are those of one device, too."""
    x = np.random.default_rng(9).normal(size=(8, 12, 9, 8)).astype(np.float32)
    x[2:4] *= np.float32(1e20)
    x[5, 3] = np.nan
    x[6] *= np.float32(1e-30)
    slope = jax.grad(lambda x: (POOLS[name](x) ** 2).sum())

    def everything(x: jax.Array) -> tuple[jax.Array, ...]:
        return *value_and_gradient(POOLS[name])(x), jax.jvp(slope, (x,), (jax.numpy.ones_like(x),))[1]

    for one, other in zip(on(mesh_of(4, "Explicit"), everything, BATCH, x), jax.jit(everything)(x), strict=True):
        for found, image in zip(map(np.asarray, one), map(np.asarray, other), strict=True):
            compare(found, image, name, 2e-5, 2e-6 * float(np.abs(image[np.isfinite(image)]).max(initial=0)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["roi_align", "roi_pool"])
def test_boxes_of_every_image_of_a_batch(name: str) -> None:
    boxes = np.random.default_rng(2).uniform(-1, 30, (8, 3, 4)).astype(np.float32)

    def both(x: jax.Array, boxes: jax.Array) -> tuple[jax.Array, jax.Array]:
        pool = jax.vmap(lambda x, boxes: getattr(jaxpool, name)(x, boxes, 2, axis=(0, 1)))
        return value_and_gradient(lambda x: pool(x, boxes))(x)

    mesh = mesh_of((2, 2), "Explicit")
    found = on(mesh, both, BATCH, X, boxes)
    assert all(one.sharding.is_equivalent_to(NamedSharding(mesh, BATCH), one.ndim) for one in found)
    compare(found, jax.jit(both)(X, boxes), name)


ITEMS: dict[str, Callable[..., jax.Array]] = {
    "max_pool": lambda x, p: p * jaxpool.max_pool(x, (2, 2)),
    "lp_pool": lambda x, p: jaxpool.lp_pool(x, p, (3, 3), 1),
    "soft_pool": lambda x, p: jaxpool.soft_pool(x, p, (2, 2)),
    "attention_pool": lambda x, p: jaxpool.attention_pool(x, p * x[::-1], (2, 2)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ITEMS)
def test_items_of_a_batch_share_numbers_or_cells(name: str) -> None:
    pool, x, p = ITEMS[name], X[:, :6, :4, 0], np.linspace(1.5, 3, len(X), dtype=np.float32)

    def everything(x: jax.Array, p: jax.Array) -> Any:
        def slopes(axes: tuple[int | None, int | None]) -> Callable[..., Any]:
            return jax.grad(lambda x, p: (jax.vmap(pool, axes)(x, p) ** 2).sum(), (0, 1))

        along = jax.vmap(jax.jacfwd(pool), (0, None))(x, 2.5)
        return along, slopes((0, None))(x, jax.numpy.float32(2.5)), slopes((None, 0))(X[0, :6, :4, 0], p)

    compare(on(mesh_of((2, 2), "Explicit"), everything, BATCH, x, p), jax.jit(everything)(x, p), name)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
@pytest.mark.parametrize("nested", [one for one in WITHOUT_SCATTER if one.kept], ids=lambda one: one.name)
def test_nested_derivatives_scatter_nothing(nested: Row, kind: str) -> None:
    mesh = mesh_of(2, kind)
    with jax.set_mesh(mesh), jaxpool.compiling_for("cpu"):
        sharding = NamedSharding(mesh, PartitionSpec("devices"))
        assert not scatters(lowered(nested.pool, nested.arrays, nested.levels, ("jvp",), sharding))


# Windows that cross the edges of shards, with the overlap of one next window and of two, and some that do not.
@pytest.mark.slow
@pytest.mark.parametrize("window", [(3, 2, 1), (3, 1, 1), (2, 2, 0), (4, 2, 1)], ids=str)
@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_lowerings_of_other_platforms(platform: str, window: tuple[int, int, int]) -> None:
    """Derivatives at the edges of shards, and paddings of one array by several values in one program."""
    mesh, (kernel, stride, padding) = mesh_of((2, 2), "Auto"), window
    x = np.random.default_rng(0).integers(-3, 4, (4, 16, 16, 3)).astype(np.float32)
    mask = np.random.default_rng(1).random((16, 16, 1)) < 0.7
    sizes = {"kernel_size": kernel, "stride": stride, "padding": padding, "axis": (1, 2)}

    def everything(x: jax.Array) -> Any:
        def pools(x: jax.Array) -> list[jax.Array]:
            # One array, padded by -inf, by inf and by 0.
            found = [pool(x, **sizes) for pool in (jaxpool.max_pool, jaxpool.min_pool, jaxpool.sum_pool)]
            found += [jaxpool.max_pool(x, **sizes, where=mask)]
            return [*found, jaxpool.lp_pool(x, 2, **sizes), jaxpool.smooth_max_pool(x, 2, **sizes)]

        return pools(x), jax.grad(lambda x: sum((values**2).sum() for values in pools(x)))(x)

    with jaxpool.compiling_for(platform):
        expected = jax.jit(everything)(x)
        for spec in ((None, "devices", "others"), (NAMES,), (None, "devices")):
            found = jax.jit(everything)(jax.device_put(x, NamedSharding(mesh, PartitionSpec(*spec))))
            compare(found, expected, str(spec), 1e-5, 1e-4)


RANDOM_MESHES = ((2,), (4,), (8,), (2, 2), (2, 4), (4, 2))


class RandomCall(NamedTuple):
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


def draw(number: int) -> RandomCall:
    """The call of this number, of cells with ties and special values, with one axis or two of any kind sharded."""
    random = np.random.default_rng((5, number))
    record = RECORDS[list(RECORDS)[random.integers(len(RECORDS))]]
    mesh = RANDOM_MESHES[random.integers(len(RANDOM_MESHES))]
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
    return RandomCall(record.function, x.astype(np.float32), _parameters(random, record, shape, axis), mesh, spec)


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
