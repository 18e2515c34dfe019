"""float64 stays float64: programs for CUDA contain nothing narrower, neither for values nor for derivatives.

There, before 0.12, JAX's own rule for the derivative of a windowed maximum packs a value and its tangent into one
64-bit word, each truncated to half of its bits. Programs are lowered for CUDA on any machine, and inspected as text.
"""

import re
import warnings
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jaxpool
from tests.registry.cases import PLAIN, mask

# Floats other than float64, operations that truncate, and bitcasts of floats. This also finds "bf16" and "tf32".
# Rounding to the precision of float64 or more truncates nothing, nor do bitcasts to signed integers and back.
KEYS = r"\S+ : \(tensor<\w*(f64>\) -> tensor<\w*i64|i64>\) -> tensor<\w*f64)>"
ROUNDING = r"reduce_precision(?!.*format = e11m5[2-4]\b)"
NARROWER = re.compile(rf"f(8\w*|16|32)\b|{ROUNDING}|bitcast_convert(?! {KEYS})|ui(64|128)")

LARGE: dict[str, tuple[str, dict[str, Any]]] = {
    "max_pool of 9": ("max_pool", {"kernel_size": (9,), "stride": 1, "padding": 4}),
    "max_pool of 31": ("max_pool", {"kernel_size": (31, 2), "stride": 1, "padding": (15, 1)}),
    "max_pool disjoint": ("max_pool", {"kernel_size": (4, 3)}),
    "max_pool dilated": ("max_pool", {"kernel_size": (2, 2), "dilation": (3, 2), "stride": 1}),
    "max_pool masked": ("max_pool", {"kernel_size": (3, 3), "stride": 2, "padding": 1, "where": mask(16, 12)}),
    "min_pool of 9": ("min_pool", {"kernel_size": (9,), "stride": 4}),
    "avg_pool of 9": ("avg_pool", {"kernel_size": (9, 3), "stride": 1, "count_include_pad": False}),
    "avg_pool masked": ("avg_pool", {"kernel_size": (3, 3), "stride": 2, "where": mask(16, 12)}),
    "lp_pool 1.5": ("lp_pool", {"norm_type": 1.5, "kernel_size": (3, 2)}),
    "lp_pool inf": ("lp_pool", {"norm_type": np.inf, "kernel_size": (3, 2)}),
    "lp_pool learnt": ("lp_pool", {"norm_type": np.full((2, 1, 1), 2.5), "kernel_size": (3, 2), "stride": 1}),
    "smooth_max_pool learnt": ("smooth_max_pool", {"beta": np.full((2, 1, 1), -2.5), "kernel_size": (3, 2)}),
    "adaptive_avg_pool masked": ("adaptive_avg_pool", {"output_size": (5, 4), "where": mask(16, 12)}),
}
CALLS = {function: (function, case.parameters) for function, case in PLAIN.items()} | LARGE


def program_for_cuda(function: Any, *arguments: Any) -> str:
    # Traced for GPUs only, in half the time; the lowered program is the same.
    with jaxpool.compiling_for("gpu"):
        return jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()


@pytest.mark.parametrize("name", CALLS)
def test_nothing_narrower_is_in_programs_for_cuda(name: str) -> None:
    function, parameters = CALLS[name]
    x = jax.ShapeDtypeStruct((2, 16, 12), jnp.float64)

    def pool(x: jax.Array, **rule: Any) -> jax.Array:
        return jax.tree.leaves(getattr(jaxpool, function)(x, **parameters, **rule))[0]

    def cubed(x: jax.Array) -> jax.Array:
        return (pool(x) ** 3).sum()

    def everything(x: jax.Array, tangent: jax.Array) -> Any:
        return (
            getattr(jaxpool, function)(x, **parameters),
            jax.jvp(pool, (x,), (tangent,)),
            jax.jvp(jax.grad(cubed), (x,), (tangent,)),
            jax.grad(lambda x: (pool(x, rule="vjp") ** 3).sum())(x),
        )

    text = program_for_cuda(everything, x, x)
    assert "f64" in text
    assert not NARROWER.search(text), NARROWER.findall(text)


def test_unpooling_has_nothing_narrower() -> None:
    def everything(values: jax.Array, indices: jax.Array) -> Any:
        unpool = partial(jaxpool.max_unpool, indices=indices, output_size=(5, 6))
        unpooled, pull_back = jax.vjp(unpool, values)
        return unpooled, pull_back(unpooled), jax.jvp(unpool, (values,), (values,))

    shape = (2, 3, 4)
    text = program_for_cuda(everything, jax.ShapeDtypeStruct(shape, np.float64), jax.ShapeDtypeStruct(shape, np.int32))
    assert "f64" in text
    assert not NARROWER.search(text)


def test_the_derivative_of_the_platform_was_narrower() -> None:
    # A control: the assertion above can fail, and does for JAX's own rule in versions with the fault.
    def pool(x: jax.Array) -> jax.Array:
        return lax.reduce_window(x, -np.inf, lax.max, (1, 3, 3), (1, 2, 2), "VALID")

    x = jax.ShapeDtypeStruct((2, 16, 12), jnp.float64)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        text = program_for_cuda(lambda x, tangent: jax.jvp(pool, (x,), (tangent,)), x, x)
    has_fault = jax.__version_info__ < (0, 12)
    assert ["reduced precision" in str(warning.message) for warning in caught] == [True] * has_fault
    assert ("reduce_precision" in text, "bitcast_convert" in text) == (has_fault, has_fault)
    assert bool(NARROWER.search(text)) == has_fault
