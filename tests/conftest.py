"""The settings under which tests run: float64 on, no silent promotion, and programs that compile fast.

The first two apply only to the tests in this folder: examples in docstrings and pages print what a default session
prints. Programs are compiled without optimisation unless a test asks for it; the exhaustive part compiles as users do.
"""

import gc
from collections.abc import Iterator

import jax
import pytest

from jaxpool._engine import platforms
from tests.harness.compilation import compile_fast_from_now_on


def pytest_configure(config: pytest.Config) -> None:
    """Compile fast in the default part."""
    if is_fast(config):
        compile_fast_from_now_on()
    # Tracing makes millions of small objects, few of them garbage: collecting it takes a fifth of the time.
    gc.set_threshold(200_000, 20, 100)


@pytest.fixture(autouse=True)
def _strict_float64() -> Iterator[None]:
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture
def for_this_platform(request: pytest.FixtureRequest) -> Iterator[None]:
    """Trace only the lowerings of this machine's platform, in half the time, except for tests marked `every_platform`.

    Otherwise a program contains the lowerings of all platforms, for separate tests and those of transformations.
    """
    if "every_platform" in request.keywords or not is_fast(request.config):
        yield
    else:
        with platforms.only_for(platforms.default_platform()):
            yield


def is_fast(config: pytest.Config) -> bool:
    """Whether this is the default part."""
    return config.option.markexpr == "not exhaustive"
