"""The costs of programs for GPUs and TPUs, on programs short enough to count by hand.

The compilers themselves are not needed; `benchmarks/accelerators/` has the tests of their programs.
"""

import jax
import jax.numpy as jnp
import pytest

from benchmarks.accelerators import run, times
from benchmarks.accelerators.bounds import BOUNDED, NAMES, read
from benchmarks.accelerators.case import OURS, PLAIN, SLICE, Case
from benchmarks.accelerators.cases import all_cases, chosen
from benchmarks.accelerators.costs import Costs, costs
from benchmarks.accelerators.goals import verdicts
from benchmarks.accelerators.measure import Figures, Row

_CHIP = "f32[8,128]{1,0:T(8,128)S(1)}"
_MEMORY = "f32[8,128]{1,0:T(8,128)}"
_ESTIMATE = 'backend_config={"window_config":{"estimated_cycles":"70"}}'


def program(*lines: str, others: str = "") -> str:
    """A program of these lines, with other computations before it."""
    body = "".join(f"  {line}\n" for line in lines)
    return f"HloModule jit_f, is_scheduled=true\n\n{others}ENTRY %main (x: f32[4,1024]) -> f32[] {{\n{body}}}\n"


def fused(name: str, *lines: str) -> str:
    """A computation of these lines."""
    return f"%{name} (p: f32[4,1024]) -> f32[] {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n\n"


def figures(**numbers: int) -> Figures:
    """Made-up figures of a program."""
    return Figures(Costs(**numbers), temporary=0, seconds=0)


def test_cases_are_compiled_compared_and_timed() -> None:
    def wrong(x: jax.Array) -> jax.Array:
        return x.at[0].add(1)

    x = ((1024, 1024), jnp.dtype("float32"))
    case = Case("negated", "gpu", "max forward", (x,), {OURS: jnp.negative, PLAIN: jnp.negative, SLICE: wrong})
    timed = run.Timed(case.name)
    programs = run.compiled(case, timed)
    assert timed.wrong == [SLICE]
    assert list(timed.failures) == [run.TORCH]
    timed.milliseconds = run.milliseconds(case, timed, programs)
    assert set(timed.milliseconds) == {OURS, PLAIN, SLICE}
    assert all(time > 0 for time in timed.milliseconds.values())
    timed.milliseconds, timed.copy = {OURS: 1.0, PLAIN: 2.0}, 0.5
    assert times.line(timed) == "negated: jaxpool 1.000, plain JAX 2.000, copy 0.500 ms; DIFFERS from strided slice"
    (line,) = times.summary([(case, timed)])
    assert line == "max forward, 1 cases: plain JAX / jaxpool 2.00 (2.00 to 2.00); jaxpool / copy 2.00 (2.00 to 2.00)"


def test_operands_and_results_are_moved_once() -> None:
    text = program("%x = f32[4,1024]{1,0} parameter(0)", "ROOT %y = f32[4,1024]{1,0} multiply(%x, %x)")
    assert costs(text, "gpu") == Costs(kernels=1, moved=2 * 16384, rarely=2 * 16384)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("f32[10,3]{1,0:T(8,128)}", 16 * 128 * 4),
        ("bf16[5,10,3]{2,1,0:T(8,128)(2,1)}", 5 * 16 * 128 * 2),
        ("bf16[5,10,3]{1,0,2:T(8,128)(2,1)}", 3 * 8 * 128 * 2),
        ("pred[1000]{0:T(1024)}", 1024),
        ("f32[10,3]{1,0}", 120),
        ("f32[10,3]{1,0:T(8,128)S(1)}", 0),
    ],
)
def test_tiles_are_padded_and_the_memory_of_the_chip_is_free(kind: str, expected: int) -> None:
    text = program(f"%x = {kind} parameter(0)", f"ROOT %y = {kind} negate(%x), {_ESTIMATE}")
    assert costs(text, "tpu").moved == 2 * expected


def test_a_fusion_reads_what_its_slices_keep() -> None:
    inner = fused(
        "cut",
        "%p = f32[4,1024]{1,0} parameter(0)",
        "%a = f32[4,10]{1,0} slice(%p), slice={[0:4], [0:10]}",
        "%b = f32[4,10]{1,0} slice(%p), slice={[0:4], [5:15]}",
        "ROOT %c = f32[4,10]{1,0} add(%a, %b)",
    )
    text = program(
        "%x = f32[4,1024]{1,0} parameter(0)",
        "ROOT %y = f32[4,10]{1,0} fusion(%x), kind=kLoop, calls=%cut",
        others=inner,
    )
    assert costs(text, "gpu") == Costs(kernels=1, moved=3 * 160, rarely=3 * 160, reads=2)


def test_an_update_in_place_moves_the_update() -> None:
    inner = fused(
        "put",
        "%p = f32[4,1024]{1,0} parameter(0)",
        "%q = f32[4,10]{1,0} parameter(1)",
        "%z = s32[] constant(0)",
        "ROOT %c = f32[4,1024]{1,0} dynamic-update-slice(%p, %q, %z, %z)",
    )
    text = program(
        "%x = f32[4,1024]{1,0} parameter(0)",
        "%u = f32[4,10]{1,0} parameter(1)",
        "ROOT %y = f32[4,1024]{1,0} fusion(%x, %u), kind=kLoop, calls=%put",
        others=inner,
    )
    assert costs(text, "gpu").moved == 2 * 160


def test_a_conditional_counts_by_its_cheapest_branch() -> None:
    def branch(name: str, repetitions: int) -> str:
        lines = [f"%y{number} = f32[4,1024]{{1,0}} negate(%p)" for number in range(repetitions)]
        return fused(name, "%p = f32[4,1024]{1,0} parameter(0)", *lines)

    text = program(
        "%x = f32[4,1024]{1,0} parameter(0)",
        "%i = s32[] parameter(1)",
        "ROOT %y = f32[4,1024]{1,0} conditional(%i, %x, %x), branch_computations={%dear, %cheap}",
        others=branch("dear", 3) + branch("cheap", 1),
    )
    assert costs(text, "gpu") == Costs(kernels=1, moved=2 * 16384, rarely=6 * 16384)


def test_a_loop_counts_every_round() -> None:
    body = fused("body", "%p = f32[4,1024]{1,0} parameter(0)", "ROOT %y = f32[4,1024]{1,0} negate(%p)")
    known = 'backend_config={"known_trip_count":{"n":"5"}}'
    for attributes, rounds, uncosted in ((known, 5, 0), ("", 1, 1)):
        text = program(
            "%x = f32[4,1024]{1,0} parameter(0)",
            f"ROOT %y = f32[4,1024]{{1,0}} while(%x), condition=%c, body=%body, {attributes}",
            others=body,
        )
        moved = rounds * 2 * 16384
        assert costs(text, "gpu") == Costs(kernels=rounds, moved=moved, rarely=moved, uncosted=uncosted)


def test_transfers_are_no_kernels_and_move_each_byte_once() -> None:
    text = program(
        f"%x = {_MEMORY} parameter(0)",
        f"%s = ({_CHIP}, {_MEMORY}, u32[]{{:S(2)}}) copy-start(%x)",
        f"%d = {_CHIP} copy-done(%s)",
        f"ROOT %y = {_CHIP} negate(%d), {_ESTIMATE}",
    )
    assert costs(text, "tpu") == Costs(kernels=1, moved=4096, rarely=4096, cycles=70)


def test_what_has_no_estimate_is_counted_unless_it_is_small() -> None:
    text = program(
        f"%x = {_MEMORY} parameter(0)",
        "%i = s32[]{:T(128)} parameter(1)",
        "%j = s32[]{:T(128)} negate(%i)",
        f"ROOT %y = {_MEMORY} select-and-scatter(%x, %x, %j)",
    )
    assert costs(text, "tpu").uncosted == 1


def test_reads_multiply_along_windows_and_add_along_slices() -> None:
    inner = fused(
        "window",
        "%p = f32[4,1024]{1,0} parameter(0)",
        "%z = f32[] constant(0)",
        "%n = f32[4,1024]{1,0} negate(%p)",
        "%w = f32[4,1022]{1,0} reduce-window(%n, %z), window={size=1x3}, to_apply=%add",
        "%a = f32[4,1021]{1,0} slice(%w), slice={[0:4], [0:1021]}",
        "%b = f32[4,1021]{1,0} slice(%w), slice={[0:4], [1:1022]}",
        "%m = f32[4,1021]{1,0} maximum(%a, %b)",
        "ROOT %c = f32[4,1021]{1,0} add(%m, %b)",
    )
    text = program(
        "%x = f32[4,1024]{1,0} parameter(0)",
        "ROOT %y = f32[4,1021]{1,0} fusion(%x), kind=kLoop, calls=%window",
        others=inner,
    )
    assert costs(text, "gpu").reads == 6


def test_cells_read_as_another_kind_of_number_are_read_where_they_are() -> None:
    inner = fused(
        "kinds",
        "%p = f32[4,1024]{1,0} parameter(0)",
        "%bits = u32[4,1024]{1,0} bitcast(%p)",
        "%same = f32[4,1024]{1,0} convert(%bits)",
        "%line = f32[4096]{0} bitcast(%p)",
        "%other = f32[4,1024]{1,0} bitcast(%line)",
        "%once = f32[4,1024]{1,0} add(%p, %same)",
        "ROOT %twice = f32[4,1024]{1,0} add(%once, %other)",
    )
    text = program(
        "%x = f32[4,1024]{1,0} parameter(0)",
        "ROOT %y = f32[4,1024]{1,0} fusion(%x), kind=kLoop, calls=%kinds",
        others=inner,
    )
    assert costs(text, "gpu").reads == 2


def test_goals_compare_with_the_right_figures() -> None:
    (case,) = chosen(("gpu",), ["gpu max 3x3/2 padded 1 forward, float32, 32x112"])
    row = Row(case, needed=100, figures={"jaxpool": figures(kernels=2, moved=105, reads=9)})
    assert [(str(verdict.goal), verdict.met) for verdict in verdicts(row)] == [
        ("moved ≤ 1.05 × needed", True),
        ("kernels ≤ 1", False),
        ("reads ≤ 16", True),
    ]
    (case,) = chosen(("tpu",), ["network VGG"])
    others = {"plain JAX": figures(cycles=100, moved=100), "strided slice": figures(cycles=10, moved=10)}
    row = Row(case, needed=1, figures={"jaxpool": figures(cycles=110, moved=111, uncosted=0)} | others)
    assert [verdict.met for verdict in verdicts(row)] == [True, True, False, True]


def test_bounds_are_stored_for_every_case_that_has_them() -> None:
    _, stored = read()
    assert set(stored) == set(NAMES) <= set(all_cases())
    for (target, _), bounds in stored.items():
        assert tuple(bounds) == BOUNDED[target]


@pytest.mark.parametrize("text", ["gpu network", "masked avg 3x3/2 padded 1 forward", "28x28 bins forward, float32"])
def test_everybody_computes_arrays_of_the_same_shape(text: str) -> None:
    for case in chosen(("gpu",), [text]):
        arrays = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in case.specifications]
        first, *others = (jax.eval_shape(function, *arrays) for function in case.functions.values())
        for other in others:
            assert [array.shape for array in jax.tree.leaves(other)] == [
                array.shape for array in jax.tree.leaves(first)
            ]
