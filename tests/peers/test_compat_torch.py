"""jaxpool and `jaxpool.compat.torch` against `torch.nn.functional`, from signatures to errors.

All calls of a table are one program, which runs on distinct integers and on few with many ties. Both libraries give a
tie to the first cell in row-major order; sums of such integers are exact, quotients and norms differ by their rounding.
"""

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
import jaxpool.compat.torch as ours
from tests.harness.compilation import compiled_fast
from tests.peers.compat_comparison import check_refused, original, same_signature
from tests.project.importing import public_members

pytestmark = pytest.mark.usefixtures("for_this_platform", "as_users_have_it")

torch = pytest.importorskip("torch")
theirs = torch.nn.functional


class Call(NamedTuple):
    """A function by name, the shape of its array, its other arguments, and whether jaxpool's own takes them as well."""

    function: str
    shape: tuple[int, ...]
    arguments: dict[str, Any]
    by_jaxpool: bool = False

    def ours(self, x: jax.Array) -> tuple[Any, Any]:
        """Our values and indices, or None; jaxpool's own with channels last."""
        if not self.by_jaxpool:
            return pair(getattr(ours, self.function)(x, **self.arguments))
        rank, arguments = int(self.function[-2]), dict(self.arguments)
        suffix = "_with_indices" if arguments.pop("return_indices", False) else ""
        axis = tuple(range(-rank - 1, -1))
        if "indices" in arguments:
            indices = np.moveaxis(arguments["indices"], -rank - 1, -1)
            arguments = {"indices": indices, "output_size": arguments["output_size"][-rank:]}
        outputs = getattr(jaxpool, self.function[:-2] + suffix)(jnp.moveaxis(x, -rank - 1, -1), **arguments, axis=axis)
        return pair(jax.tree.map(lambda array: jnp.moveaxis(array, -1, -rank - 1), outputs))

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


def test_names_and_signatures() -> None:
    pools = {name for name in dir(theirs) if re.fullmatch(r"[a-z]\w*pool\dd", name)}
    assert set(public_members(ours)) == pools
    assert len(pools) == 20
    for name, stand_in in public_members(ours).items():
        assert original(stand_in) is getattr(theirs, name)
        assert same_signature(stand_in, named_by_torch(getattr(theirs, name))), name


def sliding(random: np.random.Generator, family: str, rank: int, sizes: list[int]) -> dict[str, Any]:
    """Windows of a few cells, with padding up to half of them."""
    kernel = random.integers(1, 5 if rank < 3 else 4, rank)
    stride = kernel if random.random() < 0.3 else random.integers(1, 4, rank)
    arguments: dict[str, Any] = {"kernel_size": kernel, "stride": stride, "ceil_mode": random.random() < 0.5}
    if family == "lp_pool":
        arguments["norm_type"] = float(random.choice([1, 2, 3, 0.5, 2.5, np.inf]))
    else:
        arguments["padding"] = random.integers(0, kernel // 2 + 1)
    if family == "max_pool":
        arguments |= {"dilation": random.integers(1, 4, rank), "return_indices": True}
    if family == "avg_pool":
        arguments["count_include_pad"] = random.random() < 0.5
    if family == "avg_pool" and rank > 1 and random.random() < 0.3:
        arguments["divisor_override"] = int(random.choice([-3, 1, 7]))
    return arguments


def bins(random: np.random.Generator, family: str, rank: int, sizes: list[int]) -> dict[str, Any]:
    """As many as divide the cells, any number, more than there are, or None, but for a single axis."""

    def of(size: int) -> int | None:
        divisors = [m for m in range(1, size + 1) if size % m == 0]
        choices = [divisors, range(1, size + 1), range(size + 1, size + 5), [None] if rank > 1 else [size]]
        counts = choices[random.choice(4, p=[0.2, 0.5, 0.2, 0.1])]
        return counts[random.integers(len(counts))]

    counts = {"output_size": tuple(map(of, sizes)) if rank > 1 else of(sizes[0])}
    return counts if family == "adaptive_avg_pool" else {**counts, "return_indices": True}


def way_back(random: np.random.Generator, family: str, rank: int, sizes: list[int]) -> dict[str, Any]:
    """Windows without overlap, so that no two values have one index."""
    kernel = random.integers(1, 4, rank)
    return {"kernel_size": kernel, "padding": random.integers(0, kernel // 2 + 1), "output_size": sizes}


DRAWS = {
    **dict.fromkeys(("max_pool", "avg_pool", "lp_pool"), sliding),
    **dict.fromkeys(("adaptive_max_pool", "adaptive_avg_pool"), bins),
    "max_unpool": way_back,
}


def draw(random: np.random.Generator, family: str) -> Call:
    """A random call that PyTorch accepts, of a stand-in or of jaxpool; all that is refused here is only padding."""
    while True:
        rank = int(random.choice([1, 2, 3], p=[0.35, 0.45, 0.2]))
        sizes = random.integers(1, 10 if rank < 3 else 6, rank).tolist()
        shape = (*random.integers(1, 3, 1 if random.random() < 1 / 3 else 2).tolist(), *sizes)
        drawn = DRAWS[family](random, family, rank, sizes)
        arguments = {k: tuple(v.tolist()) if isinstance(v, np.ndarray) else v for k, v in drawn.items()}
        if family == "lp_pool" and rank == 1:
            arguments["kernel_size"] = arguments["kernel_size"][0]
        try:
            if family == "max_unpool":
                cells = torch.from_numpy(random.permutation(math.prod(shape)).reshape(shape)).float()
                windows = {key: arguments[key] for key in ("kernel_size", "padding")}
                pool = getattr(theirs, f"max_pool{rank}d")
                arguments["indices"] = pool(cells, **windows, return_indices=True)[1].numpy()
                shape = arguments["indices"].shape
            # PyTorch scales norms of what is left of a window, and so does the stand-in.
            by_jaxpool = family != "lp_pool" and bool(random.random() < 0.5)
            call = Call(f"{family}{rank}d", shape, arguments, by_jaxpool)
            call.theirs(torch.zeros(shape))
        except RuntimeError:
            continue
        try:
            jax.eval_shape(lambda x: call.ours(x)[0], jnp.zeros(shape))  # noqa: B023
        except ValueError as error:
            if "holds only padding" not in str(error):
                raise
            continue
        return call


@pytest.mark.parametrize(("chunk", "count"), [(0, 4), *(pytest.param(n, 12, marks=pytest.mark.slow) for n in range(4))])
@pytest.mark.parametrize("family", DRAWS)
def test_random_calls(family: str, chunk: int, count: int) -> None:
    random = np.random.default_rng([chunk, *family.encode()])
    calls = [draw(random, family) for _ in range(min(count, 4) if family == "lp_pool" else count)]
    tolerance = {"lp_pool": (1e-5, 1e-5), "avg_pool": (1e-6, 1e-5), "adaptive_avg_pool": (1e-6, 1e-5)}
    rtol, atol = tolerance.get(family, (0, 0))
    # PyTorch takes the power of the signed number.
    check(calls, positive=family == "lp_pool", rtol=rtol, atol=atol)


def test_ways_to_write_sizes() -> None:
    calls: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
        ("max_pool2d", (1, 2, 6, 4), {"kernel_size": (3, 2), "stride": []}),
        ("max_pool2d", (0, 2, 4, 4), {"kernel_size": 2}),
        ("max_pool3d", (2, 4, 5, 3), {"kernel_size": (3,), "stride": 1, "padding": (1,)}),
        ("adaptive_max_pool3d", (2, 3, 4, 2), {"output_size": [2, None, 3]}),
        ("max_unpool2d", (1, 2, 2), {"kernel_size": (2, 2), "stride": None, "indices": np.array([[[0, 3], [9, 10]]])}),
        ("max_unpool1d", (1, 3), {"kernel_size": 3, "padding": (1,), "indices": np.array([[0, 2, 6]])}),
    ]
    check([Call(*call) for call in calls])
    # Even powers do not see the sign.
    check([Call("lp_pool2d", (2, 7, 6), {"norm_type": 2, "kernel_size": 2, "ceil_mode": True})], rtol=1e-5, atol=1e-5)


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
        floats = ("avg_pool2d", "adaptive_avg_pool2d", "adaptive_max_pool2d") if "int" not in dtype else ()
        for name in ("max_pool2d", *floats):
            expected = getattr(theirs, name)(torch.from_numpy(x).to(getattr(torch, dtype)), 2)
            found = getattr(ours, name)(jnp.asarray(x, dtype), 2)
            assert found.dtype == dtype
            np.testing.assert_array_equal(np.asarray(found, np.float64), expected.double().numpy())


@pytest.mark.parametrize("float64", [False, True])
def test_dtype_of_indices(float64: bool) -> None:
    with jax.enable_x64(float64):
        x, samples = np.ones((1, 4, 4), np.float32), np.zeros((1, 1, 2), np.float32)
        for _, indices in (
            ours.max_pool2d(x, 2, return_indices=True),
            ours.adaptive_max_pool2d(x, 2, True),
            ours.fractional_max_pool2d(x, 2, 2, return_indices=True, _random_samples=samples),
        ):
            assert indices.dtype == (np.int64 if float64 else np.int32)


def test_nan_that_wins() -> None:
    x = np.array([[np.nan, 1, np.nan, 2]], np.float32)
    for name, sizes in (("max_pool1d", 4), ("adaptive_max_pool1d", 1)):
        value, last = getattr(theirs, name)(torch.from_numpy(x), sizes, return_indices=True)
        mine, first = getattr(ours, name)(x, sizes, return_indices=True)
        assert value.isnan().item()
        assert jnp.isnan(mine).item()
        assert (last.item(), first.item()) == (2, 0)


def test_norms_that_differ() -> None:
    """Of negative numbers, in the derivative at 0, and with an exponent that is learnt."""
    x = np.array([[-3, 2]], np.float32)
    for p, found, norm in ((1.0, -1.0, 5.0), (3.0, np.nan, 35 ** (1 / 3)), (2.0, 13**0.5, 13**0.5)):
        np.testing.assert_allclose(theirs.lp_pool1d(torch.from_numpy(x), p, 2).item(), found, rtol=1e-6)
        np.testing.assert_allclose(ours.lp_pool1d(x, p, 2).item(), norm, rtol=1e-6)
    x = np.array([[0, 0, 4, 0]], np.float32)
    for p, cells in ((1.0, [0, 0, 1, 1]), (0.5, [np.nan, np.nan, 1, np.inf])):
        given = torch.from_numpy(x).requires_grad_()
        theirs.lp_pool1d(given, p, 2).sum().backward()
        np.testing.assert_array_equal(given.grad.numpy(), [cells])
        gradient = jax.grad(lambda x: ours.lp_pool1d(x, p, 2).sum())(x)  # noqa: B023
        np.testing.assert_array_equal(gradient, [[0, 0, 1, 0]])
    x, p = jnp.arange(1.0, 6.0)[None], jnp.array([2.0])
    whole = ours.lp_pool1d(x, p, 2, ceil_mode=True)
    np.testing.assert_allclose(whole, theirs.lp_pool1d(torch.from_numpy(np.array(x)), 2, 2, ceil_mode=True), rtol=1e-6)
    slope = jax.grad(lambda p: ours.lp_pool1d(x[:, 4:], p, 2, ceil_mode=True).sum())(p)
    # 5·2^(1/p), of which the derivative is -5·log 2·2^(1/p)/p².
    np.testing.assert_allclose(slope, -5 * np.log(2) * 2**0.5 / 4, rtol=1e-5)


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
    """Fractions of integers, which PyTorch cuts; dtypes, no channels, one ratio for two axes, which it refuses."""
    cells = np.array([[1, 2]])
    assert (theirs.avg_pool1d(torch.from_numpy(cells), 2).item(), ours.avg_pool1d(cells, 2).item()) == (1, 1.5)
    assert ours.adaptive_avg_pool1d(cells.astype(np.uint8), 1).dtype == np.float32
    x = np.arange(16).reshape(1, 4, 4)
    for name, options in (
        ("avg_pool2d", {"kernel_size": 2}),
        ("lp_pool2d", {"kernel_size": 2, "norm_type": 2}),
        ("adaptive_max_pool2d", {"output_size": 2}),
        ("max_unpool2d", {"kernel_size": 1, "indices": x}),
        ("fractional_max_pool2d", {"kernel_size": 2, "output_ratio": 0.5, "_random_samples": np.zeros((1, 1, 2))}),
    ):
        for dtype in ("bool", "int8", "bfloat16"):
            assert getattr(ours, name)(jnp.asarray(x, dtype), **options).shape[0] == 1
    assert ours.max_pool2d(x[:0].astype(bool), 2).shape == (0, 2, 2)
    np.testing.assert_array_equal(ours.avg_pool2d(x * 1j, 4), [[[7.5j]]])


def test_what_only_pytorch_takes() -> None:
    """Windows of only padding, no bins, exponents that give no norm, windows without random samples."""
    x, square = np.zeros((1, 1), np.float32), np.zeros((1, 3, 3), np.float32)
    samples = r"^fractional_max_pool2d: _random_samples is .*jax.random.uniform\(key, \(1, 1"
    for function, cells, arguments, found, message in (
        ("max_pool1d", x, (2, 1, 1, 2), -np.inf, "^max_pool1d: window 0 along axis 1 holds only padding"),
        ("adaptive_avg_pool1d", x, (0,), [], "^adaptive_avg_pool1d: output_size must be at least 1"),
        ("lp_pool1d", x + 2, (-1, 1), 2, "^lp_pool1d: norm_type must be positive, got -1"),
        ("fractional_max_pool2d", square, (2, 2), 0, samples),
    ):
        given = getattr(theirs, function)(torch.from_numpy(cells), *arguments)
        np.testing.assert_array_equal(given.numpy().ravel(), found)
        with pytest.raises(ValueError, match=message):
            getattr(ours, function)(cells, *arguments)
    with pytest.raises(ValueError, match="give output_size or output_ratio, got neither"):
        ours.fractional_max_pool2d(square, 2, _random_samples=np.zeros((1, 1, 2), np.float32))


def window(kernel_size: Any = 2, **others: Any) -> dict[str, Any]:
    return {"kernel_size": kernel_size, **others}


def unpooled(**others: Any) -> dict[str, Any]:
    return {"kernel_size": 2, "indices": np.zeros(LINE, int), **others}


IMAGE, LINE, SAMPLES = (1, 2, 4, 6), (2, 5), {"_random_samples": np.zeros((2, 2), np.float32)}
COMPLEX = np.ones(LINE, complex)
REFUSED: list[tuple[str, tuple[int, ...], dict[str, Any], type[Exception], str]] = [
    ("max_pool2d", (4, 6), window(), ValueError, r"input must .* \(C, H, W\), got .*input\[None\]"),
    ("avg_pool2d", (1, *IMAGE), window(), ValueError, r".*input.reshape\(-1, \*input.shape"),
    ("adaptive_avg_pool3d", (2, 3), {"output_size": 2}, ValueError, r"input must have the axes \(N, C, D"),
    ("max_pool2d", IMAGE, window((2, 2, 2)), ValueError, r"kernel_size \(2, 2, 2\) has 3 entries"),
    ("max_pool2d", IMAGE, window(2.0), TypeError, "kernel_size must be an int, got 2.0"),
    ("avg_pool2d", IMAGE, window(None), TypeError, "kernel_size must be an int"),
    ("max_pool1d", LINE, window(padding="same"), TypeError, "padding must .* got 'same'"),
    ("max_pool2d", IMAGE, window(padding=((0, 1), (1, 0))), TypeError, "padding .* both sides"),
    ("avg_pool1d", LINE, window(stride=0), ValueError, "stride must be at least 1, got 0"),
    ("max_pool1d", LINE, window(padding=-1), ValueError, "padding must be at least 0"),
    ("max_pool1d", LINE, window(3, padding=2), ValueError, "padding 2 .* at most 1, .*max_pool"),
    ("avg_pool2d", IMAGE, window(3, padding=2), ValueError, "padding 2 is more than half"),
    ("max_pool1d", LINE, window(padding=2, dilation=3), ValueError, "padding 2 is more"),
    ("max_pool2d", IMAGE, window(7), ValueError, "kernel_size 7"),
    ("avg_pool2d", IMAGE, window(divisor_override=0), ValueError, "divisor_override must"),
    ("adaptive_max_pool2d", (1, 2, 0, 3), {"output_size": 2}, ValueError, ".*axis 2 "),
    ("adaptive_avg_pool2d", IMAGE, {"output_size": (2,)}, ValueError, r"output_size \(2,\) has 1 entry"),
    ("adaptive_avg_pool2d", IMAGE, {"output_size": -1}, ValueError, "output_size must be at least 1"),
    ("lp_pool2d", IMAGE, window(norm_type=0), ValueError, "norm_type must be positive, got 0"),
    ("max_unpool1d", LINE, unpooled(indices=np.zeros((2, 4), int)), ValueError, "indices of"),
    ("max_unpool1d", LINE, unpooled(indices=np.zeros(LINE)), TypeError, "indices must be integ"),
    ("max_unpool1d", LINE, unpooled(output_size=(12,)), ValueError, r"output_size \(12,\) cannot .* about \(10,\), or"),
    ("max_unpool1d", LINE, unpooled(indices=np.full(LINE, 10)), ValueError, r"index 10 is .*\(10,\); give output_size"),
    ("max_unpool1d", LINE, unpooled(output_size=(2, 10)), ValueError, r"output_size \(2, 10\) has 2 .*; give 1, or 3"),
    ("max_unpool1d", LINE, unpooled(output_size=10), TypeError, "output_size must be a sequence of 1 ints, got 10"),
    ("fractional_max_pool2d", IMAGE, window(output_size=2, **SAMPLES), ValueError, r"_random_samples .* \(1, 2, 2\)"),
    ("max_pool1d", LINE, window(input=[[1.0, 2.0]]), TypeError, "input must be a JAX or NumPy"),
    ("max_pool1d", LINE, window(input=COMPLEX), TypeError, ".* complex numbers are not"),
    ("adaptive_max_pool1d", LINE, {"input": COMPLEX, "output_size": 2}, TypeError, ".* complex numbers are not"),
]


@pytest.mark.parametrize(("function", "shape", "arguments", "exception", "message"), REFUSED)
def test_both_refuse(
    function: str, shape: tuple[int, ...], arguments: dict[str, Any], exception: type[Exception], message: str
) -> None:
    arguments = {"input": np.zeros(shape, np.float32), **arguments}
    check_refused(lambda: getattr(ours, function)(**arguments), exception, f"{function}: {message}")
    with pytest.raises((RuntimeError, TypeError, ValueError, IndexError, ArithmeticError)):
        getattr(theirs, function)(**for_torch(arguments))
