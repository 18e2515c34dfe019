"""`jaxpool.compat.keras` against `keras.ops` on JAX: signatures, values, gradients, layouts, where Keras is wrong."""

import re
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpool.compat import keras as compat
from tests.peers.compat_comparison import Call, check_calls, original, result_of, same_signature, settings_of_users
from tests.project.importing import imported_with, public_members

pytestmark = pytest.mark.usefixtures("for_this_platform")

WINDOWS = ("max_pool", "average_pool")
BINS = ("adaptive_max_pool", "adaptive_average_pool")
LAYOUTS = (None, "channels_last", "channels_first")


@pytest.fixture(scope="module")
def keras(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Keras, which reads both variables when it is imported, and writes a file of settings into its home."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("KERAS_BACKEND", "jax")
        environment.setenv("KERAS_HOME", str(tmp_path_factory.mktemp("keras")))
        yield pytest.importorskip("keras")


@pytest.fixture(autouse=True)
def _default_settings(_strict_float64: None) -> Iterator[None]:
    with settings_of_users():
        yield


class Pools:
    """The functions of Keras and ours, for `check_calls`."""

    def __init__(self, keras: Any) -> None:
        self._operations = keras.ops

    def theirs(self, call: Call, x: jax.Array) -> jax.Array:
        """Keras 3.15 fails without strides, and is given those that it says it has then."""
        arguments = dict(call.arguments)
        if "pool_size" in arguments and arguments.get("strides") is None:
            arguments["strides"] = arguments["pool_size"]
        return getattr(self._operations, call.function)(x, **arguments)

    def ours(self, call: Call, x: jax.Array) -> jax.Array:
        """The stand-in, with the arguments as they are."""
        return getattr(compat, call.function)(x, **call.arguments)


@pytest.fixture
def pools(keras: Any) -> Pools:
    return Pools(keras)


def both(shape: tuple[int, ...], dtype: str = "float32", **arguments: Any) -> list[Call]:
    """The maximum and the average on the same windows, or bins."""
    functions = WINDOWS if "pool_size" in arguments else BINS
    return [Call(function, shape, arguments, dtype) for function in functions]


@pytest.mark.parametrize("name", [*WINDOWS, *BINS])
def test_signature(keras: Any, name: str) -> None:
    assert original(getattr(compat, name)) is getattr(keras.ops, name)
    assert same_signature(getattr(compat, name), getattr(keras.ops, name))


def test_every_function_is_there(keras: Any) -> None:
    assert set(public_members(compat)) == {*WINDOWS, *BINS} == {name for name in dir(keras.ops) if "pool" in name}


def test_keras_is_not_imported() -> None:
    assert imported_with("jaxpool.compat.keras", ["keras"]) == []


# Shapes with channels last, windows and strides: ints and one per axis, None.
SPACES: tuple[tuple[tuple[int, ...], Any, Any], ...] = (
    ((2, 7, 2), 3, 2),
    ((2, 7, 2), (2,), None),
    ((2, 5, 6, 2), (2, 3), (1, 2)),
    ((1, 5, 6, 2), 2, 3),
    ((1, 3, 4, 3, 2), (2, 1, 2), None),
)


def test_values_and_gradients(pools: Pools) -> None:
    calls = []
    for number, (shape, window, strides) in enumerate(SPACES):
        for turn, padding in enumerate(("valid", "same", "SAME")[: 2 + (number == 0)]):
            layout = LAYOUTS[(number + turn) % 3]
            arguments = {"pool_size": window, "strides": strides, "padding": padding, "data_format": layout}
            first = (shape[0], shape[-1], *shape[1:-1]) if layout == "channels_first" else shape
            calls += both(first, **arguments)
    check_calls(calls, pools.theirs, pools.ours)


def test_bins(pools: Pools) -> None:
    calls = both((2, 7, 2), output_size=3) + both((2, 5, 6, 2), output_size=(2, 4), data_format="channels_last")
    calls += both((2, 2, 5, 4), output_size=[5, 7], data_format="channels_first") + both((1, 4, 3, 5, 1), output_size=2)
    check_calls(calls, pools.theirs, pools.ours, gradients=False)
    # Keras gives a tie along several axes to another cell.
    check_calls([calls[0], *calls[1::2]], pools.theirs, pools.ours)


def test_other_dtypes_and_sizes_that_jaxpool_refuses(pools: Pools) -> None:
    calls = []
    for dtype, padding in product(("bfloat16", "int32", "uint8"), ("valid", "same")):
        calls += both((2, 4, 5, 1), dtype, pool_size=(2, 3), strides=(1, 2), padding=padding)
    calls += both((2, 3, 1), "bool", pool_size=2)[:1] + both((2, 3, 1), "bool", output_size=2)[:1]
    for padding in ("valid", "same"):
        for shape in ((2, 3, 1), (2, 0, 1), (0, 3, 1), (2, 3, 0)):
            calls += both(shape, pool_size=4, strides=5, padding=padding)
    check_calls(calls, pools.theirs, pools.ours, gradients=False)


@pytest.mark.parametrize("float64", [False, True])
def test_dtypes_of_averages(pools: Pools, float64: bool) -> None:
    with jax.enable_x64(float64):
        for dtype in ("int8", "uint32", "int64" if float64 else "int32", "bfloat16", "float32", "complex64"):
            for padding in ("valid", "same"):
                call = both((2, 3, 1), dtype, pool_size=2, padding=padding)[1]
                assert result_of(pools.ours, call).dtype == result_of(pools.theirs, call).dtype, call
            call = both((2, 3, 1), dtype, output_size=2)[1]
            assert result_of(pools.ours, call).dtype == result_of(pools.theirs, call).dtype, call


def test_layout_that_is_not_given(keras: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of Keras where it has been imported, and channels last where not."""
    x = jnp.zeros((1, 4, 6, 8))
    before = keras.config.image_data_format()
    try:
        for layout, shape in (("channels_first", (1, 4, 3, 4)), ("channels_last", (1, 2, 3, 8))):
            keras.config.set_image_data_format(layout)
            assert compat.max_pool(x, 2).shape == keras.ops.max_pool(x, 2, 2).shape == shape
            assert compat.adaptive_average_pool(x, shape[-2:]).shape[1] == (
                4 if layout == "channels_first" else shape[-2]
            )
        keras.config.set_image_data_format("channels_first")
        monkeypatch.delitem(sys.modules, "keras")
        assert compat.max_pool(x, 2).shape == (1, 2, 3, 8)
    finally:
        keras.config.set_image_data_format(before)


def test_inside_of_a_model(keras: Any) -> None:
    x = np.random.default_rng(0).normal(size=(2, 7, 6, 3)).astype(np.float32)
    layers = [keras.Input((7, 6, 3)), keras.layers.Lambda(lambda x: compat.max_pool(x, 3, 2, "same"))]
    expected = keras.ops.max_pool(x, 3, 2, "same")
    np.testing.assert_array_equal(keras.Sequential(layers)(x), expected)


def test_where_keras_is_wrong(keras: Any) -> None:
    """Faults of the original, as listed in the docstring of the module, each with the right result."""
    with pytest.raises(TypeError):
        keras.ops.max_pool(jnp.zeros((1, 4, 4, 1)), 2)
    assert compat.max_pool(jnp.zeros((1, 4, 4, 1)), [2, 2]).shape == (1, 2, 2, 1)
    nan = jnp.zeros((1, 8192, 1)).at[0, 5].set(jnp.nan)
    np.testing.assert_array_equal(compat.max_pool(nan, 2)[0, 2], jnp.nan)
    low, tangent = jnp.full((1, 3, 1), -jnp.inf), jnp.arange(1.0, 4.0)[None, :, None]

    def pool(x: jax.Array) -> jax.Array:
        return compat.max_pool(x, 3, 2, "same")

    np.testing.assert_array_equal(jax.grad(lambda x: pool(x).sum())(low).ravel(), [1, 1, 0])
    np.testing.assert_array_equal(jax.jvp(pool, (low,), (tangent,))[1].ravel(), [1, 2])
    half = jnp.repeat(jnp.arange(2.0, dtype=jnp.bfloat16), 480)[None, :, None]
    for padding in ("valid", "same"):
        assert compat.average_pool(half, 960, padding=padding).item() == 0.5
        assert compat.average_pool(jnp.ones((1, 961, 1), jnp.bfloat16), 961, padding=padding).item() == 1
        assert compat.average_pool(jnp.full((1, 4, 1), 200, jnp.uint8), 4, padding=padding).item() == 200
        assert compat.average_pool(jnp.full((1, 7, 1), 3.0), 7, padding=padding).item() == 3
    assert compat.average_pool(jnp.array([True, False])[None, :, None], 2).item() == 0.5
    tie = jnp.array([[0.0, 1.0], [1.0, 0.0]])[None, :, :, None]
    column, row = (
        jax.grad(lambda x, library=library: library.adaptive_max_pool(x, 1).sum())(tie)
        for library in (keras.ops, compat)
    )
    np.testing.assert_array_equal([column.ravel(), row.ravel()], [[0, 0, 1, 0], [0, 1, 0, 0]])
    fourteen = jnp.arange(14.0)[None, :, None]
    np.testing.assert_array_equal(compat.adaptive_average_pool(fourteen, 7).ravel(), np.arange(7) * 2 + 0.5)


X = np.zeros((1, 4, 6, 1), np.float32)
REFUSED: dict[str, tuple[str, dict[str, Any], type[Exception], str]] = {
    "padding": ("max_pool", {"padding": "full"}, ValueError, "padding 'full' is unknown; use 'valid' or 'same'"),
    "int": ("average_pool", {"padding": 1}, ValueError, "padding 1 is unknown; use 'valid' or 'same', .* numbers too"),
    "layout": ("max_pool", {"data_format": "NHWC"}, ValueError, "data_format 'NHWC' is unknown; use 'channels_last'"),
    "float": ("average_pool", {"pool_size": 2.0}, TypeError, "pool_size must be an int, got 2.0"),
    "entries": ("max_pool", {"pool_size": (2, 2, 2)}, ValueError, r"pool_size \(2, 2, 2\) has 3 entries but 2 axes"),
    "size": ("max_pool", {"pool_size": 0}, ValueError, "pool_size must be at least 1, got 0"),
    "strides": ("average_pool", {"strides": 0}, ValueError, "strides must be at least 1, got 0"),
    "list": ("max_pool", {"inputs": [[[1.0]]]}, TypeError, "inputs must be a JAX or NumPy array, got list"),
    "bins": ("adaptive_max_pool", {"output_size": (2, 2, 2)}, ValueError, r"output_size \(2, 2, 2\) has 3 entries"),
    "None": ("adaptive_average_pool", {"output_size": (None, 2)}, TypeError, "output_size must be an int, got None"),
    "format": ("adaptive_max_pool", {"output_size": 2, "data_format": "CHW"}, ValueError, "data_format 'CHW' is"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_both_refuse(keras: Any, name: str) -> None:
    function, arguments, exception, message = REFUSED[name]
    right = {"inputs": X} if "adaptive" in function else {"inputs": X, "pool_size": 2, "strides": 2}
    arguments = {**right, **arguments}
    with pytest.raises((AttributeError, TypeError, ValueError)):
        getattr(keras.ops, function)(**arguments)
    with pytest.raises(exception) as raised:
        getattr(compat, function)(**arguments)
    assert re.match(f"{function}: {message}", str(raised.value)), str(raised.value)


def test_other_wrong_calls() -> None:
    for function in ("max_pool", "adaptive_max_pool"):
        with pytest.raises(TypeError, match=r"^\w+: .* complex numbers are not supported"):
            getattr(compat, function)(X.astype(complex), 2)
        with pytest.raises(ValueError, match=rf"^{function}: inputs must have an axis of batch, .*inputs\[None\]"):
            getattr(compat, function)(X[0, 0], 2)
