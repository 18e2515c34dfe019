"""The programs that the benchmark times: a comparison of a program with itself says nothing but noise."""

import jax
import numpy as np
import pytest

from benchmarks import goals, programs
from benchmarks.measure import Row


@pytest.mark.usefixtures("for_this_platform")
def test_the_same_program_is_as_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "clear_caches", lambda: None)
    x = jax.numpy.zeros((7, 9), np.float32)
    table = np.arange(63, dtype=np.float32).reshape(7, 9)
    first, same, other_number, other_shape = (
        programs.build(lambda x, number=number: jax.numpy.exp(x) + number, array)
        for number, array in ((1.0, x), (1.0, x), (2.0, x), (1.0, x[0]))
    )
    assert first.is_same_as(same)
    assert not first.is_same_as(other_number)
    assert not first.is_same_as(other_shape)
    # Large constants are not part of the text.
    assert not programs.build(lambda x: x + table, x).is_same_as(programs.build(lambda x: x + (table + 1), x))
    times = {"jaxpool": 2.0, "plain": 1.0, "torch": 1.0}
    noisy = Row("max", "3×3", (1, 8, 8, 4), 3, 1, forward=dict(times), gradient=dict(times))
    assert goals.ratio(noisy, "forward", "plain") == 0.5
    noisy.same_program.append("forward")
    assert [goals.ratio(noisy, what, "plain") for what in ("forward", "gradient")] == [1.0, 0.5]
    assert goals.ratio(noisy, "forward", "torch") == 0.5
