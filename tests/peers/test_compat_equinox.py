"""`jaxpool.compat.equinox` against `equinox.nn`: signatures, values, gradients, models, and where Equinox is wrong."""

import copy
import io
import pickle
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpool.compat import equinox as compat
from tests.harness.compilation import compiled_fast
from tests.peers.compat_comparison import Call, check_calls, original, result_of, same_signature, settings_of_users
from tests.project.importing import imported_with, public_members

pytestmark = pytest.mark.usefixtures("for_this_platform")

equinox = pytest.importorskip("equinox")

LAYERS = list(public_members(compat))
KINDS = ("MaxPool", "AvgPool")


@pytest.fixture(autouse=True)
def _default_settings(_strict_float64: None) -> Iterator[None]:
    with settings_of_users():
        yield


def theirs(call: Call, x: jax.Array) -> jax.Array:
    return getattr(equinox.nn, call.function)(**call.arguments)(x)


def ours(call: Call, x: jax.Array) -> jax.Array:
    return getattr(compat, call.function)(**call.arguments)(x)


def both(shape: tuple[int, ...], dtype: str = "float32", **arguments: Any) -> list[Call]:
    """The maximum and the average on the same windows."""
    return [Call(f"{kind}{len(shape) - 1}d", shape, arguments, dtype) for kind in KINDS]


def test_every_layer_is_there() -> None:
    pools = {name for name in dir(equinox.nn) if re.fullmatch(r"\w+Pool\dd", name)}
    assert set(LAYERS) == pools
    assert len(pools) == 12


@pytest.mark.parametrize("name", LAYERS)
def test_signature(name: str) -> None:
    assert original(getattr(compat, name)) is getattr(equinox.nn, name)
    assert same_signature(getattr(compat, name), getattr(equinox.nn, name))
    assert same_signature(getattr(compat, name).__call__, getattr(equinox.nn, name).__call__)


def test_equinox_is_not_imported() -> None:
    assert imported_with("jaxpool.compat.equinox", ["equinox"]) == []


# Shapes with an axis of channels, windows and strides; padding as an int, ints and pairs.
SPACES: tuple[tuple[tuple[int, ...], Any, Any, tuple[Any, ...]], ...] = (
    ((2, 9), 3, 2, (1, (2,), ((0, 3),))),
    ((2, 5, 6), (2, 3), (1, 2), (1, [2, 0], ((0, 1), (2, 1)))),
    ((1, 3, 4, 3), [2, 1, 2], (2, 3, 1), (1, (1, 0, 2), ([1, 0], [0, 1], [2, 2]))),
)


def test_values_and_gradients() -> None:
    calls = []
    for shape, window, stride, paddings in SPACES:
        calls += both(shape, kernel_size=2)
        for number, padding in enumerate(paddings):
            arguments = {"kernel_size": window, "stride": stride, "padding": padding}
            calls += both(shape, **({**arguments, "stride": 1} if number == 1 else arguments))
    check_calls(calls, theirs, ours)


def test_use_ceil() -> None:
    calls = []
    for size, stride in product((6, 7), (1, 2)):
        calls += both((2, size), kernel_size=4, stride=stride, padding=1, use_ceil=True)
    calls += both((2, 5, 6), kernel_size=3, stride=2, use_ceil=True)
    calls += both((1, 3, 4, 5), kernel_size=(2, 3, 2), stride=(1, 3, 2), use_ceil=True)
    check_calls(calls, theirs, ours)


def test_other_dtypes_and_sizes_that_jaxpool_refuses() -> None:
    calls = [call for dtype in ("bfloat16", "int32", "uint8") for call in both((2, 4, 5), dtype, kernel_size=(2, 3))]
    calls += both((2, 3), "bool", kernel_size=2)[:1]
    calls += both((2, 3), kernel_size=4) + both((2, 0), kernel_size=2) + both((0, 3), kernel_size=2)
    calls += both((2, 5), kernel_size=2, padding=2) + both((2, 7), kernel_size=2, padding=((-1, 2),))
    check_calls(calls, theirs, ours, gradients=False)


# Shapes and bins: as many as divide, any number, one, all.
BINS: tuple[tuple[tuple[int, ...], Any], ...] = (
    ((2, 7), 3),
    ((2, 6), (6,)),
    ((2, 7, 6), (3, 4)),
    ((2, 5, 4), [5, 1]),
    ((1, 4, 3, 5), 2),
)


def test_bins() -> None:
    random = np.random.default_rng(0)
    arrays = [random.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32) for shape, _ in BINS]

    @compiled_fast
    def run(arrays: list[jax.Array], ties: list[jax.Array]) -> Any:
        found = []
        for (_, bins), x, many in zip(BINS, arrays, ties, strict=True):
            for kind, library in product(("Max", "Avg"), (equinox.nn, compat)):
                layer = getattr(library, f"Adaptive{kind}Pool{x.ndim - 1}d")(bins)
                values, pullback = jax.vjp(layer, x)
                cotangent = jnp.arange(values.size, dtype=np.float32).reshape(values.shape)
                found.append((values, *pullback(cotangent), layer(many)))
        return found

    found = run(arrays, [x % 3 for x in arrays])
    for number, (one, other) in enumerate(zip(found[::2], found[1::2], strict=True)):
        assert [part.shape for part in one] == [part.shape for part in other]
        for expected, result in zip(one, other, strict=True):
            np.testing.assert_allclose(result, expected, *((1e-6, 1e-5) if number % 2 else (0, 0)))


@pytest.mark.parametrize("float64", [False, True])
def test_dtypes_of_averages(float64: bool) -> None:
    with jax.enable_x64(float64):
        for dtype in ("int8", "uint32", "int64" if float64 else "int32", "bfloat16", "float32", "complex64"):
            for call in (
                both((2, 4), dtype, kernel_size=2)[1],
                Call("AdaptiveAvgPool1d", (2, 4), {"target_shape": 3}, dtype),
            ):
                assert result_of(ours, call).dtype == result_of(theirs, call).dtype, call


def model(library: Any) -> Any:
    convolution = equinox.nn.Conv2d(1, 3, 3, key=jax.random.key(0))
    layers = [library.MaxPool2d(3, 2, padding=1), library.AvgPool2d(2), library.AdaptiveMaxPool2d(2)]
    return equinox.nn.Sequential([convolution, *layers, library.AdaptiveAvgPool2d((1, 2))])


def test_inside_of_models() -> None:
    x = jnp.asarray(np.random.default_rng(0).normal(size=(2, 1, 12, 11)), np.float32)

    @equinox.filter_jit
    @equinox.filter_value_and_grad
    def loss(model: Any, x: jax.Array) -> jax.Array:
        return (jax.vmap(lambda x: model(x, key=None))(x) ** 2).sum()

    (expected, one), (value, other) = loss(model(equinox.nn), x), loss(model(compat), x)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    for right, found in zip(
        *(jax.tree.leaves(equinox.filter(given, equinox.is_array)) for given in (one, other)), strict=True
    ):
        np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)


def test_files_hold_the_same_numbers() -> None:
    """What stands behind a pool in a file is found again, whichever library has written it."""

    def network(library: Any, slope: float) -> Any:
        layers = [library.MaxPool2d(2, 2), library.AvgPool2d(2), library.AdaptiveAvgPool2d(1)]
        return equinox.nn.Sequential([*layers, equinox.nn.PReLU(slope), equinox.nn.Dropout(slope)])

    for written, read in ((equinox.nn, compat), (compat, equinox.nn)):
        file = io.BytesIO()
        equinox.tree_serialise_leaves(file, network(written, 0.25))
        file.seek(0)
        loaded = equinox.tree_deserialise_leaves(file, network(read, 0.5))
        assert loaded.layers[-2].negative_slope == loaded.layers[-1].p == 0.25


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_trees(name: str) -> None:
    layer = getattr(compat, name)(2)
    theirs = jax.tree_util.tree_leaves_with_path(getattr(equinox.nn, name)(2))
    assert jax.tree_util.tree_leaves_with_path(layer) == [leaf for leaf in theirs if not callable(leaf[1])]
    assert layer == getattr(compat, name)(2) != getattr(compat, name)(1)
    assert hash(layer) == hash(getattr(compat, name)((2,) * layer.num_spatial_dims))
    assert pickle.loads(pickle.dumps(layer)) == copy.deepcopy(layer) == jax.tree.map(lambda leaf: leaf, layer) == layer


@pytest.mark.parametrize("name", LAYERS)
def test_attributes(name: str) -> None:
    arguments: dict[str, Any] = {} if "Adaptive" in name else {"stride": 2, "padding": 1, "use_ceil": True}
    one, other = (getattr(library, name)(3, **arguments) for library in (compat, equinox.nn))
    attributes = ["target_shape"] if "Adaptive" in name else ["num_spatial_dims", "kernel_size", *arguments]
    for attribute in attributes:
        assert getattr(one, attribute) == getattr(other, attribute)
    with pytest.raises(AttributeError):
        setattr(one, attributes[-1], 1)


def test_where_equinox_is_wrong() -> None:
    """Faults of the original, as listed in the docstring of the module, each with the right result."""
    nan = jnp.zeros((1, 8192)).at[0, 5].set(jnp.nan)
    np.testing.assert_array_equal(compat.MaxPool1d(2, 2)(nan)[0, 2], jnp.nan)
    np.testing.assert_array_equal(compat.AdaptiveMaxPool1d(4096)(nan)[0, 2], jnp.nan)
    low, tangent = jnp.full((1, 3), -jnp.inf), jnp.arange(1.0, 4.0)[None]
    layer = compat.MaxPool1d(2, padding=((1, 0),))
    np.testing.assert_array_equal(jax.grad(lambda x: layer(x).sum())(low), [[2, 1, 0]])
    np.testing.assert_array_equal(jax.jvp(layer, (low,), (tangent,))[1], [[1, 1, 2]])
    shared, first = (
        jax.grad(lambda x, library=library: library.AdaptiveMaxPool1d(1)(x).sum())(jnp.ones((1, 4)))
        for library in (equinox.nn, compat)
    )
    np.testing.assert_array_equal([*shared, *first], [[0.25] * 4, [1, 0, 0, 0]])
    assert compat.AvgPool2d(31)(jnp.ones((1, 31, 31), jnp.bfloat16)).item() == 1
    assert compat.AvgPool1d(2)(jnp.array([[True, False]])).item() == 0.5
    assert compat.AvgPool1d(4)(jnp.full((1, 4), 200, jnp.uint8)).item() == 200
    assert compat.AvgPool1d(7)(jnp.full((1, 7), 3.0)).item() == 3
    x = jnp.arange(4.0)[None, :3]
    with pytest.raises(RuntimeError):
        equinox.nn.MaxPool1d(2, 2, 1, use_ceil=True)(jnp.pad(x, ((0, 0), (0, 2))))
    np.testing.assert_array_equal(
        compat.MaxPool1d(2, 2, 1, use_ceil=True)(jnp.pad(x, ((0, 0), (0, 2)))), [[0, 2, 0, -np.inf]]
    )
