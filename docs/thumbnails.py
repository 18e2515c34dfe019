"""A small picture of every notebook, for the page that lists them: its first figure, in means of square blocks."""

import base64
import io
import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from matplotlib import image
from sphinx.application import Sphinx

import jaxpool

HERE = Path(__file__).parent.resolve()
WIDTH = 480


def write_thumbnails(app: Sphinx) -> None:
    """Write one beside each notebook."""
    for notebook in (HERE / "notebooks").glob("*.ipynb"):
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        shown = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
        figure = next(data["image/png"] for data in shown if "image/png" in data)
        pixels = image.imread(io.BytesIO(base64.b64decode("".join(figure))), format="png")
        block = max(1, pixels.shape[1] // WIDTH)
        means = jaxpool.avg_pool(jnp.asarray(pixels), block, axis="HWC")
        image.imsave(notebook.with_suffix(".png"), np.ascontiguousarray(means))


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx."""
    app.connect("builder-inited", write_thumbnails)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
