"""Names that the examples in docstrings and in the README use without importing them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool


@pytest.fixture(autouse=True)
def _names_of_examples(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace.update(jax=jax, jnp=jnp, np=np, jaxpool=jaxpool)
