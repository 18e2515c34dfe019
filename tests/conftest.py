"""The settings under which tests run: float64 on, no silent promotion, programs that compile fast.

The first two apply only to the tests in this folder: examples in docstrings and pages print what a default session
prints. Programs are compiled without optimisation unless a test asks for it.
"""

import gc
from collections.abc import Iterator

import jax
import pytest

import jaxpool
from tests.harness.compilation import compile_fast_from_now_on, settings_of_users

_PLATFORM = {"cpu": "cpu", "tpu": "tpu"}.get(jax.default_backend(), "gpu")


def pytest_configure() -> None:
    """Compile fast, and collect garbage rarely: tracing makes millions of small objects, few of them garbage."""
    compile_fast_from_now_on()
    gc.set_threshold(200_000, 20, 100)


@pytest.fixture(autouse=True)
def _strict_float64() -> Iterator[None]:
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture
def as_users_have_it(_strict_float64: None) -> Iterator[None]:
    """The default settings of users, within the stricter settings of the other tests."""
    with settings_of_users():
        yield


@pytest.fixture
def for_this_platform() -> Iterator[None]:
    """Trace only the lowerings of this machine's platform, in half the time.

    Otherwise a program contains the lowerings of all platforms, for separate tests and those of transformations.
    """
    with jaxpool.compiling_for(_PLATFORM):
        yield
