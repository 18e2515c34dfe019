"""Docstrings from one table: every repeated paragraph and sentence is written once and copied where it is needed.

`python -m tests.project.docstrings` writes the texts of `docstring_paragraphs.py`, `docstring_sentences.py` and
`docstring_errors.py` into the docstrings of the package, whatever file a function is in, and wraps them; `--check` only
reports differences. A function's own text stays, and is wrapped too; of a stand-in for a function of another library
only the example is its own, and the rest is that of `stand_ins.py`. The exit status is 1 if something must be fixed by
hand or, with `--check`, differs.
"""

import argparse
import ast
import difflib
import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.project.docstring_errors import ERRORS
from tests.project.docstring_keys import Choice
from tests.project.docstring_paragraphs import ARGUMENTS
from tests.project.docstring_sentences import SENTENCES, SLOTS
from tests.project.stand_ins import LIBRARIES

ROOT = Path(__file__).parents[2]
# Its functions name the first one for what they share.
MORPHOLOGY = "morphology.py"
SECTIONS = ("Args", "Returns", "Raises", "Derivative")
_WIDTH = 120
_ENTRY = re.compile(r" {8}(\w+): ")


@dataclass(frozen=True)
class Section:
    """A section of the docstring of a function, and the lines of the file that are its body."""

    name: str
    start: int
    body: tuple[str, ...]

    def entries(self) -> dict[str, str]:
        """Arguments or exceptions, with the text on each."""
        entries: dict[str, str] = {}
        for line in self.body:
            opening = _ENTRY.match(line)
            name = opening[1] if opening else [*entries][-1]
            entries[name] = f"{entries.get(name, '')} {line[opening.end() if opening else 0 :].strip()}".strip()
        return entries

    def sentences(self) -> list[str]:
        """The sentences, without their line breaks."""
        return re.split(r"(?<=\.) ", " ".join(line.strip() for line in self.body))


@dataclass(frozen=True)
class Function:
    """A public function and the sections of its docstring."""

    name: str
    sections: tuple[Section, ...]

    def entries(self, section: str) -> dict[str, str]:
        """The entries of the section with this name; none if it is missing."""
        return next((one.entries() for one in self.sections if one.name == section), {})

    def chosen(self, choice: Choice) -> str | None:
        """The text of the first key that names the function or one of its arguments; slots are filled."""
        names = {self.name, *self.entries("Args")}
        for key, text in choice.items():
            if not key or names & set(key.split()):
                return self.filled(text)
        return None

    def filled(self, template: str) -> str:
        """The text with the slots filled in for this function."""
        slots = {slot: self.chosen(SLOTS[slot]) or "" for slot in re.findall(r"{(\w+)}", template) if slot in SLOTS}
        return template.format(function=self.name, **slots)

    def shared_entry(self, section: str, name: str) -> str | None:
        """The table's text on an argument or exception, or None."""
        if section == "Args":
            return self.chosen(ARGUMENTS.get(name, {}))
        conditions = [text for choice in ERRORS.get(name, ()) if (text := self.chosen(choice))]
        if not conditions:
            return None
        return f"{', '.join([*conditions[:-1], 'or ' * (len(conditions) > 1) + conditions[-1]])}."

    def shared_sentences(self, section: str) -> dict[str, str | None]:
        """The table's sentences for a section, by their opening words; None if the opening is free."""
        return {self.filled(opening): self.chosen(choice) for opening, choice in SENTENCES[section].items()}

    def body(self, section: Section) -> list[str]:
        """The lines of a section as the table has them."""
        if section.name in ("Args", "Raises"):
            entries = section.entries().items()
            texts = [f"{name}: {self.shared_entry(section.name, name) or text}" for name, text in entries]
            return [line for text in texts for line in wrapped(text, " " * 12)]
        shared = self.shared_sentences(section.name)
        sentences = []
        for sentence in section.sentences():
            meant = [text for opening, text in shared.items() if text and sentence.startswith(opening)]
            sentences.append(meant[0] if meant else sentence)
        return wrapped(" ".join(sentences), " " * 8)


@dataclass(frozen=True)
class StandIn:
    """A stand-in, called `module.name`, and the lines of its file before the example in its docstring."""

    name: str
    start: int
    stop: int

    def body(self) -> list[str]:
        """These lines as the table has them."""
        module, _, name = self.name.partition(".")
        first, *others = LIBRARIES[module].opening(name)
        lines = [f'    """{first}', ""]
        for paragraph in others:
            lines += [*wrapped(paragraph, " " * 4, " " * 4), ""]
        return lines


def wrapped(text: str, continued: str, first: str = " " * 8) -> list[str]:
    """Lines of a paragraph; calls like floor((n + 1)/2) and short equations are not broken."""
    glued: list[str] = []
    equations = re.sub(
        r"(?<!\S)(\S{1,12}) ([=<]) (?=\S{1,22}(?!\S))", "\\1\N{NO-BREAK SPACE}\\2\N{NO-BREAK SPACE}", text
    )
    for word in equations.split(" "):
        before = glued[-1] if glued else ""
        is_open = len(before) < 90 and any(before.count(a) > before.count(b) for a, b in ("()", "[]"))
        if is_open and re.search(r"\w[([]", before):
            glued[-1] = f"{before}\N{NO-BREAK SPACE}{word}"
        else:
            glued.append(word)
    lines = textwrap.wrap(
        " ".join(glued),
        _WIDTH,
        initial_indent=first,
        subsequent_indent=continued,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def sources() -> dict[str, str]:
    """The files of the package that may hold public functions, by their paths below `jaxpool/`."""
    package = ROOT / "jaxpool"
    files = sorted(package.rglob("*.py"))
    return {file.relative_to(package).as_posix(): file.read_text(encoding="utf-8") for file in files}


def functions(path: str, source: str) -> Iterator[Function]:
    """The functions of a file whose docstrings have arguments, from top to bottom."""
    lines = source.splitlines()
    for node, start, stop in _documented(path, source):
        sections = []
        for number in range(start, stop):
            heading = re.fullmatch(rf" {{4}}({'|'.join(SECTIONS)}):", lines[number])
            if heading:
                end = next(n for n in range(number + 1, len(lines)) if not lines[n] or lines[n].endswith('"""'))
                sections.append(Section(heading[1], number + 1, tuple(lines[number + 1 : end])))
        if sections and not _library_of(path) and path != MORPHOLOGY:
            yield Function(node, tuple(sections))


def stand_ins(path: str, source: str) -> Iterator[StandIn]:
    """The stand-ins of a file for functions and classes of another library, all of which have an example."""
    lines, module = source.splitlines(), _library_of(path)
    for name, start, stop in _documented(path, source):
        if module and name[0] != "_" and "    Example:" in lines[start:stop]:
            yield StandIn(f"{module}.{name}", start - 1, lines.index("    Example:", start))


def _library_of(path: str) -> str | None:
    module = re.match(r"compat/(\w+)", path)
    return module[1] if module and module[1][0] != "_" else None


def _documented(path: str, source: str) -> Iterator[tuple[str, int, int]]:
    """The names of the functions and classes of a file with a docstring, and the lines of that, counted from 1."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            yield node.name, node.body[0].lineno, node.body[0].end_lineno or 0


def rewritten(path: str, source: str) -> str:
    """The file with the paragraphs of the table."""
    lines = source.splitlines()
    for stand_in in reversed([*stand_ins(path, source)]):
        lines[stand_in.start : stand_in.stop] = stand_in.body()
    for function in reversed([*functions(path, source)]):
        for section in reversed(function.sections):
            lines[section.start : section.start + len(section.body)] = function.body(section)
    return "".join(f"{line}\n" for line in lines)


def complaints(files: dict[str, str]) -> list[str]:
    """What cannot be fixed automatically: shared text that the table lacks, and table text that functions lack."""
    every = [function for path, source in files.items() for function in functions(path, source)]
    counts = Counter(name for function in every for name in function.entries("Args"))
    found = []
    own: dict[str, list[str]] = defaultdict(list)
    for function in every:
        for name in function.entries("Args"):
            if counts[name] > 1 and function.chosen(ARGUMENTS.get(name, {})) is None:
                found.append(f"{function.name}: the table lacks the shared argument {name}")
        for section in function.sections:
            if section.name not in SENTENCES:
                continue
            left = section.sentences()
            for opening, text in function.shared_sentences(section.name).items():
                meant = [sentence for sentence in left if sentence.startswith(opening)]
                if len(meant) != (text is not None):
                    found.append(f"{function.name}: {len(meant)} sentences of {section.name} open with {opening!r}")
                left = [sentence for sentence in left if sentence not in meant]
            for sentence in left:
                own[sentence].append(function.name)
    return found + [f"{', '.join(names)}: the table lacks {words!r}" for words, names in own.items() if len(names) > 1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the docstrings, or report differences, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.project.docstrings", description=__doc__)
    parser.add_argument("--check", action="store_true", help="say what differs and write nothing")
    asked = parser.parse_args(arguments)
    differs = False
    for path, source in sources().items():
        table = rewritten(path, source)
        if table == source:
            continue
        differs = True
        if asked.check:
            print(
                "\n".join(difflib.unified_diff(source.splitlines(), table.splitlines(), path, "table", "", "", 0, ""))
            )
        else:
            (ROOT / "jaxpool" / path).write_text(table, encoding="utf-8")
            print(f"written: {path}")
    left = complaints(sources())
    print("\n".join(left))
    return bool(left or (asked.check and differs))


if __name__ == "__main__":
    raise SystemExit(main())
