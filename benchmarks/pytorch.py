"""The call of each case in PyTorch: the same numbers in the same memory layout, on as many threads as JAX uses.

PyTorch's logical axes are channels first. An array with channels last is passed as a view with permuted axes, which is
what PyTorch itself calls channels last. Negating twice for a minimum would not be a fair comparison, and PyTorch has no
smooth maximum; both are left out, as is every size that PyTorch refuses.
"""

import functools
import importlib.util
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from benchmarks.cases import Case
from benchmarks.pools import LeftOut
from benchmarks.timing import Run


def check_installed(platform: str) -> None:
    """Raise `LeftOut` if PyTorch is not available for this platform; otherwise let it use every processor core."""
    if importlib.util.find_spec("torch") is None:
        raise LeftOut("PyTorch is not installed")
    import torch

    if platform == "tpu" or (platform == "gpu" and not torch.cuda.is_available()):
        raise LeftOut(f"PyTorch is installed without support for {platform}")
    torch.set_num_threads(os.cpu_count() or 1)


def runs(case: Case, platform: str, x: jax.Array, cotangent: jax.Array) -> dict[str, Run]:
    """Values, and the gradient with respect to x with and without the forward pass; results have the axes of x."""
    import torch

    pool = _pool(case)
    outer = (0, -1, *range(1, case.rank + 1)) if case.channels_last else tuple(range(case.rank + 2))
    back = tuple(int(axis) for axis in np.argsort([axis % len(outer) for axis in outer]))
    cells, weights = (_tensor(array, platform).permute(outer) for array in (x, cotangent))
    learnt = cells.detach().requires_grad_()

    def forward() -> Any:
        with torch.no_grad():
            return pool(cells).permute(back)

    def gradient() -> Any:
        return torch.autograd.grad(pool(learnt), learnt, weights)[0].permute(back)

    values = functools.cache(lambda: pool(learnt))

    def pullback() -> Any:
        return torch.autograd.grad(values(), learnt, weights, retain_graph=True)[0].permute(back)

    def wait(result: Any) -> Any:
        if platform == "gpu":
            torch.cuda.synchronize()
        return result

    calls = {"forward": forward, "gradient": gradient, "pullback": pullback}
    return {name: Run(call, wait) for name, call in calls.items()}


def to_numpy(result: Any) -> np.ndarray:
    """A tensor as an array, with 16 bits widened to 32."""
    import torch

    return (result.float() if result.dtype in (torch.bfloat16, torch.float16) else result).detach().cpu().numpy()


def _pool(case: Case) -> Callable[[Any], Any]:
    import torch

    functional, rank = torch.nn.functional, case.rank
    sizes = (case.kernel, case.stride)
    axes = tuple(range(2, 2 + rank))
    if case.kernel and case.group != "lp" and case.padding > case.kernel // 2:
        raise LeftOut("PyTorch takes padding of at most half the kernel")
    if case.dilation > 1 and case.group != "max":
        raise LeftOut("PyTorch has dilation in maxima only")
    if case.group == "lp" and case.padding:
        raise LeftOut("PyTorch has no padding in Lp pools")
    if case.group == "sum" and rank == 1:
        raise LeftOut("PyTorch has no divisor_override in one dimension")
    pools: dict[str, Callable[[Any], Any]] = {
        "max": lambda x: _named("max_pool", rank)(x, *sizes, case.padding, case.dilation),
        "sum": lambda x: _named("avg_pool", rank)(x, *sizes, case.padding, divisor_override=1),
        "avg": lambda x: _named("avg_pool", rank)(x, *sizes, case.padding),
        "lp": lambda x: _named("lp_pool", rank)(x, float(case.number), *sizes),
        "adaptive max": lambda x: getattr(functional, f"adaptive_max_pool{rank}d")(x, case.bins),
        "adaptive avg": lambda x: getattr(functional, f"adaptive_avg_pool{rank}d")(x, case.bins),
        "global max": lambda x: torch.amax(x, axes, keepdim=True),
        "global avg": lambda x: torch.mean(x, axes, keepdim=True),
    }
    if case.group not in pools:
        raise LeftOut(f"PyTorch has no pool for {case.group}")
    return pools[case.group]


def _named(pool: str, rank: int) -> Callable[..., Any]:
    import torch

    return getattr(torch.nn.functional, f"{pool}{rank}d")


def _tensor(array: jax.Array, platform: str) -> Any:
    import torch

    if platform == "gpu":
        return torch.from_dlpack(array)
    # PyTorch does not know NumPy's bfloat16; float32 represents every 16-bit number exactly.
    wide = np.array(array, np.float32 if array.dtype.itemsize == 2 else array.dtype)
    return torch.from_numpy(wide).to(getattr(torch, array.dtype.name))
