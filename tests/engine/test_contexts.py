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
from jaxpool._platforms import default_platform, inside, is_portable, known_platform, lowering_platform, most_devices
from tests.harness.parts import mechanisms_first
from tests.registry.records import RECORDS


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


# The contexts of the package: those of users, and that of lowerings.
CONTEXTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "portable": jaxpool.portable,
    **{name: partial(jaxpool.compiling_for, name) for name in ("cpu", "gpu", "tpu", "cuda", "rocm")},
    "lowering-cpu": lambda: inside("cpu", 1),
    "lowering-tpu": lambda: inside("tpu", 4),
}
OF_USERS = [name for name in CONTEXTS if not name.startswith("lowering")]


def known() -> tuple[Any, ...]:
    """All that is known of the program."""
    return known_platform(), lowering_platform(), is_portable(), most_devices(), default_platform()


def known_in(*names: str) -> tuple[Any, ...]:
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(CONTEXTS[name]())
        return known()


def program(function: Callable[..., Any], x: Any) -> str:
    """The text of a traced program, without addresses."""
    return re.sub(" at 0x[0-9a-f]+", "", str(jax.make_jaxpr(function)(x)))


@pytest.mark.parametrize("inner", CONTEXTS)
@pytest.mark.parametrize("outer", CONTEXTS)
def test_the_inner_context_adds_to_the_outer(outer: str, inner: str) -> None:
    """A platform that a user names changes neither portable programs nor lowerings; anything else replaces."""
    adds_nothing = inner in OF_USERS and inner != "portable" and outer in ("portable", "lowering-cpu", "lowering-tpu")
    before = known()
    assert known_in(outer, inner) == known_in(outer if adds_nothing else inner)
    assert known() == before
    assert known_in("portable", outer, inner)[2] or "lowering" in outer + inner


@pytest.mark.parametrize("name", mechanisms_first(RECORDS))
def test_portable_programs_stay_portable(name: str) -> None:
    function = jax.value_and_grad(lambda x: RECORDS[name].values(x).sum())
    x = jnp.ones((2, 7, 6), jnp.float32)
    with jaxpool.portable():
        expected = program(function, x)
    for platform in ("cpu", "gpu", "tpu"):
        with jaxpool.portable(), jaxpool.compiling_for(platform):
            assert program(function, x) == expected
        with jaxpool.compiling_for(platform), jaxpool.portable():
            assert program(function, x) == expected


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_context_is_entered_again(name: str) -> None:
    """Also while it is entered, and within another one; afterwards all is as before."""
    before, context = known(), CONTEXTS[name]()
    with context:
        expected = known()
        with context:
            assert known() == expected
            with jaxpool.portable(), context:
                assert is_portable() or "lowering" in name
        assert known() == expected
    assert known() == before
    with context:
        assert known() == expected
    assert known() == before


@pytest.mark.parametrize("name", CONTEXTS)
@pytest.mark.parametrize("outer", CONTEXTS)
def test_an_exception_leaves_a_context(outer: str, name: str) -> None:
    with CONTEXTS[outer]():
        before = known()
        with pytest.raises(ValueError, match="kernel_size"), CONTEXTS[name]():
            jaxpool.max_pool(jnp.ones(2), (3,))
        assert known() == before


@pytest.mark.parametrize("name", CONTEXTS)
def test_threads_have_contexts_of_their_own(name: str) -> None:
    """A context acts in the thread that enters it, also if another thread has entered the same one."""
    context, before, expected = CONTEXTS[name](), known(), known_in(name)
    entered, left = threading.Barrier(3, timeout=60), threading.Barrier(3, timeout=60)

    def of_thread(number: int) -> list[Any]:
        found = [known()]
        with jaxpool.compiling_for("rocm") if number else nullcontext():
            within = known()
            with context:
                entered.wait()
                found.append(known())
                # One thread leaves before the other.
                if not number:
                    left.wait()
            if number:
                left.wait()
            assert known() == within
        return [*found, known()]

    with ThreadPoolExecutor(2) as threads:
        done = [threads.submit(of_thread, number) for number in range(2)]
        entered.wait()
        assert known() == before
        left.wait()
        for one in done:
            assert one.result() == [before, expected, before]
    assert known() == before


@pytest.mark.parametrize("name", OF_USERS)
def test_jitted_functions_are_traced_again(name: str) -> None:
    """Called outside first, or inside first; what was traced is then found in caches."""
    x = jnp.ones((2, 8, 8, 1), jnp.float32)

    def function(x: jax.Array) -> jax.Array:
        traced.append(known())
        return largest(x).sum()

    for inside_first in (False, True):
        traced: list[Any] = []
        step = jax.jit(jax.grad(function))
        for is_inside in (inside_first, not inside_first) * 2:
            with CONTEXTS[name]() if is_inside else nullcontext():
                step(x)
        assert traced == [known_in(name) if one else known() for one in (inside_first, not inside_first)]


@pytest.mark.parametrize("name", mechanisms_first(RECORDS))
def test_a_traced_program_is_lowered_alike_in_every_context(name: str) -> None:
    """Contexts act where a pool is traced."""
    step = jax.jit(jax.grad(lambda x: RECORDS[name].values(x).sum()))
    x = jax.ShapeDtypeStruct((2, 7, 6), np.float32)
    for outer in (None, "portable", "tpu"):
        with CONTEXTS[outer]() if outer else nullcontext():
            traced = step.trace(x)
        expected = traced.lower().as_text()
        for inner in ("portable", "tpu", "cpu"):
            with CONTEXTS[inner]():
                assert traced.lower().as_text() == expected
