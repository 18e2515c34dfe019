"""The kernels of common pools on the CPU: what the optimised programs launch, by operation, with the stored numbers.

Numbers have no noise, so that any change is due to the library or to the compiler. They are stored in `kernels.json`
for each version of JAX; `python -m tests.engine.kernels` writes those of the version that is installed. A version
without numbers is held to the newest that has them.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxpool
from benchmarks.accelerators.instructions import Computation, Instruction, parse
from tests.harness.compilation import compiled_as_usual

PATH = Path(__file__).parent / "kernels.json"
Pool = Callable[[jax.Array], jax.Array]

# Kernel and stride, of windows without padding where they share no cells.
_WINDOWS = ((2, 2), (3, 2), (3, 1), (7, 7))
_LAYOUTS = {"channels last": ((8, 56, 56, 64), (1, 2)), "channels first": ((8, 64, 56, 56), (2, 3))}
# What takes no time of its own.
_FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier"}


def pools() -> Iterator[tuple[str, Pool, tuple[int, ...]]]:
    """Name, call and shape of every pool."""
    for layout, (shape, axis) in _LAYOUTS.items():
        for kernel, stride in _WINDOWS:
            window: dict[str, Any] = {"stride": stride, "padding": kernel // 2 if stride < kernel else 0, "axis": axis}
            sizes = f"{kernel}×{kernel}/{stride}, {layout}"
            yield f"max {sizes}", lambda x, k=kernel, w=window: jaxpool.max_pool(x, k, **w), shape
            yield f"avg {sizes}", lambda x, k=kernel, w=window: jaxpool.avg_pool(x, k, **w), shape
        yield f"global max, {layout}", lambda x, axis=axis: jaxpool.global_max_pool(x, axis=axis), shape
        yield f"global avg, {layout}", lambda x, axis=axis: jaxpool.global_avg_pool(x, axis=axis), shape
        yield f"global gem, {layout}", lambda x, axis=axis: jaxpool.global_gem_pool(x, jnp.float32(3), axis=axis), shape
        for bins in (7, 9):
            sizes = f"{bins}×{bins} bins, {layout}"
            yield f"max {sizes}", lambda x, n=bins, axis=axis: jaxpool.adaptive_max_pool(x, n, axis=axis), shape
            yield f"avg {sizes}", lambda x, n=bins, axis=axis: jaxpool.adaptive_avg_pool(x, n, axis=axis), shape
    shape, axis = _LAYOUTS["channels last"]
    yield "lp 2, 3×3/2, channels last", lambda x: jaxpool.lp_pool(x, 2, 3, 2, 1, axis=axis), shape
    yield "smooth 3×3/2", lambda x: jaxpool.smooth_max_pool(x, jnp.float32(2), 3, 2, 1, axis=axis), shape
    yield "blur 3×3/2, channels last", lambda x: jaxpool.blur_pool(x, 3, 2, axis=axis), shape
    disk = jaxpool.footprint(np.hypot(*np.ogrid[-5:6, -5:6]) < 5.5)
    yield "max, disk of 11×11, channels last", lambda x: jaxpool.max_pool(x, disk, 1, 5, axis=axis), shape
    yield "median 3×3/2, channels last", lambda x: jaxpool.median_pool(x, 3, 2, 1, axis=axis), shape


def kernels(pool: Pool, shape: tuple[int, ...]) -> dict[str, dict[str, int]]:
    """How often the programs for values and gradient launch each operation, compiled as users do."""
    x = jax.ShapeDtypeStruct(shape, np.float32)
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        outputs = jax.eval_shape(pool, x)
        programs = {
            "forward": compiled_as_usual(pool).lower(x),
            "gradient": compiled_as_usual(lambda x, y: jax.vjp(pool, x)[1](y)[0]).lower(x, outputs),
        }
        texts = {derived: program.compile().as_text() for derived, program in programs.items()}
    return {derived: dict(sorted(_launched(text).items())) for derived, text in texts.items()}


def stored() -> dict[str, dict[str, dict[str, dict[str, int]]]]:
    """The numbers by version of JAX, pool, and values or gradient."""
    return json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}


def version_to_hold(versions: list[str], installed: str) -> str:
    """The version whose numbers hold: the installed one, or the newest."""
    return installed if installed in versions else max(versions, key=_age)


def write() -> None:
    """Store the numbers of the installed version."""
    found = stored() | {jax.__version__: {name: kernels(pool, shape) for name, pool, shape in pools()}}
    ordered = {version: found[version] for version in sorted(found, key=_age, reverse=True)}
    lines = [
        f" {json.dumps(version)}: {{\n"
        + ",\n".join(
            f"  {json.dumps(name, ensure_ascii=False)}: {json.dumps(each)}" for name, each in of_version.items()
        )
        + "\n }"
        for version, of_version in ordered.items()
    ]
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _launched(text: str) -> Counter[str]:
    """Operations outside of fusions; those of a loop's body count once, as do those of every branch."""
    entry, computations = parse(text)
    return _of(computations[entry], computations)


def _of(computation: Computation, computations: dict[str, Computation]) -> Counter[str]:
    total: Counter[str] = Counter()
    for instruction in computation.instructions.values():
        if instruction.operation in _FREE:
            continue
        # A call is how the compiler divides a kernel among threads, of which there may be any number.
        total[instruction.operation] += instruction.operation != "call"
        for name in _inner(instruction):
            total += _of(computations[name], computations)
    return +total


def _inner(instruction: Instruction) -> list[str]:
    if instruction.operation == "call":
        return instruction.called("to_apply")
    if instruction.operation == "while":
        return instruction.called("body")
    if instruction.operation == "conditional":
        return instruction.called("branch_computations", "true_computation", "false_computation")
    return []


def _age(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


if __name__ == "__main__":
    write()
    print(f"saved {PATH} for JAX {jax.__version__}")
