"""Pooling for JAX: every variant, any axes, exact derivatives of every order.

Maxima and minima: max_pool, min_pool, max_pool_with_indices, min_pool_with_indices, max_unpool.
Sums and averages: avg_pool, sum_pool.
Between average and maximum: lp_pool, gem_pool, smooth_max_pool, mellowmax_pool, soft_pool, mixed_pool, stochastic_pool.
Medians and quantiles: median_pool, quantile_pool.
Variances and standard deviations: var_pool, std_pool.
Means with weights from another array: weighted_pool, attention_pool.
The largest cells: top_k_pool, top_k_pool_with_indices.
Anti-aliased pooling: blur_pool, max_blur_pool.
Adaptive pooling: adaptive_max_pool, adaptive_max_pool_with_indices, adaptive_avg_pool, spatial_pyramid_pool.
Global pooling: global_max_pool, global_avg_pool, global_gem_pool.
Fractional max pooling: fractional_max_pool, fractional_max_pool_with_indices.
Regions of interest: roi_align, roi_pool.
In place of a kernel_size: bins, whole, footprint.
Dilation, erosion and their chains, by flat and by learnable elements: the module jaxpool.morphology.
For transformations that know only JAX's own primitives, such as jet and exports to ONNX: portable.
To compile for a platform that this machine does not have: compiling_for.
With the arguments of PyTorch, Flax, Haiku, Equinox or Keras: the modules of jaxpool.compat.

By default the last axes are pooled, one for each entry of the window. If channels come last, write axis="NHWC".
"""

import typing as _typing

from jaxpool import morphology as morphology
from jaxpool._average import adaptive_avg_pool as adaptive_avg_pool
from jaxpool._average import avg_pool as avg_pool
from jaxpool._average import global_avg_pool as global_avg_pool
from jaxpool._average import sum_pool as sum_pool
from jaxpool._blur import blur_pool as blur_pool
from jaxpool._blur import max_blur_pool as max_blur_pool
from jaxpool._call import complete_docstrings as _complete_docstrings
from jaxpool._exponentials import mellowmax_pool as mellowmax_pool
from jaxpool._exponentials import smooth_max_pool as smooth_max_pool
from jaxpool._exponentials import soft_pool as soft_pool
from jaxpool._extremes import adaptive_max_pool as adaptive_max_pool
from jaxpool._extremes import adaptive_max_pool_with_indices as adaptive_max_pool_with_indices
from jaxpool._extremes import global_max_pool as global_max_pool
from jaxpool._extremes import max_pool as max_pool
from jaxpool._extremes import max_pool_with_indices as max_pool_with_indices
from jaxpool._extremes import min_pool as min_pool
from jaxpool._extremes import min_pool_with_indices as min_pool_with_indices
from jaxpool._fractional import fractional_max_pool as fractional_max_pool
from jaxpool._fractional import fractional_max_pool_with_indices as fractional_max_pool_with_indices
from jaxpool._jax.platforms import compiling_for as compiling_for
from jaxpool._jax.platforms import portable as portable
from jaxpool._kernels import bins as bins
from jaxpool._kernels import footprint as footprint
from jaxpool._kernels import whole as whole
from jaxpool._mixed import mixed_pool as mixed_pool
from jaxpool._norms import gem_pool as gem_pool
from jaxpool._norms import global_gem_pool as global_gem_pool
from jaxpool._norms import lp_pool as lp_pool
from jaxpool._pyramid import spatial_pyramid_pool as spatial_pyramid_pool
from jaxpool._quantile import median_pool as median_pool
from jaxpool._quantile import quantile_pool as quantile_pool
from jaxpool._roi import roi_align as roi_align
from jaxpool._roi import roi_pool as roi_pool
from jaxpool._stochastic import stochastic_pool as stochastic_pool
from jaxpool._top_k import top_k_pool as top_k_pool
from jaxpool._top_k import top_k_pool_with_indices as top_k_pool_with_indices
from jaxpool._unpool import max_unpool as max_unpool
from jaxpool._variance import std_pool as std_pool
from jaxpool._variance import var_pool as var_pool
from jaxpool._weighted import attention_pool as attention_pool
from jaxpool._weighted import weighted_pool as weighted_pool
from jaxpool._words import answer_calls as _answer_calls
from jaxpool._words import answer_names as _answer_names

__version__ = "0.3.0"

if _typing.TYPE_CHECKING:
    from jaxpool import compat as compat

_complete_docstrings(__name__)
_answer_calls(__name__)
_answer_names(__name__, "compat")
