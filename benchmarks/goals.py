"""The goals of jaxpool and how the measurements compare: a figure per goal, with mean and worst case."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.cases import LEARNT_GROUPS, ZOO_GROUPS
from benchmarks.dispatch import Dispatch
from benchmarks.growth import KERNELS, KERNELS_ALONG_ONE_AXIS, KERNELS_OF_MEDIANS, SIZES, Growth
from benchmarks.measure import Row

FAMILIES = {
    "max and min": ("max", "min"),
    "sum and avg": ("sum", "avg"),
    "lp": ("lp",),
    "smooth": ("smooth",),
    "adaptive": ("adaptive max", "adaptive avg"),
    "global": ("global max", "global avg"),
    "other pools": ("gem", "mellowmax", "soft", "mixed", "stochastic", "blur", "var", "std", "weighted", "attention"),
    "learnt numbers": LEARNT_GROUPS,
    "median": ("median",),
}
_OTHERS = ("lp", "gem", "smooth", "mellowmax", "soft", "stochastic", "median")
# Plain JAX is the quicker of what its users write: `lax.reduce_window`, and `reshape` where windows tile the array.
PEER_NAMES = {"jax": "plain JAX", "flax": "Flax", "torch": "PyTorch"}
_WRITTEN_IN_JAX = {"plain": "same_program", "reshape": "same_as_reshape"}
# How many times faster in any case than plain JAX, and than PyTorch, whose kernels may do in one pass what XLA does in
# several; a tenth slower is no loss in the pools of networks. A median is compared with sorting all cells of windows.
_FASTER = {"jax": 1.0, "torch": 0.9}
_FASTER_COMMON = 0.9
_FASTER_MEDIAN = 5.0
# How many times faster on average.
_FASTER_ON_AVERAGE = {("max and min", "gradient", "torch"): 2.2, ("sum and avg", "forward", "torch"): 3.0}
# Upper limits, for the mean and the worst case.
_COPIES = {"forward": 2, "gradient": 4}
_COMPILE = {"forward": 1.5, "gradient": 2}
_COMPILE_LARGE = 2
# Of 3×3 windows: the first gradient of a maximum over that of plain JAX, and of other pools in seconds. Of any window:
# seconds, and milliseconds to trace a gradient.
_COMPILE_MAX, _FIRST_GRADIENT, _FIRST_CALL, _TRACE = 1.3, 0.6, 3, 40
_TANGENT, _TANGENT_AT_WORST = 1.2, 2.5
_BYTES_STRIDE_1, _BYTES_STRIDED = 2, 4
_TEMPORARIES = 4
_DISPATCH = 2
_GROWTH = {"forward": 3, "gradient": 6}
# The factor from one kernel to the next larger one, and seconds.
_MEDIAN_STEP, _MEDIAN_COMPILE = 3, 3
# The factor from the shortest to the longest window, and seconds.
_ALONG_ONE_AXIS, _COMPILE_ALONG_ONE_AXIS = 4, 3


# Numbers by case; None where there is none.
Numbers = Sequence[tuple[str, float | None]]


@dataclass(frozen=True)
class Figure:
    """Numbers of one kind: their count, geometric mean and worst, the goals of both, and whether more is better.

    The mean is None for numbers that may be 0; both are None if nothing was measured.
    """

    name: str
    count: int
    mean: float | None
    worst: float | None
    worst_case: str
    mean_goal: float | None
    worst_goal: float | None
    more_is_better: bool

    @property
    def met(self) -> bool | None:
        """Whether every goal is met; None without a goal or a number."""
        pairs = [(self.mean, self.mean_goal), (self.worst, self.worst_goal)]
        judged = [
            value >= goal if self.more_is_better else value <= goal
            for value, goal in pairs
            if value is not None and goal is not None
        ]
        return all(judged) if judged else None


def summarise(rows: Sequence[Row], growths: Sequence[Growth], dispatches: Sequence[Dispatch]) -> list[Figure]:
    """Every figure, including those without a goal."""
    return [
        *_faster(rows),
        *_near_the_limit(rows),
        *_first_calls(rows),
        *_other_costs(rows),
        _at_most(
            "dispatch: jaxpool / plain JAX", ((row.name, row.jaxpool / row.plain) for row in dispatches), _DISPATCH
        ),
        *_growing(growths),
    ]


def ratio(row: Row, what: str, peer: str) -> float | None:
    """How many times as long a peer takes: 1 if plain JAX compiles to the same program, whatever the noise says."""
    if peer == "jax":
        known = [one for one in (ratio(row, what, written) for written in _WRITTEN_IN_JAX) if one is not None]
        return min(known, default=None)
    if peer in _WRITTEN_IN_JAX and what in getattr(row, _WRITTEN_IN_JAX[peer]):
        return 1.0
    times = getattr(row, what)
    return times[peer] / times["jaxpool"] if times.get(peer) and times.get("jaxpool") else None


def geometric_mean(numbers: Iterable[float]) -> float | None:
    """The geometric mean of positive numbers; None if there are none or one is not positive."""
    numbers = list(numbers)
    if not numbers or min(numbers) <= 0:
        return None
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def missed(rows: Sequence[Row]) -> tuple[int, int]:
    """How many comparisons of single cases with plain JAX and with PyTorch miss their goal, and of how many."""
    judged = [
        number < goal
        for *_, numbers, goal in _comparisons(rows)
        if goal is not None
        for _, number in numbers
        if number is not None
    ]
    return sum(judged), len(judged)


def _comparisons(rows: Sequence[Row]) -> Iterator[tuple[str, str, str, Numbers, float | None]]:
    """Every family, operation and peer, with the number of times as long that the peer takes, and the goal."""
    for family, groups in FAMILIES.items():
        for what in ("forward", "gradient"):
            for peer in PEER_NAMES:
                numbers = [(_name(row), ratio(row, what, peer)) for row in rows if row.group in groups]
                yield family, what, peer, numbers, _FASTER_MEDIAN if family == "median" else _FASTER.get(peer)


def _faster(rows: Sequence[Row]) -> Iterator[Figure]:
    for family, what, peer, numbers, goal in _comparisons(rows):
        mean_goal = _FASTER_ON_AVERAGE.get((family, what, peer))
        yield _figure(f"{family} {what}: {PEER_NAMES[peer]} / jaxpool", numbers, mean_goal, goal, True)
    for what in ("forward", "gradient"):
        numbers = [(_name(row), ratio(row, what, "reshape")) for row in rows]
        yield _figure(f"tiles {what}: reshape / jaxpool", numbers, None, None, True)
        numbers = [(_name(row), ratio(row, what, "jax")) for row in rows if row.common]
        yield _figure(f"pools of networks {what}: plain JAX / jaxpool", numbers, None, _FASTER_COMMON, True)
    numbers = [(_name(row), ratio(row, "activated", "jax")) for row in rows]
    yield _figure("pools of networks behind a relu: plain JAX / jaxpool", numbers, None, _FASTER_COMMON, True)


def _near_the_limit(rows: Sequence[Row]) -> Iterator[Figure]:
    small = [row for row in rows if row.group in ("max", "min", "sum", "avg") and row.kernel <= 3]
    for what, goal in _COPIES.items():
        copies = ((_name(row), ratio(row, what, "copy")) for row in small)
        numbers = [(name, None if number is None else 1 / number) for name, number in copies]
        yield _at_most(f"windows of at most 3 {what}: jaxpool / copy", numbers, goal)


def _first_calls(rows: Sequence[Row]) -> Iterator[Figure]:
    for what, goal in _COMPILE.items():
        own = [row for row in rows if row.group not in ZOO_GROUPS + LEARNT_GROUPS]
        numbers = [(_name(row), _quotient(getattr(row, f"compile_{what}"))) for row in own]
        yield _at_most(f"compile {what}: jaxpool / plain JAX", numbers, goal)
    maxima = [row for row in rows if row.group == "max" and row.kernel == 3 and row.stride == 2]
    numbers = [(_name(row), _quotient(row.compile_gradient)) for row in maxima]
    yield _figure("compile gradient, max 3 / 2: jaxpool / plain JAX", numbers, _COMPILE_MAX, None, False)
    others = [row for row in rows if row.group in _OTHERS and row.kernel == 3]
    numbers = [(_name(row), row.compile_gradient.get("jaxpool")) for row in others]
    yield _figure("compile gradient, norms, means and medians of 3: seconds", numbers, None, _FIRST_GRADIENT, False)
    for what in _COMPILE:
        numbers = [(_name(row), getattr(row, f"compile_{what}").get("jaxpool")) for row in rows]
        yield _figure(f"compile {what}: seconds", numbers, None, _FIRST_CALL, False)
    numbers = [(_name(row), row.trace_gradient.get("jaxpool")) for row in rows]
    yield _figure("trace gradient: milliseconds", numbers, None, _TRACE, False)


def _other_costs(rows: Sequence[Row]) -> Iterator[Figure]:
    own = [row for row in rows if row.group not in ZOO_GROUPS + LEARNT_GROUPS]
    numbers = [(_name(row), _tangent(row)) for row in own]
    yield _figure("tangent / (2 forward + copy)", numbers, _TANGENT, _TANGENT_AT_WORST, False)
    extremes = [row for row in rows if row.group in ("max", "min")]
    strides: list[tuple[str, Callable[[int], bool], float]] = [
        ("stride 1", lambda stride: stride == 1, _BYTES_STRIDE_1),
        ("larger strides", lambda stride: stride > 1, _BYTES_STRIDED),
    ]
    for name, holds, goal in strides:
        numbers = [(_name(row), row.residual_bytes_per_output.get("jaxpool")) for row in extremes if holds(row.stride)]
        yield _figure(f"max and min, {name}: bytes kept per output", numbers, None, goal, False)
    numbers = [(_name(row), row.temporary_bytes_over_input.get("jaxpool")) for row in rows]
    yield _figure("temporaries of the gradient / input", numbers, None, _TEMPORARIES, False)


def _growing(growths: Sequence[Growth]) -> Iterator[Figure]:
    first, middle, last = (str(kernel) for kernel in (KERNELS[0], KERNELS[1], KERNELS[-1]))
    kernels = [growth for growth in growths if last in growth.forward]
    for what, goal in _GROWTH.items():
        numbers = [(growth.name, getattr(growth, what)[last] / getattr(growth, what)[first]) for growth in kernels]
        yield _at_most(f"growth {what}: {last}×{last} / {first}×{first}", numbers, goal)
    for what in _GROWTH:
        seconds = [(growth.name, getattr(growth, f"compile_{what}")) for growth in kernels]
        numbers = [(name, by_kernel[last] / by_kernel[middle]) for name, by_kernel in seconds]
        yield _at_most(f"compile {what}: {last}×{last} / {middle}×{middle}", numbers, _COMPILE_LARGE)
    medians = [growth for growth in growths if set(growth.forward) == set(map(str, KERNELS_OF_MEDIANS))]
    for what in _GROWTH:
        times = [(growth.name, getattr(growth, what)) for growth in medians]
        steps = [(name, max(later / each for each, later in pairwise(one.values()))) for name, one in times]
        yield _at_most(f"medians {what}: largest step from one kernel to the next", steps, _MEDIAN_STEP)
        seconds = [(growth.name, max(getattr(growth, f"compile_{what}").values())) for growth in medians]
        yield _at_most(f"medians, compile {what}: seconds at the most", seconds, _MEDIAN_COMPILE)
    shortest, *_, longest = map(str, KERNELS_ALONG_ONE_AXIS)
    along = [growth for growth in growths if longest in growth.forward]
    for what in _GROWTH:
        numbers = [(growth.name, getattr(growth, what)[longest] / getattr(growth, what)[shortest]) for growth in along]
        yield _at_most(f"along one axis {what}: {longest} / {shortest}", numbers, _ALONG_ONE_AXIS)
        seconds = [(growth.name, max(getattr(growth, f"compile_{what}").values())) for growth in along]
        yield _at_most(f"along one axis, compile {what}: seconds at the most", seconds, _COMPILE_ALONG_ONE_AXIS)
    largest = str(SIZES[-1])
    arrays = [growth for growth in growths if largest in growth.forward]
    for what in _GROWTH:
        times = [(growth.name, getattr(growth, what)) for growth in arrays]
        numbers = [(name, by_size[largest] / SIZES[-1] / by_size["1"]) for name, by_size in times]
        yield _figure(f"{largest}× the array {what}: time per cell", numbers, None, None, False)


def _tangent(row: Row) -> float | None:
    tangent, forward, copy = row.tangent.get("jaxpool"), row.forward.get("jaxpool"), row.tangent.get("copy")
    return tangent / (2 * forward + copy) if tangent and forward and copy else None


def _quotient(by_library: dict[str, float | None]) -> float | None:
    ours, plain = by_library.get("jaxpool"), by_library.get("plain")
    return ours / plain if ours and plain else None


def _at_most(name: str, numbers: Iterable[tuple[str, float | None]], goal: float) -> Figure:
    return _figure(name, numbers, goal, goal, False)


def _figure(
    name: str,
    numbers: Iterable[tuple[str, float | None]],
    mean_goal: float | None,
    worst_goal: float | None,
    more_is_better: bool,
) -> Figure:
    known = [(number, case) for case, number in numbers if number is not None]
    worst = (min if more_is_better else max)(known, default=(None, ""))
    mean = geometric_mean(number for number, _ in known)
    return Figure(name, len(known), mean, *worst, mean_goal, worst_goal, more_is_better)


def _name(row: Row) -> str:
    return f"{row.group} {row.case}"
