"""The call of each case in PyTorch: the same numbers in the same memory layout, on as many threads as JAX uses.

PyTorch's axes are channels first. An array with channels last is a view with permuted axes, which is what PyTorch
itself calls channels last.
"""

import importlib.util
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from benchmarks.cases import Case
from benchmarks.pools import NORM
from benchmarks.timing import Run


def is_installed(platform: str) -> bool:
    """Whether PyTorch runs on this platform; if so, it may use every core."""
    if platform == "tpu" or importlib.util.find_spec("torch") is None:
        return False
    import torch

    torch.set_num_threads(os.cpu_count() or 1)
    return platform == "cpu" or torch.cuda.is_available()


def runs(case: Case, platform: str, x: jax.Array, cotangent: jax.Array) -> dict[str, Run]:
    """Values, and the gradient with the forward pass, with the axes of x; nothing if PyTorch has no such pool."""
    import torch

    pool = _pool(case)
    if pool is None:
        return {}
    outer = (0, -1, *range(1, case.rank + 1)) if case.channels_last else tuple(range(case.rank + 2))
    back = tuple(int(axis) for axis in np.argsort([axis % len(outer) for axis in outer]))
    cells, weights = (_tensor(array, platform).permute(outer) for array in (x, cotangent))
    learnt = cells.detach().requires_grad_()

    def forward() -> Any:
        with torch.no_grad():
            return pool(cells).permute(back)

    def gradient() -> Any:
        return torch.autograd.grad(pool(learnt), learnt, weights)[0].permute(back)

    def wait(result: Any) -> Any:
        if platform == "gpu":
            torch.cuda.synchronize()
        return result

    return {"forward": Run(forward, wait), "gradient": Run(gradient, wait)}


def to_numpy(result: Any) -> np.ndarray:
    """A tensor as an array of float32 or wider."""
    return (result.float() if result.dtype.itemsize == 2 else result).detach().cpu().numpy()


def _pool(case: Case) -> Callable[[Any], Any] | None:
    import torch

    functional, rank = torch.nn.functional, case.rank
    sizes = (case.kernel, case.stride)
    axes = tuple(range(2, 2 + rank))
    if case.padding > case.kernel // 2 or (case.dilation > 1 and case.pool != "max"):
        return None

    def named(pool: str) -> Callable[..., Any]:
        return getattr(functional, f"{pool}{rank}d")

    pools: dict[str, Callable[[Any], Any]] = {
        "max": lambda x: named("max_pool")(x, *sizes, case.padding, case.dilation),
        "avg": lambda x: named("avg_pool")(x, *sizes, case.padding),
        "lp": lambda x: named("lp_pool")(x, float(NORM), *sizes),
        "adaptive max": lambda x: named("adaptive_max_pool")(x, case.bins),
        "adaptive avg": lambda x: named("adaptive_avg_pool")(x, case.bins),
        "global max": lambda x: torch.amax(x, axes, keepdim=True),
        "global avg": lambda x: torch.mean(x, axes, keepdim=True),
    }
    if rank > 1:
        pools["sum"] = lambda x: named("avg_pool")(x, *sizes, case.padding, divisor_override=1)
    return pools.get(case.pool)


def _tensor(array: jax.Array, platform: str) -> Any:
    import torch

    if platform == "gpu":
        return torch.from_dlpack(array)
    # PyTorch does not know NumPy's bfloat16; float32 represents every 16-bit number exactly.
    wide = np.array(array, np.float32 if array.dtype.itemsize == 2 else array.dtype)
    return torch.from_numpy(wide).to(getattr(torch, array.dtype.name))
