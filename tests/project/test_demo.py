"""The parts of `python -m jaxpool`: what it compares with, in plain JAX and in NumPy, and how it judges.

The float64 evaluation that results are checked against is itself checked on cases worked by hand.
"""

import jax
import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("rich")

from examples.demonstration import exact, measure, report, variants, window
from examples.demonstration.size import Size


@pytest.mark.parametrize("row", [row for row in variants.VARIANTS if row.tiled and row.plain], ids=lambda row: row.name)
def test_windows_side_by_side_are_written_in_another_way(row: variants.Variant) -> None:
    x = jax.numpy.asarray(np.random.default_rng(2).uniform(size=(7, 9, 3)).astype(np.float32))
    first, second = (way(x, Size(3, 3)) for way in row.ways(Size(3, 3)))
    assert isinstance(first, jax.Array)
    np.testing.assert_allclose(first, second, rtol=1e-6)
    assert row.ways(Size(3, 2)) == [row.plain]


def test_the_quickest_way_counts() -> None:
    quick, slow = (lambda seconds=seconds: measure.time.sleep(seconds) for seconds in (0.001, 0.05))
    for others in ((quick, slow), (slow, quick)):
        ((_, found),) = measure._timings([quick, *others], 1)
        assert found < 40
    assert len(measure._timings([quick], 1)[0]) == 1


def test_a_wrong_index_is_out_of_tolerance() -> None:
    positions = np.arange(100_000, dtype=np.int32)
    assert measure.difference(positions, positions) == 0
    assert measure.difference(positions + (positions == 7), positions) > report.TOLERANCE


def test_the_exact_evaluation_of_a_case_worked_by_hand() -> None:
    cells = np.array([[1.0, 4.0, 0.0], [3.0, 2.0, 4.0]])[:, :, None]
    cotangent = np.array([[1.0, 10.0]])[:, :, None]
    evaluate = exact.windowed(exact.sliding, window.largest, indices=True)
    (values, positions), gradient = evaluate(cells, cotangent, Size(2, 1))
    np.testing.assert_array_equal(values[..., 0], [[4, 4]])
    np.testing.assert_array_equal(positions[..., 0], [[1, 1]])
    np.testing.assert_array_equal(gradient[..., 0], [[0, 11, 0], [0, 0, 0]])
    (values,), gradient = exact.windowed(exact.sliding, window.norm, 2)(cells, cotangent, Size(2, 1))
    np.testing.assert_allclose(values[..., 0], [[30**0.5, 6]])
    np.testing.assert_allclose(gradient[0, :, 0], [1 / 30**0.5, 4 / 30**0.5 + 40 / 6, 0])


def test_the_exact_evaluation_of_bins_of_missing_cells_and_of_the_way_back() -> None:
    starts, counts = exact.uneven(5, Size(2, 1))
    np.testing.assert_array_equal(starts, [0, 1, 3])
    np.testing.assert_array_equal(counts, [2, 3, 2])
    values, weights = window.mean_of_present(np.array([[np.nan, 2.0, 4.0], [np.nan, np.nan, np.nan]]))
    np.testing.assert_array_equal(values, [3, 0])
    np.testing.assert_array_equal(weights, [[0, 0.5, 0.5], [0, 0, 0]])
    cells = np.array([[1.0, 4.0, 0.0, 5.0], [3.0, 2.0, 4.0, 0.0]])[:, :, None]
    (values,), gradient = exact.put_back(cells, -cells, Size(2, 1))
    np.testing.assert_array_equal(values[..., 0], [[0, 4, 0, 5], [0, 0, 0, 0]])
    np.testing.assert_array_equal(gradient[..., 0], [[0, -4, 0, -5], [0, 0, 0, 0]])
