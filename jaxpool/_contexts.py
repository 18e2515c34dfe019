"""What a program is traced for, if not for the machine that traces it: another platform, or another interpreter."""

from __future__ import annotations

from contextlib import AbstractContextManager

from jaxpool._engine import platforms

# JAX's own names, and those of ours.
_PLATFORMS = {**{name: name for name in platforms.PLATFORMS}, "cuda": "gpu", "rocm": "gpu"}


def compiling_for(platform: str) -> AbstractContextManager[None]:
    """Trace pools for one platform, whatever machine traces them.

    What a pool keeps for its gradient, and in what format, suits the default platform of JAX. A program that is traced
    on a CPU, to be compiled ahead of time or exported for a GPU or a TPU, is right without this context, but slower: on
    a TPU the gradient of 2×2 maxima takes twice the cycles. Inside `with jaxpool.compiling_for("tpu"):` you get the
    program of a machine with a TPU. It also has the operations of that platform only, so that tracing takes less time.
    The context acts where a pool is traced, and a function under `jax.jit` is traced again.

    Args:
        platform: "cpu", "gpu" or "tpu"; "cuda" and "rocm" are GPUs.

    Returns:
        A context manager, in which pools run on every platform, but at their best on this one.

    Raises:
        ValueError: there is no such platform.

    Derivative:
        The same as outside, up to rounding.

    Example:
        >>> step = jax.jit(jax.grad(lambda x: jaxpool.max_pool(x, (2, 2)).sum()))
        >>> with jaxpool.compiling_for("tpu"):
        ...     traced = step.trace(jax.ShapeDtypeStruct((8, 64), jnp.float32))
        >>> program = traced.lower(lowering_platforms=("tpu",))
    """
    if platform not in _PLATFORMS:
        raise ValueError(f"compiling_for: platform must be one of {', '.join(_PLATFORMS)}, got {platform!r}")
    return platforms.only_for(_PLATFORMS[platform])


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
    return platforms.only_portable()
