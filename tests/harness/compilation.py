"""How tests compile: without optimisation where values are all that counts, as users do where the program counts.

Most of the time that the tests take goes into XLA, and most of that into emitting and optimising loops that run once,
over a few cells. What programs compute is the same without, as it is up to XLA's rewriting of operations, which stays
on. What loops are made of differs, and with it rounding, memory, time and the text of the program: tests of these
compile by `compiled_as_usual`, and so does everything in the exhaustive part.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax

Options = dict[str, bool | int | str]

# Loops emitted as they come instead of by way of MLIR, which JAX 0.11 and later always takes; no optimisation of their
# code; and one module of code instead of up to 32 that threads share among them.
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


def compiled_fast(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a program that only has to be right, in a fifth of the time."""
    return jax.jit(function, compiler_options=UNOPTIMISED)


def compiled_as_usual(function: Callable[..., Any]) -> Any:
    """Compile a program as users do, whatever holds for the others."""
    return jax.jit(function, compiler_options=AS_USUAL)


def flags(*others: str) -> str:
    """XLA_FLAGS for a process that compiles without optimisation."""
    return " ".join([*others, *(f"--{name}={str(value).lower()}" for name, value in UNOPTIMISED.items())])


@contextmanager
def environment_of_fast_processes() -> Iterator[None]:
    """Let the processes that are started meanwhile compile without optimisation."""
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
    """Compile without optimisation in this process, as long as nothing has been compiled yet, and in no other."""
    with environment_of_fast_processes():
        # The flags are read once, when the first device is asked for.
        jax.devices()
