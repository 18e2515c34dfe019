"""The command line of `python -m benchmarks`, and what follows from it."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

DTYPES = ("float32", "bfloat16", "float16", "float64")
PEERS = ("plain", "reshape", "flax", "torch")
RESULTS = Path(__file__).parent / "results"
_BATCH_ON_ACCELERATORS = 16


@dataclass(frozen=True)
class Options:
    """What to measure, against which peers, on which device, and the folder to save to, if any."""

    device: Any  # A jax.Device, which type checkers treat as a variable.
    dtype: np.dtype
    peers: tuple[str, ...] = PEERS
    repetitions: int = 15
    batch: int = 1
    texts: tuple[str, ...] = ()
    folder: Path | None = None

    def wants(self, description: str) -> bool:
        """Whether to measure something with this group and name."""
        return not self.texts or any(text in description for text in self.texts)


def parse(arguments: Sequence[str] | None) -> Options:
    """Parse the command line, `sys.argv` by default; an error in it ends the program with status 2."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure jaxpool beside plain JAX, Flax, PyTorch and the time that copying takes.",
    )
    parser.add_argument("--case", action="append", default=[], metavar="TEXT", help="only what holds this text; repeat")
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="of the arrays (default: %(default)s)")
    parser.add_argument("--device", choices=("cpu", "gpu", "tpu"), help="where to run (default: where JAX does)")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, help="beside whom (default: all there are)")
    parser.add_argument("--repetitions", type=int, default=15, help="rounds, of which the median counts")
    parser.add_argument("--batch", type=int, help="times every batch (default: 1 on a CPU, 16 elsewhere)")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="save there, even if cases are left out")
    parsed = parser.parse_args(arguments)
    for name in ("repetitions", "batch"):
        if getattr(parsed, name) is not None and getattr(parsed, name) < 1:
            parser.error(f"argument --{name}: must be at least 1, got {getattr(parsed, name)}")
    try:
        device = jax.devices(parsed.device)[0]
    except RuntimeError as error:
        parser.error(f"argument --device: {error}")
    return Options(
        device=device,
        dtype=np.dtype(jax.numpy.dtype(parsed.dtype)),
        peers=tuple(peer for peer in PEERS if peer in parsed.peers),
        repetitions=parsed.repetitions,
        batch=parsed.batch or (1 if device.platform == "cpu" else _BATCH_ON_ACCELERATORS),
        texts=tuple(parsed.case),
        folder=parsed.output or (None if parsed.case else RESULTS),
    )
