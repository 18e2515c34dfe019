"""The argument `rule` of every pool: a rule for every mode of differentiation, or for reverse mode alone."""

from collections.abc import Callable
from typing import Any

import jax


def with_rule(rule: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function: as it is for "jvp", for "vjp" as a `jax.custom_vjp` that pulls its linearization back."""
    if rule == "jvp":
        return function
    reverse_only = jax.custom_vjp(function)
    reverse_only.defvjp(lambda *arguments: jax.vjp(function, *arguments), _pull_back)
    return reverse_only


def _pull_back(pull_back: Callable[[Any], Any], cotangent: Any) -> Any:
    return pull_back(cotangent)
