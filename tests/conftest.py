"""The settings under which tests run: float64 on, and no silent promotion of dtypes or ranks.

They hold for the tests of this folder only. The examples in docstrings and in the README, collected in the same run,
print what a default session prints, and find the usual names without importing them.
"""

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool


@pytest.fixture(autouse=True)
def _strict_float64() -> Iterator[None]:
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Fixtures of this file do not reach doctests outside of this folder, so their names are handed over here.
    for item in items:
        if isinstance(item, pytest.DoctestItem) and item.dtest is not None:
            item.dtest.globs.update(jax=jax, jnp=jnp, np=np, jaxpool=jaxpool)
