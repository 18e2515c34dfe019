"""The picture to pool: any image file, or the photograph of Grace Hopper that ships with matplotlib.

It becomes float32 in [0, 1] of shape (height, width, 3): grey is repeated, transparency is dropped, and integers are
divided by the largest value of their type.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import cbook, image

from examples.demonstration.size import Mistake, Size

_WINDOWS = 6  # along each side of the detail
_SHARE = 5  # of the picture's shorter side, at least, that the detail leaves out for each of its own lengths


@dataclass(frozen=True)
class Detail:
    """A square part of the picture, six windows a side, as one channel: the brightness of blocks of `step`² cells."""

    top: int
    left: int
    step: int
    cells: np.ndarray


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


def detail_of(picture: np.ndarray, size: Size) -> Detail:
    """Where a portrait has its eyes, with contrasts stretched to all of [0, 1]."""
    height, width = picture.shape[:2]
    side = min((_WINDOWS - 1) * size.stride + size.kernel, height, width)
    step = max(1, min(height, width) // (_SHARE * side))
    top, left = max(0, height // 3 - side * step // 2), (width - side * step) // 2
    part = picture[top : top + side * step, left : left + side * step]
    cells = part.reshape(side, step, side, step, -1).mean((1, 3, 4))[..., None]
    cells = (cells - cells.min()) / (np.ptp(cells) or 1)
    return Detail(top, left, step, cells)


def _normalised(cells: np.ndarray) -> np.ndarray:
    largest = np.iinfo(cells.dtype).max if np.issubdtype(cells.dtype, np.integer) else 1
    cells = np.clip(cells / largest, 0, 1).astype(np.float32)
    if cells.ndim == 2:
        cells = cells[:, :, None]
    colours = cells[:, :, :3] if cells.shape[2] >= 3 else cells[:, :, :1]
    return np.ascontiguousarray(np.broadcast_to(colours, (*cells.shape[:2], 3)))
