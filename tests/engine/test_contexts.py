"""What pools are traced for in contexts: `jaxpool.compiling_for` other platforms, and `jaxpool.portable`."""

import itertools
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.registry.records import RECORDS, slow_but

CONTEXTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "portable": jaxpool.portable,
    **{name: partial(jaxpool.compiling_for, name) for name in ("cpu", "gpu", "tpu", "cuda", "rocm")},
}
X = np.random.default_rng(0).integers(0, 5, (1, 10, 10, 2)).astype(np.float32)
# One function of each kind.
KINDS = ("max_pool", "avg_pool", "lp_pool", "soft_pool", "median_pool", "top_k_pool", "var_pool", "roi_align")


def largest(x: jax.Array) -> jax.Array:
    return jaxpool.max_pool(x, 7, 1, 3, axis="NHWC")


def loss(x: jax.Array) -> jax.Array:
    return (largest(x) ** 2).sum()


def program(function: Callable[..., Any], x: Any) -> str:
    """The text of a traced program, without addresses."""
    return re.sub(" at 0x[0-9a-f]+", "", str(jax.make_jaxpr(function)(x)))


def known() -> str:
    """What is known of the platform, as it shows in a program."""
    return program(jax.grad(loss), X)


def known_in(*names: str) -> str:
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(CONTEXTS[name]())
        return known()


def kept() -> list[tuple[Any, Any]]:
    """The shapes and dtypes of what a gradient keeps."""
    pull_back = jax.eval_shape(lambda x: jax.vjp(largest, x)[1], X)
    return [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(pull_back)]


def test_contexts_differ_as_platforms_do() -> None:
    programs = {name: known_in(name) for name in CONTEXTS}
    assert programs["gpu"] == programs["cuda"] == programs["rocm"]
    assert len({*programs.values(), known()}) == 5
    formats = []
    for name in ("cpu", "gpu", "tpu"):
        with jaxpool.compiling_for(name):
            formats.append(kept())
    assert all(one != other for one, other in itertools.combinations(formats, 2))


@pytest.mark.parametrize("dtype", slow_but([jnp.bfloat16], [np.float32, jnp.bfloat16]))
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


def test_the_inner_context_replaces_the_outer() -> None:
    """But programs inside `portable` stay as they are."""
    before = known()
    for outer, inner in itertools.product(("portable", "cpu", "tpu", "rocm"), repeat=2):
        assert known_in(outer, inner) == known_in(outer if outer == "portable" else inner), (outer, inner)
        assert known() == before
        assert known_in("portable", outer, inner) == known_in("portable")


@pytest.mark.parametrize("name", slow_but(["max_pool"], KINDS))
def test_contexts_act_where_a_pool_is_traced(name: str) -> None:
    """And a traced program is lowered alike in all of them; portable programs stay portable in any."""
    slope, x = jax.grad(lambda x: RECORDS[name].values(x).sum()), jnp.ones((2, 7, 6), jnp.float32)
    with jaxpool.portable():
        portable = program(slope, x)
    for platform in ("cpu", "tpu"):
        with jaxpool.portable(), jaxpool.compiling_for(platform):
            assert program(slope, x) == portable
        with jaxpool.compiling_for(platform), jaxpool.portable():
            assert program(slope, x) == portable
    for outer in (nullcontext, *(CONTEXTS[name] for name in ("portable", "tpu"))):
        with outer():
            traced = jax.jit(slope).trace(x)
        expected = traced.lower().as_text()
        for inner in ("portable", "tpu", "cpu"):
            with CONTEXTS[inner]():
                assert traced.lower().as_text() == expected


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_context_is_entered_again(name: str) -> None:
    """Also while it is entered, and within another one; afterwards all is as before, as it is after an exception."""
    before, expected, context = known(), known_in(name), CONTEXTS[name]()
    with context:
        with context:
            assert known() == expected
            with jaxpool.portable(), context:
                assert known() == known_in("portable")
        assert known() == expected
    assert known() == before
    with context:
        assert known() == expected
    for outer in ("portable", "tpu"):
        with CONTEXTS[outer]():
            with pytest.raises(ValueError, match="kernel_size"), context:
                jaxpool.max_pool(jnp.ones(2), (3,))
            assert known() == known_in(outer)
    assert known() == before


@pytest.mark.parametrize("name", CONTEXTS)
def test_threads_have_contexts_of_their_own(name: str) -> None:
    """A context acts in the thread that enters it, also if another thread has entered the same one."""
    context, before = CONTEXTS[name](), kept()
    with CONTEXTS[name]():
        expected = kept()
    entered, left = threading.Barrier(3, timeout=60), threading.Barrier(3, timeout=60)

    def of_thread(number: int) -> list[Any]:
        found = [kept()]
        with jaxpool.compiling_for("rocm") if number else nullcontext():
            within = kept()
            with context:
                entered.wait()
                found.append(kept())
                # One thread leaves before the other.
                if not number:
                    left.wait()
            if number:
                left.wait()
            assert kept() == within
        return [*found, kept()]

    with ThreadPoolExecutor(2) as threads:
        done = [threads.submit(of_thread, number) for number in range(2)]
        entered.wait()
        assert kept() == before
        left.wait()
        for one in done:
            assert one.result() == [before, expected, before]
    assert kept() == before


@pytest.mark.parametrize("name", CONTEXTS)
def test_jitted_functions_are_traced_again(name: str) -> None:
    """Called outside first, or inside first; what was traced is then found in caches."""
    for inside_first in (False, True):
        traced = []

        def traced_loss(x: jax.Array, traced: list[str] = traced) -> jax.Array:
            traced.append(known())
            return loss(x)

        step = jax.jit(jax.grad(traced_loss))
        for is_inside in (inside_first, not inside_first) * 2:
            with CONTEXTS[name]() if is_inside else nullcontext():
                jax.eval_shape(step, X)
        assert traced == [known_in(name) if one else known() for one in (inside_first, not inside_first)]
