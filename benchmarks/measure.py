"""The measurement of one case: compare results, build programs, and take times alternately."""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp

from benchmarks import pools, pytorch
from benchmarks.cases import Case
from benchmarks.compare import MOMENTS, check, check_shape, draw, expected
from benchmarks.options import Options
from benchmarks.programs import FUNCTIONS, Program, build, residual_bytes
from benchmarks.timing import Run, alternate, copy

# The time for a case, shared by all contenders.
_SECONDS = {"forward": 1.0, "gradient": 1.5, "tangent": 1.0, "activated": 1.0}


@dataclass
class Row:
    """The measurements of a case by library; None if a library has no such pool, and `reasons` says why.

    Times are milliseconds, compile times, which include tracing, seconds. The time of "copy" is the copy limit: an
    elementwise pass that moves as many bytes as the values or the gradient must; for the tangent, one that copies it.
    `activated` has the times for values of relu(x), of the pools that networks have.
    `same_program` lists what jaxpool and plain JAX compile to the same program for, `same_as_reshape` likewise;
    `common` says that networks have such a pool.
    """

    group: str
    case: str
    shape: tuple[int, ...]
    kernel: int
    stride: int
    forward: dict[str, float | None] = field(default_factory=dict)
    gradient: dict[str, float | None] = field(default_factory=dict)
    tangent: dict[str, float | None] = field(default_factory=dict)
    activated: dict[str, float | None] = field(default_factory=dict)
    compile_forward: dict[str, float | None] = field(default_factory=dict)
    compile_gradient: dict[str, float | None] = field(default_factory=dict)
    trace_gradient: dict[str, float | None] = field(default_factory=dict)
    residual_bytes_per_output: dict[str, float | None] = field(default_factory=dict)
    temporary_bytes_over_input: dict[str, float | None] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    same_program: list[str] = field(default_factory=list)
    same_as_reshape: list[str] = field(default_factory=list)
    common: bool = False


def measure(case: Case, options: Options) -> Row:
    """Compare, build and time one case."""
    row = Row(case.group, case.name, case.shape, case.kernel, case.stride, common=case.is_common)
    output = jax.eval_shape(pools.plain(case), jax.ShapeDtypeStruct(case.shape, options.dtype))
    arrays = {name: jnp.asarray(array) for name, array in draw(case, options.dtype, output.shape).items()}
    arguments = {
        "forward": (arrays["x"],),
        "gradient": (arrays["x"], arrays["cotangent"]),
        "tangent": (arrays["x"], arrays["tangent"]),
    }
    if case.is_common:
        arguments["activated"] = arguments["forward"]
    runs = _jax_runs(case, options, arguments, row)
    for what, run in _torch_runs(case, options, arguments["gradient"], row).items():
        runs[what]["torch"] = run
    _compare(case, options, arguments, runs, row)
    x_bytes = arrays["x"].nbytes
    output_bytes = output.size * options.dtype.itemsize
    # The gradient of a sum does not depend on x, so x is not read.
    read = 0 if case.group.endswith(("sum", "avg")) else x_bytes
    moved = {"forward": x_bytes + output_bytes, "gradient": read + output_bytes + x_bytes, "tangent": 2 * x_bytes}
    moved["activated"] = moved["forward"]
    for what, contenders in runs.items():
        contenders["copy"] = copy(moved[what], options.dtype)
        times = alternate(contenders, options.repetitions, _SECONDS[what], options.device.platform)
        left_out = dict.fromkeys(("jaxpool", *options.peers))
        getattr(row, what).update(left_out | times)
    return row


def _jax_runs(
    case: Case, options: Options, arguments: dict[str, tuple[jax.Array, ...]], row: Row
) -> dict[str, dict[str, Run]]:
    """The runs of the JAX libraries by operation; compile times, residuals and temporaries go into the row."""
    runs: dict[str, dict[str, Run]] = {what: {} for what in arguments}
    programs: dict[tuple[str, str], Program] = {}
    for library, make_pool in pools.JAX_LIBRARIES.items():
        if library != "jaxpool" and library not in options.peers:
            continue
        try:
            pool = make_pool(case)
        except pools.LeftOut as reason:
            row.reasons[library] = str(reason)
            continue
        check_shape(case, library, jax.eval_shape(pool, *arguments["forward"]).shape, arguments["gradient"][1].shape)
        for what in arguments:
            if library in ("reshape", "flax") and what == "tangent":
                continue
            try:
                program = programs[library, what] = build(FUNCTIONS[what](pool), *arguments[what])
            except NotImplementedError as reason:
                row.reasons[f"{library} {what}"] = str(reason).partition("\n")[0]
                continue
            runs[what][library] = Run(lambda call=program.call, inputs=arguments[what]: call(*inputs))
            if what in ("forward", "gradient"):
                getattr(row, f"compile_{what}")[library] = program.compile_seconds
            if what == "gradient":
                x, cotangent = arguments[what]
                row.trace_gradient[library] = 1e3 * program.trace_seconds
                row.residual_bytes_per_output[library] = residual_bytes(pool, x) / cotangent.size
                row.temporary_bytes_over_input[library] = program.temporary_bytes / x.nbytes
    for library, same in (("plain", row.same_program), ("reshape", row.same_as_reshape)):
        built = (what for what in FUNCTIONS if (library, what) in programs)
        same += [what for what in built if programs["jaxpool", what].is_same_as(programs[library, what])]
    return runs


def _torch_runs(case: Case, options: Options, arguments: tuple[jax.Array, ...], row: Row) -> dict[str, Run]:
    if "torch" not in options.peers:
        return {}
    try:
        pytorch.check_installed(options.device.platform)
        found = pytorch.runs(case, options.device.platform, *arguments)
    except pools.LeftOut as reason:
        row.reasons["torch"] = str(reason)
        return {}
    return {what: found[what] for what in ("forward", "gradient")}


def _compare(
    case: Case,
    options: Options,
    arguments: dict[str, tuple[jax.Array, ...]],
    runs: dict[str, dict[str, Run]],
    row: Row,
) -> None:
    """Call every run once, which warms it up, and compare its result with the reference; drop runs that fail."""
    for what, contenders in runs.items():
        results = {library: run.result() for library, run in contenders.items() if library != "torch"}
        reference = expected(case, what, arguments[what], results.get("plain"))
        if "torch" in contenders:
            try:
                results["torch"] = pytorch.to_numpy(contenders["torch"].result())
            except (RuntimeError, NotImplementedError) as reason:
                row.reasons[f"torch {what}"] = str(reason).partition("\n")[0]
                del contenders["torch"]
        for library, result in results.items():
            # The others on JAX are not compared where the reference is plain JAX in more bits.
            in_more_bits = options.dtype.itemsize == 2 or case.group in MOMENTS
            if not in_more_bits or library not in ("plain", "reshape", "flax"):
                check(case, library, what, options.dtype, result, reference)
