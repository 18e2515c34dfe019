"""How tests compile: without optimisation if only values matter, and as users do if the program matters.

The tests spend most of their time in XLA, mostly emitting and optimising loops that run once, over a few cells. Without
optimisation programs compute the same, as that depends on XLA's rewriting of operations, which stays on. The code of
loops differs, and with it rounding, memory, time and the text of the program: tests of these use `compiled_as_usual`.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax

Options = dict[str, bool | int | str]

# Loops emitted directly instead of through MLIR, which JAX 0.11 and later always uses; no optimisation of their code;
# and one module of code instead of up to 32 that threads compile in parallel.
UNOPTIMISED: Options = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_parallel_codegen_split_count": 1,
    **({"xla_cpu_use_fusion_emitters": False} if jax.__version_info__ < (0, 11) else {}),
}
AS_USUAL: Options = {
    "xla_backend_optimization_level": 3,
    "xla_cpu_parallel_codegen_split_count": 32,
    **({"xla_cpu_use_fusion_emitters": True} if jax.__version_info__ < (0, 11) else {}),
}


def compiled_fast(function: Callable[..., Any]) -> Any:
    """Compile a program that only has to be correct, in a fifth of the time."""
    return jax.jit(function, compiler_options=UNOPTIMISED)


def compiled_as_usual(function: Callable[..., Any]) -> Any:
    """Compile a program as users do, whatever the setting for other programs."""
    return jax.jit(function, compiler_options=AS_USUAL)


def flags(*others: str) -> str:
    """XLA_FLAGS for a process that compiles without optimisation."""
    return " ".join([*others, *(f"--{name}={str(value).lower()}" for name, value in UNOPTIMISED.items())])


@contextmanager
def settings_of_users() -> Iterator[None]:
    """The default settings of users, within the stricter settings of the other tests."""
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@contextmanager
def environment_of_fast_processes() -> Iterator[None]:
    """Make processes started within this context compile without optimisation."""
    given = os.environ.get("XLA_FLAGS")
    os.environ["XLA_FLAGS"] = flags(*filter(None, [given]))
    try:
        yield
    finally:
        if given is None:
            del os.environ["XLA_FLAGS"]
        else:
            os.environ["XLA_FLAGS"] = given


def compile_fast_from_now_on() -> None:
    """Compile without optimisation in this process only; nothing may have been compiled yet."""
    with environment_of_fast_processes():
        # The flags are read once, when the first device is asked for.
        jax.devices()
