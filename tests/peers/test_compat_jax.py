"""`jaxpool.compat` against Flax, Haiku, Equinox and Keras, from signatures to errors, and where those are wrong."""

import copy
import io
import pickle
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpool.compat import equinox, flax, haiku, keras
from tests.peers.compat_comparison import (
    Call,
    check_calls,
    check_refused,
    imported,
    original,
    pool_of,
    result_of,
    same_signature,
)
from tests.project.importing import imported_with, public_members

pytestmark = pytest.mark.usefixtures("for_this_platform", "as_users_have_it")

# Where the original pools of each stand-in are.
ORIGINALS = {flax: "flax.linen.pooling", haiku: "haiku", equinox: "equinox.nn", keras: "keras.ops"}
each_module = pytest.mark.parametrize("module", ORIGINALS, ids=ORIGINALS.get)
INT_WARNING = "ignore:(When running under vmap|.*under jax.vmap an int):DeprecationWarning"


@each_module
def test_signatures(module: Any) -> None:
    theirs = imported(ORIGINALS[module])
    for name, stand_in in public_members(module).items():
        assert original(stand_in) is getattr(theirs, name)
        assert same_signature(stand_in, getattr(theirs, name))
        if isinstance(stand_in, type):
            assert same_signature(stand_in.__call__, getattr(theirs, name).__call__)


def test_every_pool_of_equinox_and_keras_is_there() -> None:
    layers = {name for name in dir(imported("equinox.nn")) if re.fullmatch(r"\w+Pool\dd", name)}
    assert set(public_members(equinox)) == layers
    assert len(layers) == 12
    assert set(public_members(keras)) == {name for name in dir(imported("keras.ops")) if "pool" in name}


def test_no_framework_is_imported() -> None:
    modules = [f"jaxpool.compat.{name}" for name in ("flax", "haiku", "equinox", "keras", "torch")]
    assert imported_with(", ".join(modules), ["flax", "haiku", "equinox", "keras", "torch"]) == []


def of_flax(shape: tuple[int, ...], window: Any, dtype: str = "float32", **others: Any) -> list[Call]:
    """All functions on the same windows, the average with both divisors."""
    arguments = {"window_shape": window, **others}
    calls = [Call(function, shape, arguments, dtype) for function in ("max_pool", "min_pool", "avg_pool")]
    return [*calls, Call("avg_pool", shape, {**arguments, "count_include_pad": False}, dtype)]


def of_haiku(shape: tuple[int, ...], window: Any, strides: Any, dtype: str = "float32", **others: Any) -> list[Call]:
    """The maximum without padding, and the average with it."""
    sizes = {"window_shape": window, "strides": strides, **others}
    rows = (("max_pool", "VALID"), ("avg_pool", "SAME"))
    return [Call(function, shape, {**sizes, "padding": padding}, dtype) for function, padding in rows]


def of_equinox(shape: tuple[int, ...], kernel: Any, stride: Any = 1, padding: Any = 0, **others: Any) -> list[Call]:
    """The maximum and the average on the same windows."""
    arguments = {"kernel_size": kernel, "stride": stride, "padding": padding}
    dtype = others.pop("dtype", "float32")
    return [Call(f"{kind}Pool{len(shape) - 1}d", shape, {**arguments, **others}, dtype) for kind in ("Max", "Avg")]


def bins_of_equinox(shape: tuple[int, ...], bins: Any) -> list[Call]:
    return [Call(f"Adaptive{kind}Pool{len(shape) - 1}d", shape, {"target_shape": bins}) for kind in ("Max", "Avg")]


def of_keras(shape: tuple[int, ...], size: Any, strides: Any = 0, padding: str = "valid", **others: Any) -> list[Call]:
    """The maximum and the average on the same windows. Keras 3.15 fails without strides."""
    arguments = {"pool_size": size, "strides": strides or size, "padding": padding}
    dtype = others.pop("dtype", "float32")
    return [Call(name, shape, {**arguments, **others}, dtype) for name in ("max_pool", "average_pool")]


def bins_of_keras(shape: tuple[int, ...], bins: Any, **others: Any) -> list[Call]:
    arguments = {"output_size": bins, **others}
    return [Call(f"adaptive_{kind}_pool", shape, arguments) for kind in ("max", "average")]


# Windows of one to three axes: with and without strides, padding, batch axes, each in every spelling.
WINDOWS: dict[Any, list[Call]] = {
    flax: [
        *of_flax((7, 2), (3,), strides=None),
        *of_flax((2, 7, 2), (3,), strides=(1,), padding="SAME"),
        *of_flax((2, 7, 2), (3,), strides=(2,), padding=((7, 1),)),
        *of_flax((5, 6, 2), (2, 3), strides=(1, 3), padding="SAME"),
        *of_flax((2, 5, 6, 2), (2, 3), strides=(2, 2), padding=((5, 1), (6, 1))),
        *of_flax((2, 2, 5, 6, 2), (2, 3), strides=None),
        *of_flax((2, 2, 4, 2, 2, 1), (2, 3, 1), strides=(2, 1, 3), padding="SAME"),
        *of_flax((3, 4, 2, 2), (2, 3, 1), strides=(1, 1, 1), padding=((3, 1), (4, 1), (2, 1))),
    ],
    # Windows and strides for all axes, for the last ones, and of different length.
    haiku: [
        *of_haiku((7, 2), (3, 1), (2, 1)),
        *of_haiku((2, 7, 2), (3, 1), (1, 4, 1)),
        *of_haiku((6,), (4,), (3,)),
        *of_haiku((2, 5, 6, 2), (1, 2, 3, 1), (1, 1, 2, 1)),
        *of_haiku((2, 5, 6, 2), [3, 2, 1], 1),
        *of_haiku((3, 5, 6, 2), (2, 2, 2, 2), (1, 2, 2, 1)),
        *of_haiku((2, 2, 5, 6, 1), (2, 2, 1), (1, 2, 2, 1)),
        *of_haiku((3, 4, 2, 2), (3, 2, 2, 1), (2, 1, 2, 1)),
    ],
    equinox: [
        *of_equinox((2, 9), 2),
        *of_equinox((2, 9), 3, 2, (2,)),
        *of_equinox((2, 9), 3, 1, ((0, 3),)),
        *of_equinox((2, 5, 6), (2, 3), (1, 2), [2, 0]),
        *of_equinox((2, 5, 6), (2, 3), 1, ((0, 1), (2, 1))),
        *of_equinox((1, 3, 4, 3), [2, 1, 2], (2, 3, 1), ([1, 0], [0, 1], [2, 2])),
        *of_equinox((2, 6), 4, 2, 1, use_ceil=True),
        *of_equinox((2, 5), 3, 3, ((0, 1),), use_ceil=True),
        *of_equinox((2, 5, 6), 3, 2, use_ceil=True),
        *of_equinox((1, 3, 4, 5), (2, 3, 2), (1, 3, 2), use_ceil=True),
    ],
    keras: [
        *of_keras((2, 7, 2), 3, 2, data_format=None),
        *of_keras((2, 2, 7), (2,), 0, "same", data_format="channels_first"),
        *of_keras((2, 5, 6, 2), (2, 3), (1, 2), "SAME", data_format="channels_last"),
        *of_keras((1, 2, 5, 6), 2, 3, data_format="channels_first"),
        *of_keras((1, 3, 4, 3, 2), (2, 1, 2), 0, "same", data_format=None),
    ],
}
# Other dtypes, no cells, windows larger than the array or of only padding, and negative padding.
ODD: dict[Any, list[Call]] = {
    flax: [
        *of_flax((2, 4, 5, 1), (2, 3), "bfloat16", strides=(1, 2), padding="SAME"),
        *of_flax((2, 4, 5, 1), (2, 3), "int32", strides=(1, 2), padding="SAME"),
        *of_flax((2, 4, 5, 1), (2, 3), "uint8", strides=(1, 2), padding=((3, 1), (0, 3))),
        *(call for one in ("bool", "int8", "float16") for call in of_flax((2, 3, 1), (2,), one, padding=((3, 1),))[:2]),
        *of_flax((2, 4, 1), (5,)),
        *of_flax((2, 4, 1), (2,), padding=((-2, -3),)),
        *of_flax((2, 0, 1), (2,)),
        *of_flax((2, 0, 3, 1), (2, 2), padding=((1, 2), (1, 0))),
        *of_flax((0, 3, 1), (2,)),
        *of_flax((2, 3, 0), (2,)),
        *of_flax((2, 7, 1), (2,), padding=((-1, 2),)),
        *of_flax((2, 7, 1), (2,), strides=(2,), padding=((3, -4),)),
        *of_flax((2, 4, 1), (2,), padding=((-5, 4),)),
        *of_flax((2, 4, 3, 1), (2, 2), strides=(5, 1), padding=((3, 9), (0, -1))),
        *of_flax((2, 3, 1), (2,), strides=(7,), padding=((4, 9),)),
        *of_flax((2, 3, 1), (2,), padding="same"),
        *of_flax((2, 3, 1), (2,), padding="SAME_LOWER"),
        *of_flax((2, 3, 1), (2,), padding=[[1, 2]]),
    ],
    haiku: [
        *(call for one in ("bfloat16", "int32", "uint8") for call in of_haiku((2, 4, 5, 1), (2, 3, 1), 1, one)),
        *of_haiku((2, 3, 1), (2, 1), 1, "bool")[:1],
        *of_haiku((2, 3, 1), (4, 1), 1),
        *of_haiku((2, 0, 1), (2, 1), 1),
        *of_haiku((0, 3, 1), (2, 1), 1),
        # An int with every channel axis, on arrays of one to five axes.
        *(call for channel in (-1, 1, 0, None) for call in of_haiku((2, 5, 3), 2, 2, channel_axis=channel)),
        *(call for channel in (-1, -3, 2, None) for call in of_haiku((2, 3, 4, 2), 2, 1, channel_axis=channel)),
        *of_haiku((2, 2, 2, 3, 1), 2, (1, 2, 1, 2, 1)),
        *of_haiku((2, 2, 5, 1), (1, 3, 1), 2),
        *of_haiku((5, 2), 3, 2),
        *of_haiku((4,), 2, 2, channel_axis=None),
    ],
    equinox: [
        *(call for one in ("bfloat16", "int32", "uint8") for call in of_equinox((2, 4, 5), (2, 3), dtype=one)),
        *of_equinox((2, 3), 2, dtype="bool")[:1],
        *of_equinox((2, 3), 4),
        *of_equinox((2, 0), 2),
        *of_equinox((0, 3), 2),
        *of_equinox((2, 5), 2, padding=2),
        *of_equinox((2, 7), 2, padding=((-1, 2),)),
    ],
    keras: [
        *(call for one in ("bfloat16", "int32", "uint8") for call in of_keras((2, 4, 5, 1), (2, 3), (1, 2), dtype=one)),
        *of_keras((2, 4, 5, 1), (2, 3), (1, 2), "same", dtype="uint8"),
        *of_keras((2, 3, 1), 2, dtype="bool")[:1],
        *(call for shape in ((2, 3, 1), (2, 0, 1), (0, 3, 1), (2, 3, 0)) for call in of_keras(shape, 4, 5)),
        *(call for shape in ((2, 3, 1), (2, 0, 1), (0, 3, 1), (2, 3, 0)) for call in of_keras(shape, 4, 5, "same")),
        *bins_of_keras((2, 2, 5, 4), [5, 7], data_format="channels_first"),
        *bins_of_keras((1, 4, 3, 5, 1), 2),
    ],
}
# Of ties Equinox and Keras give the gradient to others.
BINS: dict[Any, list[Call]] = {
    equinox: [
        *bins_of_equinox((2, 7), 3),
        *bins_of_equinox((2, 6), (6,)),
        *bins_of_equinox((2, 7, 6), (3, 4)),
        *bins_of_equinox((2, 5, 4), [5, 1]),
        *bins_of_equinox((1, 4, 3, 5), 2),
    ],
    keras: [*bins_of_keras((2, 7, 2), 3), *bins_of_keras((2, 5, 6, 2), (2, 4), data_format="channels_last")],
}


# By default every third call: since a window has two or four, of every function.
each_share = pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.slow)])


@each_module
@each_share
def test_values_and_gradients(module: Any, step: int) -> None:
    check_calls(WINDOWS[module][::step], partial(pool_of, imported(ORIGINALS[module])), partial(pool_of, module))


@each_module
@pytest.mark.filterwarnings(INT_WARNING)
def test_odd_calls(module: Any) -> None:
    theirs = partial(pool_of, imported(ORIGINALS[module]))
    check_calls(ODD[module], theirs, partial(pool_of, module), gradients=False)


@pytest.mark.parametrize("module", BINS, ids=ORIGINALS.get)
@each_share
def test_bins(module: Any, step: int) -> None:
    theirs = partial(pool_of, imported(ORIGINALS[module]))
    check_calls(BINS[module][::step], theirs, partial(pool_of, module), ties=False)


@each_module
@pytest.mark.parametrize("float64", [False, True])
def test_dtypes_of_averages(module: Any, float64: bool) -> None:
    shape = (2, 4, 1)
    averages: dict[Any, list[Call]] = {
        flax: of_flax(shape, (2,))[2:],
        haiku: of_haiku(shape, (2, 1), 1)[1:],
        equinox: [of_equinox(shape[:2], 2)[1], bins_of_equinox(shape[:2], 3)[1]],
        keras: [of_keras(shape, 2)[1], of_keras(shape, 2, padding="same")[1], bins_of_keras(shape, 2)[1]],
    }
    with jax.enable_x64(float64):
        for dtype in ("int8", "uint32", "int64" if float64 else "int32", "bfloat16", "float32", "complex64"):
            for call in (one._replace(dtype=dtype) for one in averages[module]):
                theirs = result_of(partial(pool_of, imported(ORIGINALS[module])), call)
                assert result_of(partial(pool_of, module), call).dtype == theirs.dtype, call


def largest(module: Any, x: jax.Array, size: int, stride: int, pads: bool) -> jax.Array:
    """The maximum along one axis, without padding or with a cell of it on both sides."""
    word = "SAME" if pads else "VALID"
    if module is equinox:
        return equinox.MaxPool1d(size, stride, int(pads))(x[None])[0]
    if module is keras:
        return keras.max_pool(x[None, :, None], size, stride, word.lower())[0, :, 0]
    rest = (1,) if module is haiku else ()
    return module.max_pool(x[:, None], (size, *rest), (stride, *rest), word)[:, 0]


MEANS: dict[Any, Callable[[jax.Array], jax.Array]] = {
    flax: lambda x: flax.avg_pool(x[:, None], x.shape),
    haiku: lambda x: haiku.avg_pool(x[:, None], (x.size, 1), 1, "VALID"),
    equinox: lambda x: equinox.AvgPool1d(x.size)(x[None]),
    keras: lambda x: keras.average_pool(x[None, :, None], x.size),
}


@each_module
def test_where_all_are_wrong(module: Any) -> None:
    """Faults of the originals, as listed in the docstrings of the modules, each with the right result."""
    mean = MEANS[module]
    assert jnp.isnan(largest(module, jnp.zeros(8192).at[5].set(jnp.nan), 2, 2, False)[2])
    low, tangent = jnp.full(3, -jnp.inf), jnp.arange(1.0, 4.0)
    np.testing.assert_array_equal(jax.grad(lambda x: largest(module, x, 3, 2, True).sum())(low), [1, 1, 0])
    np.testing.assert_array_equal(jax.jvp(lambda x: largest(module, x, 3, 2, True), (low,), (tangent,))[1], [1, 2])
    assert mean(jnp.ones(961, jnp.bfloat16)) == 1
    assert mean(jnp.repeat(jnp.arange(2.0, dtype=jnp.bfloat16), 480)) == 0.5
    assert mean(jnp.full(4, 200, jnp.uint8)) == 200
    assert mean(jnp.full(7, 3.0)) == 3
    with pytest.raises(TypeError, match=r"^\w+: .* complex numbers are not supported"):
        largest(module, jnp.zeros(4, jnp.complex64), 2, 2, False)


def test_where_flax_is_wrong() -> None:
    cells = jnp.arange(1.0, 4.0)[:, None]
    gradient = jax.grad(lambda x: flax.max_pool(x, (2,), None, ((-1, 1),)).sum())(cells)
    np.testing.assert_array_equal(gradient.ravel(), [0, 0, 2])
    np.testing.assert_array_equal(flax.max_pool(cells, [2], [1]).ravel(), [2, 3])
    two_batch_axes = flax.max_pool(cells[None, None], (2,), None, ((1, 0),))
    np.testing.assert_array_equal(two_batch_axes.ravel(), [1, 2, 3])
    high = jax.grad(lambda x: flax.min_pool(x, (2,), None, ((1, 0),)).sum())(jnp.full((3, 1), jnp.inf))
    np.testing.assert_array_equal(high.ravel(), [2, 1, 0])
    assert flax.avg_pool(jnp.full((4, 1), 200, jnp.uint8), (4,), None, "VALID", False).item() == 200


def test_where_equinox_is_wrong() -> None:
    assert jnp.isnan(equinox.AdaptiveMaxPool1d(4096)(jnp.zeros((1, 8192)).at[0, 5].set(jnp.nan))[0, 2])
    for library, gradient in ((imported("equinox.nn"), [0.25] * 4), (equinox, [1, 0, 0, 0])):
        layer = library.AdaptiveMaxPool1d(1)
        np.testing.assert_array_equal(jax.grad(lambda x: layer(x).sum())(jnp.ones((1, 4)))[0], gradient)  # noqa: B023
    assert equinox.AvgPool1d(2)(jnp.array([[True, False]])).item() == 0.5
    x = jnp.array([[0.0, 1, 2, 0, 0]])
    with pytest.raises(RuntimeError):
        imported("equinox.nn").MaxPool1d(2, 2, 1, use_ceil=True)(x)
    np.testing.assert_array_equal(equinox.MaxPool1d(2, 2, 1, use_ceil=True)(x), [[0, 2, 0, -np.inf]])


def test_where_keras_is_wrong() -> None:
    with pytest.raises(TypeError):
        imported("keras.ops").max_pool(jnp.zeros((1, 4, 4, 1)), 2)
    assert keras.max_pool(jnp.zeros((1, 4, 4, 1)), [2, 2]).shape == (1, 2, 2, 1)
    assert keras.average_pool(jnp.array([True, False])[None, :, None], 2).item() == 0.5
    tie = jnp.array([[0.0, 1.0], [1.0, 0.0]])[None, :, :, None]
    for library, gradient in ((imported("keras.ops"), [0, 0, 1, 0]), (keras, [0, 1, 0, 0])):
        pool = library.adaptive_max_pool
        np.testing.assert_array_equal(jax.grad(lambda x: pool(x, 1).sum())(tie).ravel(), gradient)  # noqa: B023
    fourteen = jnp.arange(14.0)[None, :, None]
    np.testing.assert_array_equal(keras.adaptive_average_pool(fourteen, 7).ravel(), np.arange(7) * 2 + 0.5)


@pytest.mark.parametrize(("window", "strides"), [(2, 2), (2, (1, 2, 1)), ((1, 2, 1), 2), (1, 1), ((1, 2, 1), 1)])
@pytest.mark.parametrize("library", ["haiku", "jaxpool.compat.haiku"])
def test_warnings_of_haiku(library: str, window: Any, strides: Any) -> None:
    for call in of_haiku((2, 3, 1), window, strides):
        with pytest.warns(DeprecationWarning, match="vmap") if 2 in (window, strides) else nullcontext():
            result_of(partial(pool_of, imported(library)), call)


def test_haiku_takes_lists() -> None:
    numbers = [[1.0, 4.0], [3.0, 2.0]]
    for library in (imported("haiku"), haiku):
        np.testing.assert_array_equal(library.max_pool(numbers, (2, 1), 1, "VALID"), [[3, 4]])
        np.testing.assert_array_equal(library.avg_pool(numbers, (2, 1), 1, "VALID"), [[2, 3]])


@pytest.mark.parametrize("name", ["MaxPool", "AvgPool"])
def test_modules_of_haiku(name: str) -> None:
    """Inside of `transform` and outside."""
    x, theirs, layer = jnp.arange(24.0).reshape(1, 4, 6, 1), imported("haiku"), getattr(haiku, name)
    arguments = ((2, 2, 1), (2, 3, 1), "SAME")
    expected = theirs.transform(lambda x: getattr(theirs, name)(*arguments)(x)).apply({}, None, x)
    np.testing.assert_array_equal(layer(*arguments)(x), expected)
    np.testing.assert_array_equal(jax.jit(layer(*arguments))(x), expected)
    inside = theirs.transform(lambda x: theirs.Sequential([layer(*arguments, name="here")])(x))
    assert inside.init(None, x) == {}
    np.testing.assert_array_equal(inside.apply({}, None, x), expected)
    made = []
    theirs.transform(lambda: made.append(getattr(theirs, name)(2, [1, 2, 1], "SAME", channel_axis=1))).init(None)
    for attribute in ("window_shape", "strides", "padding", "channel_axis", "name"):
        assert getattr(layer(2, [1, 2, 1], "SAME", channel_axis=1), attribute) == getattr(made[0], attribute)
    assert layer(2, 1, "SAME", name="layer").name == "layer"


def test_models_of_equinox() -> None:
    """The same gradients, and files in which the numbers behind a pool are found again, of either library."""
    eqx, x = imported("equinox"), jnp.asarray(np.random.default_rng(0).normal(size=(2, 1, 12, 11)), np.float32)

    def model(library: Any, slope: float = 0.5) -> Any:
        layers = [library.MaxPool2d(3, 2, padding=1), library.AvgPool2d(2), library.AdaptiveMaxPool2d(2)]
        ends = [library.AdaptiveAvgPool2d((1, 2)), eqx.nn.Dropout(slope, inference=True)]
        return eqx.nn.Sequential([eqx.nn.Conv2d(1, 3, 3, key=jax.random.key(0)), *layers, *ends])

    @eqx.filter_jit
    @eqx.filter_value_and_grad
    def loss(model: Any, x: jax.Array) -> jax.Array:
        return (jax.vmap(lambda x: model(x, key=None))(x) ** 2).sum()

    expected, found = (jax.tree.leaves(eqx.filter(loss(model(one), x), eqx.is_array)) for one in (eqx.nn, equinox))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
    for written, read in ((eqx.nn, equinox), (equinox, eqx.nn)):
        file = io.BytesIO()
        eqx.tree_serialise_leaves(file, model(written, 0.25))
        file.seek(0)
        assert eqx.tree_deserialise_leaves(file, model(read)).layers[-1].p == 0.25


@pytest.mark.parametrize("name", public_members(equinox))
def test_layers_of_equinox_are_trees_with_attributes(name: str) -> None:
    ours, theirs = getattr(equinox, name), getattr(imported("equinox.nn"), name)
    layer = ours(2)
    leaves = jax.tree_util.tree_leaves_with_path(theirs(2))
    assert jax.tree_util.tree_leaves_with_path(layer) == [leaf for leaf in leaves if not callable(leaf[1])]
    assert layer == ours(2) != ours(1)
    assert hash(layer) == hash(ours((2,) * layer.num_spatial_dims))
    assert pickle.loads(pickle.dumps(layer)) == copy.deepcopy(layer) == jax.tree.map(lambda leaf: leaf, layer) == layer
    arguments: dict[str, Any] = {} if "Adaptive" in name else {"stride": 2, "padding": 1, "use_ceil": True}
    attributes = ["target_shape"] if "Adaptive" in name else ["num_spatial_dims", "kernel_size", *arguments]
    for attribute in attributes:
        assert getattr(ours(3, **arguments), attribute) == getattr(theirs(3, **arguments), attribute)
    with pytest.raises(AttributeError):
        setattr(layer, attributes[-1], 1)


def test_layout_that_keras_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of Keras where it has been imported, and channels last where not."""
    x, theirs = jnp.zeros((1, 4, 6, 8)), imported("keras")
    before = theirs.config.image_data_format()
    try:
        for layout, shape, bins in (("channels_first", (1, 4, 3, 4), 4), ("channels_last", (1, 2, 3, 8), 3)):
            theirs.config.set_image_data_format(layout)
            assert keras.max_pool(x, 2).shape == theirs.ops.max_pool(x, 2, 2).shape == shape
            assert keras.adaptive_average_pool(x, (3, 4)).shape[1] == bins
        theirs.config.set_image_data_format("channels_first")
        monkeypatch.delitem(sys.modules, "keras")
        assert keras.max_pool(x, 2).shape == (1, 2, 3, 8)
    finally:
        theirs.config.set_image_data_format(before)


def test_inside_of_a_keras_model() -> None:
    theirs, x = imported("keras"), np.random.default_rng(0).normal(size=(2, 7, 6, 3)).astype(np.float32)
    layers = [theirs.Input((7, 6, 3)), theirs.layers.Lambda(lambda x: keras.max_pool(x, 3, 2, "same"))]
    np.testing.assert_array_equal(theirs.Sequential(layers)(x), theirs.ops.max_pool(x, 3, 2, "same"))


# Right arguments, and the wrong ones that take their place.
RIGHT: dict[Any, dict[str, Any]] = {
    flax: {"inputs": np.zeros((1, 4, 4, 1), np.float32), "window_shape": (2, 2)},
    haiku: {"value": np.zeros((1, 4, 4, 1), np.float32), "window_shape": (2, 2, 1), "strides": 1, "padding": "SAME"},
    equinox: {"x": np.zeros((1, 4, 6), np.float32)},
    keras: {"inputs": np.zeros((1, 4, 6, 1), np.float32)},
}
WRONG: dict[Any, list[tuple[dict[str, Any], type[Exception], str]]] = {
    flax: [
        ({"window_shape": 2}, ValueError, r"window_shape 2 does not say .* write window_shape \(2, 2\)"),
        ({"window_shape": ()}, ValueError, r"window_shape \(\) is empty"),
        ({"window_shape": (2.0, 2)}, TypeError, "window_shape must be an int, got 2.0"),
        ({"window_shape": (0, 2)}, ValueError, "window_shape must be at least 1, got 0"),
        ({"window_shape": (1,) * 4}, ValueError, "window_shape .* has 4 entries but inputs has 4 axes"),
        ({"strides": (2,)}, ValueError, r"strides \(2,\) has 1 entr.* but 2 axes are pooled"),
        ({"strides": (0, 1)}, ValueError, "strides must be at least 1, got 0"),
        ({"padding": "WRAP"}, ValueError, "padding 'WRAP' is unknown; use 'VALID', 'SAME'"),
        ({"padding": 1}, TypeError, r"padding 1 does not hold pairs .* as in \[\(1, 1\), \(1, 1\)\]"),
        ({"padding": (1, 1)}, TypeError, r"padding \(1, 1\) does not hold pairs of ints"),
        ({"padding": ((1, 1),)}, ValueError, r"padding \(\(1, 1\),\) must be a pair for each of 2 axes; use"),
        ({"padding": ((1, 1, 1),) * 2}, ValueError, "padding .* must be a pair for each of 2 axes; use"),
        ({"inputs": [1.0]}, TypeError, r"inputs must be a JAX or NumPy array, got list; .* jnp.asarray\(inputs\)"),
    ],
    haiku: [
        ({"padding": "same"}, ValueError, "padding 'same' is unknown; use 'VALID' or 'SAME'; jaxpool.* numbers"),
        ({"padding": "WRAP"}, ValueError, "padding 'WRAP' is unknown; use 'VALID' or 'SAME'"),
        ({"padding": ((0, 0),)}, ValueError, r"padding \(\(0, 0\),\) is unknown; use 'VALID' or 'SAME'"),
        ({"strides": (1,) * 5}, ValueError, "strides .* has 5 entries but value has 4 axes"),
        ({"window_shape": ()}, ValueError, r"window_shape \(\) is empty"),
        ({"window_shape": 0}, ValueError, "window_shape must be at least 1, got 0"),
        ({"window_shape": 2.0}, TypeError, "window_shape must be an int, got 2.0"),
        ({"strides": (2.0, 1)}, TypeError, "strides must be an int, got 2.0"),
        ({"strides": None}, TypeError, "strides must be an int or a sequence of ints, got None"),
        ({"window_shape": 2, "channel_axis": 4}, ValueError, "channel_axis 4 is out of range for value with 4"),
        ({"strides": 2, "channel_axis": -4}, ValueError, "channel_axis -4 is out of range .*; give None"),
        ({"strides": 2, "channel_axis": 1.0}, TypeError, "channel_axis must be an int, got 1.0"),
    ],
    equinox: [
        ({"kernel_size": 2.0}, TypeError, "kernel_size must be an int, got 2.0"),
        ({"kernel_size": 0}, ValueError, "kernel_size must be at least 1, got 0"),
        ({"kernel_size": (2, 2, 2)}, ValueError, r"kernel_size \(2, 2, 2\) has 3 entries but 2"),
        ({"kernel_size": 2, "stride": None}, TypeError, "stride must be an int or a sequence"),
        ({"kernel_size": 2, "stride": (1, 0)}, ValueError, "stride must be at least 1"),
        ({"kernel_size": 2, "padding": "SAME"}, TypeError, "padding 'SAME' is a word; give an int"),
        ({"kernel_size": 2, "padding": 3}, ValueError, r"padding \(3, 3\) exceeds .*(avg|max)_pool"),
        ({"kernel_size": 2, "padding": (1,)}, ValueError, r"padding \(1,\) has 1 entries; give"),
        ({"kernel_size": 2, "padding": ((1, 1, 1),) * 2}, ValueError, "padding entry .* not a pair"),
        ({"kernel_size": 2, "x": np.zeros((4, 6))}, ValueError, r"x must have the axes \(C, H, W\), .* x\[None\]"),
        ({"kernel_size": 2, "x": np.zeros((1, 1, 4, 6))}, ValueError, r"x must have .* jax.vmap\(layer\)\(x\)"),
        ({"kernel_size": 2, "x": [[[1.0]]]}, TypeError, "x must be a JAX or NumPy array"),
        ({"target_shape": (2, 7)}, ValueError, "target_shape 7 is more than the 6 cells"),
        ({"target_shape": 0}, ValueError, "target_shape must be at least 1, got 0"),
        ({"target_shape": (None, 2)}, TypeError, "target_shape must be an int, got None"),
        ({"target_shape": [2]}, ValueError, r"target_shape \(2,\) has 1 entry"),
        ({"target_shape": 1, "x": np.zeros((1, 0, 6))}, ValueError, "axis 1"),
    ],
    keras: [
        ({"padding": "full"}, ValueError, "padding 'full' is unknown; use 'valid' or 'same'"),
        ({"padding": 1}, ValueError, "padding 1 is unknown; use 'valid' or 'same', .* numbers too"),
        ({"data_format": "NHWC"}, ValueError, "data_format 'NHWC' is unknown; use 'channels_last'"),
        ({"pool_size": 2.0}, TypeError, "pool_size must be an int, got 2.0"),
        ({"pool_size": (2, 2, 2)}, ValueError, r"pool_size \(2, 2, 2\) has 3 entries but 2 axes"),
        ({"pool_size": 0}, ValueError, "pool_size must be at least 1, got 0"),
        ({"strides": 0}, ValueError, "strides must be at least 1, got 0"),
        ({"inputs": [[[1.0]]]}, TypeError, "inputs must be a JAX or NumPy array, got list"),
        ({"output_size": (2, 2, 2)}, ValueError, r"output_size \(2, 2, 2\) has 3 entries"),
        ({"output_size": (None, 2)}, TypeError, "output_size must be an int, got None"),
        ({"output_size": 2, "data_format": "CHW"}, ValueError, "data_format 'CHW' is"),
    ],
}
NAMES = {
    flax: ("max_pool", "min_pool", "avg_pool"),
    haiku: ("max_pool", "avg_pool"),
    equinox: ("MaxPool2d", "AvgPool2d", "AdaptiveMaxPool2d", "AdaptiveAvgPool2d"),
    keras: ("max_pool", "average_pool", "adaptive_max_pool", "adaptive_average_pool"),
}
# What a wrong shape or size is to Equinox and Keras, which refuse the same.
ERRORS = (AssertionError, AttributeError, ArithmeticError, RuntimeError, TypeError, ValueError)


@pytest.mark.parametrize(("module", "row"), [(module, row) for module, rows in WRONG.items() for row in rows])
def test_wrong_calls(module: Any, row: tuple[dict[str, Any], type[Exception], str]) -> None:
    wrong, exception, message = row
    of_bins = bool({"target_shape", "output_size"} & wrong.keys())
    right = {**RIGHT[module], **({"pool_size": 2, "strides": 2} if module is keras and not of_bins else {})}

    def call(library: Any, name: str) -> Any:
        arguments = {**right, **wrong}
        x = [arguments.pop("x")] if module is equinox else []
        pool = getattr(library, name)(**arguments)
        return pool(*x) if x else pool

    for name in NAMES[module]:
        if name.lower().startswith("adaptive") == of_bins:
            check_refused(partial(call, module, name), exception, f"{name}: {message}")
            if module in (equinox, keras):
                with pytest.raises(ERRORS):
                    call(imported(ORIGINALS[module]), name)


def test_other_wrong_calls() -> None:
    for pool in (equinox.AdaptiveMaxPool1d(2), lambda x: keras.adaptive_max_pool(x[..., None], 2)):
        with pytest.raises(TypeError, match=r"^\w+: .* complex numbers are not supported"):
            pool(np.zeros((1, 4), np.complex64))
    for function in (keras.max_pool, keras.adaptive_max_pool):
        with pytest.raises(
            ValueError, match=rf"^{function.__name__}: inputs must have an axis of batch, .*inputs\[None"
        ):
            function(np.zeros((4, 6)), 2)
    with pytest.raises(TypeError, match=r"^avg_pool: count_include_pad must be True or False, got 'yes'"):
        flax.avg_pool(np.zeros((4, 1)), (2,), None, "SAME", "yes")  # pyright: ignore[reportArgumentType]
    sizes = jax.export.symbolic_shape("b, n, 1")
    with pytest.raises(TypeError, match=r"^max_pool: axis 1 has the symbolic size n"):
        jax.eval_shape(lambda x: flax.max_pool(x, (2,)), jax.ShapeDtypeStruct(sizes, np.float32))
