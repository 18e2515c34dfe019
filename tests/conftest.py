"""The settings under which tests run: float64 on, and no silent promotion of dtypes or ranks.

They hold for the tests of this folder only: examples in docstrings and in the README print what a default session
prints.
"""

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture(autouse=True)
def _strict_float64() -> Iterator[None]:
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield
