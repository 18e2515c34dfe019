"""Differences of `jaxpool.compat.torch` from `torch.nn.functional`, as its docstring lists them, and shared errors."""

import re
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool.compat.torch as ours
from tests.peers.compat_comparison import settings_of_users

pytestmark = pytest.mark.usefixtures("for_this_platform")

torch = pytest.importorskip("torch")
theirs = torch.nn.functional


@pytest.fixture(autouse=True)
def _default_settings(_strict_float64: None) -> Iterator[None]:
    with settings_of_users():
        yield


def test_nan_that_wins() -> None:
    x = np.array([[np.nan, 1, np.nan, 2]], np.float32)
    for name, sizes in (("max_pool1d", 4), ("adaptive_max_pool1d", 1)):
        (value, last), (mine, first) = (
            getattr(library, name)(array, sizes, return_indices=True)
            for library, array in ((theirs, torch.from_numpy(x)), (ours, x))
        )
        assert value.isnan().item()
        assert jnp.isnan(mine).item()
        assert (last.item(), first.item()) == (2, 0)


@pytest.mark.parametrize(
    ("p", "found", "norm"), [(1.0, -1.0, 5.0), (3.0, np.nan, 35 ** (1 / 3)), (2.0, 13**0.5, 13**0.5)]
)
def test_norm_of_negative_numbers(p: float, found: float, norm: float) -> None:
    x = np.array([[-3, 2]], np.float32)
    np.testing.assert_allclose(theirs.lp_pool1d(torch.from_numpy(x), p, 2).item(), found, rtol=1e-6)
    np.testing.assert_allclose(ours.lp_pool1d(x, p, 2).item(), norm, rtol=1e-6)


def test_derivative_of_norms_at_zero() -> None:
    x = np.array([[0, 0, 4, 0]], np.float32)
    for p, cells in ((1.0, [0, 0, 1, 1]), (0.5, [np.nan, np.nan, 1, np.inf])):
        given = torch.from_numpy(x).requires_grad_()
        theirs.lp_pool1d(given, p, 2).sum().backward()
        np.testing.assert_array_equal(given.grad.numpy(), [cells])
        gradient = jax.grad(lambda x: ours.lp_pool1d(x, p, 2).sum())(x)  # noqa: B023
        np.testing.assert_array_equal(gradient, [[0, 0, 1, 0]])


def test_large_norm() -> None:
    x = np.full((1, 2), 1e30, np.float32)
    assert theirs.lp_pool1d(torch.from_numpy(x), 2, 2).isinf().item()
    np.testing.assert_allclose(ours.lp_pool1d(x, 2, 2).item(), 2**0.5 * 1e30, rtol=1e-6)


def test_learnt_norm() -> None:
    x, p = jnp.arange(1.0, 6.0)[None], jnp.array([2.0])
    whole = ours.lp_pool1d(x, p, 2, ceil_mode=True)
    np.testing.assert_allclose(whole, theirs.lp_pool1d(torch.from_numpy(np.array(x)), 2, 2, ceil_mode=True), rtol=1e-6)
    slope = jax.grad(lambda p: ours.lp_pool1d(x[:, 4:], p, 2, ceil_mode=True).sum())(p)
    # 5·2^(1/p), of which the derivative is -5·log 2·2^(1/p)/p².
    np.testing.assert_allclose(slope, -5 * np.log(2) * 2**0.5 / 4, rtol=1e-5)


def test_averages_of_integers() -> None:
    x = np.array([[1, 2]])
    assert theirs.avg_pool1d(torch.from_numpy(x), 2).item() == 1
    assert ours.avg_pool1d(x, 2) == jnp.full((1, 1), 1.5, np.float32)
    assert ours.adaptive_avg_pool1d(x.astype(np.uint8), 1).dtype == np.float32


def test_indices_out_of_range_and_twice() -> None:
    values = np.array([[1, 2, 3]], np.float32)
    beyond = np.array([[0, 7, -1]])
    with pytest.raises(RuntimeError):
        theirs.max_unpool1d(torch.from_numpy(values), torch.from_numpy(beyond), 2)
    np.testing.assert_array_equal(ours.max_unpool1d(values, beyond, 2, output_size=[6]), [[1, 0, 0, 0, 0, 0]])
    # Without output_size, what an odd size needs, both refuse an index past the end.
    pooled, places = ours.max_pool2d(np.arange(25.0).reshape(1, 5, 5), 2, return_indices=True)
    with pytest.raises(RuntimeError, match="Found an invalid max index: 18"):
        theirs.max_unpool2d(torch.from_numpy(np.array(pooled)), torch.from_numpy(np.array(places, np.int64)), 2)
    with pytest.raises(ValueError, match=r"^max_unpool2d: index 18 is beyond the output \(4, 4\); give output_size"):
        ours.max_unpool2d(pooled, places, 2)
    assert ours.max_unpool2d(pooled, places, 2, output_size=(5, 5)).shape == (1, 5, 5)
    twice = np.array([[4, 4, 1]])
    np.testing.assert_array_equal(ours.max_unpool1d(values, twice, 2), [[0, 3, 0, 0, 2, 0]])
    given = torch.from_numpy(values).requires_grad_()
    theirs.max_unpool1d(given, torch.from_numpy(twice), 2).sum().backward()
    np.testing.assert_array_equal(given.grad.numpy(), [[1, 1, 1]])
    gradient = jax.grad(lambda x: ours.max_unpool1d(x, twice, 2).sum())(values)
    np.testing.assert_array_equal(gradient, [[0, 1, 1]])


def test_what_is_taken_besides() -> None:
    """Dtypes, arrays without channels and one ratio for two axes, all of which PyTorch refuses."""
    x = np.arange(16).reshape(1, 4, 4)
    samples = np.zeros((1, 1, 2))
    for name, options in (
        ("avg_pool2d", {"kernel_size": 2}),
        ("lp_pool2d", {"kernel_size": 2, "norm_type": 2}),
        ("adaptive_max_pool2d", {"output_size": 2}),
        ("max_unpool2d", {"kernel_size": 1, "indices": x}),
        ("fractional_max_pool2d", {"kernel_size": 2, "output_ratio": 0.5, "_random_samples": samples}),
    ):
        for dtype in ("bool", "int8", "bfloat16"):
            assert getattr(ours, name)(jnp.asarray(x, dtype), **options).shape[0] == 1
    assert ours.max_pool2d(x[:0].astype(bool), 2).shape == (0, 2, 2)
    np.testing.assert_array_equal(ours.avg_pool2d(x * 1j, 4), [[[7.5j]]])


IMAGE, LINE = (1, 2, 4, 6), (2, 5)
REFUSED: dict[str, tuple[str, tuple[int, ...], dict[str, Any], type[Exception], str]] = {
    "rank": ("max_pool2d", (4, 6), {"kernel_size": 2}, ValueError, r"input must .* \(C, H, W\), got .*input\[None\]"),
    "many axes": ("avg_pool2d", (1, *IMAGE), {"kernel_size": 2}, ValueError, r".*input.reshape\(-1, \*input.shape"),
    "no axes": ("adaptive_avg_pool3d", (2, 3), {"output_size": 2}, ValueError, r"input must have the axes \(N, C, D"),
    "entries": ("max_pool2d", IMAGE, {"kernel_size": (2, 2, 2)}, ValueError, r"kernel_size \(2, 2, 2\) has 3 entries"),
    "float": ("max_pool2d", IMAGE, {"kernel_size": 2.0}, TypeError, "kernel_size must be an int, got 2.0"),
    "none": ("avg_pool2d", IMAGE, {"kernel_size": None}, TypeError, "kernel_size must be an int"),
    "word": ("max_pool1d", LINE, {"kernel_size": 2, "padding": "same"}, TypeError, "padding must .* got 'same'"),
    "pairs": ("max_pool2d", IMAGE, {"kernel_size": 2, "padding": ((0, 1), (1, 0))}, TypeError, "padding .* both sides"),
    "stride": ("avg_pool1d", LINE, {"kernel_size": 2, "stride": 0}, ValueError, "stride must be at least 1, got 0"),
    "negative": ("max_pool1d", LINE, {"kernel_size": 2, "padding": -1}, ValueError, "padding must be at least 0"),
    "padding": ("max_pool1d", LINE, {"kernel_size": 3, "padding": 2}, ValueError, "padding 2 .* at most 1, .*max_pool"),
    "average": ("avg_pool2d", IMAGE, {"kernel_size": 3, "padding": 2}, ValueError, "padding 2 is more than half"),
    "dilated": ("max_pool1d", LINE, {"kernel_size": 2, "padding": 2, "dilation": 3}, ValueError, "padding 2 is more"),
    "too large": ("max_pool2d", IMAGE, {"kernel_size": 7}, ValueError, "kernel_size 7"),
    "divisor": ("avg_pool2d", IMAGE, {"kernel_size": 2, "divisor_override": 0}, ValueError, "divisor_override must"),
    "no pooled cell": ("adaptive_max_pool2d", (1, 2, 0, 3), {"output_size": 2}, ValueError, ".*axis 2 "),
    "bins": ("adaptive_avg_pool2d", IMAGE, {"output_size": (2,)}, ValueError, r"output_size \(2,\) has 1 entry"),
    "negative bins": ("adaptive_avg_pool2d", IMAGE, {"output_size": -1}, ValueError, "output_size must be at least 1"),
    "p": ("lp_pool2d", IMAGE, {"norm_type": 0, "kernel_size": 2}, ValueError, "norm_type must be positive, got 0"),
    "indices": ("max_unpool1d", LINE, {"indices": np.zeros((2, 4), int), "kernel_size": 2}, ValueError, "indices of"),
    "floats": ("max_unpool1d", LINE, {"indices": np.zeros(LINE), "kernel_size": 2}, TypeError, "indices must be integ"),
    "size": (
        "max_unpool1d",
        LINE,
        {"indices": np.zeros(LINE, int), "kernel_size": 2, "output_size": (12,)},
        ValueError,
        r"output_size \(12,\) cannot have been pooled to \(5,\) .* give about \(10,\), or use jaxpool.max_unpool",
    ),
    "index past the end": (
        "max_unpool1d",
        LINE,
        {"indices": np.full(LINE, 10), "kernel_size": 2},
        ValueError,
        r"index 10 is beyond the output \(10,\); give output_size, the size before pooling",
    ),
    "entries of size": (
        "max_unpool1d",
        LINE,
        {"indices": np.zeros(LINE, int), "kernel_size": 2, "output_size": (2, 10)},
        ValueError,
        r"output_size \(2, 10\) has 2 entries; give 1, or 3",
    ),
    "int as size": (
        "max_unpool1d",
        LINE,
        {"indices": np.zeros(LINE, int), "kernel_size": 2, "output_size": 10},
        TypeError,
        "output_size must be a sequence of 1 ints, got 10",
    ),
    "samples": (
        "fractional_max_pool2d",
        IMAGE,
        {"kernel_size": 2, "output_size": 2, "_random_samples": np.zeros((2, 2), np.float32)},
        ValueError,
        r"_random_samples of shape \(2, 2\) do not match .* give the shape \(1, 2, 2\)",
    ),
    "list": ("max_pool1d", LINE, {"input": [[1.0, 2.0]], "kernel_size": 2}, TypeError, "input must be a JAX or NumPy"),
    "complex": (
        "max_pool1d",
        LINE,
        {"input": np.ones(LINE, complex), "kernel_size": 2},
        TypeError,
        ".* complex numbers are not",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_both_refuse(name: str) -> None:
    function, shape, arguments, exception, message = REFUSED[name]
    arguments = {"input": np.zeros(shape, np.float32), **arguments}
    with pytest.raises((RuntimeError, TypeError, ValueError, IndexError, ArithmeticError)):
        getattr(theirs, function)(
            **{key: torch.from_numpy(one) if isinstance(one, np.ndarray) else one for key, one in arguments.items()}
        )
    with pytest.raises(exception) as raised:
        getattr(ours, function)(**arguments)
    assert re.match(f"{function}: {message}", str(raised.value)), str(raised.value)


def test_what_pytorch_takes() -> None:
    """Refused here: windows of only padding, no bins, exponents that give no norm, windows without random samples."""
    x = np.zeros((1, 1), np.float32)
    assert theirs.max_pool1d(torch.from_numpy(x), 2, 1, 1, 2).item() == -np.inf
    with pytest.raises(ValueError, match=r"^max_pool1d: window 0 along axis 1 holds only padding"):
        ours.max_pool1d(x, 2, 1, 1, 2)
    assert theirs.adaptive_avg_pool1d(torch.from_numpy(x), 0).shape == (1, 0)
    with pytest.raises(ValueError, match=r"^adaptive_avg_pool1d: output_size must be at least 1"):
        ours.adaptive_avg_pool1d(x, 0)
    assert theirs.lp_pool1d(torch.from_numpy(x + 2), -1, 1).item() == 2
    with pytest.raises(ValueError, match=r"^lp_pool1d: norm_type must be positive, got -1"):
        ours.lp_pool1d(x, -1, 1)
    square = np.zeros((1, 3, 3), np.float32)
    assert theirs.fractional_max_pool2d(torch.from_numpy(square), 2, 2).shape == (1, 2, 2)
    with pytest.raises(
        ValueError, match=r"^fractional_max_pool2d: _random_samples is .*jax.random.uniform\(key, \(1, 1"
    ):
        ours.fractional_max_pool2d(square, 2, 2)
    with pytest.raises(ValueError, match="give output_size or output_ratio, got neither"):
        ours.fractional_max_pool2d(square, 2, _random_samples=np.zeros((1, 1, 2), np.float32))
