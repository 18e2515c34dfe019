"""Groups of functions that share rows in the tables of docstrings: names, as `docstring_paragraphs.py` reads them."""

Choice = dict[str, str]

INDEXED = "max_pool_with_indices min_pool_with_indices adaptive_max_pool_with_indices fractional_max_pool_with_indices"
SLIDING_EXTREMES = "max_pool min_pool max_pool_with_indices min_pool_with_indices median_pool quantile_pool mixed_pool"
WINNERS = "max_pool min_pool adaptive_max_pool fractional_max_pool roi_pool"
SUMMED = "avg_pool adaptive_avg_pool global_avg_pool blur_pool max_blur_pool spatial_pyramid_pool"
EXPONENTIALS = "smooth_max_pool mellowmax_pool soft_pool"
COMPUTED = "beta alpha norm_type correction weights logits"
WEIGHED = "weighted_pool attention_pool"
MOMENTS = "var_pool std_pool"
NORMS = "lp_pool gem_pool"
COMPLEX = "sum_pool avg_pool blur_pool adaptive_avg_pool global_avg_pool indices"
