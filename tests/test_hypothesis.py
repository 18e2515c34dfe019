"""Arguments drawn at random: shapes, axes and every parameter of every function, values and gradients to the reference.

Few examples, the same in every run: each one is a program to compile. Run with a higher `max_examples` to search.
"""

import math
from collections.abc import Callable
from typing import Any

import hypothesis
import jax
import numpy as np
import pytest
from hypothesis import strategies as st

import jaxpool
from tests import oracle
from tests.cases import distinct

FIXED = [function for function in oracle.RULES if not function.startswith(("adaptive", "global"))]
KINDS = ("distinct", "ties", "negative", "infinite")


@st.composite
def windows(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[str, Any]]:
    """A shape, and how windows lie on it; not all of these are windows that a pool accepts."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    axes = draw(st.permutations(range(len(shape))))[: draw(st.integers(1, min(2, len(shape))))]
    count = len(axes)

    def each(strategy: st.SearchStrategy[Any]) -> Any:
        return draw(strategy | st.tuples(*[strategy] * count))

    parameters: dict[str, Any] = {"axis": tuple(a - len(shape) if draw(st.booleans()) else a for a in axes)}
    parameters["kernel_size"] = draw(st.tuples(*[st.integers(1, 5)] * count))
    if draw(st.booleans()):
        parameters["stride"] = each(st.integers(1, 4))
    pair = st.tuples(st.integers(0, 2), st.integers(0, 2))
    parameters["padding"] = draw(
        st.integers(0, 2) | st.tuples(*[pair] * count) | st.sampled_from(["VALID", "SAME", "SAME_LOWER"])
    )
    parameters["dilation"] = each(st.integers(1, 3))
    parameters["ceil_mode"] = draw(st.booleans())
    return shape, parameters


def options_of(draw: Callable[..., Any], function: str, output_shape: tuple[int, ...]) -> dict[str, Any]:
    """The arguments that only this function has; learnt numbers are arrays of any shape that broadcasts."""
    options: dict[str, Any] = {}
    if function in ("avg_pool", "smooth_max_pool"):
        options["count_include_pad"] = draw(st.booleans())
    if function == "avg_pool":
        options["divisor_override"] = draw(st.none() | st.sampled_from([1, 3, -2.5]))
    if function in ("lp_pool", "smooth_max_pool"):
        name = "norm_type" if function == "lp_pool" else "beta"
        numbers = [0.5, 1, 2, 3.0, 1.25] if name == "norm_type" else [-3.0, -1, 0.5, 2]
        shape = tuple(draw(st.sampled_from([1, size])) for size in output_shape[draw(st.integers(0, 2)) :])
        array = np.resize(np.array(numbers, np.float64), shape) if shape else None
        options[name] = draw(st.sampled_from(numbers)) if array is None or draw(st.booleans()) else array
        if name == "norm_type" and draw(st.integers(0, 5)) == 0:
            options[name] = math.inf
    return options


def cells_of(kind: str, shape: tuple[int, ...]) -> np.ndarray:
    x = distinct(shape, kind)
    if kind == "ties":
        return np.round(x / 2)
    if kind == "negative":
        return x - 7
    if kind == "infinite":
        x.flat[:: 3 + x.size // 3] = -math.inf
    return x


def accepted(shape: tuple[int, ...], parameters: dict[str, Any]) -> tuple[int, ...] | None:
    """The output's shape, or None where there is none or where some window holds no real cell."""
    held = oracle.pool(oracle.total, np.ones(shape), **parameters).values
    return held.shape if held.size and (held > 0).all() else None


# Shrinking a failure takes hundreds of compilations; the arguments found are small as they are.
PHASES = (hypothesis.Phase.explicit, hypothesis.Phase.generate)


@pytest.mark.parametrize("function", FIXED)
@hypothesis.settings(max_examples=20, deadline=None, derandomize=True, database=None, phases=PHASES)
@hypothesis.given(data=st.data())
def test_any_arguments(function: str, data: st.DataObject) -> None:
    shape, parameters = data.draw(windows(), "windows")
    output_shape = accepted(shape, parameters)
    hypothesis.assume(output_shape is not None)
    assert output_shape is not None
    options = options_of(data.draw, function, output_shape)
    kind, rule = data.draw(st.sampled_from(KINDS), "kind"), data.draw(st.sampled_from(["jvp", "vjp"]), "rule")
    x = cells_of(kind, shape)
    if function in ("sum_pool", "avg_pool") or options.get("norm_type") is math.inf:
        # Infinite norms and sums are tested among the conventions.
        x = np.nan_to_num(x, neginf=-9.0)
    if data.draw(st.booleans(), "masked"):
        options["where"] = distinct(shape, "mask") < data.draw(st.sampled_from([-2.0, 0.5, 2.0]))
        x = np.where(options["where"], x, math.nan)

    def pool(x: jax.Array) -> tuple[jax.Array, Any]:
        outputs = getattr(jaxpool, function)(x, **parameters, **options, rule=rule)
        return outputs if isinstance(outputs, tuple) else (outputs, None)

    cotangent = distinct(output_shape, "cotangent")

    @jax.jit
    def everything(x: jax.Array, cotangent: jax.Array) -> Any:
        values, pull_back, indices = jax.vjp(pool, x, has_aux=True)
        return values, pull_back(cotangent)[0], indices

    expected = oracle.pool(oracle.RULES[function], x, **parameters, **options)
    values, gradient, indices = everything(x, cotangent)
    np.testing.assert_allclose(values, expected.values, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(gradient, expected.backward(cotangent), rtol=1e-10, atol=1e-10)
    if indices is not None:
        np.testing.assert_array_equal(indices, expected.indices)
