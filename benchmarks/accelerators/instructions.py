"""A parser for the text of a compiled program: its computations, their instructions, and the bytes of their arrays."""

import math
import re
from dataclasses import dataclass
from functools import cached_property

_BITS = {"pred": 8, "bf16": 16, "c64": 64, "c128": 128} | {
    f"{letter}{bits}": bits for letter in "suf" for bits in (4, 8, 16, 32, 64)
}
_ARRAY = re.compile(r"\b(" + "|".join(_BITS) + r")\[([\d,]*)\](?:\{([^}]*)\})?")
_INSTRUCTION = re.compile(r"\s+(ROOT )?%?([\w.\-]+) = (.*?) ([a-z][\w\-]*)\((.*)$")
_HEAD = re.compile(r"(ENTRY )?%?([\w.\-]+) .*\{$")


@dataclass(frozen=True)
class Array:
    """One array of an instruction: its bytes including the padding of tiles, and whether it is in main memory.

    A TPU stores the last two axes of a layout in tiles of 8 × 128 numbers, and has a fast memory on the chip.
    """

    bytes: int
    elements: int
    in_main_memory: bool

    @property
    def main_bytes(self) -> int:
        """Bytes in main memory."""
        return self.bytes if self.in_main_memory else 0


@dataclass(frozen=True)
class Instruction:
    """One line of a computation."""

    name: str
    operation: str
    result: str
    operands: tuple[str, ...]
    attributes: str
    is_root: bool

    @cached_property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays of the result."""
        return tuple(_array(*found) for found in _ARRAY.findall(self.result))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first array of the result."""
        found = _ARRAY.search(self.result)
        return _sizes(found.group(2)) if found else ()

    def called(self, *roles: str) -> list[str]:
        """The computations that the instruction calls in these roles, such as "calls" or "body"."""
        names = []
        for role in roles:
            for several, one in re.findall(rf"\b{role}=(?:\{{([^}}]*)\}}|%?([\w.\-]+))", self.attributes):
                names += re.findall(r"[\w.\-]+", several) if several else [one]
        return names


@dataclass(frozen=True)
class Computation:
    """The instructions of one computation by name, in order."""

    instructions: dict[str, Instruction]

    @cached_property
    def users(self) -> dict[str, list[Instruction]]:
        """The instructions that read the result of each instruction."""
        users: dict[str, list[Instruction]] = {name: [] for name in self.instructions}
        for instruction in self.instructions.values():
            for operand in dict.fromkeys(instruction.operands):
                users.setdefault(operand, []).append(instruction)
        return users

    @cached_property
    def parameters(self) -> dict[int, Instruction]:
        """The parameters by number."""
        return {int(each.operands[0]): each for each in self.instructions.values() if each.operation == "parameter"}

    @property
    def root(self) -> Instruction:
        """The instruction whose result is that of the computation."""
        return next(each for each in self.instructions.values() if each.is_root)


def parse(text: str) -> tuple[str, dict[str, Computation]]:
    """The name of the entry computation, and all computations by name."""
    entry, current, computations = "", None, {}
    for line in text.splitlines():
        if not line.startswith(" "):
            head = _HEAD.match(line) if line.startswith(("%", "ENTRY")) else None
            current = None
            if head:
                current = computations.setdefault(head.group(2), {})
                entry = head.group(2) if head.group(1) else entry
        elif current is not None and (found := _INSTRUCTION.match(line)):
            root, name, result, operation, rest = found.groups()
            inside, attributes = _split(rest)
            named = re.findall(r"%([\w.\-]+)", inside)
            operands = tuple(named) if operation != "parameter" else (inside,)
            current[name] = Instruction(name, operation, result, operands, attributes, bool(root))
    return entry, {name: Computation(lines) for name, lines in computations.items()}


def _split(rest: str) -> tuple[str, str]:
    """The text within the parentheses of an instruction, and the text after them."""
    depth = 1
    for position, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        if not depth:
            return rest[:position], rest[position + 1 :]
    return rest, ""


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split(",") if size)


def _array(dtype: str, dimensions: str, layout: str) -> Array:
    sizes = _sizes(dimensions)
    order, _, properties = layout.partition(":")
    memory = re.search(r"S\((\d+)\)", properties)
    tile = re.search(r"T\(([\d,]+)\)", properties)
    stored = [sizes[axis] for axis in _sizes(order)] or list(sizes[::-1])
    if tile and stored:
        # Both start from the contiguous axis.
        for axis, size in enumerate(_sizes(tile.group(1))[::-1]):
            if axis < len(stored):
                stored[axis] = -(-stored[axis] // size) * size
    count = math.prod(stored)
    return Array(-(-count * _BITS[dtype] // 8), math.prod(sizes), memory is None or memory.group(1) == "0")
