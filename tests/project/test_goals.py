"""The goals of the benchmark: their numbers are checked on made-up rows."""

import pytest

pytest.importorskip("rich")

from benchmarks import goals
from benchmarks.cases import BIN_GROUPS, GLOBAL_GROUPS, cases
from benchmarks.dispatch import Dispatch
from benchmarks.growth import KERNELS_ALONG_ONE_AXIS, KERNELS_OF_MEDIANS, Growth
from benchmarks.measure import Row


def row(group: str, name: str, times: dict[str, float | None], kernel: int = 3, stride: int = 1) -> Row:
    """A made-up row, with the same times for everything."""
    made = Row(group, name, (1, 8, 8, 4), kernel, stride)
    for what in (made.forward, made.gradient, made.tangent, made.compile_forward, made.compile_gradient):
        what.update(times)
    made.residual_bytes_per_output["jaxpool"] = 1.0 * stride
    made.temporary_bytes_over_input["jaxpool"] = 0.0
    return made


def test_the_pools_of_networks() -> None:
    common = [case for case in cases() if case.is_common]
    assert {case.group for case in common} == {"max", "min", "sum", "avg", *BIN_GROUPS, *GLOBAL_GROUPS}
    assert {(case.kernel, case.stride) for case in common} >= {(2, 2), (3, 1), (3, 2), (5, 1), (7, 2), (7, 7), (0, 1)}
    left_out = [case for case in cases() if not case.is_common and case.group == "max"]
    assert all(case.channels < 16 or case.kernel > 7 or case.rank != 2 or case.dilation > 1 for case in left_out)


def test_the_summary_of_made_up_rows() -> None:
    rows = [
        row("max", "a", {"jaxpool": 1.0, "plain": 4.0, "torch": 2.0, "copy": 0.5}),
        row("min", "b", {"jaxpool": 2.0, "plain": 32.0, "torch": None, "copy": 0.5}, kernel=5, stride=2),
    ]
    kernels = {str(kernel): 0.1 * kernel for kernel in (3, 7, 15, 31, 63)}
    sizes = {"1": 1.0, "2": 2.0, "4": 6.0}
    more = [{str(k): float(k) for k in each} for each in (KERNELS_OF_MEDIANS, KERNELS_ALONG_ONE_AXIS)]
    growths = [Growth("made up", *[each] * 4) for each in (kernels, sizes, *more)]
    figures = {figure.name: figure for figure in goals.summarise(rows, growths, [Dispatch("tiny", 30.0, 10.0)])}
    plain = figures["max and min forward: plain JAX / jaxpool"]
    assert (plain.count, plain.worst, plain.worst_case, plain.met) == (2, 4.0, "max a", True)
    assert plain.mean == pytest.approx(8.0)
    assert figures["max and min gradient: PyTorch / jaxpool"].count == 1
    assert figures["max and min gradient: PyTorch / jaxpool"].mean_goal == 2.2
    assert figures["lp forward: PyTorch / jaxpool"].met is None
    assert figures["windows of at most 3 forward: jaxpool / copy"].worst == 2.0
    assert figures["windows of at most 3 forward: jaxpool / copy"].met is True
    assert figures["compile gradient: jaxpool / plain JAX"].worst == 0.25
    assert figures["tangent / (2 forward + copy)"].worst == pytest.approx(2 / 4.5)
    assert figures["max and min, stride 1: bytes kept per output"].worst == 1
    assert figures["max and min, larger strides: bytes kept per output"].worst_case == "min b"
    assert figures["temporaries of the gradient / input"].mean is None
    assert figures["temporaries of the gradient / input"].met is True
    assert figures["dispatch: jaxpool / plain JAX"].worst == pytest.approx(3.0)
    assert figures["dispatch: jaxpool / plain JAX"].met is False
    assert figures["growth gradient: 63×63 / 3×3"].worst == pytest.approx(21.0)
    assert figures["compile forward: 63×63 / 7×7"].worst == pytest.approx(9.0)
    assert figures["medians forward: largest step from one kernel to the next"].worst == pytest.approx(5 / 3)
    assert figures["medians, compile gradient: seconds at the most"].worst == 31
    assert figures["along one axis gradient: 2049 / 33"].worst == pytest.approx(2049 / 33)
    assert figures["4× the array forward: time per cell"].worst == pytest.approx(1.5)


def test_plain_jax_is_the_quicker_of_what_its_users_write() -> None:
    tiled = row("max", "a", {"jaxpool": 1.0, "plain": 9.0, "reshape": 0.85, "torch": None, "copy": 0.5})
    other = row("avg", "b", {"jaxpool": 1.0, "plain": 0.95, "copy": 0.5})
    for one in (tiled, other):
        one.common = True
    assert [goals.ratio(tiled, "forward", peer) for peer in ("plain", "reshape", "jax")] == [9.0, 0.85, 0.85]
    assert goals.ratio(other, "forward", "jax") == 0.95
    figures = {figure.name: figure for figure in goals.summarise([tiled, other], [], [])}
    assert figures["max and min forward: plain JAX / jaxpool"].worst == 0.85
    assert figures["tiles gradient: reshape / jaxpool"].count == 1
    network = figures["pools of networks forward: plain JAX / jaxpool"]
    assert (network.count, network.worst, network.worst_case, network.met) == (2, 0.85, "max a", False)
    assert goals.missed([tiled, other]) == (4, 4)
    tiled.same_as_reshape.append("forward")
    assert goals.ratio(tiled, "forward", "jax") == 1.0
    assert goals.ratio(tiled, "gradient", "jax") == 0.85
    assert goals.missed([tiled, other]) == (3, 4)
