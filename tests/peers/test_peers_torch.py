"""PyTorch on random configurations of max, min, average and Lp pooling: values, indices and gradients.

The seed is fixed and each configuration costs one compilation that gives all its results. Inputs are small integers,
so that ties are everywhere and sums are exact. Where the two libraries are known to differ, the configuration is not
drawn or the difference is put into the expected numbers, and never ignored:

- NaN: the first NaN of a window wins here, the last one in PyTorch. No NaN is drawn.
- A window that holds only padding (dilated windows can) is an error here, -inf with an invalid index in PyTorch.
- PyTorch refuses padding above half the kernel and, in three-dimensional averages, a kernel larger than the input
  without its padding. Neither is drawn.
- In a window that `ceil_mode` cuts short, PyTorch's Lp pooling scales the mean of the cells that are left by the size
  of a whole window. Here it is the norm of the cells that are there; PyTorch's number is scaled back.
- PyTorch has no dilation in average and Lp pooling, no padding in Lp pooling, no divisor_override in one dimension.
"""

import itertools
from collections.abc import Callable
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

CHUNKS, MAXIMA, AVERAGES, NORMS = 10, 26, 26, 4


@dataclass(frozen=True)
class Configuration:
    """A shape, the sizes per pooled axis, and the options of one call that both libraries understand."""

    shape: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool
    channels_last: bool
    rule: str

    @property
    def rank(self) -> int:
        """Number of pooled axes."""
        return len(self.kernel)

    @property
    def sizes(self) -> dict[str, Any]:
        """Arguments of the same name and meaning in both libraries."""
        return {"stride": self.stride, "padding": self.padding, "ceil_mode": self.ceil_mode}

    def cells(self) -> list[list[int]]:
        """How many real cells each window holds, per axis."""
        counts = []
        axes = zip(self.shape[2:], self.kernel, self.stride, self.padding, self.dilation, strict=True)
        for size, kernel, stride, padding, dilation in axes:
            room = size + 2 * padding - dilation * (kernel - 1) - 1
            outputs = (-(-room // stride) if self.ceil_mode else room // stride) + 1
            if self.ceil_mode and (outputs - 1) * stride >= size + padding:
                outputs -= 1
            windows = [[o * stride - padding + d * dilation for d in range(kernel)] for o in range(outputs)]
            counts.append([sum(0 <= cell < size for cell in window) for window in windows])
        return counts


def draw(random: np.random.Generator, *, dilated: bool, padded: bool = True) -> Configuration:
    """A random configuration that both libraries accept, drawn again until it is one."""
    while True:
        rank = int(random.choice([1, 2, 3], p=[0.35, 0.5, 0.15]))
        kernel = random.integers(1, 5 if rank < 3 else 4, rank)
        dilation = random.integers(1, 4, rank) if dilated and random.random() < 0.5 else np.ones(rank, int)
        configuration = Configuration(
            shape=(*random.integers(1, 3, 2).tolist(), *random.integers(1, 10 if rank < 3 else 6, rank).tolist()),
            kernel=tuple(kernel.tolist()),
            stride=tuple((kernel if random.random() < 0.3 else random.integers(1, 4, rank)).tolist()),
            padding=tuple((random.integers(0, kernel // 2 + 1) if padded else 0 * kernel).tolist()),
            dilation=tuple(dilation.tolist()),
            ceil_mode=bool(random.random() < 0.5),
            channels_last=bool(random.random() < 0.4),
            rule=str(random.choice(["jvp", "vjp"])),
        )
        refused = rank == 3 and not dilated and any(kernel > configuration.shape[2:])
        if not refused and all(windows and all(windows) for windows in configuration.cells()):
            return configuration


def configurations(chunk: int, count: int, **constraints: bool) -> list[Configuration]:
    random = np.random.default_rng([chunk, count, *constraints.values()])
    return [draw(random, **constraints) for _ in range(count)]


def maxima(chunk: int) -> list[Configuration]:
    return configurations(chunk, MAXIMA, dilated=True)


def averages(chunk: int) -> list[Configuration]:
    return configurations(chunk, AVERAGES, dilated=False)


def norms(chunk: int) -> list[Configuration]:
    return configurations(chunk, NORMS, dilated=False, padded=False)


def ours(pool: Callable[..., Any], configuration: Configuration, x: np.ndarray, cotangent: np.ndarray) -> list[Any]:
    """Outputs and gradient of our function, brought to PyTorch's channels-first layout, from one compilation."""
    last = configuration.channels_last
    arguments = {**configuration.sizes, "rule": configuration.rule}
    if last:
        arguments["axis"] = tuple(range(1, configuration.rank + 1))

    def outputs(x: jax.Array) -> tuple[jax.Array, Any]:
        given = pool(x, kernel_size=configuration.kernel, **arguments)
        return given if isinstance(given, tuple) else (given, None)

    @compiled_fast
    def run(x: np.ndarray, cotangent: np.ndarray) -> tuple[Any, ...]:
        values, pullback, indices = jax.vjp(outputs, x, has_aux=True)
        return values, indices, *pullback(cotangent)

    given = [np.moveaxis(array, 1, -1) if last else array for array in (x, cotangent)]
    return [
        np.moveaxis(np.asarray(array), -1, 1) if last else np.asarray(array) for array in jax.tree.leaves(run(*given))
    ]


def theirs(values: Any, x: Any, cotangent: np.ndarray) -> list[np.ndarray]:
    """PyTorch's values and gradient."""
    values.backward(torch.from_numpy(cotangent))
    return [values.detach().numpy(), x.grad.numpy()]


def integers(random: np.random.Generator, shape: tuple[int, ...], low: int, high: int) -> np.ndarray:
    return random.integers(low, high, shape, endpoint=True).astype(np.float32)


def function(name: str, rank: int) -> Callable[..., Any]:
    return getattr(torch.nn.functional, f"{name}{rank}d")


# By default one chunk in ten. All of them are the 500 configurations that are spoken of.
each_chunk = pytest.mark.parametrize("chunk", [case_row(n, id=str(n), kept=n < 1) for n in range(CHUNKS)])


def test_enough_configurations_are_compared() -> None:
    drawn = [draws(chunk) for draws in (maxima, averages) for chunk in range(CHUNKS)]
    assert len(set(itertools.chain(*drawn))) >= 500


@each_chunk
def test_max_and_min(chunk: int) -> None:
    random = np.random.default_rng(chunk)
    for number, configuration in enumerate(maxima(chunk)):
        x = torch.from_numpy(integers(random, configuration.shape, -3, 3)).requires_grad_()
        # Every fourth is a minimum, which PyTorch has as the negative maximum of the negative.
        sign = -1 if number % 4 == 3 else 1
        values, indices = function("max_pool", configuration.rank)(
            sign * x, configuration.kernel, **configuration.sizes, dilation=configuration.dilation, return_indices=True
        )
        cotangent = integers(random, tuple(values.shape), -9, 9)
        expected = theirs(sign * values, x, cotangent)
        pool = jaxpool.min_pool if sign < 0 else jaxpool.max_pool_with_indices
        got = ours(partial(pool, dilation=configuration.dilation), configuration, x.detach().numpy(), cotangent)
        if sign > 0:
            np.testing.assert_array_equal(got.pop(1), indices.numpy(), err_msg=str(configuration))
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=str(configuration))


@each_chunk
def test_average(chunk: int) -> None:
    random = np.random.default_rng(chunk)
    for number, configuration in enumerate(averages(chunk)):
        options: dict[str, Any] = {"count_include_pad": bool(number % 2)}
        if configuration.rank > 1 and number % 3 == 0:
            options["divisor_override"] = int(random.choice([-3, 1, 7]))
        x = torch.from_numpy(integers(random, configuration.shape, -20, 20)).requires_grad_()
        values = function("avg_pool", configuration.rank)(x, configuration.kernel, **configuration.sizes, **options)
        cotangent = integers(random, tuple(values.shape), -9, 9)
        expected = theirs(values, x, cotangent)
        got = ours(partial(jaxpool.avg_pool, **options), configuration, x.detach().numpy(), cotangent)
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-5, err_msg=f"{configuration} {options}")


@each_chunk
def test_norm(chunk: int) -> None:
    random = np.random.default_rng(chunk)
    for number, configuration in enumerate(norms(chunk)):
        norm_type = (1, 2, 3, 2.5)[number % 4]
        # Magnitudes only: PyTorch takes the power of the signed number.
        x = torch.from_numpy(integers(random, configuration.shape, 1, 6)).requires_grad_()
        kernel, stride, ceil_mode = configuration.kernel, configuration.stride, configuration.ceil_mode
        # In one dimension PyTorch takes the kernel as an int only.
        size = kernel if configuration.rank > 1 else kernel[0]
        values = function("lp_pool", configuration.rank)(x, float(norm_type), size, stride, ceil_mode)
        cells = np.ones(())
        for windows in configuration.cells():
            cells = np.multiply.outer(cells, windows)
        values = values * torch.from_numpy((cells / np.prod(kernel)) ** (1 / norm_type)).float()
        cotangent = integers(random, tuple(values.shape), -9, 9)
        expected = theirs(values, x, cotangent)
        got = ours(partial(jaxpool.lp_pool, norm_type=norm_type), configuration, x.detach().numpy(), cotangent)
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5, err_msg=f"{configuration} {norm_type}")
