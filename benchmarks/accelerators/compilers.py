"""Compiling for an H100 and a TPU v5e on a machine that has neither.

Both compilers run wherever their plugins are installed, given a description of the device instead of the device itself.
Nothing is run, so figures from the compiled program have no noise. `prepare` is called before JAX touches any device.
"""

import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

TARGETS = {"gpu": "H100", "tpu": "v5e"}
# The name by which JAX chooses a platform's lowering.
PLATFORMS = {"gpu": "cuda", "tpu": "tpu"}
PLUGINS = {"gpu": "jax_cuda12_plugin", "tpu": "libtpu"}
_H100 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152 shared_memory_per_core: 233472
  threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128 block_dim_limit_x: 2147483647 block_dim_limit_y: 65535
  block_dim_limit_z: 65535 memory_bandwidth: 3352320000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 84929347584 shared_memory_per_block_optin: 232448 cuda_compute_capability { major: 9 }
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
}
platform_name: "CUDA" dnn_version_info { major: 9 minor: 7 } runtime_version { major: 12 minor: 9 patch: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""
_ENVIRONMENT = {
    # libtpu looks for a TPU, and for other processes that use it, unless told not to.
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}
# The GPU compiler must not try to time anything on the device.
_FLAGS = "--xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=0"


@dataclass(frozen=True)
class Program:
    """A compiled program's text, and the peak bytes of its temporaries."""

    text: str
    temporary: int


def missing(targets: Sequence[str]) -> list[str]:
    """The plugins that these targets need but that are not installed."""
    return [PLUGINS[target] for target in targets if importlib.util.find_spec(PLUGINS[target]) is None]


def prepare() -> None:
    """Set the options that the compilers read when they start."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if _FLAGS not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_FLAGS}".strip()
    # If libtpu is installed, JAX would wait for a TPU to run on.
    jax.config.update("jax_platforms", "cpu")


def compile_for(
    target: str, function: Callable[..., Any], arguments: Sequence[jax.ShapeDtypeStruct], chips: int, library: Any
) -> Program:
    """The program of `function`, traced by this version of jaxpool; of several TPU chips each has a part of axis 0.

    Its text and its bytes are those of one chip.
    """
    sharding = _sharding(target, chips)
    arrays = [jax.ShapeDtypeStruct(each.shape, each.dtype, sharding=sharding) for each in arguments]
    # The platform is named here: a described H100 calls itself "gpu", which JAX resolves by the devices it finds. The
    # residuals of a rule are chosen while tracing, for this platform too.
    with library.compiling_for(target):
        program = jax.jit(function).trace(*arrays).lower(lowering_platforms=(PLATFORMS[target],)).compile()
    text, analysis = program.as_text(), program.memory_analysis()
    if text is None or analysis is None:
        raise RuntimeError(f"the compiler for {TARGETS[target]} tells nothing about its program")
    return Program(text, analysis.temp_size_in_bytes)


@cache
def _sharding(target: str, chips: int) -> jax.sharding.Sharding:
    if target == "gpu":
        description = topologies.get_topology_desc(platform="cuda", topology="1x1x1", target_config=_H100)
    else:
        description = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2")
    if chips == 1:
        return SingleDeviceSharding(description.devices[0])
    mesh = Mesh(np.array(description.devices[:chips]), ("chips",), axis_types=(AxisType.Explicit,))
    return NamedSharding(mesh, PartitionSpec("chips"))
