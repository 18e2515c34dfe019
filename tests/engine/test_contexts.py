"""What pools are traced for under `jaxpool.compiling_for`: the programs of another platform than this machine's."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool


def largest(x: jax.Array) -> jax.Array:
    return jaxpool.max_pool(x, 7, 1, 3, axis="NHWC")


def kept() -> list[tuple[Any, Any]]:
    """The shapes and dtypes of what a gradient keeps."""
    x = jax.ShapeDtypeStruct((2, 20, 20, 4), np.float32)
    pull_back = jax.eval_shape(lambda x: jax.vjp(largest, x)[1], x)
    return [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(pull_back)]


@pytest.mark.parametrize(("name", "backend"), [("tpu", "tpu"), ("gpu", "cuda"), ("cuda", "cuda"), ("cpu", "cpu")])
def test_keeps_what_the_platform_keeps(name: str, backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with jaxpool.compiling_for(name):
        found = kept()
    # Nothing may be known of this machine's platform.
    jax.clear_caches()
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert found == kept()


def test_platforms_keep_different_things() -> None:
    formats = []
    for name in ("cpu", "gpu", "tpu"):
        with jaxpool.compiling_for(name):
            formats.append(kept())
    assert all(one != other for one, other in itertools.combinations(formats, 2))


@pytest.mark.parametrize("name", ["gpu", "tpu"])
def test_runs_here_all_the_same(name: str) -> None:
    x = jnp.asarray(np.random.default_rng(0).integers(0, 5, (1, 10, 10, 2)).astype(np.float32))
    expected = jax.value_and_grad(lambda x: (largest(x) ** 2).sum())(x)
    with jaxpool.compiling_for(name):
        found = jax.jit(jax.value_and_grad(lambda x: (largest(x) ** 2).sum()))(x)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_array_equal(found[1], expected[1])


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16])
def test_widened_cells_are_kept_as_they_were_given(dtype: Any) -> None:
    x = jnp.asarray(np.random.default_rng(1).normal(size=(2, 16, 14, 3)), dtype)

    def pull_back(x: jax.Array) -> Any:
        return jax.vjp(lambda x: jaxpool.mixed_pool(x, 0.5, 3, 2, axis="NHWC"), x)[1]

    cotangent = jnp.ones((2, 7, 6, 3), dtype)
    expected = jax.jit(lambda x: pull_back(x)(cotangent))(x)
    with jaxpool.compiling_for("tpu"):
        assert {leaf.dtype for leaf in jax.tree.leaves(jax.eval_shape(pull_back, x))} == {np.dtype(dtype)}
        np.testing.assert_array_equal(jax.jit(lambda x: pull_back(x)(cotangent))(x), expected)


def test_unknown_platform_is_an_error() -> None:
    with pytest.raises(
        ValueError, match=r"compiling_for: platform must be one of cpu, gpu, tpu, cuda, rocm, got 'metal'"
    ):
        jaxpool.compiling_for("metal")
