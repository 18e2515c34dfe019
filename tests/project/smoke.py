"""A program that imports every module and calls every function once, wherever `jaxpool` comes from, and says where.

It runs outside of the tests, on an installed wheel, and needs nothing but what the package itself depends on.
"""

import importlib
import json
import pkgutil
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import jaxpool

X = jnp.arange(4.0)
CALLS: dict[str, tuple[Callable[[], Any], Any]] = {
    "max_pool": (lambda: jaxpool.max_pool(X, (2,)), [1, 3]),
    "min_pool": (lambda: jaxpool.min_pool(X, (2,)), [0, 2]),
    "max_pool_with_indices": (lambda: jaxpool.max_pool_with_indices(X, (2,)), [[1, 3], [1, 3]]),
    "sum_pool": (lambda: jaxpool.sum_pool(X, (2,)), [1, 5]),
    "avg_pool": (lambda: jaxpool.avg_pool(X, (2,)), [0.5, 2.5]),
    "lp_pool": (lambda: jaxpool.lp_pool(X, 1, (2,)), [1, 5]),
    "smooth_max_pool": (lambda: jaxpool.smooth_max_pool(X, 100.0, (2,)), [1, 3]),
    "gem_pool": (lambda: jaxpool.gem_pool(X, 1, (2,)), [0.5, 2.5]),
    "mellowmax_pool": (lambda: jaxpool.mellowmax_pool(X, 0, (2,)), [0.5, 2.5]),
    "soft_pool": (lambda: jaxpool.soft_pool(X, 100.0, (2,)), [1, 3]),
    "mixed_pool": (lambda: jaxpool.mixed_pool(X, 0.5, (2,)), [0.75, 2.75]),
    "stochastic_pool": (lambda: jaxpool.stochastic_pool(X, (2,)), [1, 2.6]),
    "blur_pool": (lambda: jaxpool.blur_pool(X, (3,)), [0.5, 2]),
    "max_blur_pool": (lambda: jaxpool.max_blur_pool(X, (2,)), [1.5, 2.5]),
    "median_pool": (lambda: jaxpool.median_pool(X, (3,), 1), [1, 2]),
    "quantile_pool": (lambda: jaxpool.quantile_pool(X, 0.25, (2,)), [0.25, 2.25]),
    "adaptive_max_pool": (lambda: jaxpool.adaptive_max_pool(X, (3,)), [1, 2, 3]),
    "adaptive_max_pool_with_indices": (
        lambda: jaxpool.adaptive_max_pool_with_indices(X, (3,)),
        [[1, 2, 3], [1, 2, 3]],
    ),
    "adaptive_avg_pool": (lambda: jaxpool.adaptive_avg_pool(X, (3,)), [0.5, 1.5, 2.5]),
    "global_max_pool": (lambda: jaxpool.global_max_pool(X, axis=0), [3]),
    "global_avg_pool": (lambda: jaxpool.global_avg_pool(X, axis=0), [1.5]),
    "global_gem_pool": (lambda: jaxpool.global_gem_pool(X, float("inf"), axis=0), [3]),
    "spatial_pyramid_pool": (lambda: jaxpool.spatial_pyramid_pool(X, ((1,), (2,))), [3, 1, 3]),
    "fractional_max_pool": (lambda: jaxpool.fractional_max_pool(X, (2,), (2,), samples=jnp.array([0.5])), [1, 3]),
    "fractional_max_pool_with_indices": (
        lambda: jaxpool.fractional_max_pool_with_indices(X, (2,), (2,), samples=jnp.array([0.5])),
        [[1, 3], [1, 3]],
    ),
    "roi_align": (lambda: jaxpool.roi_align(X, jnp.array([[0.0, 4.0]]), (2,)), [[0.5, 2.5]]),
    "roi_pool": (lambda: jaxpool.roi_pool(X, jnp.array([[0.0, 3.0]]), (2,)), [[1, 3]]),
    "max_unpool": (lambda: jaxpool.max_unpool(X, jnp.array([3, 2, 1, 0]), (5,)), [3, 2, 1, 0, 0]),
}
# Modules of the demonstration need packages that the others do not.
DEMONSTRATION = ("jaxpool.__main__", "jaxpool._demo")


def main() -> None:
    """Check the results, and print where the package lies, its version and the names of its functions."""
    for name, (call, expected) in CALLS.items():
        np.testing.assert_allclose(call(), expected, rtol=1e-6, err_msg=name)
    for module in pkgutil.walk_packages(jaxpool.__path__, "jaxpool."):
        if not module.name.startswith(DEMONSTRATION):
            importlib.import_module(module.name)
    public = [name for name, value in vars(jaxpool).items() if callable(value) and not name.startswith("_")]
    assert sorted(CALLS) == sorted(public), public
    print(json.dumps({"package": jaxpool.__file__, "version": jaxpool.__version__}))


if __name__ == "__main__":
    main()
