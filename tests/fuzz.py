"""`python -m tests.fuzz --minutes N`: random calls against the reference, for as long as you like.

Calls come in batches, each of one function and with its own seed, so that a run can be repeated exactly. The state is
saved after every batch, and an interrupted run continues where it stopped. A fault is shrunk to a minimal call, printed
as a program that shows it, and recorded; then the search continues. The exit status is 1 if there are any faults.
"""

import argparse
import json
import sys
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import hypothesis
import jax

from tests.random.call_checks import check
from tests.random.call_mistakes import any_calls
from tests.random.call_strategies import SETTINGS
from tests.registry.calls import FUNCTIONS, Call

# Each try compiles a program: shrinking ends after this many seconds, with the smallest call found so far.
SHRINKING_SECONDS = 30.0
BATCHES_BETWEEN_CLEARINGS = 4


class Fault(Exception):
    """A call with a wrong outcome."""


@dataclass
class State:
    """The state of a run, in types that JSON can represent."""

    seed: int
    batches: dict[str, int] = field(default_factory=dict)
    compared: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    faults: list[dict[str, str]] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Write the state so that there is a complete file at any moment."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(path.name + ".new")
        beside.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        beside.replace(path)


@dataclass
class Batch:
    """Some calls of one function, and their outcomes."""

    function: str
    seed: str
    examples: int
    verdicts: dict[str, str] = field(default_factory=dict)
    accepted: Counter[bool] = field(default_factory=Counter)
    failed_at: float | None = None
    minimal: Call | None = None

    def run(self) -> None:
        """Try a number of different calls, up to the first fault, and shrink that one."""
        rounds = 0
        while self.minimal is None and len(self.verdicts) < self.examples:
            search = SETTINGS(hypothesis.given(any_calls(self.function))(self.judge))
            try:
                hypothesis.seed(zlib.crc32(f"{self.seed} {rounds}".encode()))(search)()
            except Fault:
                pass
            rounds += 1

    def judge(self, call: Call) -> None:
        """Raise a fault if the call has a wrong outcome; the verdict on a call never changes."""
        name = repr(call)
        if name not in self.verdicts:
            if self.failed_at is not None and time.monotonic() > self.failed_at + SHRINKING_SECONDS:
                return
            self.verdicts[name] = self.verdict(call)
        if self.verdicts[name]:
            self.failed_at = self.failed_at or time.monotonic()
            self.minimal = call  # the last call to be tried is the smallest one, repeated
            raise Fault(self.verdicts[name])

    def verdict(self, call: Call) -> str:
        """What is wrong with the outcome; "" if nothing."""
        try:
            self.accepted[check(call)] += 1
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run batches until the time is up; return the exit status."""
    given = parse(arguments)
    path = Path(given.state)
    if path.exists():
        state = State(**json.loads(path.read_text(encoding="utf-8")))
        if state.seed != given.seed:
            print(f"{path} is of seed {state.seed}; give --seed {state.seed} or another --state", file=sys.stderr)
            return 2
        print(f"going on after {sum(state.batches.values())} batches in {path}")
    else:
        state = State(given.seed)
    functions = [given.function] if given.function else FUNCTIONS
    end = time.monotonic() + 60 * given.minutes
    try:
        while True:
            run_batch(state, min(functions, key=lambda name: state.batches.get(name, 0)), given.examples)
            state.save(path)
            if time.monotonic() > end:
                break
    except KeyboardInterrupt:
        print("interrupted")
    report(state, path)
    return 1 if state.faults else 0


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--minutes", type=float, default=10, help="how long to run, for one batch at least (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="which calls to draw (%(default)s)")
    parser.add_argument(
        "--state", default=".fuzz/state.json", help="file to go on from (%(default)s); delete it to begin"
    )
    parser.add_argument("--function", choices=FUNCTIONS, help="draw calls of this function alone")
    parser.add_argument("--examples", type=int, default=40, help="calls in a batch (%(default)s)")
    return parser.parse_args(arguments)


def run_batch(state: State, function: str, examples: int) -> None:
    """Run the next batch of the function, and record its outcome."""
    number, began = state.batches.get(function, 0), time.monotonic()
    batch = Batch(function, f"{state.seed} {function} {number}", examples)
    batch.run()
    state.batches[function] = number + 1
    for counts, accepted in ((state.compared, True), (state.refused, False)):
        counts[function] = counts.get(function, 0) + batch.accepted[accepted]
    seconds = time.monotonic() - began
    print(f"{function}, batch {number}: {len(batch.verdicts)} configurations in {seconds:.1f} s", flush=True)
    if batch.minimal is not None:
        fault = {"call": repr(batch.minimal), "fault": batch.verdicts[repr(batch.minimal)], "function": function}
        if fault["call"] not in [known["call"] for known in state.faults]:
            state.faults.append(fault | {"program": batch.minimal.snippet()})
        print(f"\nFAULT: {fault['fault']}\n\n{batch.minimal.snippet()}\n", flush=True)
    if sum(state.batches.values()) % BATCHES_BETWEEN_CLEARINGS == 0:
        jax.clear_caches()


def report(state: State, path: Path) -> None:
    """Print what was tried and found in all runs of this state."""
    print(f"\n{'function':32}{'compared':>10}{'refused':>10}")
    for function in sorted(state.batches, key=FUNCTIONS.index):
        print(f"{function:32}{state.compared[function]:10}{state.refused[function]:10}")
    total = sum(state.compared.values()), sum(state.refused.values())
    print(f"{'all':32}{total[0]:10}{total[1]:10}\n")
    for fault in state.faults:
        print(f"{fault['call']}\n    {fault['fault']}")
    print(f"{len(state.faults)} faults; state in {path}")


if __name__ == "__main__":
    sys.exit(main())
