"""The picture of one function, as SVG in the text of its page, so that its letters have the colour of the page's text.

On the left the signal, the results, each as wide as the cells that it is of, and the gradient below them. On the right
the patch, the results and the gradient, the stronger the larger, on the same scale for all functions.
"""

import base64
import html
import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from evaluation import LENGTH, Evaluation, Span, call_of, evaluate
from matplotlib import image

HERE = Path(__file__).parent.resolve()
_WIDTH, _LEFT, _RIGHT = 360, 38, 356
_TITLE, _CHART, _GRADIENT = 18, 100, 54  # heights
_ORANGE, _PURPLE = (0.91, 0.47, 0.07), (0.55, 0.36, 0.96)
_CAPTION = """<span class="of-input">Grey</span>: the input. <span class="of-result">Blue</span>: the results, each as
wide as its window. <span class="of-gradient">Orange</span>: the gradient of the sum of the results{negative}; in the
patch, the stronger the larger."""
_NEGATIVE = ', <span class="of-negative">purple</span> where it is negative'


def figure(name: str) -> str:
    """The figure of a function, in HTML."""
    signal, patch = evaluate(name, 1), evaluate(name, 2)
    negative = min(signal.gradient.min(), patch.gradient.min()) < 0
    call = call_of(name)
    halves = [
        (_signal(name, signal), call.text(name, 1), "a signal, the results and the gradient"),
        (_patch(name, patch), call.text(name, 2), "a patch of a photograph, the results and the gradient"),
    ]
    drawn = "".join(
        f'<div><code class="literal">{html.escape(text)}</code>\n'
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{name}: {label}">\n{body}</svg></div>\n'
        for (body, height), text, label in halves
    )
    caption = _CAPTION.format(negative=_NEGATIVE if negative else "")
    panels = f'<div class="panels">\n{drawn}</div>'
    return f'<figure class="pool">\n{panels}\n<figcaption>{caption}</figcaption>\n</figure>\n'


def moving_window(name: str) -> str:
    """The figure whose window moves, at first under this pool; nothing if it has not this one."""
    moving, option = (HERE / "moving_window.html").read_text(encoding="utf-8"), f">{name}</option>"
    return moving.replace(option, f" selected{option}") if option in moving else ""


def _signal(name: str, drawn: Evaluation) -> tuple[str, int]:
    """Bars of the cells, lines of the results, and below them bars of the gradient."""
    wide = LENGTH / len(drawn.given)
    cells = [(wide * cell, wide * (cell + 1)) for cell in range(len(drawn.given))]
    spans, results = call_of(name).spans, drawn.result.ravel()
    chart = _Chart(_TITLE, _CHART, [*drawn.given, *results])
    body = [_text(_LEFT, 12, "signal and results"), *chart.frame()]
    body += [chart.bar(span, value, "of-input") for span, value in zip(cells, drawn.given, strict=True)]
    body += [chart.level(span, value) for span, value in zip(spans, results, strict=True)]
    if drawn.indices is not None:
        for span, value, index in zip(spans, results, drawn.indices, strict=True):
            body.append(_text(_across(sum(span) / 2), chart.height_of(value) - 4, str(index), "middle"))
    below = _TITLE + _CHART + 6
    chart = _Chart(below + _TITLE, _GRADIENT, drawn.gradient)
    body += [_text(_LEFT, below + 12, "gradient"), *chart.frame()]
    for span, slope in zip(cells, drawn.gradient, strict=True):
        body.append(chart.bar(span, slope, "of-gradient" if slope >= 0 else "of-negative"))
    return "\n".join(body) + "\n", below + _TITLE + _GRADIENT + 4


def _patch(name: str, drawn: Evaluation) -> tuple[str, int]:
    """Three pictures side by side."""
    side, gap = 111, 12
    above = _TITLE + 2
    results = np.squeeze(drawn.result, 0) if drawn.result.ndim == 3 else drawn.result
    shown = [
        ("patch", _grey(drawn.given)),
        ("results", _grids(results) if results.ndim == 1 else _grey(results)),
        ("gradient", _strength(drawn.gradient)),
    ]
    body = []
    for number, (title, colours) in enumerate(shown):
        left, shape = number * (side + gap), colours.shape
        tall, broad = (side * extent / max(shape[:2]) for extent in shape[:2])
        body += [
            _text(left, 12, title),
            f'<image x="{left}" y="{above}" width="{broad:.4g}" height="{tall:.4g}" href="{_png(colours)}"/>',
            f'<rect x="{left}" y="{above}" width="{broad:.4g}" height="{tall:.4g}" class="frame"/>',
        ]
    if name.startswith("roi"):
        low, high = (side * place / LENGTH for place in (call_of(name).spans[0][0], call_of(name).spans[-1][1]))
        body.append(f'<rect x="{low}" y="{above + low}" width="{high - low}" height="{high - low}" class="box"/>')
    return "\n".join(body) + "\n", above + side + 4


class _Chart:
    """A chart from `top` on with room for these values and for 0."""

    def __init__(self, top: float, tall: float, values: Sequence[float] | np.ndarray) -> None:
        self.low, self.high = min(0.0, float(np.min(values))), float(np.max(values))
        # Room for the number of an index.
        self.top, self.tall = top + 10, tall - 12

    def height_of(self, value: float) -> float:
        return self.top + self.tall * (self.high - value) / (self.high - self.low)

    def frame(self) -> list[str]:
        """The line at 0, and the least and largest values as numbers."""
        zero = self.height_of(0)
        lines = [f'<path d="M{_LEFT} {zero:.4g}H{_RIGHT}" class="frame"/>']
        # A number as close to 0 as its letters are high would cover that of 0.
        marked = [self.low, 0, self.high] if self.height_of(self.low) > zero + 12 else [0, self.high]
        return lines + [_text(_LEFT - 5, self.height_of(one) + 4, f"{one:.2g}", "end") for one in marked]

    def bar(self, span: Span, value: float, kind: str) -> str:
        left, right = _across(span[0]) + 1, _across(span[1]) - 1
        top, tall = self.height_of(max(value, 0)), abs(self.height_of(value) - self.height_of(0))
        return f'<rect x="{left:.5g}" y="{top:.5g}" width="{right - left:.5g}" height="{tall:.5g}" class="{kind}"/>'

    def level(self, span: Span, value: float) -> str:
        left, right, high = _across(span[0]) + 1.5, _across(span[1]) - 1.5, self.height_of(value)
        return f'<path d="M{left:.5g} {high:.5g}H{right:.5g}" class="of-result"/>'


def _across(cell: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * cell / LENGTH


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.4g}" y="{y:.4g}" text-anchor="{anchor}">{text}</text>'


def _grey(values: np.ndarray) -> np.ndarray:
    """Black is 0, white is 1 or the largest result."""
    shade = np.clip(values / max(1, values.max()), 0, 1)
    return np.stack([shade, shade, shade, np.ones_like(shade)], -1)


def _grids(results: np.ndarray) -> np.ndarray:
    """The grids of a pyramid side by side, equally large."""
    grids, start = [], 0
    for level in (1, 2, 4):
        grid = results[start : start + level * level].reshape(level, level)
        grids += [_grey(np.kron(grid, np.ones((4 // level, 4 // level)))), np.zeros((4, 1, 4))]
        start += level * level
    return np.concatenate(grids[:-1], 1)


def _strength(gradient: np.ndarray) -> np.ndarray:
    """The page shows through where the gradient is 0; the cube root makes room for an average's small shares."""
    colours = np.where(gradient[..., None] >= 0, _ORANGE, _PURPLE)
    return np.concatenate([colours, np.clip(np.cbrt(np.abs(gradient)), 0, 1)[..., None]], -1)


def _png(colours: np.ndarray) -> str:
    """The cells in a data URL; the browser enlarges them."""
    file = io.BytesIO()
    image.imsave(file, np.ascontiguousarray(colours), format="png")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
