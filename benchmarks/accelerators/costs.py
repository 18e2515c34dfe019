"""The cost of a compiled program, from its text: kernels, bytes moved through main memory, the compiler's own cycles.

Bytes are counted as if every kernel read each cell that it needs once and wrote each result once: what a slice leaves
out is not read, and an array updated in place is neither read nor written as a whole. For a conditional the branch
where the condition holds counts, since the other one is for rare input; `rarely` has the most expensive one.
"""

import re
from dataclasses import dataclass, fields

from benchmarks.accelerators.instructions import Array, Computation, Instruction, parse

_FREE = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "partition-id", "replica-id",
    "opt-barrier",
}  # fmt: skip
_FREE_CALLS = {"ConcatBitcast", "AllocateBuffer"}
_SLICES = {"slice", "dynamic-slice", "gather"}
# One tile of float32: anything smaller costs next to nothing, whether or not the compiler estimates it.
_SMALL = 4096


@dataclass(frozen=True)
class Costs:
    """The costs of a program, or of a part of it.

    Attributes:
        kernels: launches in sequence, counted in every iteration of a loop; not concurrent transfers.
        moved: bytes read from and written to main memory.
        rarely: the same if every conditional takes the branch that moves most.
        cycles: the compiler's estimates, summed; only on a TPU.
        uncosted: instructions on more than a tile without an estimate, on a TPU, and loops of unknown length.
    """

    kernels: int = 0
    moved: int = 0
    rarely: int = 0
    cycles: int = 0
    uncosted: int = 0

    def __add__(self, other: "Costs") -> "Costs":
        return Costs(**{field.name: getattr(self, field.name) + getattr(other, field.name) for field in fields(Costs)})

    def times(self, number: int) -> "Costs":
        """The costs of a loop with this many iterations."""
        repeated = {name: getattr(self, name) * number for name in ("kernels", "moved", "rarely", "cycles")}
        return Costs(**repeated, uncosted=self.uncosted)


def costs(text: str, target: str) -> Costs:
    """The costs of a compiled program."""
    entry, computations = parse(text)
    return _Reader(computations, target).run(entry)


@dataclass(frozen=True)
class _Reader:
    computations: dict[str, Computation]
    target: str

    def run(self, name: str) -> Costs:
        computation = self.computations[name]
        total = Costs()
        for instruction in computation.instructions.values():
            total += self._cost(instruction, computation)
        return total

    def _cost(self, instruction: Instruction, computation: Computation) -> Costs:
        operation = instruction.operation
        if operation in _FREE or operation.endswith(("-done", "-update")):
            return Costs()
        if operation == "custom-call" and any(f'"{call}"' in instruction.attributes for call in _FREE_CALLS):
            return Costs()
        if operation == "while":
            times = re.search(r'known_trip_count":\{"n":"(\d+)"', instruction.attributes)
            body = self.run(*instruction.called("body"))
            return body.times(int(times.group(1))) if times else body + Costs(uncosted=1)
        if operation in ("call", "async-start"):
            return self.run(*instruction.called("to_apply", "calls"))
        if operation == "conditional":
            return self._branches(instruction)
        if operation.endswith("-start"):
            moved = self._transferred(instruction, computation)
            return Costs(moved=moved, rarely=moved)
        return self._kernel(instruction, computation)

    def _branches(self, instruction: Instruction) -> Costs:
        """Of two branches the one where the condition holds; of devices' own the one of the fewest kernels."""
        # The one where it does not hold is the first.
        names = instruction.called("branch_computations", "false_computation", "true_computation")
        branches = [self.run(name) for name in names]
        usual = branches[1] if len(branches) == 2 else min(branches, key=lambda one: (one.kernels, one.moved))
        most = max(branch.rarely for branch in branches)
        return Costs(**{field.name: getattr(usual, field.name) for field in fields(Costs)} | {"rarely": most})

    def _transferred(self, instruction: Instruction, computation: Computation) -> int:
        """A copy or slice that runs concurrently with kernels; its result has source, destination and a semaphore."""
        source = _arrays(computation, instruction.operands[:1])
        destination = instruction.arrays[0] if instruction.operation == "copy-start" else instruction.arrays[-2]
        read = destination.bytes if any(array.in_main_memory for array in source) else 0
        return read + destination.main_bytes

    def _kernel(self, instruction: Instruction, computation: Computation) -> Costs:
        moved = self._read(instruction, computation) + self._written(instruction, computation)
        cycles = re.search(r'"estimated_cycles":"(\d+)"', instruction.attributes)
        involved = (*instruction.arrays, *_arrays(computation, instruction.operands))
        is_large = sum(array.bytes for array in involved) > _SMALL
        return Costs(
            kernels=1,
            moved=moved,
            rarely=moved,
            cycles=int(cycles.group(1)) if cycles else 0,
            uncosted=int(self.target == "tpu" and cycles is None and is_large),
        )

    def _read(self, instruction: Instruction, computation: Computation) -> int:
        """Bytes that the instruction reads from its operands."""
        total = 0
        for operand in dict.fromkeys(instruction.operands):
            whole = sum(array.main_bytes for array in _arrays(computation, (operand,)))
            total += self._used(instruction, operand, whole)
        return total

    def _used(self, user: Instruction, operand: str, whole: int) -> int:
        """The bytes that one instruction reads from an operand of this size."""
        is_first = user.operands[0] == operand and operand not in user.operands[1:]
        if not whole:
            return 0
        if is_first and user.operation in _SLICES:
            return min(whole, _size(user.arrays))
        if is_first and user.operation in ("dynamic-update-slice", "scatter"):
            return 0
        if not _is_fusion(user):
            return whole
        inner = self.computations[user.called("calls")[0]]
        numbers = [number for number, name in enumerate(user.operands) if name == operand]
        parts = [self._used_inside(inner, inner.parameters[number].name, whole) for number in numbers]
        return min(whole, sum(parts))

    def _used_inside(self, computation: Computation, name: str, whole: int) -> int:
        total = 0
        for user in computation.users[name]:
            if user.operation == "bitcast":
                total += self._used_inside(computation, user.name, whole)
            elif not user.is_root or user.operation not in ("tuple",):
                total += self._used(user, name, whole)
        return min(whole, total)

    def _written(self, instruction: Instruction, computation: Computation) -> int:
        """Bytes that the instruction writes."""
        if not _is_fusion(instruction):
            return _updated(instruction, computation, instruction.arrays)
        inner = self.computations[instruction.called("calls")[0]]
        root = inner.root
        outputs = [inner.instructions[name] for name in root.operands] if root.operation == "tuple" else [root]
        if len(outputs) != len(instruction.arrays):
            return _main_bytes(instruction.arrays)
        pairs = zip(outputs, instruction.arrays, strict=True)
        return sum(_updated(_behind_bitcasts(output, inner), inner, (array,)) for output, array in pairs)


def _updated(instruction: Instruction, computation: Computation, written: tuple[Array, ...]) -> int:
    """Bytes written for a result; only a part of it if an array is updated in place."""
    whole = _main_bytes(written)
    if instruction.operation == "dynamic-update-slice":
        return min(whole, _size(_arrays(computation, instruction.operands[1:2])))
    if instruction.operation == "scatter":
        # An array that is added to is read as well.
        return min(2 * whole, 2 * _size(_arrays(computation, instruction.operands[2:3])))
    return whole


def _behind_bitcasts(instruction: Instruction, computation: Computation) -> Instruction:
    while instruction.operation == "bitcast":
        instruction = computation.instructions[instruction.operands[0]]
    return instruction


def _is_fusion(instruction: Instruction) -> bool:
    return instruction.operation == "fusion"


def _arrays(computation: Computation, names: tuple[str, ...]) -> tuple[Array, ...]:
    found = (computation.instructions.get(name) for name in names)
    return tuple(array for each in found if each is not None for array in each.arrays)


def _size(arrays: tuple[Array, ...]) -> int:
    return sum(array.bytes for array in arrays)


def _main_bytes(arrays: tuple[Array, ...]) -> int:
    return sum(array.main_bytes for array in arrays)
