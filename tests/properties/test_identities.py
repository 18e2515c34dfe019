"""Identities between pools, independent of the reference: negation, folds, limits, translations."""

import math
from typing import Any

import jax
import numpy as np
import pytest

import jaxpool
from tests.registry.calls import MOMENTS, RANKED
from tests.registry.cases import PLAIN, Case, distinct
from tests.registry.records import by_function, row

pytestmark = pytest.mark.usefixtures("for_this_platform")

X = distinct((2, 7, 6), "identities")
WINDOWS: dict[str, dict[str, Any]] = {
    "overlapping": {"kernel_size": (3, 2), "stride": (2, 1), "padding": ((1, 0), (0, 1))},
    "dilated": {"kernel_size": (2, 3), "stride": 2, "dilation": (2, 1), "padding": 1, "ceil_mode": True},
}

# A median of medians is not the median, and a weighted mean of weighted means is not that of all cells. Maxima blurred
# along rows no longer contain the largest cells of planes.
NO_FOLDS = (*RANKED, *MOMENTS, "soft_pool", "mixed_pool", "stochastic_pool", "max_blur_pool")
FOLDS = [name for name, case in PLAIN.items() if "kernel_size" in case.parameters and name not in NO_FOLDS]

each_window = pytest.mark.parametrize(
    "window", [row(one, id=name, quick=name == "overlapping") for name, one in WINDOWS.items()]
)
each_sliding_function = by_function({name: case for name, case in PLAIN.items() if "kernel_size" in case.parameters})


def close(left: Any, right: Any) -> None:
    np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12)


@each_window
def test_mirror_images(window: dict[str, Any]) -> None:
    np.testing.assert_array_equal(jaxpool.min_pool(X, **window), -jaxpool.max_pool(-X, **window))
    np.testing.assert_array_equal(jaxpool.max_pool_with_indices(X, **window)[0], jaxpool.max_pool(X, **window))
    least, largest = jaxpool.min_pool_with_indices(X, **window), jaxpool.max_pool_with_indices(-X, **window)
    jax.tree.map(np.testing.assert_array_equal, least, (-largest[0], largest[1]))
    close(jaxpool.smooth_max_pool(X, -2.5, **window), -jaxpool.smooth_max_pool(-X, 2.5, **window))


@each_window
def test_averages_are_sums_over_counts(window: dict[str, Any]) -> None:
    sums, counts = jaxpool.sum_pool(X, **window), jaxpool.sum_pool(np.ones_like(X), **window)
    close(jaxpool.avg_pool(X, **window, count_include_pad=False) * counts, sums)
    close(jaxpool.avg_pool(X, **window, divisor_override=7) * 7, sums)


@each_window
def test_special_norms(window: dict[str, Any]) -> None:
    close(jaxpool.lp_pool(X, 1, **window), jaxpool.sum_pool(np.abs(X), **window))
    close(jaxpool.lp_pool(X, 2, **window), np.sqrt(jaxpool.sum_pool(X**2, **window)))
    np.testing.assert_array_equal(jaxpool.lp_pool(X, math.inf, **window), jaxpool.max_pool(np.abs(X), **window))
    # As p grows, the norm approaches the maximum from above.
    assert (jaxpool.lp_pool(X, 64.0, **window) >= jaxpool.lp_pool(X, math.inf, **window)).all()
    np.testing.assert_allclose(jaxpool.lp_pool(X, 400.0, **window), jaxpool.lp_pool(X, math.inf, **window), rtol=6e-3)


@each_window
def test_limits_of_the_smooth_maximum(window: dict[str, Any]) -> None:
    for beta, limit in ((1e6, jaxpool.max_pool), (-1e6, jaxpool.min_pool)):
        smooth = jaxpool.smooth_max_pool(X, beta, **window, count_include_pad=False)
        np.testing.assert_allclose(smooth, limit(X, **window), rtol=0, atol=1e-5)
    # For a small beta, apart from log(n)/beta, it becomes the mean.
    kernel: Any = window["kernel_size"]
    gap = jaxpool.smooth_max_pool(X, 1e-5, kernel) - math.log(math.prod(kernel)) / 1e-5
    np.testing.assert_allclose(gap, jaxpool.avg_pool(X, kernel), rtol=0, atol=1e-4)


@by_function({name: PLAIN[name] for name in FOLDS})
def test_planes_are_folds_of_lines(case: Case) -> None:
    parameters = {**case.parameters, "kernel_size": 3}
    if case.function == "smooth_max_pool":
        # Padding has to stay away: rows of it, once pooled, are no longer 0.
        parameters["count_include_pad"] = False

    def lines(x: Any) -> Any:
        for axis in (1, 2):
            x = first(case.call(x, **parameters, axis=axis))
        return x

    close(jax.jit(lines)(case.x), first(case.call(case.x, **parameters, axis=(1, 2))))


@each_sliding_function
def test_translations_move_windows_of_stride_one(case: Case) -> None:
    given = {**case.parameters, "stride": 1, "padding": 0}
    whole = first(case.call(X, **given))
    close(first(case.call(X[:, 2:, 1:], **given)), whole[:, 2:, 1:])


@each_sliding_function
def test_windows_of_one_cell_change_nothing(case: Case) -> None:
    given = {**case.parameters, "kernel_size": (1, 1), "stride": 1, "padding": 0}
    if case.function == "max_blur_pool":
        given["blur_size"] = 1
    moments = dict.fromkeys(MOMENTS, np.zeros_like(X))
    expected = {"lp_pool": np.abs(X), "gem_pool": np.abs(X), "stochastic_pool": np.maximum(X, 0), **moments}.get(
        case.function, X
    )
    found = first(case.call(X, **given))
    close(found[..., 0] if "k" in given else found, expected)


def first(outputs: Any) -> Any:
    return outputs[0] if isinstance(outputs, tuple) else outputs
