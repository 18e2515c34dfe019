"""Second and third derivatives by every nesting of forward and reverse mode, against a reference of its own.

There are four nestings of two derivatives and eight of three, each along a direction of its own, in the cells and in
the other arguments with derivatives. The reference is arithmetic with `jets`, from the definitions: it knows no
modes. The same programs scatter nothing, for any platform, nor on two devices (`sharded_values`): JAX transposes
gathers into scatters, which add in the order in which a device works. Programs of all nestings are long, so windows
hold few cells; the first axis of every array has an even size, for two devices.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
import pytest

import jaxpool
from tests.harness.nestings import check_nestings, lowered, scatters
from tests.reference import jets
from tests.reference.jets import Jet
from tests.registry.cases import Case, distinct
from tests.registry.records import RECORDS, row

Array = np.ndarray

_MASK = np.array([[0, 0, 0, 1, 1, 0, 1], [1, 1, 0, 1, 1, 1, 1]], bool)
_CORNER = jaxpool.footprint([[True, True], [True, False]])
# The shape of the array, and the arguments that place windows: two rows of cells, or a plane.
WINDOWS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 7), {"kernel_size": (3,)}),
    "overlapping": ((4, 5), {"kernel_size": (2, 3), "stride": 1, "padding": ((1, 0), (0, 1))}),
    "dilated": ((2, 7), {"kernel_size": (3,), "stride": 2, "padding": 1, "dilation": 2}),
    "copies": ((2, 7), {"kernel_size": (3,), "stride": 2, "padding": "REFLECT"}),
    "bins of planes": ((4, 5), {"kernel_size": jaxpool.bins(3, 2)}),
    "more bins": ((2, 3), {"kernel_size": jaxpool.bins(5)}),
    "footprint": ((4, 5), {"kernel_size": _CORNER, "stride": 1, "padding": ((0, 1), (1, 0))}),
    "whole": ((2, 7), {"kernel_size": jaxpool.whole, "axis": (0, 1)}),
    "masked": ((2, 7), {"kernel_size": (3,), "stride": 2, "padding": 1, "where": _MASK}),
    "masked bins": ((2, 7), {"kernel_size": jaxpool.bins(3), "where": _MASK}),
}
# For functions that take other sizes.
_SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "blurred": {"blurred": {"kernel_size": (3,), "stride": 2}},
    "bins": {"bins": {"output_size": (3,)}, "masked bins": {"output_size": (3,), "where": _MASK}},
    "whole": {"whole": {"axis": -1}, "masked": {"axis": -1, "where": _MASK}},
    "levels": {"levels": {"levels": ((1,), (3,))}},
    "random": {"random": {"kernel_size": (2,), "output_size": (4,), "samples": np.array([[0.1], [0.7]])}},
    "indices": {"indices": {"indices": np.array([[3, 3, 5, -1, 0, 8, 1]] * 2), "output_size": (9,)}},
}
# Functions with a curvature, and their arguments with derivatives: a number, or an array of the shape of x.
_CURVED: dict[str, tuple[str, float | None]] = {
    "lp_pool": ("norm_type", 2.5),
    "gem_pool": ("norm_type", 3.0),
    "smooth_max_pool": ("beta", 1.5),
    "mellowmax_pool": ("beta", -1.5),
    "soft_pool": ("beta", 0.75),
    "mixed_pool": ("alpha", 0.3),
    "var_pool": ("", None),
    "weighted_pool": ("weights", None),
    "attention_pool": ("logits", None),
    "global_gem_pool": ("norm_type", 3.0),
}
# What a number is given as: a Python number, one array, one number per row, and one per window along an axis.
_FORMS = ("number", "array", "rows", "windows")
# Which arguments each of the three derivatives is in.
LEVELS = (("both", "both", "both"), ("x", "other", "x"), ("other", "both", "other"), ("other", "x", "both"))
# The default part: each mechanism, most sorts of windows, and each form.
_KEPT = (
    *("lp_pool-whole", "var_pool-bins of planes", "weighted_pool-whole", "mixed_pool-dilated"),
    *("max_pool_with_indices-footprint", "max_unpool-indices", "morphology.opening", "roi_align-0"),
)


@dataclass(frozen=True, eq=False)
class Row:
    """A pool as a function of arrays by name, with its reference, which is a function of jets.

    Attributes:
        name: Unique among all rows.
        levels: The names of the arrays that each of three derivatives is in.
        rules: By which the pool is differentiated.
    """

    name: str
    arrays: Mapping[str, Array]
    pool: Callable[..., jax.Array]
    expected: Callable[..., Jet]
    levels: Sequence[Sequence[str]]
    rules: Sequence[str] = ("jvp",)

    @property
    def kept(self) -> bool:
        """Whether it is in the default part."""
        return self.name in _KEPT


def _row_of(case: Case, argument: str, levels: Sequence[str], rules: Sequence[str]) -> Row:
    """The row of a case that is differentiated in x, and in this argument if that is an array."""
    others = {argument: case.parameters[argument]} if isinstance(case.parameters.get(argument), Array) else {}
    constant = {name: one for name, one in case.parameters.items() if name not in others}

    def pool(rule: str, x: jax.Array, **others: jax.Array) -> jax.Array:
        return replace(case, parameters={**constant, **others}).values(x, rule)

    def expected(**arrays: Jet) -> Jet:
        return jets.evaluate(case.function, arrays, **constant)

    name = f"{case.function}-{case.geometry}"
    return Row(name, {"x": case.x, **others}, pool, expected, _in_arrays(levels, *others), rules)


def _in_arrays(levels: Sequence[str], *others: str) -> list[list[str]]:
    names = {"x": ["x"], "other": [*others] or ["x"], "both": ["x", *others]}
    return [names[level] for level in levels]


def curved_rows() -> Iterator[Row]:
    """Every function with a curvature with every sort of window; forms of numbers, levels and rules alternate."""
    for place, (function, (argument, number)) in enumerate(_CURVED.items()):
        own_sizes = _SIZES.get(RECORDS[function].windows)
        windows = WINDOWS if own_sizes is None else {name: ((2, 7), sizes) for name, sizes in own_sizes.items()}
        if function == "gem_pool":
            # It has the rule of `lp_pool`.
            windows = dict([*windows.items()][1::2])
        for turn, (kind, (shape, sizes)) in enumerate(windows.items(), place):
            case = Case(function, kind, shape, sizes)
            if number is not None:
                case = _with(case, argument, number)
                case = _with(case, argument, _in_form(_FORMS[turn % len(_FORMS)], number, case))
            elif argument:
                case = _with(case, argument, 1.5 + distinct(shape, argument, spread=2.0))
            rules = ("jvp", "vjp") if turn % 5 == 0 else ("jvp",)
            yield _row_of(case, argument, LEVELS[turn // 4 % len(LEVELS)], rules)


def _with(case: Case, argument: str, value: Any) -> Case:
    return replace(case, parameters={**case.parameters, argument: value})


def _in_form(form: str, number: float, case: Case) -> float | Array:
    *rows, windows = case.expected.values.shape
    if form == "number":
        return number
    if form == "array" or windows == 1:
        return np.array(number)
    if form == "rows" and rows[0] == 2:
        return number * np.linspace(1, 1.5, 2).reshape(2, 1)
    return number * np.linspace(1, 1.5, windows)


def other_rows() -> Iterator[Row]:
    """Every other function but those of boxes, with some of the windows: linear near x, or formulas of curved ones."""
    others = [record for name, record in RECORDS.items() if name not in _CURVED and record.windows != "boxes"]
    for place, record in enumerate(others):
        windows = {kind: ((2, 7), sizes) for kind, sizes in _SIZES.get(record.windows, {}).items()}
        for kind in windows or [*WINDOWS][place % 4 :: 4]:
            shape, sizes = windows[kind] if windows else WINDOWS[kind]
            case = Case(record.function, kind, shape, {**sizes, **record.options})
            yield _row_of(case, "", ("x",) * 3, ("jvp", "vjp") if record.has_rule and place % 2 else ("jvp",))


def box_rows() -> Iterator[Row]:
    """Pools of boxes; those of `roi_align` have derivatives, too."""
    boxes = np.array([[0.3, 0.7, 3.2, 3.8], [-1.6, 1.1, 1.2, 4.4]])
    variants: tuple[tuple[str, dict[str, Any], Sequence[str]], ...] = (
        ("roi_align", {}, LEVELS[0]),
        ("roi_align", {"aligned": False, "sampling_ratio": 3}, LEVELS[3]),
        ("roi_pool", {}, ("x",) * 3),
    )
    for number, (function, options, levels) in enumerate(variants):
        others = {} if function == "roi_pool" else {"boxes": boxes}
        constant = {"output_size": (2, 2), **options, **({} if others else {"boxes": boxes})}

        def pool(rule: str, x: jax.Array, function: str = function, constant: Any = constant, **others: Any) -> Any:
            return getattr(jaxpool, function)(x, **constant, **others)

        def expected(function: str = function, constant: Any = constant, **arrays: Jet) -> Jet:
            return jets.evaluate(function, arrays, **constant)

        arrays = {"x": distinct((4, 5), function), **others}
        yield Row(f"{function}-{number}", arrays, pool, expected, _in_arrays(levels, *others))


def morphology_rows() -> Iterator[Row]:
    """Dilations, erosions and their chains, whose element has derivatives, too."""
    for number, function in enumerate(jets.CHAINS):

        def pool(rule: Any, x: jax.Array, element: jax.Array, function: str = function) -> jax.Array:
            return getattr(jaxpool.morphology, function)(x, element, rule=rule)

        def expected(function: str = function, **arrays: Jet) -> Jet:
            return jets.evaluate(function, arrays)

        arrays = {"x": distinct((4, 5), function), "element": distinct((2, 3), "element", spread=1.0)}
        levels = _in_arrays(LEVELS[number % len(LEVELS)], "element")
        yield Row(f"morphology.{function}", arrays, pool, expected, levels, ("jvp", "vjp") if number % 2 else ("jvp",))


ROWS = [*curved_rows(), *other_rows(), *morphology_rows()]
BOXES = [*box_rows()]
# It numbers the writers by a scatter of integers, which is the same in any order. Boxes may overlap anywhere.
MAY_SCATTER = ("max_unpool-indices", *(row.name for row in BOXES))
WITHOUT_SCATTER = [row for row in ROWS if row.name not in MAY_SCATTER]


def test_every_function_has_a_row() -> None:
    assert {row.name.partition("-")[0] for row in ROWS + BOXES} == {
        *RECORDS,
        *(f"morphology.{one}" for one in jets.CHAINS),
    }


@pytest.mark.usefixtures("for_this_platform")
@pytest.mark.parametrize("nested", [row(one, id=one.name, quick=one.kept) for one in ROWS + BOXES])
def test_every_nesting(nested: Row) -> None:
    check_nestings(
        nested.pool, nested.expected, nested.arrays, nested.levels, nested.rules, may_scatter=nested.name in MAY_SCATTER
    )


# Of windows that other platforms copy, and of some that they do not, on one platform and the other in turn.
@pytest.mark.parametrize(
    ("nested", "platform"),
    [
        row(one, ("gpu", "tpu")[number % 2], id=one.name, quick=one.name == "var_pool-bins of planes")
        for number, one in enumerate(WITHOUT_SCATTER)
        if not one.name.endswith(("-plain", "-dilated", "-copies", "-masked", "-whole"))
    ],
)
def test_other_platforms_scatter_nothing(nested: Row, platform: str) -> None:
    with jaxpool.compiling_for(platform):
        assert not scatters(lowered(nested.pool, nested.arrays, nested.levels, ("jvp",)))


def test_scatters_are_found() -> None:
    # A control: JAX scatters where it transposes a gather.
    def indexing(x: jax.Array) -> jax.Array:
        return x[jax.numpy.array([1, 1, 2])]

    assert scatters(lowered(lambda rule, x: indexing(x), {"x": ROWS[0].arrays["x"]}, [["x"]] * 3, ("jvp",)))
