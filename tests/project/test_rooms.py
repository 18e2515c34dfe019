"""How many files a call goes through: the modules whose functions run while a pool and its gradient are traced.

A reader who follows a call opens these files, so they are counted, by a profile of one call for one device, as on a CPU
and as on a GPU: from the public function to the last operation of `lax`, and back for the gradient. Modules that are
only imported do not count. `python -m tests.project.test_rooms` prints the modules of every pool; with names, of these.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple
from unittest.mock import patch

import jax
import jax.numpy as jnp
import pytest

import jaxpool
from tests.harness.parts import case_row

PACKAGE = Path(jaxpool.__file__).parent
PLATFORMS = ("cuda", "cpu")
# Images, channels last and channels first: each layout may have lowerings of its own.
LAYOUTS: dict[tuple[int, int], tuple[int, ...]] = {(-3, -2): (8, 28, 28, 16), (-2, -1): (8, 16, 28, 28)}


class Bound(NamedTuple):
    """The largest number of modules that a pool may enter, and the number that is wanted."""

    cuda: int
    cpu: int
    wanted_cuda: int
    wanted_cpu: int


_WINDOWS: dict[str, Any] = {"kernel_size": (3, 3), "stride": 2, "padding": 1}
POOLS: dict[str, tuple[dict[str, Any], Bound]] = {
    "max_pool": (_WINDOWS, Bound(19, 19, 15, 17)),
    "avg_pool": (_WINDOWS, Bound(18, 18, 12, 12)),
    "lp_pool": ({"norm_type": 3.0, **_WINDOWS}, Bound(23, 24, 18, 18)),
    "smooth_max_pool": ({"beta": 2.0, **_WINDOWS}, Bound(23, 24, 18, 18)),
    "soft_pool": ({"beta": 2.0, **_WINDOWS}, Bound(22, 23, 18, 18)),
    "median_pool": (_WINDOWS, Bound(21, 21, 14, 14)),
    "adaptive_avg_pool": ({"output_size": (5, 3)}, Bound(20, 19, 14, 14)),
}


@contextmanager
def _modules_entered() -> Iterator[set[str]]:
    """The modules of the package in which a function runs within this context, in this thread."""
    code_run: set[str] = set()

    def notice(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            code_run.add(frame.f_code.co_filename)

    modules: set[str] = set()
    before = sys.getprofile()
    sys.setprofile(notice)
    try:
        yield modules
    finally:
        sys.setprofile(before)
        files = (Path(file) for file in code_run)
        modules.update(file.relative_to(PACKAGE).as_posix()[:-3] for file in files if file.is_relative_to(PACKAGE))


def _forget_everything() -> None:
    """Forget what has been traced, so that no function is passed over because its result is known."""
    jax.clear_caches()
    for name, module in [*sys.modules.items()]:
        if name.startswith("jaxpool."):
            for value in vars(module).values():
                if clear := getattr(value, "cache_clear", None):
                    clear()


def rooms(pool: Callable[..., jax.Array], platform: str, **arguments: Any) -> set[str]:
    """The modules that value and gradient of a pool enter, in either layout the most."""
    found = []
    for axis, shape in LAYOUTS.items():
        program = jax.jit(jax.value_and_grad(lambda x, axis=axis: pool(x, axis=axis, **arguments).sum()))
        _forget_everything()
        # For the default platform a pool chooses what it keeps for its backward pass.
        with patch.object(jax, "default_backend", lambda: platform), _modules_entered() as modules:
            program.trace(jax.ShapeDtypeStruct(shape, jnp.float32)).lower(lowering_platforms=(platform,))
        found.append(modules)
    return max(found, key=len)


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize(
    "name", [case_row(name, id=name, kept=name in ("max_pool", "lp_pool", "adaptive_avg_pool")) for name in POOLS]
)
def test_pool_enters_no_more_modules(name: str, platform: str) -> None:
    arguments, bound = POOLS[name]
    modules = rooms(getattr(jaxpool, name), platform, **arguments)
    most = bound.cuda if platform == "cuda" else bound.cpu
    assert len(modules) <= most, f"{len(modules)} modules for {platform}, at most {most}: {sorted(modules)}"


def test_modules_are_noticed() -> None:
    modules = rooms(jaxpool.max_pool, "cpu", **_WINDOWS)
    assert {"_max", "_geometry/window", "_derivatives/extremes"} <= modules
    assert "_lp" not in modules
    # The second time nothing is known from the first.
    assert rooms(jaxpool.max_pool, "cpu", **_WINDOWS) == modules


def main(names: list[str]) -> None:
    """Print how many modules pools enter, how many are wanted, and which ones they are."""
    for name in names or POOLS:
        arguments, bound = POOLS[name]
        for platform in PLATFORMS:
            modules = rooms(getattr(jaxpool, name), platform, **arguments)
            wanted = bound.wanted_cuda if platform == "cuda" else bound.wanted_cpu
            print(f"{name} on {platform}: {len(modules)} modules, {wanted} wanted")
            print("   ", "\n    ".join(sorted(modules)))


if __name__ == "__main__":
    main(sys.argv[1:])
