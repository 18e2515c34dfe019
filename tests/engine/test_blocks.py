"""Windows that hold whole rows, which a CPU folds in stretches of neighbouring cells, or in slices of the row."""

import jax
import numpy as np
import pytest

import jaxpool


@pytest.mark.parametrize("cells", [512, 600, 784, 1000, 4096, 8190])
def test_long_rows_are_folded_whole(cells: int) -> None:
    """Rows that are folded in stretches and rows that no stretches divide."""
    row = np.random.default_rng(cells).integers(-9, 9, cells).astype(np.float32)
    places = np.array([0, 7, 31, cells // 2, cells - 1])
    x = np.tile(row, (len(places), 1))
    x[np.arange(len(places)), places] = 20
    np.testing.assert_array_equal(jaxpool.global_max_pool(x, axis=-1)[:, 0], 20)
    np.testing.assert_array_equal(jaxpool.sum_pool(x, jaxpool.whole, axis=-1)[:, 0], x.sum(-1))
    np.testing.assert_array_equal(jax.grad(lambda x: jaxpool.global_max_pool(x, axis=-1).sum())(x), x == 20)
    x[np.arange(len(places)), places] = np.nan
    assert np.isnan(jaxpool.global_max_pool(x, axis=-1)).all()
