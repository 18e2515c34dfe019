"""Pools for other interpreters of JAX programs: plain operations, without primitives or rules of ours."""

from __future__ import annotations

from contextlib import AbstractContextManager

from jaxpool._engine import platforms


def portable() -> AbstractContextManager[None]:
    """Trace pools as plain `lax` operations, for other interpreters of programs than `jax.jit`.

    Inside `with jaxpool.portable():` every pool consists of slices, comparisons, arithmetic and gathers, whose
    derivatives are JAX's own: there is no custom primitive, no `jax.custom_jvp`, no `jax.custom_vjp` and no barrier. So
    Taylor mode (`jax.experimental.jet`), forward Laplacians (folx) and exports to ONNX work (jax2onnx, with JAX before
    0.12; but not yet for `roi_pool`, `top_k_pool`, `weighted_pool` and `attention_pool`). It acts where a pool is
    traced, and a function under `jax.jit` is traced again. Compiled programs are longer and slower than without it, and
    are meant for arrays on one device.

    Returns:
        A context manager. The values of pools in it are the same up to rounding.

    Derivative:
        That of each pool, of every order, by JAX from plain operations; `rule` changes nothing. Ties: selections follow
        the first winner, as without it. At zeros, infinities and NaN, where a pool's own rule gives 0, the derivative
        may be NaN; so may that of a norm near the ends of the range of its dtype.

    Example:
        >>> from jax.experimental.jet import jet
        >>> x = jnp.array([1.0, 3.0, 2.0, 2.0])
        >>> with jaxpool.portable():
        ...     value, (slope, _) = jet(lambda x: jaxpool.max_pool(x, (2,)), (x,), ([x, jnp.zeros(4)],))
        >>> slope
        Array([3., 2.], dtype=float32)
    """
    return platforms.portable()
