"""What the demonstration knows of one pooling function: its call, and everything that it is compared to."""

from collections.abc import Callable
from dataclasses import dataclass

import jax

from examples.demonstration import plain
from examples.demonstration.exact import Exact
from examples.demonstration.size import Rule, Size

Outputs = jax.Array | tuple[jax.Array, jax.Array]


@dataclass(frozen=True)
class Variant:
    """One pooling function with everything it is compared to.

    `function` is the function's name in jaxpool, `keyword` the argument that the row demonstrates, if any, and
    `detail` what the figure says about the parameters. `pool` gives the values, or values and indices, of a picture of
    shape (height, width, 3), by each of `rules`, and so does `plain`, which JAX can differentiate where
    `plain_gradient` says so. `tiled` is the method of arrays that does it for windows side by side, each of which has
    two axes of its own. `exact` gives these and the gradient in float64.
    """

    function: str
    pool: Callable[[jax.Array, Size, Rule], Outputs]
    exact: Exact
    plain: Callable[[jax.Array, Size], Outputs] | None = None
    tiled: str = ""
    plain_gradient: bool = True
    detail: str = ""
    keyword: str = ""
    rules: tuple[Rule, ...] = ("jvp", "vjp")

    def ways(self, size: Size) -> list[Callable[[jax.Array, Size], Outputs]]:
        """The ways to write it in plain JAX for windows of this size."""
        ways = [self.plain] if self.plain else []
        if self.tiled and size.stride == size.kernel:
            ways.append(lambda x, size: getattr(plain.tiles(x, size), self.tiled)((1, 3)))
        return ways

    @property
    def name(self) -> str:
        """The unique name of the row."""
        return f"{self.function} {self.keyword}".rstrip()
