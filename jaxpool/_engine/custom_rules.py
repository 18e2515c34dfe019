"""Functions with a derivative rule of their own, which portable programs leave to JAX."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax

from jaxpool._engine.platforms import is_portable


class WithRule:
    """A function with a forward rule, as `jax.custom_jvp` makes it; in portable programs the plain function."""

    def __init__(self, function: Callable[..., Any], static: Sequence[int] = ()) -> None:
        self._function = function
        self._with_rule = jax.custom_jvp(function, nondiff_argnums=tuple(static))
        self.defjvp = self._with_rule.defjvp
        self.__doc__ = function.__doc__

    def __call__(self, *arguments: Any) -> Any:
        return (self._function if is_portable() else self._with_rule)(*arguments)


def custom_rule(static: Sequence[int] = ()) -> Callable[[Callable[..., Any]], WithRule]:
    """Give a function a rule; `static` are the numbers of the arguments that are not differentiated."""
    return partial(WithRule, static=static)
