"""How jaxpool's own time grows: with the window for a fixed array, and with the array for a fixed window."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

from benchmarks.cases import Case
from benchmarks.compare import draw
from benchmarks.options import Options
from benchmarks.pools import ours
from benchmarks.programs import FUNCTIONS, build
from benchmarks.timing import Run, alternate

KERNELS = (3, 7, 15, 31, 63)
KERNELS_OF_SIZES = (3, 13)
KERNELS_OF_MEDIANS = (3, 5, 7, 9, 11, 13, 15, 21, 31)
KERNELS_ALONG_ONE_AXIS = (33, 65, 129, 257, 513, 1025, 2049)
SIZES = (1, 2, 4)
_CELLS_ALONG_ONE_AXIS = 20_000
# Each with the exponents of its norms, if any. Medians and blurred averages of such windows read all their cells.
_ALONG_ONE_AXIS = {
    **dict.fromkeys(("max", "min", "sum", "avg"), (0,)),
    "lp": (2, 3),
    **dict.fromkeys(
        ("gem", "smooth", "mellowmax", "soft", "mixed", "stochastic", "var", "std", "weighted", "attention"), (0,)
    ),
}
_SECONDS = 4.0


@dataclass
class Growth:
    """Milliseconds and compile seconds of one kind of pool, by kernel or by multiple of the array's size, as text."""

    name: str
    forward: dict[str, float]
    gradient: dict[str, float]
    compile_forward: dict[str, float]
    compile_gradient: dict[str, float]


def growth_cases(options: Options) -> list[tuple[str, dict[str, Case]]]:
    """Names, each with the cases to measure together."""
    studies = []
    for group in ("max", "sum"):
        for channels_last in (False, True):
            case = Case(group, options.batch, 16, 192, channels_last, kernel=3, padding=1)
            kernels = {str(kernel): replace(case, kernel=kernel, padding=kernel // 2) for kernel in KERNELS}
            studies.append((f"growth with the kernel, {group}, {case.layout}", kernels))
            for kernel in KERNELS_OF_SIZES:
                fixed = replace(case, kernel=kernel, padding=kernel // 2)
                sizes = {str(size): replace(fixed, batch=size * options.batch) for size in SIZES}
                studies.append((f"growth with the array, {group} {kernel}×{kernel}, {case.layout}", sizes))
    for channels_last in (False, True):
        case = Case("median", 2 * options.batch, 8, 56, channels_last)
        kernels = {str(kernel): replace(case, kernel=kernel, padding=kernel // 2) for kernel in KERNELS_OF_MEDIANS}
        studies.append((f"growth of medians, {case.layout}", kernels))
    for group, exponents in _ALONG_ONE_AXIS.items():
        for number in exponents:
            case = Case(group, options.batch, 1, _CELLS_ALONG_ONE_AXIS, False, rank=1, number=number)
            kernels = {str(kernel): replace(case, kernel=kernel) for kernel in KERNELS_ALONG_ONE_AXIS}
            studies.append((f"growth along one axis, {group}{f' {number}' if number else ''}", kernels))
    return studies


def measure_growth(name: str, cases: dict[str, Case], options: Options) -> Growth:
    """Build all of `cases`, and time them alternately."""
    growth = Growth(name, {}, {}, {}, {})
    for what in ("forward", "gradient"):
        runs = {}
        for key, case in cases.items():
            pool = ours(case)
            output = jax.eval_shape(pool, jax.ShapeDtypeStruct(case.shape, options.dtype))
            arrays = {name: jnp.asarray(array) for name, array in draw(case, options.dtype, output.shape).items()}
            arguments = (arrays["x"],) if what == "forward" else (arrays["x"], arrays["cotangent"])
            program = build(FUNCTIONS[what](pool), *arguments)
            getattr(growth, f"compile_{what}")[key] = program.compile_seconds
            runs[key] = Run(lambda call=program.call, inputs=arguments: call(*inputs))
            runs[key].result()
        getattr(growth, what).update(alternate(runs, options.repetitions, _SECONDS, options.device.platform))
    return growth
