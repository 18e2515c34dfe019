"""The settings under which tests run: float64 on, no silent promotion, and programs that compile fast.

The first hold for the tests of this folder only: examples in docstrings and pages print what a default session
prints. Programs are compiled without optimisation wherever a test does not ask for it, but for the exhaustive part,
which has what users have.
"""

import gc
from collections.abc import Iterator

import jax
import pytest

from jaxpool._engine import platforms
from tests.harness.compilation import compile_fast_from_now_on


def pytest_configure(config: pytest.Config) -> None:
    """Compile fast in the part that runs by default."""
    if is_fast(config):
        compile_fast_from_now_on()
    # Tracing makes millions of small objects, of which few are garbage: looking for it takes a fifth of the time.
    gc.set_threshold(200_000, 20, 100)


@pytest.fixture(autouse=True)
def _strict_float64() -> Iterator[None]:
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture
def for_this_platform(request: pytest.FixtureRequest) -> Iterator[None]:
    """Trace the lowerings of this machine's platform alone, in half the time, but for tests marked `every_platform`.

    A program holds those of all platforms otherwise. They are for tests of their own, and of transformations.
    """
    if "every_platform" in request.keywords or not is_fast(request.config):
        yield
    else:
        with platforms.only_for(platforms.default_platform()):
            yield


def is_fast(config: pytest.Config) -> bool:
    """Whether the part runs that runs by default."""
    return config.option.markexpr == "not exhaustive"
