"""PyTorch on random configurations of adaptive pooling and of unpooling: values, indices and gradients.

The seed is fixed and each configuration costs one compilation that gives all its results. Inputs are small integers,
so that ties are everywhere and sums are exact. Both libraries give a tie to the first cell in row-major order. Where
they are known to differ, the configuration is not drawn or the difference is put into the expected numbers:

- NaN: the first NaN of a bin wins here, the last one in PyTorch. No NaN is drawn.
- PyTorch takes no None for the size of an axis in one dimension, and is given the size that None stands for.
- Unpooling sends the cotangent of a cell to the value that was written there and to no other. PyTorch sends it to
  every value whose index names the cell, overwritten ones too: its gradient is set to 0 at those.
- Of several values for one cell, the last in row-major order is written here. PyTorch leaves whichever its threads
  write last, which changes from call to call. It is run in one thread, where that is the last in row-major order.
- An index out of range writes nothing here and is an error in PyTorch, which also allows only the output sizes that
  kernel and stride can have come from. No others are drawn.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_fast
from tests.harness.parts import case_row

pytestmark = pytest.mark.usefixtures("for_this_platform")

torch = pytest.importorskip("torch")

CHUNKS, BINS, WAYS_BACK = 10, 26, 26


@dataclass(frozen=True)
class Adaptive:
    """A shape, channels first, and the number of bins per pooled axis; the batch axis may be missing."""

    shape: tuple[int, ...]
    output_size: tuple[int | None, ...]
    channels_last: bool
    rule: str

    @property
    def rank(self) -> int:
        """Number of pooled axes."""
        return len(self.output_size)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the pooled axes."""
        return self.shape[-self.rank :]

    @property
    def bins(self) -> tuple[int, ...]:
        """The number of bins that the output has, None resolved."""
        return tuple(n if m is None else m for n, m in zip(self.sizes, self.output_size, strict=True))


@dataclass(frozen=True)
class Unpool:
    """The arguments of a max pool, channels first, whose inverse is compared."""

    shape: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    ceil_mode: bool
    channels_last: bool
    indices_drawn: bool

    @property
    def rank(self) -> int:
        """Number of pooled axes."""
        return len(self.kernel)


def draw_shape(random: np.random.Generator) -> tuple[tuple[int, ...], int]:
    """Batch, channel and pooled sizes, and how many axes are pooled. In every third shape there is no batch axis."""
    rank = int(random.choice([1, 2, 3], p=[0.35, 0.45, 0.2]))
    outer = random.integers(1, 4, 1 if random.random() < 1 / 3 else 2)
    return (*outer.tolist(), *random.integers(1, 10 if rank < 3 else 6, rank).tolist()), rank


def draw_bins(random: np.random.Generator, size: int) -> int | None:
    """Bins of one axis: as many as divide it, any number up to its size, more than it has cells, or None."""
    divisors = [m for m in range(1, size + 1) if size % m == 0]
    anything = range(1, size + 1)
    choices = [divisors, anything, anything, range(size + 1, size + 5), [None]]
    counts = choices[random.choice(len(choices), p=[0.2, 0.25, 0.25, 0.2, 0.1])]
    return counts[random.integers(len(counts))]


def bins(chunk: int) -> list[Adaptive]:
    random = np.random.default_rng([chunk, 1])
    drawn = []
    for _ in range(BINS):
        shape, rank = draw_shape(random)
        output_size = tuple(draw_bins(random, size) for size in shape[-rank:])
        channels_last = bool(random.random() < 0.4)
        drawn.append(Adaptive(shape, output_size, channels_last, str(random.choice(["jvp", "vjp"]))))
    return drawn


def ways_back(chunk: int) -> list[Unpool]:
    random = np.random.default_rng([chunk, 2])
    drawn = []
    while len(drawn) < WAYS_BACK:
        shape, rank = draw_shape(random)
        kernel = random.integers(1, 4, rank)
        stride = kernel if random.random() < 0.4 else random.integers(1, 4, rank)
        padding = random.integers(0, kernel // 2 + 1)
        if all(shape[-rank:] + 2 * padding >= kernel):
            windows = [tuple(entries.tolist()) for entries in (kernel, stride, padding)]
            ceil_mode, channels_last, indices_drawn = (bool(random.random() < 0.4) for _ in range(3))
            drawn.append(Unpool(shape, windows[0], windows[1], windows[2], ceil_mode, channels_last, indices_drawn))
    return drawn


def integers(random: np.random.Generator, shape: tuple[int, ...], most: int) -> np.ndarray:
    return random.integers(-most, most, shape, endpoint=True).astype(np.float32)


def function(name: str, rank: int) -> Callable[..., Any]:
    return getattr(torch.nn.functional, f"{name}{rank}d")


def agree(name: str, configuration: Adaptive | Unpool, got: np.ndarray, expected: Any, tolerance: float = 0) -> None:
    """Compare one array with PyTorch's, exactly unless a tolerance is given."""
    assert got.shape == tuple(expected.shape), f"{name} {configuration}"
    message = f"{name} {configuration}"
    np.testing.assert_allclose(got, expected.numpy(), rtol=tolerance, atol=tolerance, err_msg=message)


def ours(
    pool: Callable[..., Any], configuration: Adaptive | Unpool, primals: list[np.ndarray], cotangents: list[np.ndarray]
) -> list[np.ndarray]:
    """Outputs, gradients and indices, brought to PyTorch's channels-first layout, from one compilation.

    `pool` takes the axis argument and the primals; it returns a list of outputs, and the indices or None.
    """
    last, channel = configuration.channels_last, -configuration.rank - 1
    axis = tuple(range(channel, -1)) if last else None

    def move(array: Any, source: int, target: int) -> np.ndarray:
        return np.moveaxis(np.asarray(array), source, target) if last else np.asarray(array)

    @compiled_fast
    def run(primals: list[jax.Array], cotangents: list[jax.Array]) -> tuple[Any, ...]:
        values, pullback, indices = jax.vjp(partial(pool, axis), *primals, has_aux=True)
        return values, pullback(cotangents), indices

    given = jax.tree.map(lambda array: move(array, channel, -1), (primals, cotangents))
    return [move(array, -1, channel) for array in jax.tree.leaves(run(*given))]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Keep PyTorch's unpooling from a race between threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# By default one chunk in ten. All of them are the 500 configurations that are spoken of.
each_chunk = pytest.mark.parametrize("chunk", [case_row(n, id=str(n), kept=n < 1) for n in range(CHUNKS)])


def test_enough_configurations_are_compared() -> None:
    adaptive = list(itertools.chain(*map(bins, range(CHUNKS))))
    assert len({*adaptive, *itertools.chain(*map(ways_back, range(CHUNKS)))}) >= 500
    axes = [(n, m) for one in adaptive for n, m in zip(one.sizes, one.output_size, strict=True)]
    assert sum(m is None for _, m in axes) >= 30
    assert sum(m is not None and m > n for n, m in axes) >= 30
    assert sum(m is not None and 1 < m < n and n % m == 0 for n, m in axes) >= 30
    assert sum(m is not None and m < n and n % m > 0 for n, m in axes) >= 30


def adaptive_pools(configuration: Adaptive, indices: bool, axis: Any, x: Any, y: Any) -> tuple[list[jax.Array], Any]:
    """Maximum of x and average of y: an array each, so that one pullback gives both gradients."""
    arguments: dict[str, Any] = {"axis": axis, "rule": configuration.rule}
    average = jaxpool.adaptive_avg_pool(y, configuration.output_size, **arguments)
    if not indices:
        return [jaxpool.adaptive_max_pool(x, configuration.output_size, **arguments), average], None
    maximum, positions = jaxpool.adaptive_max_pool_with_indices(x, configuration.output_size, **arguments)
    return [maximum, average], positions


@each_chunk
def test_adaptive(chunk: int) -> None:
    random = np.random.default_rng(chunk)
    for number, configuration in enumerate(bins(chunk)):
        rank = configuration.rank
        size = configuration.bins if rank == 1 else configuration.output_size
        x = integers(random, configuration.shape, 3)
        leaves = [torch.from_numpy(x).requires_grad_() for _ in range(2)]
        maximum, indices = function("adaptive_max_pool", rank)(leaves[0], size, return_indices=True)
        average = function("adaptive_avg_pool", rank)(leaves[1], size)
        cotangents = [integers(random, tuple(maximum.shape), 9) for _ in range(2)]
        torch.autograd.backward([maximum, average], [torch.from_numpy(cotangent) for cotangent in cotangents])

        # Every fourth maximum comes without its indices.
        pools = partial(adaptive_pools, configuration, number % 4 < 3)
        got = ours(pools, configuration, [x, x], cotangents)
        agree("maximum", configuration, got[0], maximum.detach())
        agree("average", configuration, got[1], average.detach(), 1e-6)
        agree("gradient of the maximum", configuration, got[2], leaves[0].grad)
        agree("gradient of the average", configuration, got[3], leaves[1].grad, 1e-5)
        if number % 4 < 3:
            agree("indices", configuration, got[4], indices)


def unpool(sizes: tuple[int, ...], places: np.ndarray, axis: Any, values: Any) -> tuple[list[jax.Array], None]:
    # Named, as there may be more windows than cells.
    named = tuple(range(-len(sizes), 0)) if axis is None else axis
    return [jaxpool.max_unpool(values, places, sizes, axis=named)], None


@each_chunk
def test_unpool(chunk: int) -> None:
    random = np.random.default_rng(chunk)
    overwritten = 0
    for configuration in ways_back(chunk):
        rank, sizes = configuration.rank, configuration.shape[-configuration.rank :]
        windows = (configuration.kernel, configuration.stride, configuration.padding)
        x = torch.from_numpy(integers(random, configuration.shape, 3))
        _, indices = function("max_pool", rank)(x, *windows, ceil_mode=configuration.ceil_mode, return_indices=True)
        if configuration.indices_drawn:
            indices = torch.from_numpy(random.integers(0, np.prod(sizes), indices.shape))

        # All values differ and none is 0, so that the result says which of them are written.
        values = torch.from_numpy(random.permutation(indices.numel()).reshape(indices.shape) + 1.0).requires_grad_()
        cotangent = integers(random, configuration.shape, 9).astype(float)
        unpooled = function("max_unpool", rank)(values, indices, *windows, output_size=sizes)
        unpooled.backward(torch.from_numpy(cotangent))
        written = unpooled.flatten(-rank).gather(-1, indices.flatten(-rank)).reshape(values.shape) == values
        overwritten += int((~written).sum())

        places = np.moveaxis(indices.numpy(), -rank - 1, -1) if configuration.channels_last else indices.numpy()
        got = ours(partial(unpool, sizes, places), configuration, [values.detach().numpy()], [cotangent])
        agree("values", configuration, got[0], unpooled.detach())
        agree("gradient", configuration, got[1], values.grad * written)
    assert overwritten > 0
