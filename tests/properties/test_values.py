"""Values of every pool against the reference: every geometry and dtype, compiled or not."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.harness.compilation import compiled_fast
from tests.registry.cases import CASES, PLAIN, Case
from tests.registry.records import KINDS, RECORDS, by_function, row

pytestmark = pytest.mark.usefixtures("for_this_platform")

SELECTING = tuple(name for name, record in RECORDS.items() if record.selects)
# The last row of a function often has a mask.
LAST = [case for name, case in {case.function: case for case in CASES}.items() if name in KINDS or "indices" in name]


@pytest.mark.parametrize("case", [row(case, id=case.name, quick=case in LAST) for case in CASES])
def test_values(case: Case) -> None:
    # Compiled programs have their values compared in the tests of derivatives, but not their indices.
    compiled = [jax.jit(case.outputs)(case.x)] if "indices" in case.function else []
    for outputs in (*compiled, case.outputs(case.x)):
        values, indices = outputs if isinstance(outputs, tuple) else (outputs, None)
        assert values.dtype == np.float64
        if case.function in SELECTING and case.parameters.get("kind") != "avg":
            np.testing.assert_array_equal(values, case.expected.values)
        else:
            np.testing.assert_allclose(values, case.expected.values, rtol=1e-12, atol=1e-13)
        if indices is not None:
            assert indices.dtype == np.int32
            np.testing.assert_array_equal(indices, case.expected.indices)


@by_function(PLAIN)
def test_float_dtypes(case: Case) -> None:
    dtypes = (jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64)
    inputs = [case.x.astype(dtype) for dtype in dtypes]
    for x, values in zip(inputs, compiled_fast(lambda inputs: list(map(case.values, inputs)))(inputs), strict=True):
        assert values.dtype == x.dtype
        expected, found = case.reference(x).values, values.astype(np.float64)
        if case.function in SELECTING:
            np.testing.assert_array_equal(found, expected)
        else:
            # A single rounding to the dtype, of a value computed in float32 or wider.
            rtol = 0.6 * max(float(jnp.finfo(x.dtype).eps), 8e-7)
            np.testing.assert_allclose(found, expected, rtol=rtol, atol=4e-6)


@by_function(PLAIN)
def test_integers_and_bools(case: Case) -> None:
    numbers = (np.random.default_rng(0).permutation(84) % 13 - 6).reshape(2, 7, 6)
    inputs: list[np.ndarray] = [numbers % 3 == 0, abs(numbers).astype(np.uint8)]
    inputs += [numbers.astype(dtype) for dtype in (np.int8, np.int32, np.int64)]
    for x, values in zip(inputs, compiled_fast(lambda inputs: list(map(case.values, inputs)))(inputs), strict=True):
        if case.function == "sum_pool":
            assert values.dtype == (np.int32 if x.dtype == bool else x.dtype)
        else:
            assert values.dtype == (x.dtype if case.function in SELECTING else np.float32)
        # A mean of positive and negative cells may be near 0, and is rounded as they are.
        np.testing.assert_allclose(values.astype(np.float64), case.reference(x).values, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("function", ["sum_pool", "avg_pool", "adaptive_avg_pool", "global_avg_pool"])
def test_complex_numbers(function: str, dtype: Any) -> None:
    case = PLAIN[function]
    x = (case.x + 1j * case.x[:, ::-1]).astype(dtype)
    values = case.values(x)
    assert values.dtype == dtype
    np.testing.assert_allclose(values, case.reference(x).values, rtol=1e-6 if dtype == np.complex64 else 1e-12)


@by_function(PLAIN)
def test_batches_without_entries(case: Case) -> None:
    x = np.zeros((3, 0, 7, 6))
    for rule in ("jvp", "vjp"):
        values, gradient = compiled_fast(jax.value_and_grad(lambda x, rule=rule: case.values(x, rule).sum()))(x)
        assert case.values(x, rule).shape == (3, 0, *case.expected.values.shape[1:])
        assert values == 0
        assert gradient.shape == x.shape


@by_function(PLAIN)
def test_without_float64(case: Case) -> None:
    arrays = {name: one.astype(np.float32) for name, one in case.parameters.items() if isinstance(one, np.ndarray)}
    case = replace(case, parameters={**case.parameters, **arrays})
    with jax.enable_x64(False):
        x = case.x.astype(np.float32)

        @compiled_fast
        def values_and_gradient(x: jax.Array) -> tuple[jax.Array, jax.Array]:
            values, pull_back = jax.vjp(case.values, x)
            return values, pull_back(jnp.ones_like(values))[0]

        values, gradient = values_and_gradient(x)
        expected = case.reference(x)
        assert values.dtype == gradient.dtype == np.float32
        np.testing.assert_allclose(values, expected.values, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(gradient, expected.backward(np.ones(values.shape)), rtol=1e-5, atol=1e-5)
        # Ints become int32, and NumPy's float64 arrays become float32, as everywhere in JAX.
        assert case.values(np.arange(84).reshape(2, 7, 6)).dtype in (np.int32, np.float32)
        assert case.values(case.x).dtype == np.float32
