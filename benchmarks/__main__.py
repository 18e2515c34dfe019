"""`python -m benchmarks`: max and average pooling, forward and gradient, beside plain `lax.reduce_window`.

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
from jax import lax

import jaxpool
from benchmarks.cases import CASES, Case

POOLS = {"max": (jaxpool.max_pool, lax.max, -np.inf), "avg": (jaxpool.avg_pool, lax.add, 0.0)}


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=main.__doc__)
    parser.add_argument("--repetitions", type=int, default=15, help="runs per side, of which the median counts")
    parser.add_argument("--case", default="", help="only cases whose description holds this text")
    options = parser.parse_args()
    rows = []
    for case in CASES:
        if options.case not in case.name:
            continue
        for pool in POOLS:
            row = measure(case, pool, options.repetitions)
            rows.append(row)
            print(
                f"{pool} {case.name:55} forward {row['forward_ms']:7.2f} ms, plain {row['plain_forward_ms']:7.2f}"
                f" ({row['forward_ratio']:5.1f}×)   gradient {row['gradient_ms']:7.2f} ms, plain"
                f" {row['plain_gradient_ms']:7.2f} ({row['gradient_ratio']:5.1f}×)",
                flush=True,
            )
    summary = {
        f"{pool} {what}": summarise([row[f"{what}_ratio"] for row in rows if row["pool"] == pool])
        for pool in POOLS
        for what in ("forward", "gradient")
    }
    for name, ratios in summary.items():
        print(f"{name:14} plain / jaxpool: geometric mean {ratios['mean']:.1f}×, worst {ratios['worst']:.2f}×")
    device = jax.devices()[0].platform
    path = Path(__file__).parent / "results" / f"{device}-jax-{jax.__version__}.json"
    if options.case == "":
        versions = {"jax": jax.__version__, "jaxpool": jaxpool.__version__, "machine": platform.machine()}
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"versions": versions, "summary": summary, "rows": rows}, indent=1) + "\n")
        print(f"saved {path}")


def measure(case: Case, pool: str, repetitions: int) -> dict[str, Any]:
    """Compare, then time, one pool in one case."""
    function, op, identity = POOLS[pool]

    def ours(x: jax.Array) -> jax.Array:
        return function(x, (case.kernel,) * 2, case.stride, case.padding, axis=case.axis)

    def plain(x: jax.Array) -> jax.Array:
        dimensions, strides, padding = [1] * 4, [1] * 4, [(0, 0)] * 4
        for axis in case.axis:
            dimensions[axis], strides[axis], padding[axis] = case.kernel, case.stride, (case.padding, case.padding)
        pooled = lax.reduce_window(x, np.float32(identity), op, dimensions, strides, padding)
        return pooled / case.kernel**2 if pool == "avg" else pooled

    x = jnp.asarray(np.random.default_rng(0).normal(size=case.shape), jnp.float32)
    cotangent = jnp.asarray(np.random.default_rng(1).normal(size=jax.eval_shape(plain, x).shape), jnp.float32)
    forward = [jax.jit(ours), jax.jit(plain)]
    gradient = [jax.jit(lambda x, c, f=f: jax.vjp(f, x)[1](c)[0]) for f in (ours, plain)]
    np.testing.assert_allclose(forward[0](x), forward[1](x), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(gradient[0](x, cotangent), gradient[1](x, cotangent), rtol=1e-4, atol=1e-4)
    times = alternate([lambda f=f: f(x) for f in forward], repetitions)
    times += alternate([lambda f=f: f(x, cotangent) for f in gradient], repetitions)
    return {
        "pool": pool,
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
