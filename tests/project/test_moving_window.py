"""The moving window of the site computes what jaxpool computes, and the calls that it shows give what it shows.

One process of Chromium evaluates all settings, which are drawn by seed, and writes the results into the page.
"""

import html
import json
import random
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxpool
from tests.harness.compilation import compiled_fast
from tests.project.browser import needs_browser, shown

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("moving window"), needs_browser]

DOCS = Path(__file__).parents[2] / "docs"
FIGURE = (DOCS / "moving_window.html").read_text(encoding="utf-8")
POOLS = {
    name: dict(re.findall(r'data-(\w+)="([^"]*)"', attributes))
    for attributes, name in re.findall(r"<option (data-.*)>(\w+)</option>", FIGURE)
}
PADDINGS = [0, 1, 2, 3, "VALID", "SAME", "SAME_LOWER", "CAUSAL", "SEMICAUSAL", "WRAP", "REFLECT", "SYMMETRIC", "EDGE"]

Settings = dict[str, Any]


def drawn(draw: random.Random, pool: str) -> Settings:
    """Settings that the controls allow, most of them with every cell."""
    _, least, most, step, _ = POOLS[pool].get("number", "p 1 1 1 1").split()
    size, steps = min(draw.randint(1, 12), 9), round((float(most) - float(least)) / float(step))
    number = round(float(least) + float(step) * draw.randint(0, steps), 6)
    kept = draw.choice([1, 1, 0.7, 0.3])
    return {
        "pool": pool,
        "size": size,
        "kernel": draw.randint(1, 5),
        "stride": draw.randint(1, 5),
        "padding": draw.choice(PADDINGS),
        "dilation": draw.choice([1, 1, 2, 3]),
        "ceil": pool != "blur_pool" and draw.random() < 0.5,
        "include": draw.random() < 0.5,
        "bins": draw.randint(1, 9),
        "number": int(number) if number.is_integer() else number,
        "x": [draw.randint(0, 9) for _ in range(size * size)],
        "mask": [draw.random() < kept for _ in range(size * size)],
    }


def settings() -> list[Settings]:
    """200 of all pools, and as many of those that other libraries have."""
    draw = random.Random(0)
    elsewhere = [name for name, attributes in POOLS.items() if "torch" in attributes or "flax" in attributes]
    return [drawn(draw, pools[number % len(pools)]) for pools in (list(POOLS), elsewhere) for number in range(200)]


def in_browser(folder: Path, program: str) -> Any:
    """The value of a program in a page with the moving window."""
    script, style = ((DOCS / "static" / f"moving_window.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))
    written = f"document.body.innerText = JSON.stringify((() => {{ {program} }})())"
    head = f'<!doctype html><meta charset="utf-8"><style>{style}</style>'
    page = f"{head}<body>{FIGURE}<script>{script}</script><script>{written}</script>"
    (folder / "page.html").write_text(page, encoding="utf-8")
    body = re.sub(r".*<body[^>]*>|</body>.*", "", shown(folder / "page.html", folder / "profile"), flags=re.DOTALL)
    return json.loads(html.unescape(body))


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Settings, Any]]:
    """All settings, each with what the page says of them."""
    program = f"""return {json.dumps(settings())}.map((s) => {{
        const {{ axis, results, gradient, error }} = MovingWindow.evaluate(s);
        const [values, indices] = ["value", "index"].map((key) => results.map((result) => result[key] ?? null));
        return {{ count: axis.windows.length, values, indices, gradient, error, calls: MovingWindow.calls(s) }};
    }});"""
    return list(zip(settings(), in_browser(tmp_path_factory.mktemp("browser"), program), strict=True))


def array_of(given: Settings) -> np.ndarray:
    """The numbers, in the layout of Flax."""
    return np.reshape(given["x"], (1, given["size"], given["size"], 1)).astype(float)


def names_of(given: Settings) -> dict[str, Any]:
    """What the calls of jaxpool name besides x."""
    x = array_of(given)
    columns = np.broadcast_to(np.arange(given["size"])[:, None] % 3.0, x.shape)
    return {
        "jaxpool": jaxpool,
        "np": np,
        "mask": np.reshape(given["mask"], x.shape),
        "weights": columns,
        "logits": columns,
    }


def chosen(result: Any, given: Settings) -> tuple[Any, Any]:
    """The values and, if any, the indices; of the largest cells, those of the last rank."""
    values, indices = result if isinstance(result, tuple) else (result, None)
    if given["pool"].startswith("top_k"):
        return values[..., -1], None if indices is None else indices[..., -1]
    return values, indices


@pytest.mark.usefixtures("for_this_platform")
@pytest.mark.parametrize("pool", POOLS)
def test_values_and_gradients_are_those_of_jaxpool(evaluated: list[tuple[Settings, Any]], pool: str) -> None:
    shown = [(given, page) for given, page in evaluated[:200] if given["pool"] == pool]

    def pooled(given: Settings, page: Any) -> Any:
        def total(x: jax.Array) -> Any:
            values, indices = chosen(eval(page["calls"][0], {**names_of(given), "x": x}), given)
            return values.sum(), (values, indices)

        return jax.value_and_grad(total, has_aux=True)(array_of(given))

    for given, page in shown:
        if page["error"]:
            with pytest.raises(ValueError, match=r"only padding|spans"):
                jax.eval_shape(lambda given=given, page=page: pooled(given, page))
    shown = [(given, page) for given, page in shown if not page["error"]]
    assert len(shown) >= 2
    for (given, page), result in zip(shown, compiled_fast(lambda: [pooled(*each) for each in shown])(), strict=True):
        (_, (values, indices)), gradient = result
        assert values.shape == (1, page["count"], page["count"], 1), given
        check_close(page["values"], values, given)
        check_close(page["gradient"], gradient, given)
        if indices is not None:
            np.testing.assert_array_equal(np.ravel(page["indices"]), indices.ravel(), err_msg=str(given))


def check_close(page: list[float], computed: Any, given: Settings) -> None:
    # The library bounds cells of one pool from below, by 1e-6.
    np.testing.assert_allclose(np.ravel(page), np.ravel(computed), rtol=1e-6, atol=2e-6, err_msg=str(given))


@pytest.mark.parametrize("library", ["PyTorch", "Flax"])
def test_calls_of_other_libraries_give_what_is_shown(evaluated: list[tuple[Settings, Any]], library: str) -> None:
    if library == "PyTorch":
        torch = pytest.importorskip("torch")
        names, make = {"F": torch.nn.functional}, lambda x: torch.tensor(x).permute(0, 3, 1, 2)
    else:
        names, make = {"nn": pytest.importorskip("flax.linen")}, jnp.asarray
    calls = [(given, page, page["calls"][1 + (library == "Flax")]) for given, page in evaluated if not page["error"]]
    calls = [each for each in calls if not each[-1].startswith("#")]
    assert len(calls) > 20
    for given, page, call in calls:
        # Flax divides by integers.
        with jax.numpy_dtype_promotion("standard"):
            values, indices = chosen(eval(call, {**names, "x": make(array_of(given))}), given)
        assert sorted(values.shape) == sorted((1, page["count"], page["count"], 1)), (call, given)
        check_close(page["values"], values, given)
        if indices is not None:
            np.testing.assert_array_equal(np.ravel(page["indices"]), np.ravel(indices), err_msg=str(given))


def test_keys_and_pointers_move_the_window_and_mask_cells(tmp_path: Path) -> None:
    program = """
        const figure = document.querySelector(".moving-window");
        figure.open = true;
        const [input, result] = figure.querySelectorAll("svg");
        const said = () => [figure.querySelector("p").textContent, figure.querySelector("pre").textContent];
        const press = (svg, key) => svg.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        function point(svg, kind, row, column) {
            const { left, top, width } = svg.getBoundingClientRect();
            const unit = (40 * width) / svg.viewBox.baseVal.width;
            const place = { clientX: left + unit * (column + 0.5), clientY: top + unit * (row + 0.5), bubbles: true };
            svg.dispatchEvent(new PointerEvent(kind, place));
        }
        const all = [said()];
        ["ArrowRight", "ArrowDown"].forEach((key) => press(result, key));
        all.push(said());
        point(result, "pointermove", 0, 3);
        all.push(said());
        point(input, "pointermove", 8, 0);
        all.push(said());
        ["ArrowRight", " "].forEach((key) => press(input, key));
        all.push([said()[1], figure.querySelectorAll("g.masked").length]);
        point(input, "click", 1, 2);
        all.push([said()[1], figure.querySelectorAll("g.masked").length]);
        point(input, "click", 7, 7);
        all.push([said()[1], figure.querySelector(".panels").innerHTML.includes("NaN")]);
        return all;
    """
    first, pressed, pointed, reached, masked, cleared, clicked = in_browser(tmp_path, program)
    places = [
        re.findall(r"result\[(\d), (\d)\] = \d, won by x\[\d, \d\]", said)
        for said, _ in (first, pressed, pointed, reached)
    ]
    assert places == [[("1", "1")], [("2", "2")], [("0", "3")], [("3", "0")]]
    call = first[1]
    with_mask = call.replace(', axis="NHWC")', ', axis="NHWC", where=mask)')
    # In the input and in the gradient.
    assert (masked, cleared, clicked) == ([with_mask, 2], [call, 0], [with_mask, False])
