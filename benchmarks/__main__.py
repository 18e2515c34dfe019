"""`python -m benchmarks`: max and average pooling, forward and gradient, beside what plain JAX offers.

Both sides run in one process, in alternation, and the median counts. Values and gradients are compared before
anything is timed. The table is printed and saved as JSON under benchmarks/results/.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxpool
from benchmarks.cases import Case, cases


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument("--repetitions", type=int, default=15, help="runs per side, of which the median counts")
    parser.add_argument("--case", default="", help="only cases whose group and description hold this text")
    options = parser.parse_args()
    rows = []
    for case in cases():
        if options.case not in f"{case.group} {case.name}":
            continue
        row = measure(case, options.repetitions)
        rows.append(row)
        print(
            f"{case.group:12} {case.name:55} forward {row['forward_ms']:7.2f} ms, plain {row['plain_forward_ms']:7.2f}"
            f" ({row['forward_ratio']:5.1f}×)   gradient {row['gradient_ms']:7.2f} ms, plain"
            f" {row['plain_gradient_ms']:7.2f} ({row['gradient_ratio']:5.1f}×)",
            flush=True,
        )
    summary = {
        f"{group} {what}": summarise([row[f"{what}_ratio"] for row in rows if row["group"] == group])
        for group in dict.fromkeys(row["group"] for row in rows)
        for what in ("forward", "gradient")
    }
    for name, ratios in summary.items():
        print(f"{name:22} plain / jaxpool: geometric mean {ratios['mean']:.1f}×, worst {ratios['worst']:.2f}×")
    device = jax.devices()[0].platform
    path = Path(__file__).parent / "results" / f"{device}-jax-{jax.__version__}.json"
    if options.case == "":
        versions = {"jax": jax.__version__, "jaxpool": jaxpool.__version__, "machine": platform.machine()}
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"versions": versions, "summary": summary, "rows": rows}, indent=1) + "\n")
        print(f"saved {path}")


def measure(case: Case, repetitions: int) -> dict[str, Any]:
    """Compare, then time, one case."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=case.shape), jnp.float32)
    output = jax.eval_shape(case.plain, x)
    cotangent = jnp.asarray(np.random.default_rng(1).normal(size=output.shape), jnp.float32)
    forward = [jax.jit(case.ours), jax.jit(case.plain)]
    gradient = [jax.jit(lambda x, c, f=f: jax.vjp(f, x)[1](c)[0]) for f in (case.ours, case.plain)]
    np.testing.assert_allclose(forward[0](x), forward[1](x), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(gradient[0](x, cotangent), gradient[1](x, cotangent), rtol=1e-4, atol=1e-4)
    times = alternate([lambda f=f: f(x) for f in forward], repetitions)
    times += alternate([lambda f=f: f(x, cotangent) for f in gradient], repetitions)
    return {
        "group": case.group,
        "case": case.name,
        "forward_ms": times[0],
        "plain_forward_ms": times[1],
        "forward_ratio": times[1] / times[0],
        "gradient_ms": times[2],
        "plain_gradient_ms": times[3],
        "gradient_ratio": times[3] / times[2],
    }


def alternate(functions: list[Callable[[], jax.Array]], repetitions: int) -> list[float]:
    """Median milliseconds of each function, run in turn."""
    seconds: list[list[float]] = [[] for _ in functions]
    for _ in range(repetitions):
        for spent, function in zip(seconds, functions, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(function())
            spent.append(time.perf_counter() - start)
    return [statistics.median(spent) * 1e3 for spent in seconds]


def summarise(ratios: list[float]) -> dict[str, float]:
    """Geometric mean and worst of ratios."""
    return {"mean": float(np.exp(np.mean(np.log(ratios)))), "worst": min(ratios)} if ratios else {}


if __name__ == "__main__":
    main()
