"""Values of every pool against the reference: every geometry, dtype and layout, compiled or not.

NaN is tested separately at sizes on both sides of 4096 elements, where the platform's reductions change.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_as_usual, compiled_fast
from tests.harness.parts import case_row
from tests.reference import oracle
from tests.registry.cases import CASES, PLAIN, Case, distinct

pytestmark = pytest.mark.usefixtures("for_this_platform")

ORDERED = tuple(function for function, rule in oracle.RULES.items() if rule in (oracle.largest, oracle.smallest))


def is_kept(case: Case) -> bool:
    """By default all rows with indices, and the first and the last row of every function; the last often has a mask."""
    same = [one for one in CASES if one.function == case.function]
    return "indices" in case.function or case in (same[0], same[-1]) or case.geometry == "plane-overlap"


@pytest.mark.parametrize("case", [case_row(case, id=case.name, kept=is_kept(case)) for case in CASES])
def test_values(case: Case) -> None:
    # Tests of derivatives compare the values of both rules with the reference, but not indices.
    compiled = [jax.jit(case.outputs)(case.x)] if "indices" in case.function else []
    for outputs in (*compiled, case.outputs(case.x)):
        values, indices = outputs if isinstance(outputs, tuple) else (outputs, None)
        assert values.dtype == np.float64
        rtol = 0 if case.function in (*ORDERED, "max_unpool") else 1e-12
        np.testing.assert_allclose(values, case.expected.values, rtol=rtol, atol=0 if rtol == 0 else 1e-13)
        if indices is not None:
            assert indices.dtype == np.int32
            np.testing.assert_array_equal(indices, case.expected.indices)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16, jnp.float32, jnp.float64], ids=lambda d: d.__name__)
@pytest.mark.parametrize("case", PLAIN.values(), ids=lambda case: case.function)
def test_float_dtypes(case: Case, dtype: Any) -> None:
    x = case.x.astype(dtype)
    values = case.values(x)
    assert values.dtype == dtype
    expected = case.reference(x).values
    if case.function in ORDERED:
        np.testing.assert_array_equal(values.astype(np.float64), expected)
    else:
        # A single rounding to the dtype, of a value computed in float32 or wider.
        epsilon = float(jnp.finfo(dtype).eps)
        np.testing.assert_allclose(values.astype(np.float64), expected, rtol=0.6 * max(epsilon, 8e-7), atol=4e-6)


INTEGERS = (np.bool_, np.int8, np.uint8, np.int32, np.int64)


@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        # `test_integers.py` tests unsigned and the widest integers.
        case_row(case, dtype, id=f"{name}-{dtype.__name__}", kept=dtype in (np.bool_, np.int8, np.int32))
        for name, case in PLAIN.items()
        for dtype in INTEGERS
    ],
)
def test_integers_and_bools(case: Case, dtype: Any) -> None:
    x = (np.random.default_rng(0).permutation(84) % 13 - (0 if dtype in (np.bool_, np.uint8) else 6)).reshape(2, 7, 6)
    x = (x % 3 == 0) if dtype is np.bool_ else x.astype(dtype)
    values = case.values(x)
    if case.function in (*ORDERED, "spatial_pyramid_pool", "top_k_pool", "top_k_pool_with_indices"):
        assert values.dtype == dtype
    elif case.function == "sum_pool":
        assert values.dtype == (np.int32 if dtype is np.bool_ else dtype)
    else:
        assert values.dtype == np.float32
    # A mean of positive and negative cells may be near 0, and is rounded as they are.
    np.testing.assert_allclose(values.astype(np.float64), case.reference(x).values, rtol=1e-6, atol=2e-6)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("function", ["sum_pool", "avg_pool"])
def test_complex(function: str, dtype: Any) -> None:
    case = PLAIN[function]
    x = (case.x + 1j * case.x[:, ::-1]).astype(dtype)
    values = case.values(x)
    assert values.dtype == dtype
    np.testing.assert_allclose(values, case.reference(x).values, rtol=1e-6 if dtype == np.complex64 else 1e-12)


# Sizes on both sides of 4096 elements; windows that overlap, touch and leave gaps.
NAN_WINDOWS = {
    "overlapping": {"kernel_size": (3, 3), "stride": 2, "padding": 1},
    "disjoint": {"kernel_size": (2, 2)},
    "apart": {"kernel_size": (2, 1), "stride": (3, 2)},
    "rows": {"kernel_size": (1, 8)},
}


@pytest.mark.parametrize(
    ("cells", "layout", "dtype"),
    [
        # `test_nan` also has small arrays.
        case_row(cells, layout, dtype, id=f"{cells}-{layout}", kept=cells == 20000)
        for cells in (64, 20000)
        for layout, dtype in (("first", np.float32), ("last", np.float64))
    ],
)
@pytest.mark.parametrize("windows", NAN_WINDOWS)
def test_nan_stays_in_its_windows(windows: str, cells: int, layout: str, dtype: Any) -> None:
    parameters = {**NAN_WINDOWS[windows], "axis": (-2, -1) if layout == "first" else (-3, -2)}
    x = distinct((2, 4, 8) if cells == 64 else (2, 80, 125), windows).astype(dtype)
    x.flat[np.random.default_rng(0).choice(cells, cells // 32, replace=False)] = np.nan
    # Windows with only NaN, which must not pool to the identity of the reduction.
    x[0, 0] = x[0, :2, :2] = np.nan
    if layout == "last":
        x = np.moveaxis(x, 0, -1)

    def selecting(x: Any) -> Any:
        pools = jaxpool.max_pool, jaxpool.min_pool, jaxpool.max_pool_with_indices
        return [pool(x, **parameters) for pool in pools]

    def others(x: jax.Array) -> Any:
        return (
            jaxpool.sum_pool(x, **parameters),
            jaxpool.lp_pool(x, 2.0, **parameters),
            jaxpool.smooth_max_pool(x, 2.0, **parameters),
        )

    most, least = oracle.pool(oracle.largest, x, **parameters), oracle.pool(oracle.smallest, x, **parameters)
    holds_nan = np.isnan(most.values)
    assert holds_nan.any()
    assert not holds_nan.all()
    for largest, smallest, (values, indices) in (compiled_as_usual(selecting)(x), selecting(x)):
        np.testing.assert_array_equal(largest, most.values)
        np.testing.assert_array_equal(smallest, least.values)
        np.testing.assert_array_equal(values, most.values)
        np.testing.assert_array_equal(indices, most.indices)
    for values in compiled_as_usual(others)(x):
        np.testing.assert_array_equal(np.isnan(values), holds_nan)


@pytest.mark.parametrize("case", PLAIN.values(), ids=lambda case: case.function)
def test_array_kinds(case: Case) -> None:
    for x in (case.x, jnp.asarray(case.x), np.asfortranarray(case.x), case.x[:, ::-1]):
        np.testing.assert_allclose(case.values(x), case.reference(x).values, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("case", "rule"),
    [
        case_row(case, rule, id=f"{name}-{rule}", kept=rule == "jvp")
        for name, case in PLAIN.items()
        for rule in ("jvp", "vjp")
    ],
)
def test_batches_of_no_entries(case: Case, rule: str) -> None:
    x = np.zeros((3, 0, 7, 6))
    value, gradient = compiled_fast(jax.value_and_grad(lambda x: case.values(x, rule).sum()))(x)
    assert case.values(x, rule).shape == (3, 0, *case.expected.values.shape[1:])
    assert value == 0
    assert gradient.shape == x.shape


@pytest.mark.parametrize("case", PLAIN.values(), ids=lambda case: case.function)
def test_default_precision(case: Case) -> None:
    with jax.enable_x64(False):
        x = case.x.astype(np.float32)

        def values_and_gradient(x: jax.Array) -> tuple[jax.Array, jax.Array]:
            values, pull_back = jax.vjp(case.values, x)
            return values, pull_back(jnp.ones_like(values))[0]

        values, gradient = compiled_fast(values_and_gradient)(x)
        assert values.dtype == np.float32
        expected = case.reference(x)
        np.testing.assert_allclose(values, expected.values, rtol=1e-5, atol=1e-5)
        assert gradient.dtype == np.float32
        np.testing.assert_allclose(gradient, expected.backward(np.ones(values.shape)), rtol=1e-5, atol=1e-5)
        # Ints become int32, and NumPy's float64 arrays become float32, as everywhere in JAX.
        assert case.values(np.arange(84).reshape(2, 7, 6)).dtype in (np.int32, np.float32)
        assert case.values(case.x).dtype == np.float32


@pytest.mark.parametrize("shape", [(64, 32, 2, 2), (8, 8, 3, 3), (4096, 7, 1)], ids=str)
def test_a_single_window_over_the_whole_axes_keeps_nan(shape: tuple[int, ...]) -> None:
    # With one output per axis no windows overlap, whatever the stride.
    x = jnp.full(shape, np.nan, jnp.float32)
    for pool in (jaxpool.max_pool, jaxpool.min_pool, partial(jaxpool.lp_pool, norm_type=np.inf)):
        values = compiled_as_usual(partial(pool, kernel_size=shape[-2:], stride=1))(x)
        assert jnp.isnan(values).all()


@pytest.mark.parametrize("p", [1.0, 2.0])
def test_tiny_cells_have_no_nan_in_higher_derivatives(p: float) -> None:
    x = jnp.array([1.0, 1e-20], jnp.float32)
    third = jax.jacfwd(jax.hessian(lambda x: jaxpool.lp_pool(x, p, (2,)).sum()))(x)
    assert jnp.isfinite(third).all()
