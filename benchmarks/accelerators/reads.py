"""The most cells of one operand that a loop on a GPU reads for one output, from the text of its fusion.

A loop fusion computes every output from its operands only: nothing is shared between neighbours. Cells are
distinguished by how their index follows from that of the output, through slices, pads and other index changes: reads by
the same path are one read. A windowed reduction reads as many cells as its window has.
"""

import math
import re
from collections import Counter

from benchmarks.accelerators.instructions import Computation, Instruction

# A parameter, and the index changes on the path from the output to it.
_Way = tuple[str, ...]
_NO_OPERANDS = {"constant", "iota", "parameter"}
_MOVES = {
    "bitcast", "copy", "slice", "pad", "reshape", "transpose", "broadcast", "reverse", "concatenate", "dynamic-slice",
    "gather", "reduce", "reduce-window", "dynamic-update-slice",
}  # fmt: skip


def most_reads(computation: Computation) -> int:
    """The most cells of one operand that the computation reads for one element of its result."""
    root = computation.root
    outputs = root.operands if root.operation == "tuple" else (root.name,)
    known: dict[str, dict[_Way, int]] = {}
    most = 0
    for output in outputs:
        reads = Counter[str]()
        for (operand, *_), count in _ways(computation, output, known).items():
            reads[operand] += count
        most = max(most, *reads.values(), 0)
    return most


def _ways(computation: Computation, name: str, known: dict[str, dict[_Way, int]]) -> dict[_Way, int]:
    """The paths to the cells that an element of this instruction depends on, with the number of cells for each."""
    if name in known:
        return known[name]
    instruction = computation.instructions[name]
    ways: dict[_Way, int] = {}
    if instruction.operation == "parameter":
        ways = {(name,): 1} if math.prod(instruction.shape) > 1 else {}
    elif instruction.operation not in _NO_OPERANDS:
        number = _cells(instruction, computation)
        for operand in dict.fromkeys(instruction.operands):
            for way, count in _ways(computation, operand, known).items():
                longer = (*way, _move(instruction)) if _moves(instruction, computation) else way
                ways[longer] = max(ways.get(longer, 0), count * number)
    known[name] = ways
    return ways


def _moves(instruction: Instruction, computation: Computation) -> bool:
    """Whether the index of an element differs from that of its operand's element."""
    # A bitcast to another dtype of the same shape keeps every element in place.
    is_reinterpreted = instruction.operation == "bitcast" and all(
        computation.instructions[operand].shape == instruction.shape for operand in instruction.operands
    )
    return instruction.operation in _MOVES and not is_reinterpreted


def _cells(instruction: Instruction, computation: Computation) -> int:
    """How many elements of the operand contribute to one of this instruction."""
    if instruction.operation == "reduce-window":
        window = re.search(r"window=\{size=([\dx]+)", instruction.attributes)
        return math.prod(int(size) for size in window.group(1).split("x")) if window else 1
    if instruction.operation == "reduce":
        operand = computation.instructions[instruction.operands[0]]
        axes = re.search(r"dimensions=\{([\d,]*)\}", instruction.attributes)
        return math.prod(operand.shape[int(axis)] for axis in axes.group(1).split(",") if axis) if axes else 1
    return 1


def _move(instruction: Instruction) -> str:
    attributes = re.split(r", (?:metadata|backend_config|calls|to_apply)=", instruction.attributes)[0]
    return f"{instruction.operation} {instruction.shape} {attributes}"
