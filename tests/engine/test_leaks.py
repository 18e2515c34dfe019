"""No function keeps a traced array after its trace: none has a closure, or a cache, that holds one.

Every argument that may be traced is traced: the array, the mask, learnt numbers, weights, logits, boxes, samples and
heights of elements.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.reference.jets import CHAINS
from tests.registry.cases import distinct
from tests.registry.records import RECORDS, slow_but

# The sorts of windows that a pool with sliding windows takes, and those beside which there is no mask.
_CROSS = np.array([[False, True, False], [True, True, True], [False, True, True]])
WINDOWS: dict[str, dict[str, Any]] = {
    "bins": {"kernel_size": jaxpool.bins(4, 4), "stride": None, "padding": 0},
    "whole": {"kernel_size": jaxpool.whole, "stride": None, "padding": 0},
    "footprint": {"kernel_size": jaxpool.footprint(_CROSS)},
    "many cells": {"kernel_size": (9, 9), "stride": 1, "padding": 4},
    "copies": {"padding": "REFLECT"},
    "tiles": {"kernel_size": (2, 2), "padding": 0},
    "line": {"kernel_size": 3, "stride": 1, "padding": 1, "axis": 1},
    "all": {"kernel_size": jaxpool.whole, "stride": None, "padding": 0, "axis": (0, 1, 2)},
}
UNMASKED = ("tiles", "bins", "line", "all")
X = distinct((2, 10, 9), "leaks").astype(np.float32)
MASK = np.quantile(X, 0.2) < X


def check_no_leaks(function: Callable[..., jax.Array], arguments: dict[str, Any], in_batches: bool = True) -> None:
    """Trace values, gradients, and gradients of batches that share some arguments, and lower gradients, or raise."""
    learnt = {key: each for key, each in arguments.items() if key not in ("where", "boxes", "samples")}
    fixed = {key: each for key, each in arguments.items() if key not in learnt}

    def loss(x: jax.Array, learnt: dict[str, Any], fixed: dict[str, Any]) -> jax.Array:
        # The arguments depend on x, so that they belong to the same trace when it is differentiated.
        learnt = {key: each + 0 * x.ravel()[0] for key, each in learnt.items()}
        return (function(x, **learnt, **fixed) ** 2).sum()

    slopes = jax.value_and_grad(loss, (0, 1))
    # Otherwise a trace that leaks might not take place again.
    jax.clear_caches()
    with jax.checking_leaks():
        jax.jit(loss).trace(X, learnt, fixed)
        jax.jit(slopes).trace(X, learnt, fixed).lower()
        if in_batches:
            jax.jit(jax.vmap(slopes, (0, None, None))).trace(jnp.stack([X] * 3), learnt, fixed)


def traced_arguments(name: str) -> dict[str, Any]:
    """What may be traced beside the array, but the key."""
    record = RECORDS[name]
    learnt = {"norm_type", "beta", "alpha", "boxes"} & {*record.parameters}
    given: dict[str, Any] = {key: np.asarray(record.parameters[key], np.float32) for key in learnt}
    given |= {key: np.abs(X) + 1 for key in ("weights", "logits") if key in record.options}
    if record.windows == "random":
        given["samples"] = np.full((2, 2), 0.4, np.float32)
    return given | ({"where": MASK} if record.has_mask else {})


BY_DEFAULT = ("max_pool", "sum_pool", "adaptive_avg_pool", "roi_align")


@pytest.mark.parametrize("name", slow_but(BY_DEFAULT, RECORDS))
def test_functions(name: str) -> None:
    check_no_leaks(RECORDS[name].values, traced_arguments(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, record in RECORDS.items() if record.windows == "fixed"])
def test_windows_of_every_sort(name: str) -> None:
    """Each function with some of them, and with one of the rules, in turn."""
    first = [*RECORDS].index(name)
    for number, (sort, window) in enumerate([*WINDOWS.items()][first % 5 :: 5], first):
        arguments = traced_arguments(name)
        if sort in UNMASKED:
            arguments.pop("where", None)
        function = partial(RECORDS[name].values, **window, rule=("jvp", "vjp")[number % 2])
        check_no_leaks(function, arguments, in_batches=False)


@pytest.mark.parametrize("name", slow_but(["dilation"], CHAINS))
def test_morphology(name: str) -> None:
    element = distinct((3, 3), "heights").astype(np.float32)
    for rule in ("jvp", "vjp") if name == "erosion" else ("jvp",):
        check_no_leaks(partial(getattr(jaxpool.morphology, name), rule=rule), {"element": element, "where": MASK})


@pytest.mark.parametrize(
    "pool",
    [
        jaxpool.stochastic_pool,
        pytest.param(partial(jaxpool.fractional_max_pool, output_size=(4, 3)), marks=pytest.mark.slow),
    ],
)
def test_drawn_cells(pool: Callable[..., jax.Array]) -> None:
    jax.clear_caches()
    with jax.checking_leaks():
        jax.jit(jax.grad(lambda x, key: pool(x, (2, 3), key=key).sum())).trace(X, jax.random.key(0))


@pytest.mark.parametrize("pool", slow_but([jaxpool.weighted_pool], [jaxpool.weighted_pool, jaxpool.attention_pool]))
def test_weights_that_depend_on_the_array(pool: Callable[..., jax.Array]) -> None:
    jax.clear_caches()
    with jax.checking_leaks():
        jax.jit(jax.grad(lambda x: pool(x, x + 1, (2,)).sum())).trace(X)
