"""Results as tables: printed, and written to `benchmarks/README.md` and to the README, between marks."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cases import FAMILIES

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PASSES = ("forward", "gradient")
PEERS = {"plain": "plain JAX", "reshape": "reshape", "flax": "Flax", "torch": "PyTorch", "copy": "copy"}
NOTHING = "–"
Row = dict[str, Any]
Table = list[list[str]]


def stored(platform: str) -> list[tuple[Path, dict[str, Any]]]:
    """Files and contents of all results of a platform, the newest version of JAX first."""
    read = [(path, json.loads(path.read_text(encoding="utf-8"))) for path in RESULTS.glob(f"{platform}-*.json")]
    return sorted(read, key=lambda each: [int(part) for part in each[1]["versions"]["jax"].split(".")], reverse=True)


def save(path: Path, results: dict[str, Any]) -> None:
    """Write results with a line for every row."""
    lines = [f" {json.dumps(key)}: {_lines(value)}" for key, value in results.items()]
    path.parent.mkdir(exist_ok=True)
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _lines(value: Any) -> str:
    if not isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return "[\n" + ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in value) + "\n ]"


def ratio(row: Row, what: str, peer: str) -> float | None:
    """How many times as long a peer takes; "best" is the better of plain JAX and a reshape."""
    if peer == "best":
        return min((one for one in (ratio(row, what, each) for each in ("plain", "reshape")) if one), default=None)
    times = row.get(what, {})
    return times[peer] / times["jaxpool"] if times.get(peer) and times.get("jaxpool") else None


def summary(rows: Sequence[Row]) -> list[Row]:
    """By family, pass and peer, how many times as long the peer takes: geometric mean, least and its case."""
    found = []
    for family, members in FAMILIES.items():
        for what in PASSES:
            for peer, name in {"best": "plain JAX", "torch": "PyTorch"}.items():
                of_family = [row for row in rows if row["pool"] in members]
                known = [(each, row["case"]) for row in of_family if (each := ratio(row, what, peer)) is not None]
                if known:
                    mean = math.exp(sum(math.log(each) for each, _ in known) / len(known))
                    least, case = min(known)
                    figures = {"cases": len(known), "mean": mean, "least": least, "case": case}
                    found.append({"family": family, "pass": what, "peer": name, **figures})
    return found


def tables(results: dict[str, Any]) -> Iterator[tuple[str, Table]]:
    """All tables of a run, each with a heading."""
    rows = results["cases"]
    yield "jaxpool beside others: how many times as long they take, geometric mean (least)", _of_families(rows)
    peers = [peer for peer in ("before", *PEERS) if any(ratio(row, what, peer) for row in rows for what in PASSES)]
    head = ["", *(text for what in PASSES for text in (f"{what}, ms", *(PEERS.get(peer, peer) for peer in peers)))]
    table = [[*head, "first call, s", "plain JAX", "kept", "plain JAX"]]
    for row in rows:
        cells = [row["case"]]
        for what in PASSES:
            cells += [number(row.get(what, {}).get("jaxpool")), *(number(ratio(row, what, peer)) for peer in peers)]
        for figures in (row.get("first gradient", {}), row.get("kept", {})):
            cells += [number(figures.get("jaxpool")), number(figures.get("plain"))]
        table.append(cells)
    yield "Milliseconds of jaxpool, and how many times as long the others take", table
    columns = {"forward": "forward, ms", "gradient": "gradient, ms", "first gradient": "first call, s"}
    growths = [["", *columns.values()]]
    for row in results.get("growth", []):
        cells = (", ".join(f"{key}: {number(value)}" for key, value in row[column].items()) for column in columns)
        growths.append([row["growth"], *cells])
    yield "Growth of jaxpool with the window and with the array", growths
    calls = [["µs a call", *(f"{how}, {who}" for how in ("eager", "compiled") for who in ("jaxpool", "plain JAX"))]]
    calls[0].append("PyTorch")
    for row in results.get("dispatch", []):
        cells = [number(row.get(how, {}).get(who)) for how in ("eager", "compiled") for who in ("jaxpool", "plain")]
        calls.append([row["dispatch"], *cells, number(row.get("eager", {}).get("torch"))])
    yield "The cost of a call", calls


def _of_families(rows: Sequence[Row]) -> Table:
    columns = [(what, peer) for what in PASSES for peer in ("plain JAX", "PyTorch")]
    table = [["", *(f"{what}: {peer}" for what, peer in columns)]]
    found = {(each["family"], each["pass"], each["peer"]): each for each in summary(rows)}
    for family in dict.fromkeys(key[0] for key in found):
        figures = (found.get((family, *column)) for column in columns)
        table.append([family, *(f"{each['mean']:.2g} ({each['least']:.2g})" if each else NOTHING for each in figures)])
    return table


def text(table: Table) -> str:
    """A table for a terminal."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = (zip(row, widths, strict=True) for row in table)
    return "\n".join("  ".join(c.rjust(w) if n else c.ljust(w) for n, (c, w) in enumerate(line)) for line in lines)


def markdown(table: Table) -> str:
    """A table for a page."""
    head, *rows = (f"| {' | '.join(row)} |".replace("|  |", "| |") for row in table)
    return "\n".join([head, f"|{'---|' * len(table[0])}", *rows])


def speeds() -> str:
    """The tables of the README: common cases on an H200 and on a CPU, from the newest results of each."""
    gpu, cpu = stored("gpu")[0][1], stored("cpu")[0][1]
    rows = {row["case"]: row for results in (gpu, cpu) for row in results["cases"]}
    heads = {
        "gpu": f"32×64×112×112, {gpu['machine']}, JAX {gpu['versions']['jax']}: values, with gradient",
        "cpu": f"8×56×56×64, 2 CPU cores, JAX {cpu['versions']['jax']}: with gradient, × jaxpool's time (higher: "
        "jaxpool faster)",
    }
    torch = [f"PyTorch {each['versions']['torch']}" for each in (gpu, cpu)]
    peers = {"plain": "`reduce_window`, ×", "reshape": "`reshape`, ×", "flax": "Flax, ×", "torch": f"{torch[1]}, ×"}
    on_gpu = [[heads["gpu"], "jaxpool, ms", "plain JAX, ms", f"{torch[0]}, ms", "copying the input, ms"]]
    on_cpu = [[heads["cpu"], *peers.values(), "jaxpool's first call, s", "plain JAX's, s"]]
    for case in ("max 2×2/2", "max 3×3/2 + 1"):
        row = rows[f"{case}, 32×64×112×112 NCHW float32"]
        times = ([row[what][who] for what in PASSES] for who in ("jaxpool", "plain", "torch", "copy"))
        on_gpu.append([_short(case), *(f"{values:.3f}, {gradient:.3f}" for values, gradient in times)])
    for case in ("max 2×2/2", "max 3×3/2 + 1", "avg 2×2/2", "avg 3×3/2 + 1"):
        row = rows[f"{case}, 8×56×56×64 NHWC float32"]
        first = (f"{row['first gradient'][who]:.2f}" for who in ("jaxpool", "plain"))
        on_cpu.append([_short(case), *(number(ratio(row, "gradient", peer)) for peer in peers), *first])
    return f"{markdown(on_gpu)}\n\n{markdown(on_cpu)}"


def _short(case: str) -> str:
    return f"`{case[:3]}_pool`, {case[4:].partition(' ')[0]}"


def page(platform: str) -> str:
    """The tables of the newest results of a platform, with versions and machine."""
    results = stored(platform)[0][1]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    parts = [f"{results['machine']}; {versions}."]
    for heading, table in tables(results):
        parts += [f"**{heading}**", markdown(table)] if len(table) > 1 else []
    return "\n\n".join(parts)


def write_pages() -> None:
    """Put the stored results into both pages."""
    for platform in ("cpu", "gpu"):
        write_block(ROOT / "benchmarks" / "README.md", platform, page(platform))
    write_block(ROOT / "README.md", "speed", speeds())


def write_block(path: Path, name: str, block: str) -> None:
    """Replace what stands between two marks of a page."""
    before, rest = path.read_text(encoding="utf-8").split(f"<!-- {name} -->\n")
    _, after = rest.split(f"<!-- end of {name} -->\n")
    marked = f"{before}<!-- {name} -->\n{block}\n<!-- end of {name} -->\n{after}"
    path.write_text(marked, encoding="utf-8")


def number(value: float | None) -> str:
    """Three digits or fewer."""
    if value is None:
        return NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def lines(rows: Iterable[Row]) -> Iterator[str]:
    """A line for every case as it is done."""
    for row in rows:
        parts = [f"{what} {number(row[what]['jaxpool'])} ms" for what in PASSES]
        parts += [f"plain JAX {number(ratio(row, what, 'plain'))}×" for what in PASSES]
        yield f"{row['case']}: {', '.join(parts)}"
