"""Names that the examples in docstrings and pages use without importing them; when notebooks run, and how."""

from collections.abc import Iterator
from importlib.util import find_spec

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import environment_of_fast_processes

# The notebook that measures.
COMPILED_AS_USUAL = ("05_speed.ipynb",)

# The notebook that ports a model needs the library that the model comes from.
collect_ignore = [] if find_spec("torch") else ["notebooks/08_from_pytorch.ipynb"]


@pytest.fixture(autouse=True)
def _names_of_examples(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace.update(jax=jax, jnp=jnp, np=np, jaxpool=jaxpool)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave notebooks to the slow part."""
    for item in items:
        if item.path.suffix == ".ipynb":
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Give the flags of programs that only have to be right to the kernels of notebooks."""
    if item.path.suffix != ".ipynb" or item.path.name in COMPILED_AS_USUAL:
        return (yield)
    with environment_of_fast_processes():
        return (yield)
