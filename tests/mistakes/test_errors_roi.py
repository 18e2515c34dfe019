"""Wrong arguments of pools of boxes: the boxes, the number of bins, and the samples of `roi_align`."""

from typing import Any

import numpy as np
import pytest

from tests.mistakes.errors import Row, Traced, check_wrong_call, zeros

WRONG: list[Row] = [
    (TypeError, r"boxes must be floats, got dtype int32; write boxes\.astype", {"boxes": np.zeros((3, 4), np.int32)}),
    (TypeError, r"boxes must be a JAX or NumPy array, got list; convert it with jnp\.asarray\(boxes\)", {"boxes": [1]}),
    (ValueError, r"boxes of shape \(3, 5\) do not match 2 pooled axes; give .*\(count, 4\)", {"boxes": zeros(3, 5)}),
    (ValueError, r"boxes of shape \(4,\) do not match 2 pooled axes; give .*\(count, 4\)", {"boxes": zeros(4)}),
    (ValueError, r"boxes of shape \(2, 3, 4\) .*write jax\.vmap\(lambda x, boxes:", {"boxes": zeros(2, 3, 4)}),
    (ValueError, r"boxes of shape \(3, 4\) do not match 1 pooled axes; give .*\(count, 2\)", {"output_size": (2,)}),
    (ValueError, r"output_size 2 does not say how many axes to pool; write output_size=\(2, 2\)", {"output_size": 2}),
    (ValueError, r"output_size must be at least 1, got 0", {"output_size": (0, 2)}),
    (TypeError, r"output_size must be a Python int, got a traced value", {"output_size": (2, Traced(2))}),
    (ValueError, r"axis 3 is out of range", {"axis": (2, 3)}),
    (ValueError, r"axis 1 is pooled but has no cells", {"x": zeros(2, 0, 8)}),
    (TypeError, r"x is complex64, and complex numbers are not supported", {"x": zeros(2, 8, 8).astype(np.complex64)}),
]
WRONG_SAMPLES: list[Row] = [
    (ValueError, r"sampling_ratio must be at least 1, got 0", {"sampling_ratio": 0}),
    (TypeError, r"sampling_ratio must be an int, got 1\.5", {"sampling_ratio": 1.5}),
    (TypeError, r"sampling_ratio must be a Python int, got a traced value", {"sampling_ratio": Traced(2)}),
    (TypeError, r"aligned must be True or False, got 1", {"aligned": 1}),
]


@pytest.mark.parametrize(
    ("function", "exception", "message", "arguments"),
    [(function, *row) for function in ("roi_align", "roi_pool") for row in WRONG]
    + [("roi_align", *row) for row in WRONG_SAMPLES]
    + [("roi_pool", ValueError, "output_size 50000 is too large; give at most 46340", {"output_size": (2, 50000)})],
)
def test_wrong_arguments(function: str, exception: type[Exception], message: str, arguments: dict[str, Any]) -> None:
    check_wrong_call(function, exception, message, arguments)
