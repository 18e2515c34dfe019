"""Many of the largest cells, and many quantiles, which are found by sorting windows, against the reference."""

from typing import Any

import jax
import numpy as np
import pytest

import jaxpool
from jaxpool._call import sliding
from jaxpool._ranks.order_statistics import rank_count
from jaxpool._ranks.quantile_methods import make_quantiles
from jaxpool._ranks.selection import sorts_windows
from tests.harness.compilation import compiled_fast
from tests.random.call_checks import check
from tests.registry.calls import Call

pytestmark = pytest.mark.usefixtures("for_this_platform")

SHAPE = (10, 16)
WINDOWS: dict[str, dict[str, Any]] = {
    "one": {"kernel_size": jaxpool.whole},
    "bins": {"kernel_size": jaxpool.bins(1, 2)},
    "shared": {"kernel_size": (9, 8), "stride": (2, 4), "padding": (1, 2)},
    "gaps": {"kernel_size": (5, 14), "stride": (5, 1), "dilation": (2, 1)},
    "footprint": {"kernel_size": jaxpool.footprint(np.arange(108).reshape(9, 12) % 3 > 0), "stride": 2},
}
K, Q = 17, tuple(np.linspace(0, 1, 11).tolist())
MASK = np.random.default_rng(2).random(SHAPE) < 0.7


@pytest.mark.parametrize("name", WINDOWS)
def test_these_windows_are_sorted(name: str) -> None:
    given = (WINDOWS[name].get(each, other) for each, other in (("stride", None), ("padding", 0), ("dilation", 1)))
    *_, window = sliding("", np.zeros(SHAPE), (WINDOWS[name]["kernel_size"], *given, False, (0, 1)), None, "jvp")
    assert sorts_windows(window, K)
    assert sorts_windows(window, rank_count(None, window, make_quantiles("", Q, "linear")))


@pytest.mark.parametrize("cells", ["ties", "mixed"])
@pytest.mark.parametrize("name", WINDOWS)
def test_values_indices_and_derivatives(name: str, cells: str) -> None:
    parameters, masked = {"axis": (0, 1), **WINDOWS[name]}, {"where": MASK, "rule": "vjp"}
    check(Call("top_k_pool", SHAPE, {**parameters, "k": K}, cells=cells))
    check(Call("top_k_pool_with_indices", SHAPE, {**parameters, "k": K, **masked}, cells=cells))
    check(Call("quantile_pool", SHAPE, {**parameters, "q": Q}, cells=cells))
    check(Call("quantile_pool", SHAPE, {**parameters, "q": Q, **masked}, cells=cells))


def test_fewer_cells_than_ranks() -> None:
    parameters = {"kernel_size": (3, 4), "padding": 1, "where": MASK, "k": K}
    check(Call("top_k_pool_with_indices", SHAPE, parameters, cells="nan"))


@pytest.mark.parametrize("dtype", ["int8", "uint32", "bfloat16"])
def test_other_dtypes(dtype: str) -> None:
    for function, parameters in (("top_k_pool_with_indices", {"k": K}), ("quantile_pool", {"q": Q})):
        check(Call(function, SHAPE, {"axis": (0, 1), **WINDOWS["shared"], **parameters}, dtype=dtype))


def test_batches_of_sorted_windows() -> None:
    x = np.random.default_rng(0).normal(size=(3, *SHAPE))

    def slopes(x: jax.Array) -> Any:
        values, pull_back = jax.vjp(lambda x: jaxpool.top_k_pool(x, K, SHAPE), x)
        return values, pull_back(values)[0], jax.grad(lambda x: (jaxpool.quantile_pool(x, Q, SHAPE) ** 2).sum())(x)

    for found, expected in zip(compiled_fast(jax.vmap(slopes))(x), compiled_fast(slopes)(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
