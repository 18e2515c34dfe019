"""`python -m jaxpool` as a user runs it, judged by exit status, output and files, and what it compares with.

A mistake of the user gives one line on the error stream and status 2; a variant that computes something wrong, in value
or in gradient, status 1. A small generated picture keeps it quick.
"""

import dataclasses
import os
import subprocess
import sys
import types
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxpool
from jaxpool import morphology
from jaxpool.__main__ import main
from tests.harness.compilation import flags
from tests.project.importing import public_members

matplotlib_image = pytest.importorskip("matplotlib.image")
pytest.importorskip("rich")

from examples.demonstration import measure, picture, report, variants  # noqa: E402
from examples.demonstration.size import Rule, Size  # noqa: E402


@pytest.fixture
def small_picture(tmp_path: Path) -> Path:
    """A picture of 24×20 cells with three channels and a black corner, where windows are all ties and zeros."""
    cells = np.random.default_rng(1).integers(0, 256, (24, 20, 3), np.uint8)
    cells[:8, :8] = 0
    path = tmp_path / "small.png"
    matplotlib_image.imsave(path, cells)
    return path


@pytest.fixture
def one_row(monkeypatch: pytest.MonkeyPatch) -> variants.Variant:
    """The table cut down to the average, by one rule."""
    row = next(row for row in variants.VARIANTS if row.name == "avg_pool")
    row = dataclasses.replace(row, rules=("vjp",))
    monkeypatch.setattr(variants, "VARIANTS", (row,))
    return row


def run(*arguments: str | Path, folder: Path, code: tuple[str, ...] = ("-m", "jaxpool")) -> subprocess.CompletedProcess:
    # The times in its table are not checked.
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags()}
    environment["PYTHONPATH"] = str(Path(jaxpool.__file__).parents[1])
    command = [sys.executable, *code, *map(str, arguments)]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=300
    )


@pytest.mark.slow
def test_every_variant_is_run_checked_and_drawn(small_picture: Path, tmp_path: Path) -> None:
    result = run(small_picture, "--kernel", "2", "--rules", "both", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert not result.stderr.strip()
    table, summary = result.stdout.rstrip().split("\n\n")
    rows = iter(table.splitlines()[2:])
    for variant in variants.VARIANTS:
        assert next(rows).startswith(f"{variant.name} ")
        if "vjp" in variant.rules:
            assert next(rows).startswith('  rule="vjp" ')
    assert not list(rows)
    assert max(map(len, result.stdout.splitlines())) <= 100
    assert summary.startswith("all well")
    assert summary.endswith("jaxpool.png")
    figure = matplotlib_image.imread(tmp_path / "jaxpool.png")
    assert figure.shape[1] == 1404
    assert figure[..., :3].std() > 0.1


def test_the_table_has_a_row_for_every_public_function() -> None:
    public = {name for name, value in vars(jaxpool).items() if callable(value) and not name.startswith("_")}
    operators = {f"morphology.{name}" for name in public_members(morphology)}
    public -= {"portable", "compiling_for", "bins", "footprint"}
    assert {row.function for row in variants.VARIANTS} == public | operators
    names = [row.name for row in variants.VARIANTS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("absent.png",), "no picture absent.png"),
        (("text.png",), "text.png cannot be read as a picture"),
        ((".",), "cannot be read as a picture"),
        (("small.png", "--kernel", "21"), "--kernel 21 is larger than the picture of 24×20 cells; give at most 20"),
        (("small.png", "--kernel", "0"), "argument --kernel: must be at least 1, got 0"),
        (("small.png", "--stride", "-1"), "argument --stride: must be at least 1, got -1"),
        (("small.png", "--kernel", "two"), "argument --kernel: must be a whole number, got 'two'"),
        (("small.png", "--out", "absent/figure.png"), "--out absent/figure.png cannot be written: No such file"),
        (("small.png", "--out", "figure.doc"), "--out figure.doc must end in one of .png"),
        (("small.png", "another.png"), "unrecognized arguments: another.png"),
        (("small.png", "--pools", "avg_pool,maxpool"), "--pools: there is no pool 'maxpool'; there are max_pool, "),
    ],
)
def test_a_mistake_gives_one_line_and_status_2(
    small_picture: Path,
    tmp_path: Path,
    arguments: tuple[str, ...],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "text.png").write_text("no picture at all\n")
    before = sorted(tmp_path.iterdir())
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("python -m jaxpool: ")
    assert reason in captured.err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("module", ["matplotlib", "rich"])
def test_a_missing_extra_is_named(module: str, tmp_path: Path) -> None:
    hidden = f"import sys, runpy; sys.modules[{module!r}] = None; runpy.run_module('jaxpool', run_name='__main__')"
    result = run(folder=tmp_path, code=("-c", hidden))
    assert result.returncode == 2
    assert result.stderr == 'python -m jaxpool needs matplotlib and rich: pip install "jaxpool[demo]"\n'
    assert result.stdout == ""


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    helped = capsys.readouterr().out
    assert all(
        word in helped for word in ("image", "--kernel", "--stride", "--out", "--pools", "--rules", "exit status")
    )


def test_few_pools_are_drawn_in_one_row(
    one_row: variants.Variant, small_picture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "figure.png"
    assert main([str(small_picture), "--kernel", "3", "--pools", "avg_pool, avg_pool", "--out", str(out)]) == 0
    assert capsys.readouterr().out.count("\n  rule=") == 2
    height, width, _ = matplotlib_image.imread(out).shape
    assert width > 2 * height > 0.8 * width


@pytest.mark.parametrize(("kernel", "stride", "side", "step"), [(4, 4, 24, 4), (2, 1, 7, 14), (200, 200, 512, 1)])
def test_the_detail_is_six_windows_of_the_middle(kernel: int, stride: int, side: int, step: int) -> None:
    cells = np.random.default_rng(3).uniform(size=(600, 512, 3))
    found = picture.detail_of(cells, Size(kernel, stride))
    assert found.cells.shape == (side, side, 1)
    assert (found.cells.min(), found.cells.max(), found.step) == (0, 1, step)
    part = cells[found.top : found.top + step, found.left : found.left + step].mean()
    last = cells[found.top + (side - 1) * step :, found.left + (side - 1) * step :][:step, :step].mean()
    assert np.sign(found.cells[0, 0, 0] - found.cells[-1, -1, 0]) == np.sign(part - last)
    assert found.left == (512 - side * step) // 2


@pytest.mark.parametrize("wrong", ["values", "gradient", "nan"])
def test_a_wrong_row_gives_status_1(
    one_row: variants.Variant,
    wrong: str,
    small_picture: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def planted(x: jax.Array, size: Size, rule: Rule) -> jax.Array:
        values = one_row.pool(x, size, rule)
        assert isinstance(values, jax.Array)
        if wrong == "values":
            return values + 1e-4
        if wrong == "nan":
            return values.at[0, 0, 0].set(np.nan)
        return 1.0001 * values - 0.0001 * jax.lax.stop_gradient(values)

    monkeypatch.setattr(variants, "VARIANTS", (dataclasses.replace(one_row, pool=planted),))
    assert main([str(small_picture), "--kernel", "2", "--out", str(tmp_path / "figure.png")]) == 1
    assert "OUT OF TOLERANCE: avg_pool (vjp)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (np.full((2, 3), 51, np.uint8), 0.2),
        (np.full((2, 3, 1), 65535, np.uint16), 1.0),
        (np.stack([np.full((2, 3), 0.5, np.float32), np.zeros((2, 3), np.float32)], -1), 0.5),
        (np.concatenate([np.full((2, 3, 3), 0.25), np.zeros((2, 3, 1))], -1), 0.25),
    ],
)
def test_pictures_become_float32_with_three_channels(
    cells: np.ndarray, expected: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(picture, "image", types.SimpleNamespace(imread=lambda path: cells))
    found = picture.read_picture(tmp_path)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.full((2, 3, 3), expected, np.float32))


@pytest.mark.parametrize("row", [row for row in variants.VARIANTS if row.tiled and row.plain], ids=lambda row: row.name)
def test_windows_side_by_side_are_written_in_another_way(row: variants.Variant) -> None:
    x = jax.numpy.asarray(np.random.default_rng(2).uniform(size=(7, 9, 3)).astype(np.float32))
    first, second = (way(x, Size(3, 3)) for way in row.ways(Size(3, 3)))
    assert isinstance(first, jax.Array)
    np.testing.assert_allclose(first, second, rtol=1e-6)
    assert row.ways(Size(3, 2)) == [row.plain]


def test_a_wrong_index_is_out_of_tolerance() -> None:
    positions = np.arange(100_000, dtype=np.int32)
    assert measure.difference(positions, positions) == 0
    assert measure.difference(positions + (positions == 7), positions) > report.TOLERANCE
