"""The geometries of the registry: array shapes with the arguments that place windows or bins on them."""

from typing import Any

import numpy as np

import jaxpool

Geometries = dict[str, tuple[tuple[int, ...], dict[str, Any]]]

GEOMETRIES: Geometries = {
    "line": ((2, 9), {"kernel_size": (3,)}),
    "line-gaps": ((2, 11), {"kernel_size": (2,), "stride": 5, "padding": 1}),
    "line-9": ((2, 20), {"kernel_size": (9,), "stride": 1, "padding": 4}),
    "line-13": ((30,), {"kernel_size": (13,), "stride": 2, "padding": ((3, 6),)}),
    "line-31": ((40,), {"kernel_size": (31,), "stride": 3, "padding": 15}),
    "line-9-dilated": ((26,), {"kernel_size": (9,), "stride": 4, "padding": 3, "dilation": 2}),
    "line-9-blocks": ((2, 30), {"kernel_size": (9,), "padding": ((2, 0),), "ceil_mode": True}),
    "plane": ((2, 3, 6, 4), {"kernel_size": (2, 2)}),
    "plane-overlap": ((2, 7, 6), {"kernel_size": (3, 3), "stride": 2, "padding": 1}),
    "plane-uneven": ((7, 8), {"kernel_size": (3, 2), "stride": (1, 2), "padding": ((2, 0), (0, 1))}),
    "plane-last": ((2, 6, 5, 3), {"kernel_size": 3, "stride": 2, "padding": "SAME", "axis": (-3, -2)}),
    "same-lower": ((9, 10), {"kernel_size": (4, 3), "stride": (3, 2), "padding": "SAME_LOWER"}),
    "dilated": ((9, 8), {"kernel_size": (3, 2), "stride": 2, "dilation": (3, 1), "padding": (1, 0)}),
    "dilated-common": ((9, 16), {"kernel_size": (3, 2), "stride": (2, 4), "dilation": (2, 6), "padding": (2, 3)}),
    "ceil": ((2, 8, 9), {"kernel_size": (3, 2), "stride": (2, 3), "padding": (1, 0), "ceil_mode": True}),
    "ceil-drops": ((7, 6), {"kernel_size": 2, "stride": (2, 4), "padding": 1, "ceil_mode": True, "axis": (0, 1)}),
    "ceil-partial": ((2, 4), {"kernel_size": (6,), "stride": 3, "ceil_mode": True}),
    "middle-axis": ((3, 8, 2), {"kernel_size": 3, "stride": 2, "axis": 1}),
    "odd-axes": (
        (5, 2, 6),
        {"kernel_size": (3, 2), "stride": (2, 1), "padding": ((1, 0), (0, 1)), "dilation": (1, 2), "axis": (2, 0)},
    ),
    "copies": ((2, 5, 6), {"kernel_size": (3, 2), "stride": (1, 2), "dilation": (1, 3), "padding": "REFLECT"}),
    "words": (
        (2, 5, 6),
        {"kernel_size": (3, 2), "stride": (2, 1), "padding": ("SEMICAUSAL", ("SYMMETRIC", (2, 1))), "ceil_mode": True},
    ),
    "volume": ((2, 4, 5, 4), {"kernel_size": (2, 3, 2), "stride": (1, 2, 2), "padding": (0, 1, 1)}),
    "volume-odd": ((4, 2, 5, 3), {"kernel_size": (2, 3, 2), "stride": (1, 2, 3), "padding": 1, "axis": (3, 0, 2)}),
    "ones": ((3, 4), {"kernel_size": (1, 1)}),
    "ones-apart": ((5, 4), {"kernel_size": 1, "stride": (2, 3), "padding": "VALID", "axis": (0, 1)}),
    "many-cells": ((18, 18), {"kernel_size": (17, 17), "stride": 1}),
    "wide-plane": ((2, 12, 11), {"kernel_size": (9, 8), "stride": (1, 3), "padding": (4, 2)}),
    "one-window": ((2, 5, 7), {"kernel_size": (5, 7), "stride": 1}),
    "blocks": ((2, 13, 10), {"kernel_size": (6, 5), "padding": ((3, 2), (0, 1)), "ceil_mode": True}),
}

BINS: Geometries = {
    "bins": ((2, 11), {"output_size": (4,)}),
    "bins-even": ((2, 12, 6), {"output_size": (4, 2)}),
    "bins-more": ((5,), {"output_size": (13,)}),
    "bins-twice": ((2, 3), {"output_size": (6,)}),
    "bins-last": ((2, 7, 5, 3), {"output_size": (3, 2), "axis": (-3, -2)}),
    "bins-kept": ((2, 7, 5), {"output_size": (None, 3)}),
    "bins-volume": ((4, 2, 5, 3), {"output_size": (2, 3, 3), "axis": (3, 0, 2)}),
    "bins-wide": ((40,), {"output_size": 3, "axis": 0}),
    "bins-many-cells": ((20, 35), {"output_size": (1, 2)}),
}

WHOLE: Geometries = {
    "whole": ((2, 3, 6, 4), {"axis": (-2, -1)}),
    "whole-last": ((2, 5, 4, 3), {"axis": (2, 1), "keepdims": False}),
    "whole-line": ((2, 19), {"axis": -1}),
    "whole-apart": ((3, 2, 9), {"axis": (2, 0)}),
}

_CROSS = np.array([[False, True, False], [True, True, True], [False, False, True]])

# Windows that are given as values in place of sizes.
KERNELS: Geometries = {
    "kernel-bins": ((2, 7, 5), {"kernel_size": jaxpool.bins(3, 2)}),
    "kernel-bins-last": ((2, 11, 3), {"kernel_size": jaxpool.bins(4), "axis": 1}),
    "kernel-whole": ((2, 5, 3), {"kernel_size": jaxpool.whole, "axis": (1, 2)}),
    "footprint": ((2, 7, 6), {"kernel_size": jaxpool.footprint(_CROSS), "stride": 1, "padding": 1}),
    "footprint-apart": (
        (5, 2, 9),
        {
            "kernel_size": jaxpool.footprint(_CROSS[:2]),
            "stride": (2, 3),
            "padding": ((1, 0), (0, 2)),
            "dilation": (2, 1),
            "ceil_mode": True,
            "axis": (2, 0),
        },
    ),
}
