"""The picture to pool: any image file, or the photograph of Grace Hopper that ships with matplotlib.

It becomes float32 in [0, 1] of shape (height, width, 3): grey is repeated, transparency is dropped, and integers are
divided by the largest value of their type.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import cbook, image

from examples.demonstration.size import Mistake, Size


def read_picture(path: Path | None) -> np.ndarray:
    """Read an image file, or the sample photograph if `path` is None."""
    if path is None:
        path = Path(str(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)))
    if not path.exists():
        raise Mistake(f"there is no picture {path}")
    try:
        cells = image.imread(path)
    except Exception as error:  # decoders of damaged files raise anything from OSError to SyntaxError
        reason = " ".join(str(error).split()) or type(error).__name__
        raise Mistake(f"{path} cannot be read as a picture: {reason}") from None
    return _normalised(cells)


def check_kernel_fits(size: Size, shape: Sequence[int]) -> None:
    """Raise if no window fits into a picture of this shape."""
    if size.kernel > min(shape[:2]):
        raise Mistake(
            f"--kernel {size.kernel} is larger than the picture of {shape[0]}×{shape[1]} cells; "
            f"give at most {min(shape[:2])}"
        )


def _normalised(cells: np.ndarray) -> np.ndarray:
    largest = np.iinfo(cells.dtype).max if np.issubdtype(cells.dtype, np.integer) else 1
    cells = np.clip(cells / largest, 0, 1).astype(np.float32)
    if cells.ndim == 2:
        cells = cells[:, :, None]
    colours = cells[:, :, :3] if cells.shape[2] >= 3 else cells[:, :, :1]
    return np.ascontiguousarray(np.broadcast_to(colours, (*cells.shape[:2], 3)))
