"""The mistakes of newcomers: each is refused with a message that names it and says what to write, which works."""

import inspect
import re
from typing import Any

import jax
import numpy as np
import pytest

import jaxpool
from tests.mistakes import newcomers, newcomers_sizes
from tests.mistakes.newcomers import NAMES, NAMES_ELSEWHERE, NO_MISTAKES, Mistake

MISTAKES = newcomers_sizes.MISTAKES + newcomers.MISTAKES


def evaluate(call: str, **names: Any) -> Any:
    return eval(call, {**NAMES, **names})


def check(mistake: Mistake, **names: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        evaluate(mistake.wrong, **names)
    message = str(raised.value)
    assert raised.type in (TypeError, ValueError)  # JAX's own errors are subclasses
    assert message.startswith(tuple(f"{function}: " for function in re.findall(r"jaxpool\.(\w+)", mistake.wrong)))
    assert mistake.given in message
    assert mistake.write in message
    assert "\n" not in message
    assert len(message) < 300

    assert mistake.write in mistake.right
    assert evaluate(mistake.right, **names).shape == mistake.shape


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.words)
def test_mistake(mistake: Mistake) -> None:
    check(mistake)


def test_tensor_of_pytorch() -> None:
    mistake = Mistake(
        "a tensor as array",
        "jaxpool.max_pool(x, (2, 2))",
        "x must be a JAX or NumPy array, got Tensor",
        "jnp.asarray(x)",
        "jaxpool.max_pool(jnp.asarray(x), (2, 2))",
        (3, 2, 4),
    )
    check(mistake, x=pytest.importorskip("torch").ones(3, 4, 8))


def test_mistakes_are_many_and_differ() -> None:
    assert len({mistake.words for mistake in MISTAKES}) == len({mistake.wrong for mistake in MISTAKES}) >= 20


@pytest.mark.parametrize(("call", "same"), NO_MISTAKES.items())
def test_no_mistake(call: str, same: str) -> None:
    np.testing.assert_array_equal(evaluate(call), evaluate(same))


@pytest.mark.parametrize(("name", "wrong", "right"), NAMES_ELSEWHERE)
def test_names_of_other_libraries(name: str, wrong: str, right: str) -> None:
    with pytest.raises(TypeError, match=rf"unexpected keyword argument '{name}'"):
        evaluate(wrong)
    assert isinstance(evaluate(right), jax.Array)
    functions = [value for value in vars(jaxpool).values() if inspect.isfunction(value)]
    assert functions
    assert not any(name in inspect.signature(function).parameters for function in functions)
