"""What is published: a wheel with only the package, which works by itself, and the sources from which it is built."""

import json
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import jaxpool
from tests.project import smoke
from tests.registry.records import RECORDS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def build(sources: Path, target: str, folder: Path) -> Path:
    """Build in this environment, without downloading anything."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    done = subprocess.run(command, cwd=sources, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.iterdir()
    return built


# One process builds the packages.
pytestmark = pytest.mark.xdist_group("packages")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_wheel_holds_the_package_alone(wheel: Path) -> None:
    assert wheel.name == f"jaxpool-{jaxpool.__version__}-py3-none-any.whl"
    information = f"jaxpool-{jaxpool.__version__}.dist-info"
    sources = {path for path in (ROOT / "jaxpool").rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {path.suffix for path in sources} == {".py", ".typed"}
    package = {str(path.relative_to(ROOT)) for path in sources}
    assert {"jaxpool/py.typed", "jaxpool/_windows/choices.py"} <= package
    described = {f"{information}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")}
    assert set(contents(wheel)) == package | described
    assert contents(wheel)[f"{information}/licenses/LICENSE"] == (ROOT / "LICENSE").read_bytes()


def test_wheel_depends_on_jax_and_numpy_alone(wheel: Path) -> None:
    metadata = contents(wheel)[f"jaxpool-{jaxpool.__version__}.dist-info/METADATA"].decode()
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert {line.split()[1].split(">")[0] for line in required} == {"jax", "jaxlib", "numpy"}
    assert f"Requires-Python: {PROJECT['requires-python']}" in metadata
    assert "License-Expression: Apache-2.0" in metadata


@pytest.mark.slow
def test_wheel_works_alone(wheel: Path, tmp_path: Path) -> None:
    options = ["--quiet", "--no-index", "--no-deps", "--target"]
    command = [sys.executable, "-m", "pip", "install", *options, tmp_path, wheel]
    installed = subprocess.run(command, capture_output=True, text=True)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    # Without -S an editable install would be found, by way of its .pth file.
    launch = "import runpy, sys; sys.path[:0] = sys.argv[2:]; runpy.run_path(sys.argv[1], run_name='__main__')"
    folders = dict.fromkeys([str(tmp_path), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    command = [sys.executable, "-I", "-S", "-W", "error", "-c", launch]
    done = subprocess.run([*command, smoke.__file__, *folders], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    program = str(tmp_path / "jaxpool" / "__main__.py")
    demonstration = subprocess.run([*command, program, *folders], cwd=tmp_path, capture_output=True, text=True)
    assert (demonstration.returncode, demonstration.stdout, demonstration.stderr.count("\n")) == (2, "", 1)
    assert "in a copy of the repository" in demonstration.stderr
    assert json.loads(done.stdout) == {
        "package": str(tmp_path / "jaxpool" / "__init__.py"),
        "version": jaxpool.__version__,
        # And `portable`, `compiling_for`, `bins` and `footprint`.
        "functions": len(RECORDS) + 4,
    }


def test_sources_work_where_nothing_is_installed(tmp_path: Path) -> None:
    # Nothing may ask for the version of a distribution; this environment may have one installed.
    launch = "import sys; sys.path[:0] = sys.argv[1:]; import importlib.metadata; importlib.metadata.version = None; "
    launch += "import jaxpool; print(jaxpool.__version__)"
    folders = dict.fromkeys([str(ROOT), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    command = [sys.executable, "-I", "-S", "-c", launch, *folders]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip() == jaxpool.__version__


def test_sdist_builds_the_same_wheel(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    name = f"jaxpool-{jaxpool.__version__}"
    assert sdist.name == f"{name}.tar.gz"
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    sources = tmp_path / name
    assert {"README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", "examples", "jaxpool", "tests"} <= {
        path.name for path in sources.iterdir()
    }
    assert contents(build(sources, "wheel", tmp_path / "rebuilt")) == contents(wheel)


def test_citation_is_of_this_version() -> None:
    lines = (ROOT / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert f"version: {jaxpool.__version__}" in lines
    assert f"license: {PROJECT['license']}" in lines
