"""The table of variants: a row for each pooling function of jaxpool, and all that is known about it here.

A row holds the call of jaxpool itself, the independent evaluation in float64, and the same by plain
`lax.reduce_window` where that exists. Timing, checking, table and figure go through the rows and know no
variant by name: a new one is one more row. The numbers p and β are chosen so that each variant looks different from
its neighbours.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax

import jaxpool
from jaxpool._arguments import Rule
from jaxpool._demo import exact, plain
from jaxpool._demo.exact import Exact, sliding, windowed
from jaxpool._demo.request import Size

Outputs = jax.Array | tuple[jax.Array, jax.Array]

BOTH_RULES: tuple[Rule, ...] = ("jvp", "vjp")
NORM_TYPE = 4.0
BETA = 20.0


@dataclass(frozen=True)
class Variant:
    """One pooling function with everything it is compared to.

    `name` is the function's name in jaxpool and `detail` what the figure says of its parameters. `pool` gives the
    values, or values and indices, of a picture of shape (height, width, 3), and so does `plain`, which JAX can
    differentiate where `plain_gradient` says so. `exact` gives these and the gradient in float64.
    """

    name: str
    pool: Callable[[jax.Array, Size, Rule], Outputs]
    exact: Exact
    plain: Callable[[jax.Array, Size], Outputs] | None = None
    plain_gradient: bool = True
    detail: str = ""
    rules: tuple[Rule, ...] = BOTH_RULES


VARIANTS: tuple[Variant, ...] = (
    Variant(
        "max_pool",
        lambda x, size, rule: jaxpool.max_pool(x, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, exact.largest),
        plain.max_pool,
    ),
    Variant(
        "min_pool",
        lambda x, size, rule: jaxpool.min_pool(x, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, exact.smallest),
        plain.min_pool,
    ),
    Variant(
        "max_pool_with_indices",
        lambda x, size, rule: jaxpool.max_pool_with_indices(x, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, exact.largest, indices=True),
        plain.max_pool_with_indices,
        plain_gradient=False,
        detail="the cells it names",
    ),
    Variant(
        "sum_pool",
        lambda x, size, rule: jaxpool.sum_pool(x, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, exact.total),
        plain.sum_pool,
    ),
    Variant(
        "avg_pool",
        lambda x, size, rule: jaxpool.avg_pool(x, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, exact.mean),
        plain.avg_pool,
    ),
    Variant(
        "lp_pool",
        lambda x, size, rule: jaxpool.lp_pool(x, NORM_TYPE, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, exact.norm(NORM_TYPE)),
        lambda x, size: plain.lp_pool(x, NORM_TYPE, size),
        detail=f"p = {NORM_TYPE:g}",
    ),
    Variant(
        "smooth_max_pool",
        lambda x, size, rule: jaxpool.smooth_max_pool(x, BETA, size.kernel, size.stride, axis=(0, 1), rule=rule),
        windowed(sliding, exact.smooth_largest(BETA)),
        lambda x, size: plain.smooth_max_pool(x, BETA, size),
        detail=f"β = {BETA:g}",
    ),
)
