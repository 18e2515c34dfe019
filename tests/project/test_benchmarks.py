"""The benchmark: its cases are valid, it fills every field, and it catches results that differ from the reference.

Real runs use arrays of a few cells, derived from the cases. What becomes of the numbers is in `test_goals.py`.
"""

import json
import re
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from pathlib import Path

import jax
import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("rich")

from benchmarks import __main__ as program
from benchmarks import compare, pools, programs, pytorch, timing
from benchmarks.cases import BIN_GROUPS, GLOBAL_GROUPS, LEARNT_GROUPS, WINDOW_GROUPS, ZOO_GROUPS, Case, cases
from benchmarks.dispatch import dispatch_cases, measure_dispatch
from benchmarks.growth import growth_cases, measure_growth
from benchmarks.measure import Row, measure
from benchmarks.options import Options, parse
from benchmarks.zoo import OF_SLICES
from tests.harness.parts import case_row

pytestmark = pytest.mark.usefixtures("for_this_platform")

GROUPS = WINDOW_GROUPS + ZOO_GROUPS + LEARNT_GROUPS + BIN_GROUPS + GLOBAL_GROUPS
FLOAT32 = np.dtype(np.float32)


@pytest.fixture
def options() -> Options:
    """Few rounds, against plain JAX only."""
    return Options(jax.devices("cpu")[0], FLOAT32, peers=("plain",), repetitions=1)


@pytest.fixture(autouse=True)
def _compile_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip what only makes the numbers steadier: the second compilation, and clearing caches before each."""
    monkeypatch.setattr(programs, "_SECONDS_EASILY_DISTURBED", 0.0)
    monkeypatch.setattr(jax, "clear_caches", lambda: None)


def tiny(group: str) -> Case:
    """A case of this group over an array of a few cells."""
    case = next(case for case in cases() if case.group == group and case.channels_last and case.kernel in (0, 3))
    return replace(case, batch=1, channels=2, size=7, bins=3 if case.bins else 0)


def test_there_are_many_cases_of_every_group() -> None:
    every = list(cases())
    assert len({(case.group, case.name) for case in every}) == len(every)
    for group in WINDOW_GROUPS:
        assert sum(case.group == group for case in every) >= 24
    assert {case.group for case in every} == set(GROUPS)
    assert max(np.prod(case.shape) * 4 for case in every) < 2**25
    assert {case.batch for case in cases(3)} == {3 * case.batch for case in every}


@pytest.mark.parametrize("group", GROUPS)
def test_every_case_has_the_shape_that_plain_jax_gives(group: str) -> None:
    for case in (case for case in cases() if case.group == group):
        x = jax.ShapeDtypeStruct(case.shape, FLOAT32)
        shapes = [jax.eval_shape(pool(case), x) for pool in (pools.ours, pools.plain)]
        assert shapes[0].shape == shapes[1].shape, case.name
        assert shapes[0].dtype == FLOAT32


def test_tiles_have_a_peer_with_the_same_shape() -> None:
    tiled = [case for case in cases() if case.tile is not None and case.group not in OF_SLICES]
    for case in tiled:
        x = jax.ShapeDtypeStruct(case.shape, FLOAT32)
        shapes = [jax.eval_shape(pool(case), x).shape for pool in (pools.ours, pools.reshape)]
        assert shapes[0] == shapes[1], case.name
    assert {case.group for case in tiled} == {*GROUPS} - {*OF_SLICES, *LEARNT_GROUPS, *GLOBAL_GROUPS}
    assert {case.channels_last for case in tiled} == {False, True}
    windows = Case("max", 1, 2, 8, True, kernel=2, stride=2)
    assert windows.tile == 2
    others: list[dict[str, int]] = [{"stride": 1}, {"padding": 1}, {"dilation": 2}, {"size": 7}, {"kernel": 0}]
    for changes in others:
        assert replace(windows, **changes).tile is None
    assert [replace(windows, kernel=0, bins=bins).tile for bins in (2, 3, 8, 16)] == [4, None, 1, None]


# By default one group of windows, one with a number that is learnt, one of bins and one of whole axes.
@pytest.mark.parametrize(
    "group", [case_row(one, id=one, kept=one in ("max", "lp", BIN_GROUPS[0], GLOBAL_GROUPS[0])) for one in GROUPS]
)
def test_a_real_run_fills_every_field(group: str, options: Options) -> None:
    measured = measure(tiny(group), options)
    activated = replace(tiny(group), channels=16)
    contenders = {"jaxpool", "plain", "copy"} if activated.is_common else set()
    assert set(measure(activated, options).activated) == contenders
    for what in ("forward", "gradient", "tangent"):
        times = getattr(measured, what)
        assert set(times) == {"jaxpool", "plain", "copy"}
        assert all(time > 0 for time in times.values())
    for field in fields(Row):
        if isinstance(getattr(measured, field.name), dict) and field.name not in ("reasons", "activated"):
            assert set(getattr(measured, field.name)) >= {"jaxpool", "plain"}, field.name
    assert measured.reasons == {}


@pytest.mark.parametrize("group", ["max", "global max"])
def test_a_run_beside_everybody(group: str, options: Options) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("flax")
    case = replace(tiny(group), padding=0)
    everybody = replace(options, peers=("plain", "flax", "torch"), dtype=np.dtype(jax.numpy.bfloat16))
    # Flax mixes dtypes.
    with jax.numpy_dtype_promotion("standard"):
        measured = measure(case, everybody)
    assert measured.forward["torch"] is not None
    assert measured.gradient["torch"] is not None
    assert (measured.forward["flax"] is None) == ("flax" in measured.reasons) == (group != "max")
    assert measured.tangent["torch"] is None


@pytest.mark.parametrize(
    "group",
    [case_row(one, id=one, kept=one in ("avg", "adaptive max")) for one in (*WINDOW_GROUPS, "soft", *BIN_GROUPS)],
)
def test_tiles_are_measured_beside_reshape(group: str, options: Options) -> None:
    case = replace(tiny(group), kernel=0 if group in BIN_GROUPS else 2, stride=2, padding=0, size=6)
    measured = measure(case, replace(options, peers=("plain", "reshape")))
    assert measured.reasons == {}
    assert measured.forward["reshape"] is not None
    assert measured.gradient["reshape"] is not None
    assert measure(replace(case, size=7), replace(options, peers=("reshape",))).forward["reshape"] is None


def test_what_a_library_does_not_have_is_left_out_with_a_reason(options: Options) -> None:
    case = replace(tiny("max"), dilation=2, padding=2)
    measured = measure(case, options)
    assert measured.forward["plain"] is not None
    assert measured.gradient["plain"] is None
    assert "dilation" in measured.reasons["plain gradient"]
    for group in ("min", "smooth"):
        with pytest.raises(pools.LeftOut, match=f"no pool for {group}"):
            pytorch._pool(tiny(group))
    with pytest.raises(pools.LeftOut, match="half the kernel"):
        pytorch._pool(case)
    with pytest.raises(pools.LeftOut, match="channels last"):
        pools.flax(replace(tiny("max"), channels_last=False))


@pytest.mark.parametrize(
    ("library", "wrong", "reason"),
    [
        ("jaxpool", lambda y: 1.01 * y, "forward of jaxpool is off by 1.0e-02"),
        ("jaxpool", lambda y: 1.01 * y - 0.01 * jax.lax.stop_gradient(y), "gradient of jaxpool is off by 1.0e-02"),
        ("jaxpool", lambda y: y.at[0, 0, 0, 0].set(np.nan), "forward of jaxpool is off by nan"),
        ("jaxpool", lambda y: y[:, 1:], "jaxpool gives shape (1, 3, 4, 2), not (1, 4, 4, 2)"),
        ("plain", lambda y: 0.99 * y, "forward of jaxpool is off by 1.0e-02"),
        ("reshape", lambda y: 1.01 * y, "forward of reshape is off by 1.0e-02"),
    ],
)
def test_who_computes_something_else_is_caught(
    library: str,
    wrong: Callable[[jax.Array], jax.Array],
    reason: str,
    options: Options,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = pools.JAX_LIBRARIES[library]
    monkeypatch.setitem(pools.JAX_LIBRARIES, library, lambda case: lambda x: wrong(right(case)(x)))
    case = tiny("sum")
    if library == "reshape":
        case = replace(case, kernel=2, stride=2, padding=0, size=6)
    with pytest.raises(compare.Mismatch, match=re.escape(f"sum {case.name}: {reason}")):
        measure(case, replace(options, peers=("plain", "reshape")))


@pytest.mark.parametrize("dtype", [jax.numpy.bfloat16, np.float16])
def test_numbers_of_16_bits_are_drawn_without_ties(dtype: type) -> None:
    case = tiny("global max")
    planes = np.moveaxis(compare.draw(case, np.dtype(dtype), (1,))["x"], -1, 0).reshape(case.channels, -1)
    assert all(len(set(plane.tolist())) == plane.size for plane in planes)


def test_rounds_are_fewer_for_what_is_slow() -> None:
    counts = {"fast": 0, "slow": 0}

    def run(name: str, seconds: float) -> timing.Run:
        def call() -> float:
            counts[name] += 1
            timing.time.sleep(seconds)
            return seconds

        return timing.Run(call)

    times = timing.alternate({"fast": run("fast", 0.001), "slow": run("slow", 0.02)}, 9, 0.01, "cpu")
    assert counts["slow"] == 3
    assert counts["slow"] <= counts["fast"] <= 9
    assert times["slow"] >= 20
    assert times["fast"] >= 1


def test_growth_and_dispatch(options: Options) -> None:
    name, studied = next(study for study in growth_cases(options) if "array, sum 3×3" in study[0])
    growth = measure_growth(name, {key: replace(case, size=8) for key, case in studied.items()}, options)
    for field in ("forward", "gradient", "compile_forward", "compile_gradient"):
        assert set(getattr(growth, field)) == {"1", "2", "4"}
    dispatch = measure_dispatch(*dispatch_cases()[0], options)
    assert dispatch.jaxpool > 0
    assert dispatch.plain > 0


def test_the_program_prints_and_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "cases", lambda batch: iter([tiny("sum"), tiny("global max")]))
    program.main(["--case", "whole", "--peers", "plain", "--repetitions", "1", "--output", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "global max whole" in printed
    assert "sum" not in printed.partition("summary")[0]
    numbers, plot = sorted(tmp_path.iterdir())
    assert (numbers.name, plot.name) == tuple(
        f"cpu-float32-jax-{jax.__version__}.{ending}" for ending in ("json", "png")
    )
    saved = json.loads(numbers.read_text(encoding="utf-8"))
    assert [made["group"] for made in saved["rows"]] == ["global max"]
    assert any(figure["count"] == 1 for figure in saved["summary"])
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert asdict(Row("max", "a", (1, 8, 8, 4), 3, 1)).keys() == saved["rows"][0].keys()


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    parsed = parse(["--dtype", "bfloat16", "--peers", "torch", "plain", "--batch", "2"])
    assert parsed.dtype == jax.numpy.bfloat16
    assert parsed.peers == ("plain", "torch")
    assert parsed.batch == 2
    assert parsed.folder is not None
    assert parse(["--case", "lp"]).folder is None
    assert parse(["--case", "lp", "--case", "sum"]).wants("sum 2×2")
    for wrong in (["--repetitions", "0"], ["--dtype", "int8"], ["--device", "tpu"]):
        with pytest.raises(SystemExit, match="2"):
            parse(wrong)
    assert "--device" in capsys.readouterr().err
