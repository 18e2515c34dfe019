"""Tangent maps as the transposes of cotangent maps."""

from collections.abc import Callable
from typing import Any

import jax


def transposed(cotangent_map: Callable[[Any, Any], jax.Array], tangent: jax.Array, residuals: Any, output: Any) -> Any:
    """Apply the transpose of `cotangent_map(cotangent, residuals)`, linear in the cotangent, to the tangent.

    `output`, one array or several, has the shape and dtype of the cotangent. The checkpoint makes what reverse mode
    keeps exactly the residuals: without it the transposition of the transpose would keep arrays computed from them.
    """
    cotangent = jax.tree.map(jax.typeof, output)

    def tangent_map(tangent: jax.Array, residuals: Any) -> Any:
        return jax.linear_transpose(lambda c: cotangent_map(c, residuals), cotangent)(tangent)[0]

    return jax.checkpoint(tangent_map, prevent_cse=False)(tangent, residuals)
