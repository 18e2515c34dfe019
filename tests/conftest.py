"""The settings under which tests run: float64 on, no silent promotion, programs that compile fast, a share of tables.

The first two apply only to the tests in this folder: examples in docstrings and pages print what a default session
prints. Programs are compiled without optimisation unless a test asks for it.
"""

import gc
import math
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import jax
import pytest

import jaxpool
from jaxpool._platforms import default_platform
from tests.harness.compilation import compile_fast_from_now_on

# In these folders the default part runs one row in eight of every table, and both parts run one in five, also of the
# rows that a table itself leaves to the slow part; the others are spare. Not where rows are few by design.
SHARE, SHARE_OF_BOTH_PARTS = 1 / 8, 1 / 5
SAMPLED = {
    "engine",
    "mistakes",
    "peers",
    "pools",
}
WHOLE_TABLES = {"test_sharding.py", "test_nestings.py"}


def pytest_configure() -> None:
    """Compile fast, and collect garbage rarely: tracing makes millions of small objects, few of them garbage."""
    compile_fast_from_now_on()
    gc.set_threshold(200_000, 20, 100)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave most rows of tables to other parts: other rows in each table, so that all are met somewhere."""
    tables = defaultdict[tuple[Path, str, bool], list[pytest.Item]](list)
    for item in items:
        if hasattr(item, "callspec") and item.path.parent.name in SAMPLED and item.path.name not in WHOLE_TABLES:
            is_slow = item.get_closest_marker("slow") is not None
            tables[item.path, item.name.partition("[")[0], is_slow].append(item)
    for (_, _, is_slow), rows in tables.items():
        rows.sort(key=lambda item: zlib.crc32(item.name.encode()))
        for share, mark in ((1 if is_slow else SHARE, "slow"), (SHARE_OF_BOTH_PARTS, "spare")):
            for item in rows[math.ceil(len(rows) * share) :]:
                item.add_marker(mark)


@pytest.fixture(autouse=True)
def _strict_float64() -> Iterator[None]:
    with jax.enable_x64(True), jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise"):
        yield


@pytest.fixture
def for_this_platform(request: pytest.FixtureRequest) -> Iterator[None]:
    """Trace only the lowerings of this machine's platform, in half the time, except for tests marked `every_platform`.

    Otherwise a program contains the lowerings of all platforms, for separate tests and those of transformations.
    """
    if "every_platform" in request.keywords:
        yield
    else:
        with jaxpool.compiling_for(default_platform()):
            yield
