"""All functions by family, each with the names that the literature has for it: titles, lists and searches use these."""

FAMILIES: dict[str, dict[str, str]] = {
    "Maxima and minima": {
        "max_pool": "max pooling",
        "min_pool": "min pooling",
        "max_pool_with_indices": "max pooling with indices (argmax)",
        "max_unpool": "max unpooling",
    },
    "Sums and averages": {
        "avg_pool": "average pooling, mean pooling",
        "sum_pool": "sum pooling",
    },
    "Between average and maximum": {
        "lp_pool": "Lp pooling, L2 pooling, power-average pooling",
        "gem_pool": "generalized-mean (GeM) pooling",
        "smooth_max_pool": "smooth max pooling, log-sum-exp pooling",
        "mellowmax_pool": "mellowmax pooling",
        "soft_pool": "softmax-weighted pooling (SoftPool)",
        "mixed_pool": "mixed max-average pooling",
        "stochastic_pool": "stochastic pooling",
    },
    "Medians and quantiles": {
        "median_pool": "median pooling, median filter",
        "quantile_pool": "quantile pooling, percentile filter",
    },
    "Anti-aliased pooling": {
        "blur_pool": "blur pooling, anti-aliased downsampling",
        "max_blur_pool": "max-blur pooling, anti-aliased max pooling",
    },
    "Adaptive pooling": {
        "adaptive_max_pool": "adaptive max pooling",
        "adaptive_max_pool_with_indices": "adaptive max pooling with indices (argmax)",
        "adaptive_avg_pool": "adaptive average pooling",
        "spatial_pyramid_pool": "spatial pyramid pooling (SPP)",
    },
    "Global pooling": {
        "global_max_pool": "global max pooling",
        "global_avg_pool": "global average pooling (GAP)",
        "global_gem_pool": "global generalized-mean (GeM) pooling",
    },
    "Fractional max pooling": {
        "fractional_max_pool": "fractional max pooling",
        "fractional_max_pool_with_indices": "fractional max pooling with indices (argmax)",
    },
    "Regions of interest": {
        "roi_align": "region of interest (RoI) align",
        "roi_pool": "region of interest (RoI) max pooling",
    },
}

# Context managers, with what they are for.
CONTEXTS: dict[str, str] = {
    "portable": "Taylor mode, forward Laplacians, exports to ONNX",
}

# Modules with the signatures of another library.
LIBRARIES: dict[str, str] = {
    "torch": "PyTorch",
    "flax": "Flax",
    "haiku": "Haiku",
    "equinox": "Equinox",
    "keras": "Keras",
}

# Names in libraries and papers that a reader may know and search for.
OTHER_NAMES: dict[str, str] = {
    "max_pool": "`MaxPool1d`, `MaxPool2d`, `MaxPool3d` in PyTorch; `MaxPooling1D`, `MaxPooling2D`, "
    "`MaxPooling3D` in Keras; `MaxPool` in Haiku",
    "max_pool_with_indices": "`MaxPool2d(…, return_indices=True)` in PyTorch; `max_pool_with_argmax` in TensorFlow",
    "max_unpool": "`MaxUnpool1d`, `MaxUnpool2d`, `MaxUnpool3d` in PyTorch",
    "avg_pool": "`AvgPool1d`, `AvgPool2d`, `AvgPool3d` in PyTorch; `AveragePooling1D`, `AveragePooling2D`, "
    "`AveragePooling3D` in Keras; `AvgPool` in Haiku",
    "lp_pool": "`LPPool1d`, `LPPool2d`, `LPPool3d` in PyTorch",
    "smooth_max_pool": "logsumexp pooling, LSE pooling",
    "blur_pool": "antialiasing, BlurPool",
    "max_blur_pool": "antialiasing, MaxBlurPool",
    "adaptive_max_pool": "`AdaptiveMaxPool1d`, `AdaptiveMaxPool2d`, `AdaptiveMaxPool3d` in PyTorch",
    "adaptive_avg_pool": "`AdaptiveAvgPool1d`, `AdaptiveAvgPool2d`, `AdaptiveAvgPool3d` in PyTorch",
    "global_max_pool": "`AdaptiveMaxPool2d(1)` in PyTorch; `GlobalMaxPooling2D` in Keras",
    "global_avg_pool": "`AdaptiveAvgPool2d(1)` in PyTorch; `GlobalAveragePooling2D` in Keras",
    "fractional_max_pool": "`FractionalMaxPool2d`, `FractionalMaxPool3d` in PyTorch",
    "roi_align": "`torchvision.ops.roi_align`, RoIAlign",
    "roi_pool": "`torchvision.ops.roi_pool`, RoIPool",
}
