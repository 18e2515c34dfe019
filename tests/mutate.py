"""Change the package in one place at a time, and see whether the tests notice.

    python -m tests.mutate --map                   # run the tests once, and store which of them reach which line
    python -m tests.mutate --seed 0 --sample 60    # 60 changes, each with the tests that reach its line

A change swaps a comparison, an operator, a constant, a condition, two arguments, or one name for its opposite, in the
syntax tree. Of the tests that reach the line, one row of each runs first, then others, `--most` in all. A change that
no test notices is printed as a diff: it is a missing test, dead code, or equivalent, which is for the reader to say.
"""

import argparse
import ast
import copy
import difflib
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from coverage import CoverageData

ROOT = Path(__file__).parent.parent
_COVERAGE = f"""[run]
source = jaxpool
parallel = true
patch = subprocess
data_file = {ROOT}/build/mutants.coverage
"""
# Tests of sources as text reject any change.
_PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--ignore=tests/project")
_COMPARISONS = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In},
}
_OPERATORS = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult},
    **{ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}
_PAIRS = ("min max", "minimum maximum", "any all", "low high", "start end", "less less_equal", "greater greater_equal")
_OPPOSITES = {one: other for pair in _PAIRS for one, other in (pair.split(), reversed(pair.split()))}


@dataclass(frozen=True)
class Mutant:
    """A file of the package, the line that is changed, and the changed text of the file."""

    file: str
    line: int
    text: str


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Every change of this node alone."""

    def altered(**fields: object) -> ast.AST:
        other = copy.copy(node)
        for name, value in fields.items():
            setattr(other, name, value)
        return other

    match node:
        case ast.Compare(ops=[operation, *others]):
            yield altered(ops=[_COMPARISONS[type(operation)](), *others])
        case ast.BinOp(op=operation) if type(operation) in _OPERATORS:
            yield altered(op=_OPERATORS[type(operation)]())
        case ast.BoolOp(op=operation):
            yield altered(op=ast.Or() if isinstance(operation, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield altered(value=not value)
        case ast.Constant(value=int(value) | float(value)):
            yield altered(value=value + 1)
        case ast.IfExp(body=body, orelse=orelse):
            yield altered(body=orelse, orelse=body)
        case ast.Name(id=name) if name in _OPPOSITES:
            yield altered(id=_OPPOSITES[name])
        case ast.Attribute(attr=name) if name in _OPPOSITES:
            yield altered(attr=_OPPOSITES[name])
        case ast.Attribute(attr="inf"):
            yield ast.UnaryOp(ast.USub(), node)
        case ast.Call(func=ast.Name(id=name), args=[first, second, *others]) if name not in ("isinstance", "hasattr"):
            yield altered(args=[second, first, *others])


def _expressions(node: ast.AST) -> Iterator[ast.AST]:
    """The expressions that compute something: no texts, types, imports or errors."""
    hidden = (ast.JoinedStr, ast.Raise, ast.Import, ast.ImportFrom)
    for name, field in ast.iter_fields(node):
        if name not in ("annotation", "returns", "type_params", "decorator_list"):
            for child in field if isinstance(field, list) else [field]:
                if isinstance(child, ast.AST) and not isinstance(child, hidden):
                    yield child
                    yield from _expressions(child)


def mutants(file: str, text: str) -> Iterator[Mutant]:
    """All mutants of a file."""
    lines = text.encode().splitlines(keepends=True)
    for node in _expressions(ast.parse(text)):
        if isinstance(node, ast.expr):
            start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
            end = sum(map(len, lines[: (node.end_lineno or 0) - 1])) + (node.end_col_offset or 0)
            for other in changes(node):
                source = text.encode()
                changed = source[:start] + f"({ast.unparse(other)})".encode() + source[end:]
                yield Mutant(file, node.lineno, changed.decode())


def make_map(part: str) -> int:
    """Run the tests, and store which of them reach which line."""
    (ROOT / "build").mkdir(exist_ok=True)
    (ROOT / "build" / "coverage.cfg").write_text(_COVERAGE, encoding="utf-8")
    options = ("--cov=jaxpool", "--cov-config=build/coverage.cfg", "--cov-context=test", "--cov-report=term")
    return subprocess.run([*_PYTEST, "-n", "auto", "-m", part, *options, "tests"], cwd=ROOT).returncode


def reaching(data: CoverageData, mutant: Mutant, collected: set[str], most: int) -> list[str]:
    """Tests that reach the line of a mutant or, if it runs at import alone, its file; one row of each comes first."""
    lines = data.contexts_by_lineno(str(ROOT / mutant.file))
    found = set(lines.get(mutant.line, ())) - {""} or {name for names in lines.values() for name in names} - {""}
    tests = sorted({name.rpartition("|")[0] or name for name in found} & collected)
    random.Random(0).shuffle(tests)
    first = {test.partition("[")[0]: test for test in tests}
    return [*first.values(), *(test for test in tests if test not in first.values())][:most]


def noticed_by(mutant: Mutant, tests: Sequence[str], tree: Path, part: str) -> str | None:
    """The first test that fails, None if all pass."""
    place = tree / mutant.file
    right = place.read_text(encoding="utf-8")
    place.write_text(mutant.text, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    (tree / "tests.txt").write_text("\n".join(tests), encoding="utf-8")
    try:
        command = [*_PYTEST, "-x", "-m", part, "@tests.txt"]
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=1800)
    except subprocess.TimeoutExpired:
        return "no end within half an hour"
    finally:
        place.write_text(right, encoding="utf-8")
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return None if done.returncode in (0, 5) else (failed or [done.stdout[-300:] + done.stderr[-300:]])[0]


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the map, or print which mutants survive; the exit status is 1 if any does."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutate", description=__doc__)
    parser.add_argument("--map", action="store_true", help="run the tests and store what they reach")
    parser.add_argument("--part", default="not slow", help="the tests to run, as for pytest -m")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--most", type=int, default=400, help="tests for one mutant")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked = parser.parse_args(arguments)
    if asked.map:
        return make_map(asked.part)
    data = CoverageData(str(ROOT / "build" / "mutants.coverage"))
    data.read()
    package = sorted((ROOT / "jaxpool").rglob("[!_]*.py")) + sorted((ROOT / "jaxpool").rglob("_[!_]*.py"))
    texts = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in package}
    every = [mutant for file, text in texts.items() for mutant in mutants(file, text)]
    print(f"{len(every)} mutants in {len(texts)} files, seed {asked.seed}")
    collect = [*_PYTEST, "-m", asked.part, "--collect-only", "tests"]
    collected = set(subprocess.run(collect, cwd=ROOT, capture_output=True, text=True).stdout.splitlines())
    survivors = list[Mutant]()
    with tempfile.TemporaryDirectory() as folder:
        trees = Queue[Path]()
        for number in range(asked.processes):
            ignored = shutil.ignore_patterns(".*", "__pycache__", "results", "build")
            trees.put(Path(shutil.copytree(ROOT, Path(folder) / str(number), ignore=ignored)))

        def check(mutant: Mutant) -> None:
            tree, tests = trees.get(), reaching(data, mutant, collected, asked.most)
            noticed = noticed_by(mutant, tests, tree, asked.part) if tests else None
            trees.put(tree)
            print(f"{mutant.file}:{mutant.line}, {len(tests)} tests: {noticed or 'SURVIVED'}", flush=True)
            if noticed is None:
                survivors.append(mutant)
                right, wrong = texts[mutant.file].splitlines(), mutant.text.splitlines()
                print(*difflib.unified_diff(right, wrong, lineterm=""), sep="\n", flush=True)

        with ThreadPoolExecutor(asked.processes) as threads:
            list(threads.map(check, random.Random(asked.seed).sample(every, asked.sample)))
    print(f"{asked.sample - len(survivors)} of {asked.sample} noticed")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main())
