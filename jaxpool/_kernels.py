"""What goes in the place of a `kernel_size`, besides sizes: bins, whole axes and footprints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.typing import ArrayLike

from jaxpool._geometry.footprint import Footprint, make_footprint
from jaxpool._geometry.kernels import Bins, Whole, parse_bins

whole: Whole = Whole()


def bins(*sizes: int | None) -> Bins:
    """Bins as a `kernel_size`: each pooled axis is cut into so many, whatever its size (adaptive pooling).

    Bin i of m, along n cells, holds the cells u with floor(i·n/m) ≤ u < ceil((i+1)·n/m), as in PyTorch. Every pool with
    a `kernel_size` and a `stride` takes bins, except blurs. With bins, leave out `stride`, `padding`, `dilation` and
    `ceil_mode`.

    Args:
        sizes: The number of bins, one int per pooled axis, in the order of `axis`: bins(7, 7) pools two axes. It may
            exceed the number of cells; None keeps an axis as it is. A single int is for every axis in `axis`.

    Returns:
        A frozen value, equal to that of the same sizes. The pooled axes of a result have these sizes.

    Raises:
        TypeError: a number is not an int.
        ValueError: there is no number, or one is less than 1.

    Derivative:
        That of the pool, over the cells of each bin; neighbouring bins may share a cell, which then gets both shares.

    Example:
        >>> jaxpool.max_pool(jnp.array([1.0, 2.0, 5.0, 4.0, 3.0]), jaxpool.bins(3))
        Array([2., 5., 4.], dtype=float32)
        >>> jaxpool.lp_pool(jnp.ones((1, 16, 16, 3)), 2, jaxpool.bins(2, 2), axis=(-3, -2)).shape
        (1, 2, 2, 3)
    """
    return parse_bins(sizes)


def footprint(cells: ArrayLike | Sequence[Any]) -> Footprint:
    """A footprint as a `kernel_size`: a window of any shape, such as a disk or a cross.

    The window is a box of the shape of `cells`, without the cells that are False there. These are not in the window:
    they never win, add nothing and count in no divisor, not even in the padding. Every pool with a `kernel_size` and a
    `stride` takes a footprint, except blurs. All other arguments mean what they mean for the box: `stride`, for
    example, is its shape unless given.

    Args:
        cells: Bool array, with an axis for each pooled axis, in the order of `axis`. Make it with NumPy: what `jnp`
            makes inside `jax.jit` is traced, which is an error.

    Returns:
        A frozen value, equal to that of an equal array. A result has the shape that it has for the box.

    Raises:
        TypeError: `cells` is not bool, or traced.
        ValueError: `cells` has no axis, or none is True.

    Derivative:
        That of the pool, over the cells of the footprint; among equal ones, the first in row-major order wins.

    Example:
        >>> disk = np.hypot(*np.mgrid[-1:2, -1:2]) <= 1
        >>> x = jnp.arange(16.0).reshape(4, 4)
        >>> jaxpool.min_pool(x, jaxpool.footprint(disk), stride=1)
        Array([[1., 2.],
               [5., 6.]], dtype=float32)
    """
    return make_footprint(cells)
