"""Groups of functions that share rows in the tables of docstrings: names, as `docstring_paragraphs.py` reads them."""

from collections.abc import Sequence

Choice = dict[str, str]


def of_torch(*families: str, ranks: Sequence[int] = (1, 2, 3)) -> str:
    """A key for functions of `jaxpool.compat.torch`, of which there is one for each number of axes."""
    return " ".join(f"torch.{family}{rank}d" for family in families for rank in ranks)


TORCH_FAMILIES = ("max_pool", "avg_pool", "lp_pool", "adaptive_max_pool", "adaptive_avg_pool", "max_unpool")
TORCH_MAXIMA = of_torch("max_pool")
TORCH_AVERAGES = of_torch("avg_pool")
TORCH_NORMS = of_torch("lp_pool")
TORCH_BINS = of_torch("adaptive_max_pool", "adaptive_avg_pool")
TORCH_UNPOOLS = of_torch("max_unpool")
TORCH_RANDOM = of_torch("fractional_max_pool", ranks=(2, 3))
TORCH_MEANS = of_torch("avg_pool", "adaptive_avg_pool")
KERAS_MEANS = "keras.average_pool keras.adaptive_average_pool"

INDEXED = "max_pool_with_indices adaptive_max_pool_with_indices fractional_max_pool_with_indices"
SLIDING_EXTREMES = "max_pool min_pool max_pool_with_indices median_pool quantile_pool mixed_pool"
WINNERS = "max_pool min_pool adaptive_max_pool fractional_max_pool roi_pool"
SUMMED = "avg_pool adaptive_avg_pool global_avg_pool blur_pool max_blur_pool spatial_pyramid_pool"
EXPONENTIALS = "smooth_max_pool mellowmax_pool soft_pool"
NORMS = "lp_pool gem_pool"
COMPLEX = (
    "sum_pool avg_pool blur_pool adaptive_avg_pool global_avg_pool indices flax.avg_pool haiku.avg_pool "
    f"{KERAS_MEANS} {TORCH_MEANS}"
)
