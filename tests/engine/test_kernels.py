"""The kernels of common pools on the CPU are those that are stored, on the newest JAX and on others with numbers.

What is one kernel with one compiler can be three with the next, which takes several times as long and changes no value.
If a change of a lowering or of the compiler is intended, `python -m tests.engine.kernels` stores the new numbers.
"""

import jax
import pytest
from jax import lax

from tests.engine.kernels import Pool, kernels, pools, stored, version_to_hold

POOLS = {name: (pool, shape) for name, pool, shape in pools()}


@pytest.mark.parametrize("name", POOLS)
def test_the_program_has_as_many_kernels_as_stored(name: str) -> None:
    version = version_to_hold(list(stored()), jax.__version__)
    found, expected = kernels(*POOLS[name]), stored()[version][name]
    assert found == expected, f"JAX {jax.__version__} against {version}; if meant: python -m tests.engine.kernels"


def test_every_pool_is_stored_for_every_version() -> None:
    assert len(stored()) > 1
    for version, found in stored().items():
        assert list(found) == list(POOLS), version


def test_the_newest_numbers_hold_for_versions_without() -> None:
    versions = ["0.12.0.1", "0.10.2", "0.9"]
    assert version_to_hold(versions, "0.10.2") == "0.10.2"
    assert version_to_hold(versions, "0.13.0") == version_to_hold(versions, "0.11.2") == "0.12.0.1"


@pytest.mark.parametrize(
    ("pool", "launched"),
    [
        (lambda x: 2 * x + 1, {"fusion": 1}),
        (lambda x: 2 * lax.sort(x * x + x, dimension=0) + x, {"fusion": 2, "sort": 1}),
        (lambda x: lax.scan(lambda y, row: (jax.numpy.sin(y) * row, y), x[0], x)[1], {"while": 1}),
    ],
    ids=["one", "three", "loop"],
)
def test_kernels_are_counted(pool: Pool, launched: dict[str, int]) -> None:
    found = kernels(pool, (64, 96))["forward"]
    assert found.items() >= launched.items()
