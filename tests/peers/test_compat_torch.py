"""`jaxpool.compat.torch` against `torch.nn.functional`: signatures, values, indices, gradients, errors, differences.

All calls of a table are compiled into one program, which runs on distinct integers in random order and on few integers
with many ties. Both libraries give a tie to the first cell in row-major order, so that maxima, indices and their
gradients are equal; sums of such integers are exact, and quotients and norms differ by their rounding.
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool.compat.torch as ours
from tests.harness.compilation import compiled_fast
from tests.peers.compat_comparison import original, same_signature, settings_of_users
from tests.project.importing import imported_with, public_members

pytestmark = pytest.mark.usefixtures("for_this_platform")

torch = pytest.importorskip("torch")
theirs = torch.nn.functional


@pytest.fixture(autouse=True)
def _default_settings(_strict_float64: None) -> Iterator[None]:
    with settings_of_users():
        yield


class Call(NamedTuple):
    """A function by name, the shape of its array, and its other arguments."""

    function: str
    shape: tuple[int, ...]
    arguments: dict[str, Any]

    def ours(self, x: jax.Array) -> tuple[Any, Any]:
        """Our values and indices, or None."""
        return pair(getattr(ours, self.function)(x, **self.arguments))

    def theirs(self, x: Any) -> tuple[Any, Any]:
        """PyTorch's values and indices, or None."""
        return pair(getattr(theirs, self.function)(x, **for_torch(self.arguments)))


def pair(result: Any) -> tuple[Any, Any]:
    return result if isinstance(result, tuple) else (result, None)


def for_torch(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: torch.from_numpy(one) if isinstance(one, np.ndarray) else one for name, one in arguments.items()}


def check(calls: list[Call], *, positive: bool = False, rtol: float = 0, atol: float = 0) -> None:
    """Compare values, indices and gradients of all calls with PyTorch's."""
    random = np.random.default_rng(0)
    low = 1 if positive else -20
    distinct = [random.permutation(math.prod(call.shape)).reshape(call.shape) + low for call in calls]
    ties = [random.integers(1 if positive else -1, 4 if positive else 2, call.shape) for call in calls]

    @compiled_fast
    def run(arrays: list[jax.Array], cotangents: list[jax.Array]) -> Any:
        found = []
        for call, x, cotangent in zip(calls, arrays, cotangents, strict=True):
            values, pullback, indices = jax.vjp(call.ours, x, has_aux=True)
            found.append((values, *pullback(cotangent), indices))
        return found

    for arrays in (distinct, ties):
        expected, cotangents = [], []
        for call, array in zip(calls, arrays, strict=True):
            x = torch.from_numpy(array.astype(np.float32)).requires_grad_()
            values, indices = call.theirs(x)
            cotangents.append(random.integers(-9, 10, values.shape).astype(np.float32))
            values.backward(torch.from_numpy(cotangents[-1]))
            expected.append((values.detach().numpy(), x.grad.numpy(), indices))
        found = run([jnp.asarray(x, np.float32) for x in arrays], cotangents)
        for call, one, other in zip(calls, found, expected, strict=True):
            for what, result, right in zip(("values", "gradient"), one, other, strict=False):
                assert result.dtype == np.float32
                np.testing.assert_allclose(result, right, rtol, atol, err_msg=f"{what}, {call}")
            if other[2] is not None:
                assert one[2].dtype == np.int32
                np.testing.assert_array_equal(one[2], other[2].numpy(), err_msg=str(call))


def named_by_torch(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the signature of PyTorch's or, if that is not written in Python, its documented signature."""
    listed = re.match(rf"\s*{function.__name__}(\(.*\))", function.__doc__ or "")
    return eval(f"lambda {listed[1][1:-1]}: None") if listed else function


def test_every_pool_is_there() -> None:
    pools = {name for name in dir(theirs) if re.fullmatch(r"[a-z]\w*pool\dd", name)}
    assert set(public_members(ours)) == pools
    assert len(pools) == 20


@pytest.mark.parametrize("name", public_members(ours))
def test_signature(name: str) -> None:
    assert original(getattr(ours, name)) is getattr(theirs, name)
    assert same_signature(getattr(ours, name), named_by_torch(getattr(theirs, name)))


def test_pytorch_is_not_imported() -> None:
    assert imported_with("jaxpool.compat.torch", ["torch"]) == []


# Sizes of the pooled axes, a window, a stride and padding, for one to three axes.
SPACES: dict[int, tuple[tuple[int, ...], Any, Any, Any]] = {
    1: ((9,), 3, 2, 1),
    2: ((7, 6), (3, 2), (2, 3), (1, 0)),
    3: ((4, 5, 3), (2, 3, 2), (1, 2, 3), (0, 1, 1)),
}


def sliding(family: str, *, padded: bool = True, **others: Any) -> Iterator[Call]:
    """Windows with and without stride, padding and ceil mode, on arrays with a batch and without."""
    for rank, (space, kernel, stride, padding) in SPACES.items():
        name, sizes = f"{family}{rank}d", {"kernel_size": kernel, "stride": stride, **others}
        yield Call(name, (2, 2, *space), {"kernel_size": 2, **others})
        yield Call(name, (2, *space), {**sizes, "ceil_mode": True})
        if padded:
            yield Call(name, (1, 2, *space), {**sizes, "padding": padding})
            yield Call(name, (2, *space), {**sizes, "padding": padding, "stride": 1, "kernel_size": (3,)})
            yield Call(name, (2, *space), {**sizes, "padding": padding, "ceil_mode": True})


def test_maxima() -> None:
    calls = list(sliding("max_pool", return_indices=True))
    calls += [
        Call(f"max_pool{rank}d", (2, *space), {"kernel_size": 2, "stride": 1, "padding": 1, "dilation": 2})
        for rank, (space, *_) in SPACES.items()
    ]
    no_stride = Call("max_pool2d", (1, 2, 6, 4), {"kernel_size": (3, 2), "stride": []})
    check([*calls, no_stride, Call("max_pool2d", (0, 2, 4, 4), {"kernel_size": 2})])


def test_averages() -> None:
    calls = list(sliding("avg_pool"))
    calls += [call for call in sliding("avg_pool", count_include_pad=False) if "padding" in call.arguments]
    calls += [call for call in sliding("avg_pool", divisor_override=-3) if call.function != "avg_pool1d"][1::3]
    check(calls, rtol=1e-6, atol=1e-5)


def test_norms() -> None:
    calls = list(sliding("lp_pool", padded=False, norm_type=2))
    calls += [call for p in (1, 3.0, 0.5, math.inf) for call in sliding("lp_pool", padded=False, norm_type=p)][1::3]
    check(calls, positive=True, rtol=1e-5, atol=1e-5)
    # Even powers do not see the sign.
    check([calls[1]], rtol=1e-5, atol=1e-5)


# Functions by the number of axes, shapes and bins: as many as divide, any number, more than cells, None.
BINS: tuple[tuple[int, tuple[int, ...], Any], ...] = (
    (1, (2, 2, 5), 3),
    (1, (2, 4), (6,)),
    (2, (2, 1, 7, 6), (3, 4)),
    (2, (2, 5, 4), 2),
    (2, (2, 3, 4), (None, 5)),
    (3, (1, 2, 3, 4, 5), 2),
    (3, (2, 3, 4, 2), [2, None, 3]),
)


def test_bins() -> None:
    every = [(rank, shape, {"output_size": bins}) for rank, shape, bins in BINS]
    calls = [Call(f"adaptive_max_pool{rank}d", shape, {**bins, "return_indices": True}) for rank, shape, bins in every]
    calls += [Call(f"adaptive_avg_pool{rank}d", shape, bins) for rank, shape, bins in every]
    check(calls, rtol=1e-6, atol=1e-5)


def test_way_back() -> None:
    calls = []
    for rank, (space, *_) in SPACES.items():
        x = torch.from_numpy(np.random.default_rng(rank).permutation(2 * math.prod(space)).reshape(2, *space))
        for pool in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 3, "padding": 1}):
            values, indices = getattr(theirs, f"max_pool{rank}d")(x.float(), **pool, return_indices=True)
            way_back = {**pool, "indices": indices.numpy(), "output_size": space}
            calls.append(Call(f"max_unpool{rank}d", tuple(values.shape), way_back))
        batched = {**pool, "indices": indices.numpy()[None], "output_size": (1, 2, *space)}
        calls.append(Call(f"max_unpool{rank}d", (1, *values.shape), batched))
    even = {"kernel_size": (2, 2), "stride": None, "indices": np.array([[[0, 3], [9, 10]]])}
    padded = {"kernel_size": 3, "padding": (1,), "indices": np.array([[0, 2, 6]])}
    check([*calls, Call("max_unpool2d", (1, 2, 2), even), Call("max_unpool1d", (1, 3), padded)])


def test_random_windows() -> None:
    random = np.random.default_rng(0)
    calls = []
    for rank, shape, given in (
        (2, (2, 3, 7, 9), {"kernel_size": 2, "output_size": 4, "output_ratio": 0.3}),
        (2, (3, 7, 9), {"kernel_size": (3, 2), "output_ratio": (0.5, 0.7), "return_indices": True}),
        (3, (2, 2, 5, 4, 6), {"kernel_size": 2, "output_size": (3, 2, 4)}),
        (3, (2, 5, 4, 6), {"kernel_size": (1, 2, 3), "output_ratio": 0.5, "return_indices": True}),
    ):
        outer = shape[:-rank] if len(shape) == rank + 2 else (1, *shape[:-rank])
        samples = {"_random_samples": random.uniform(size=(*outer, rank)).astype(np.float32)}
        calls.append(Call(f"fractional_max_pool{rank}d", shape, {**given, **samples}))
    check(calls)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "uint8", "int32"])
def test_dtypes(dtype: str) -> None:
    with jax.enable_x64(dtype == "float64"):
        x = np.arange(24).reshape(1, 4, 6) % 7
        calls = [("max_pool2d", 2)]
        if "int" not in dtype:
            calls += [("avg_pool2d", 2), ("adaptive_avg_pool2d", 2), ("adaptive_max_pool2d", 2)]
        for name, sizes in calls:
            expected = getattr(theirs, name)(torch.from_numpy(x).to(getattr(torch, dtype)), sizes)
            found = getattr(ours, name)(jnp.asarray(x, dtype), sizes)
            assert found.dtype == dtype
            np.testing.assert_array_equal(np.asarray(found, np.float64), expected.double().numpy())


@pytest.mark.parametrize("float64", [False, True])
def test_dtype_of_indices(float64: bool) -> None:
    with jax.enable_x64(float64):
        x = np.ones((1, 4, 4), np.float32)
        dtype = np.int64 if float64 else np.int32
        assert ours.max_pool2d(x, 2, return_indices=True)[1].dtype == dtype
        assert ours.adaptive_max_pool2d(x, 2, True)[1].dtype == dtype
        samples = np.zeros((1, 1, 2), np.float32)
        assert ours.fractional_max_pool2d(x, 2, 2, None, True, samples)[1].dtype == dtype
