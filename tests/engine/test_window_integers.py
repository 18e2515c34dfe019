"""Where windows are, in integers: closed forms against windows written out cell by cell, and sizes near the limits."""

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from jaxpool import _window as geometry
from tests.harness.compilation import compiled_fast
from tests.registry.cases import distinct
from tests.registry.records import RECORDS, names, slow_but

# By default a pool that selects, and one that counts.
FUNCTIONS = slow_but(("max_pool_with_indices", "avg_pool"), names(lambda record: record.windows == "fixed"))


def windows(count: int) -> Iterator[geometry.Window]:
    """Windows along one axis of random sizes."""
    random = np.random.default_rng(0)
    for _ in range(count):
        size, kernel, stride, dilation = (int(random.integers(1, most)) for most in (30, 8, 7, 6))
        padding = tuple(random.integers(0, 9, 2).tolist())
        try:
            given = (kernel,), (stride,), (padding,), (dilation,), bool(random.integers(2)), None
            yield geometry.make_window("f", (size,), given)
        except ValueError:
            continue


def cells_of(axis: geometry.WindowAxis) -> list[list[int]]:
    """The cells of every window, those in the padding included."""
    return [[o * axis.stride - axis.low + j * axis.dilation for j in range(axis.kernel)] for o in range(axis.output)]


def test_closed_forms() -> None:
    for window in windows(600):
        (axis,) = window.axes
        cells, every = cells_of(axis), np.arange(axis.output)
        covered = np.isin(np.arange(axis.size), np.concatenate([np.array(each) for each in cells]))
        np.testing.assert_array_equal(np.broadcast_to(axis.covered(1), covered.shape), covered, str(axis))
        assert (axis.covered(1) is True) == covered.all(), axis
        for padding in (False, True):
            low, high = (axis.low, axis.high) if padding else (0, 0)
            held = np.array([sum(-low <= cell < axis.size + high for cell in each) for each in cells])
            np.testing.assert_array_equal(axis.held_by(every, padding=padding), held, str(axis))
            np.testing.assert_array_equal(np.broadcast_to(axis.counts(1, padding=padding), held.shape), held)
        held = np.broadcast_to(axis.held_by(every, padding=False), every.shape)
        assert window.is_full == (held == axis.kernel).all()
        assert window.possible_counts() == tuple(np.unique(held).tolist())
        np.testing.assert_array_equal(held[axis.kinds()][axis.kind(1)], held, str(axis))
        for cell in range(-3, axis.size + 3):
            assert axis.first_from(cell) == np.searchsorted(axis.start(every), cell)
        try:
            window.check_no_window_of_padding("f", "fix")
        except ValueError as error:
            assert f"window {np.argmin(held)} " in str(error)  # noqa: PT017
            assert not held.all()
        else:
            assert held.all(), axis


def test_windows_far_apart_cover_the_same_on_the_device() -> None:
    axis = geometry.WindowAxis(0, 400_000, 3, 100_003, 2, 0, 0, 4)
    covered = np.isin(np.arange(axis.size), np.ravel(cells_of(axis)))
    np.testing.assert_array_equal(axis.covered(1), covered)


PLACED: dict[str, dict[str, Any]] = {
    "padded": {"kernel_size": (3, 2), "stride": (2, 1), "padding": ((1, 0), (0, 1))},
    "dilated": {"kernel_size": (2, 3), "stride": (1, 3), "dilation": (3, 2), "padding": 1},
    "partial": {"kernel_size": (2, 2), "stride": (3, 2), "padding": (1, 0), "ceil_mode": True},
    "footprint": {"kernel_size": jaxpool.footprint(np.array([[0, 1, 0], [1, 0, 1]], bool)), "stride": 1, "padding": 1},
    "bins": {"kernel_size": jaxpool.bins(4, 3)},
    "more bins": {"kernel_size": jaxpool.bins(9, 5)},
    "many more bins": {"kernel_size": jaxpool.bins(40, 13)},
}


@pytest.mark.parametrize("name", slow_but(["avg_pool"], ("max_pool", "avg_pool", "lp_pool", "median_pool", "var_pool")))
def test_long_axes_have_no_tables_but_the_same_results(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, mask = jnp.asarray(distinct((7, 8), "tables")), jnp.asarray(np.random.default_rng(0).random((7, 8)) < 0.7)

    def everything(x: jax.Array) -> Any:
        def outputs(x: jax.Array, placed: dict[str, Any], where: Any) -> Any:
            found = jax.tree.leaves(getattr(jaxpool, name)(x, **RECORDS[name].options | placed, where=where))
            return (found[0] ** 2).sum(), found

        slopes = jax.grad(outputs, has_aux=True)
        # Half of the windows with each mask.
        return [slopes(x, placed, (None, mask)[number % 2]) for number, placed in enumerate(PLACED.values())]

    expected = compiled_fast(everything)(x)
    monkeypatch.setattr(geometry, "MOST_IN_TABLE", 0)
    jax.clear_caches()
    try:
        found = compiled_fast(lambda x: everything(x))(x)
    finally:
        jax.clear_caches()
    jax.tree.map(lambda *pair: np.testing.assert_allclose(*pair, rtol=1e-12, atol=1e-12), found, expected)


@pytest.mark.parametrize("pool", ["avg_pool", "gem_pool", "smooth_max_pool", "mellowmax_pool", "soft_pool", "lp_pool"])
def test_footprints_beyond_the_padding_are_empty(pool: str) -> None:
    # The only cell of the only window is beyond the end.
    beyond = jaxpool.footprint(np.array([False, False, True]))
    number = () if pool == "avg_pool" else (2.0,)
    assert getattr(jaxpool, pool)(jnp.array([1.0, 2.0]), *number, beyond, ceil_mode=True).tolist() == [0]


# Sizes that no array has, with strides that let one window be partial, and windows over the whole axis that are equal.
OVERSIZED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "whole": ({"kernel_size": (2**63 - 1,)}, {"kernel_size": (8,)}),
    "padded": ({"kernel_size": (2**40,), "padding": ((1, 2),)}, {"kernel_size": (11,), "padding": ((1, 2),)}),
    "apart": (
        {"kernel_size": (2**40,), "stride": 2**43, "dilation": 3, "padding": 1},
        {"kernel_size": (4,), "dilation": 3, "padding": 1},
    ),
    "far": ({"kernel_size": (3,), "stride": 2**75, "dilation": 2**70}, {"kernel_size": (1,), "stride": 8}),
    "one": ({"kernel_size": (1,), "stride": 2, "dilation": 2**70}, {"kernel_size": (1,), "stride": 2}),
    "copies": (
        {"kernel_size": (2**40,), "padding": (("REFLECT", (1, 2)),)},
        {"kernel_size": (11,), "padding": (("REFLECT", (1, 2)),)},
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_oversized_windows_are_those_over_the_whole_axis(name: str) -> None:
    x = jax.ShapeDtypeStruct((2, 8), np.float32)

    def program(**arguments: Any) -> str:
        def pool(x: jax.Array) -> tuple[jax.Array, Any]:
            options = {"padding": 0, "ceil_mode": True, **RECORDS[name].options, **arguments}
            outputs = getattr(jaxpool, name)(x, **options)
            return jax.tree.leaves(outputs)[0].sum(), outputs

        return jax.jit(jax.grad(pool, has_aux=True)).lower(x).as_text()

    for given, expected in OVERSIZED.values():
        assert program(**given) == program(**expected), given


def test_values_of_oversized_windows() -> None:
    x = distinct((2, 8), "oversized")
    options: dict[str, Any] = {"kernel_size": (2**63 - 1,), "padding": ((1, 2),), "ceil_mode": True}
    values, indices = jaxpool.max_pool_with_indices(x, **options)
    np.testing.assert_array_equal((values[:, 0], indices[:, 0]), (x.max(1), x.argmax(1)))
    # The declared padding, of 1 and 2 cells, is counted.
    np.testing.assert_allclose(jaxpool.avg_pool(x, **options)[:, 0], x.sum(1) / 11, rtol=1e-12)
    np.testing.assert_allclose(jaxpool.median_pool(x, **options)[:, 0], np.median(x, 1), rtol=1e-12)


@pytest.mark.usefixtures("for_this_platform")
@pytest.mark.parametrize("name", [*FUNCTIONS, *names(lambda record: record.windows == "whole")])
def test_many_cells_are_pooled_or_refused(name: str) -> None:
    """Indices, masks and ranks count the cells of a window in int32, and no axis is longer than it says."""
    counts = name.startswith(("median", "quantile", "top_k", "stochastic")) or name.endswith("indices")

    def check(masked: bool, *shape: int) -> None:
        axes = tuple(range(len(shape)))
        windows = {} if RECORDS[name].windows == "whole" else {"kernel_size": jaxpool.whole}

        def total(x: jax.Array, mask: Any = None) -> jax.Array:
            options = {**RECORDS[name].options, **windows, "axis": axes, "where": mask}
            return jax.tree.leaves(getattr(jaxpool, name)(x, **options))[0].sum()

        arrays = [jax.ShapeDtypeStruct(shape, dtype) for dtype in (np.float32, bool)[: 1 + masked]]
        lower = jax.jit(jax.value_and_grad(total)).lower
        if max(shape) >= 2**31 or ((masked or counts) and math.prod(shape) >= 2**31):
            with pytest.raises(ValueError, match=f"^{name}: .*int32"):
                lower(*arrays)
        else:
            assert "ui64" not in lower(*arrays).as_text()

    # As most users have it: without integers of 64 bits.
    with jax.enable_x64(False):
        for masked in (False, True):
            check(masked, 46341, 46341)
        check(False, 65536, 65537)
        check(False, 3, 2**31)
        check(True, 2**32 + 1)
