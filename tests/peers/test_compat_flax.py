"""`jaxpool.compat.flax` against `flax.linen.pooling`: signatures, values and gradients, and where Flax is wrong."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxpool.compat import flax as compat
from tests.peers.compat_comparison import Call, check_calls, original, result_of, same_signature, settings_of_users
from tests.project.importing import imported_with

pytestmark = pytest.mark.usefixtures("for_this_platform")

pooling = pytest.importorskip("flax.linen.pooling")

FUNCTIONS = ("max_pool", "min_pool", "avg_pool")


@pytest.fixture(autouse=True)
def _default_settings(_strict_float64: None) -> Iterator[None]:
    with settings_of_users():
        yield


def theirs(call: Call, x: jax.Array) -> jax.Array:
    function, padding = getattr(pooling, call.function), call.arguments.get("padding", "VALID")
    batch = x.shape[: x.ndim - len(call.arguments["window_shape"]) - 1]
    if isinstance(padding, str) or len(batch) < 2:
        return function(x, **call.arguments)
    # Flax fails on (low, high) pairs with more than one batch axis, so that these are made one.
    pooled = function(x.reshape(-1, *x.shape[len(batch) :]), **call.arguments)
    return pooled.reshape(*batch, *pooled.shape[1:])


def ours(call: Call, x: jax.Array) -> jax.Array:
    return getattr(compat, call.function)(x, **call.arguments)


def calls_of(shape: tuple[int, ...], dtype: str = "float32", **arguments: Any) -> list[Call]:
    """All functions on the same windows, the average with both divisors."""
    every = [Call(function, shape, arguments, dtype) for function in FUNCTIONS]
    return [*every, Call("avg_pool", shape, {**arguments, "count_include_pad": False}, dtype)]


def grid(sizes: tuple[int, ...], window: tuple[int, ...], mixed: tuple[int, ...]) -> Iterator[Call]:
    """Strides, paddings and numbers of batch axes by turns; padding with more of the others along two axes."""
    # The pairs add windows that hold only padding.
    paddings = ("VALID", "SAME", tuple((size, 1) for size in window))
    strides = (None, (1,) * len(sizes), (2,) * len(sizes), mixed)
    for (row, stride), (column, padding) in product(enumerate(strides), enumerate(paddings)):
        turn = (row + column) % 3
        if turn == 0 or (turn == 1 and column > 0 and len(sizes) == 2):
            batch = ((), (2,), (2, 2))[(column + 2 * turn) % 3]
            calls = calls_of((*batch, *sizes, 2), window_shape=window, strides=stride, padding=padding)
            # Minima differ from maxima in windows of only padding, and the two averages where there is padding.
            yield from {0: (calls[0], calls[2]), 1: (calls[0], *calls[2:]), 2: calls}[column]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature(name: str) -> None:
    assert original(getattr(compat, name)) is getattr(pooling, name)
    assert same_signature(getattr(compat, name), getattr(pooling, name))


def test_no_framework_is_imported() -> None:
    assert imported_with("jaxpool.compat.flax, jaxpool.compat.haiku", ["flax", "haiku"]) == []


@pytest.mark.parametrize(
    ("sizes", "window", "mixed"), [((7,), (3,), (4,)), ((5, 6), (2, 3), (1, 3)), ((3, 4, 2), (2, 3, 1), (2, 1, 3))]
)
def test_values_and_gradients(sizes: tuple[int, ...], window: tuple[int, ...], mixed: tuple[int, ...]) -> None:
    check_calls(list(grid(sizes, window, mixed)), theirs, ours)


def test_other_dtypes() -> None:
    calls = [
        call
        for dtype, padding in (("bfloat16", "SAME"), ("int32", "SAME"), ("uint8", ((3, 1), (0, 3))))
        for call in calls_of((2, 4, 5, 1), dtype, window_shape=(2, 3), strides=(1, 2), padding=padding)
    ]
    empty = {"window_shape": (2,), "padding": ((3, 1),)}
    for dtype in ("bool", "int8", "float16"):
        calls += [Call(name, (2, 3, 1), empty, dtype) for name in ("max_pool", "min_pool")]
    check_calls(calls, theirs, ours)


def test_what_jaxpool_refuses() -> None:
    """Windows larger than the array, axes without cells, negative padding, windows of only padding, odd spellings."""
    windows: tuple[tuple[tuple[int, ...], dict[str, Any]], ...] = (
        ((2, 4, 1), {"window_shape": (5,)}),
        ((2, 4, 1), {"window_shape": (1,), "padding": ((-2, -2),)}),
        ((2, 4, 1), {"window_shape": (2,), "padding": ((-2, -3),)}),
        ((2, 0, 1), {"window_shape": (2,)}),
        ((2, 0, 1), {"window_shape": (2,), "padding": "SAME"}),
        ((2, 0, 3, 1), {"window_shape": (2, 2), "padding": ((1, 2), (1, 0))}),
        ((0, 3, 1), {"window_shape": (2,)}),
        ((2, 3, 0), {"window_shape": (2,)}),
        ((2, 7, 1), {"window_shape": (2,), "padding": ((-1, 2),)}),
        ((2, 7, 1), {"window_shape": (2,), "strides": (2,), "padding": ((3, -4),)}),
        ((2, 4, 1), {"window_shape": (2,), "padding": ((-5, 4),)}),
        ((2, 4, 3, 1), {"window_shape": (2, 2), "strides": (5, 1), "padding": ((3, 9), (0, -1))}),
        ((2, 3, 1), {"window_shape": (2,), "strides": (7,), "padding": ((4, 9),)}),
        ((2, 3, 1), {"window_shape": (2,), "padding": "same"}),
        ((2, 3, 1), {"window_shape": (2,), "padding": "SAME_LOWER"}),
        ((2, 3, 1), {"window_shape": (2,), "padding": [[1, 2]]}),
    )
    check_calls([call for shape, odd in windows for call in calls_of(shape, **odd)], theirs, ours, gradients=False)


@pytest.mark.parametrize("float64", [False, True])
def test_dtypes_of_averages(float64: bool) -> None:
    with jax.enable_x64(float64):
        dtypes = ("int8", "uint32", "int32", "bfloat16", "float32", "complex64")
        for dtype, include_pad in product(dtypes, (True, False)):
            arguments = {"window_shape": (2,), "count_include_pad": include_pad}
            call = Call("avg_pool", (2, 3, 1), arguments, dtype)
            assert result_of(ours, call).dtype == result_of(theirs, call).dtype, call


def gradient(function: str, x: jax.Array, *arguments: Any) -> jax.Array:
    return jax.grad(lambda x: getattr(compat, function)(x, *arguments).sum())(x).ravel()


def test_where_flax_is_wrong() -> None:
    """Faults of the original, as listed in the docstring of the module, each with the right result."""
    nan = jnp.zeros((8192, 1)).at[5].set(jnp.nan)
    np.testing.assert_array_equal(compat.max_pool(nan, (2,), (2,))[2], jnp.nan)
    low = jnp.full((3, 1), -jnp.inf)
    np.testing.assert_array_equal(gradient("max_pool", low, (2,), None, ((1, 0),)), [2, 1, 0])
    np.testing.assert_array_equal(gradient("min_pool", -low, (2,), None, ((1, 0),)), [2, 1, 0])
    tangent = jnp.arange(1.0, 4.0)[:, None]
    forward = jax.jvp(lambda x: compat.max_pool(x, (2,), (2,), ((1, 0),)), (low,), (tangent,))[1]
    np.testing.assert_array_equal(forward.ravel(), [1, 2])
    for include_pad in (True, False):
        ones = jnp.ones((31, 31, 1), jnp.bfloat16)
        assert compat.avg_pool(ones, (31, 31), None, "VALID", include_pad).item() == 1
        assert compat.avg_pool(jnp.full((4, 1), 200, jnp.uint8), (4,), None, "VALID", include_pad).item() == 200
    assert compat.avg_pool(jnp.full((7, 1), 3.0), (7,)).item() == 3
    np.testing.assert_array_equal(gradient("max_pool", tangent, (2,), None, ((-1, 1),)), [0, 0, 2])
    np.testing.assert_array_equal(compat.max_pool(tangent, [2], [1]).ravel(), [2, 3])


WRONG: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "int window": ({"window_shape": 2}, ValueError, r"window_shape 2 does not say .* write window_shape \(2, 2\)"),
    "no window": ({"window_shape": ()}, ValueError, r"window_shape \(\) is empty"),
    "float window": ({"window_shape": (2.0, 2)}, TypeError, "window_shape must be an int, got 2.0"),
    "window of 0": ({"window_shape": (0, 2)}, ValueError, "window_shape must be at least 1, got 0"),
    "too many axes": ({"window_shape": (1,) * 4}, ValueError, r"window_shape .* has 4 entries but inputs has 4 axes"),
    "strides": ({"strides": (2,)}, ValueError, r"strides \(2,\) has 1 entr.* but 2 axes are pooled"),
    "stride of 0": ({"strides": (0, 1)}, ValueError, "strides must be at least 1, got 0"),
    "word": ({"padding": "CIRCULAR"}, ValueError, "padding 'CIRCULAR' is unknown; use 'VALID', 'SAME'"),
    "int padding": ({"padding": 1}, TypeError, r"padding 1 does not hold pairs .* as in \[\(1, 1\), \(1, 1\)\]"),
    "ints": ({"padding": (1, 1)}, TypeError, r"padding \(1, 1\) does not hold pairs of ints"),
    "one pair": ({"padding": ((1, 1),)}, ValueError, r"padding \(\(1, 1\),\) must be a pair for each of 2 axes; use"),
    "triples": ({"padding": ((1, 1, 1),) * 2}, ValueError, r"padding .* must be a pair for each of 2 axes; use"),
    "list": ({"inputs": [1.0]}, TypeError, r"inputs must be a JAX or NumPy array, got list; .* jnp.asarray\(inputs\)"),
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", WRONG)
def test_wrong_call(name: str, function: str) -> None:
    wrong, exception, message = WRONG[name]
    with pytest.raises(exception) as raised:
        getattr(compat, function)(**{"inputs": np.zeros((1, 4, 4, 1), np.float32), "window_shape": (2, 2), **wrong})
    assert re.match(f"{function}: {message}", str(raised.value)), str(raised.value)


@pytest.mark.every_platform
def test_other_wrong_calls() -> None:
    with pytest.raises(TypeError, match=r"^max_pool: .* complex numbers are not supported"):
        compat.max_pool(np.zeros((4, 1), np.complex64), (2,))
    with pytest.raises(TypeError, match=r"^avg_pool: count_include_pad must be True or False, got 'yes'"):
        compat.avg_pool(np.zeros((4, 1)), (2,), None, "SAME", "yes")  # pyright: ignore[reportArgumentType]
    sizes = jax.export.symbolic_shape("b, n, 1")
    with pytest.raises(TypeError, match=r"^max_pool: axis 1 has the symbolic size n"):
        jax.eval_shape(lambda x: compat.max_pool(x, (2,)), jax.ShapeDtypeStruct(sizes, np.float32))
