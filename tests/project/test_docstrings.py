"""Docstrings against their table: shared text is written once, and every copy of it is up to date."""

import inspect
import re

import pytest

import jaxpool
from tests.project.docstring_errors import ERRORS
from tests.project.docstring_keys import Choice
from tests.project.docstring_paragraphs import ARGUMENTS
from tests.project.docstring_sentences import SENTENCES, SLOTS
from tests.project.docstrings import complaints, functions, main, rewritten, sources

SOURCES = sources()
FUNCTIONS = {one.name: one for path, source in SOURCES.items() for one in functions(path, source)}
PATHS = {one.name: path for path, source in SOURCES.items() for one in functions(path, source)}
CHOICES: dict[str, Choice] = {
    **{f"slot {name}": choice for name, choice in SLOTS.items()},
    **{f"argument {name}": choice for name, choice in ARGUMENTS.items()},
    **{f"{error} {number}": choice for error, all_of in ERRORS.items() for number, choice in enumerate(all_of)},
    **{f"sentence {opening}": choice for all_of in SENTENCES.values() for opening, choice in all_of.items()},
}


def test_functions_were_found() -> None:
    public = {name for name, value in vars(jaxpool).items() if inspect.isfunction(value) and name[0] != "_"}
    assert len(public) > 25
    assert set(FUNCTIONS) == public


@pytest.mark.parametrize("path", [path for path, source in SOURCES.items() if [*functions(path, source)]])
def test_docstrings_are_those_of_the_table(path: str) -> None:
    assert SOURCES[path] == rewritten(path, SOURCES[path]), "run python -m tests.project.docstrings"


def test_what_is_shared_is_in_the_table() -> None:
    assert complaints(SOURCES) == []


def test_command_finds_nothing_to_write() -> None:
    assert main(["--check"]) == 0


@pytest.mark.parametrize("choice", CHOICES.values(), ids=list(CHOICES))
def test_every_row_of_the_table_is_used(choice: Choice) -> None:
    known = {word for name, one in FUNCTIONS.items() for word in (name, *one.entries("Args"))}
    assert set(" ".join(choice).split()) <= known
    chosen = {one.chosen(choice) for one in FUNCTIONS.values()}
    for key, text in choice.items():
        used = [one for one in FUNCTIONS.values() if one.chosen({**choice, key: f"{text}!"}) != one.chosen(choice)]
        assert used, f"no function has the row of {key!r}"
    assert chosen != {None}


@pytest.mark.parametrize("slot", SLOTS)
def test_every_slot_is_used(slot: str) -> None:
    assert any(f"{{{slot}}}" in text for choice in CHOICES.values() for text in (*choice, *choice.values())) or any(
        f"{{{slot}}}" in opening for all_of in SENTENCES.values() for opening in all_of
    )


@pytest.mark.parametrize(
    "words",
    ["Cells where it is False", "a size is not an int", "and x's dtype", "tie, as +0 and"],
    ids=["argument", "error", "result", "derivative"],
)
def test_changed_word_is_found_and_mended(words: str) -> None:
    first, _, last = words.rpartition(" ")
    anywhere = re.compile(r"\s+".join(map(re.escape, words.split())))
    files = {path: source for path, source in SOURCES.items() if anywhere.search(source)}
    assert files
    for path, right in files.items():
        wrong = anywhere.sub(f"{first} altered {last}", right)
        assert rewritten(path, wrong) == right != wrong


def test_broken_line_is_mended() -> None:
    path = PATHS["max_pool"]
    wrong = SOURCES[path].replace("Cells where it is False", "Cells\n            where it is False")
    assert rewritten(path, wrong) == SOURCES[path] != wrong


def test_function_keeps_its_words_in_another_file() -> None:
    path = PATHS["max_pool"]
    assert rewritten("elsewhere/_selecting.py", SOURCES[path]) == SOURCES[path]


def test_what_is_shared_without_a_row_is_found() -> None:
    text = '''def {name}(x):
    """Nothing.

    Args:
        x: Array of any shape.
        limit: What {name} makes of it.
        {name}_alone: Not shared.

    Derivative:
        Everything is as usual. The {name} is special.
    """
'''
    files = {f"_{name}.py": text.format(name=name) for name in ("first", "second")}
    assert complaints(files) == [
        "first: the table lacks the shared argument limit",
        "second: the table lacks the shared argument limit",
        "first, second: the table lacks 'Everything is as usual.'",
    ]


def test_missing_sentence_is_found() -> None:
    path = PATHS["min_pool"]
    files = {path: SOURCES[path].replace("NaN wins over", "Numbers lose to")}
    assert "min_pool: 0 sentences of Derivative open with 'NaN wins'" in complaints(files)
