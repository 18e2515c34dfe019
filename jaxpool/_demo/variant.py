"""What is known about one pooling function: a row of the tables in `variants` and `means`."""

from collections.abc import Callable
from dataclasses import dataclass

import jax

from jaxpool._arguments import Rule
from jaxpool._demo.exact import Exact
from jaxpool._demo.request import Size

Outputs = jax.Array | tuple[jax.Array, jax.Array]

BOTH_RULES: tuple[Rule, ...] = ("jvp", "vjp")


@dataclass(frozen=True)
class Variant:
    """One pooling function with everything it is compared to.

    `function` is the function's name in jaxpool, `keyword` the argument that the row is there to show, if any, and
    `detail` what the figure says of the parameters. `pool` gives the values, or values and indices, of a picture of
    shape (height, width, 3), by each of `rules`, and so does `plain`, which JAX can differentiate where
    `plain_gradient` says so. `exact` gives these and the gradient in float64.
    """

    function: str
    pool: Callable[[jax.Array, Size, Rule], Outputs]
    exact: Exact
    plain: Callable[[jax.Array, Size], Outputs] | None = None
    plain_gradient: bool = True
    detail: str = ""
    keyword: str = ""
    rules: tuple[Rule, ...] = BOTH_RULES

    @property
    def name(self) -> str:
        """What the row is called; no two rows share it."""
        return f"{self.function} {self.keyword}".rstrip()
