"""Fib beside pytricia, py-radix and pysubnettree: lookups, batches, building, memory.

    pip install ./doors/python numpy pytricia py-radix pysubnettree
    python bench.py [prefixes.txt.gz] [--csv FILE] [--json FILE]

Without a file, the table is synthetic. Every answer is compared before its time counts. Rounds of
all engines alternate, and the medians count. Memory is what the process gains, in a process of its
own for each engine. An engine that is not installed is left out.
"""

import argparse
import datetime
import gzip
import ipaddress
import json
import os
import platform
import statistics
import subprocess
import sys
import time

import numpy as np


def synthetic(many: int) -> list[str]:
    rng = np.random.default_rng(1)
    lengths = rng.choice([12, 16, 19, 20, 21, 22, 23, 24], many, p=[0.01, 0.05, 0.03, 0.05, 0.05, 0.11, 0.1, 0.6])
    starts = rng.integers(1 << 24, 223 << 24, many) >> (32 - lengths) << (32 - lengths)
    return sorted({f"{ipaddress.IPv4Address(s)}/{n}" for s, n in zip(starts.tolist(), lengths.tolist())})


def read(path: str | None) -> list[str]:
    """The IPv4 prefixes of a file: the tables of all engines have them alone."""
    if path is None:
        return synthetic(500_000)
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path)
    with opened as lines:
        words = (line.split() for line in lines)
        return [word[0] for word in words if word and ":" not in word[0]]


HOPS = [f"192.0.2.{n}" for n in range(200)]


def value_of(index: int) -> str:
    return HOPS[index * 7919 % len(HOPS)]


class Sapwood:
    name = "sapwood"

    def __init__(self, prefixes):
        from sapwood import Fib

        self.table = Fib((prefix, value_of(i)) for i, prefix in enumerate(prefixes))

    def single(self, texts):
        table = self.table
        return [table.get(text) for text in texts]


class Pytricia:
    name = "pytricia"

    def __init__(self, prefixes):
        import pytricia

        self.table = table = pytricia.PyTricia(32)
        for i, prefix in enumerate(prefixes):
            table[prefix] = value_of(i)

    def single(self, texts):
        table = self.table
        return [table.get(text) for text in texts]


class Radix:
    name = "py-radix"

    def __init__(self, prefixes):
        import radix

        self.table = table = radix.Radix()
        for i, prefix in enumerate(prefixes):
            table.add(prefix).data["hop"] = value_of(i)

    def single(self, texts):
        find = self.table.search_best
        return [found.data["hop"] if (found := find(text)) else None for text in texts]


class SubnetTree:
    name = "pysubnettree"

    def __init__(self, prefixes):
        import SubnetTree

        self.table = table = SubnetTree.SubnetTree()
        for i, prefix in enumerate(prefixes):
            table[prefix] = value_of(i)

    def single(self, texts):
        table = self.table
        return [table[text] if text in table else None for text in texts]


ENGINES = {engine.name: engine for engine in (Sapwood, Pytricia, Radix, SubnetTree)}


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def timed(f, *arguments):
    began = time.perf_counter()
    result = f(*arguments)
    return time.perf_counter() - began, result


def in_a_process(name: str, path: str | None) -> dict:
    """Seconds to build an engine's table, and the bytes that its process gains."""
    run = subprocess.run(
        [sys.executable, __file__, "--engine", name, *([path] if path else [])],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(run.stdout)


def build(name: str, path: str | None) -> None:
    prefixes = read(path)
    engine = ENGINES[name](prefixes[:1000])  # imports, and first allocations
    del engine
    before = resident()
    took, engine = timed(ENGINES[name], prefixes)
    print(json.dumps({"seconds": took, "bytes": resident() - before, "prefixes": len(prefixes)}))


def measure(path: str | None, rounds: int, many: int) -> list[dict]:
    prefixes = read(path)
    case = "bgp" if path else "synthetic"
    addresses = np.random.default_rng(2).integers(0, 2**32, many, dtype=np.uint32)
    numbers = addresses.tolist()
    texts = [str(ipaddress.IPv4Address(n)) for n in numbers]
    engines = {}
    for name, make in ENGINES.items():
        try:
            engines[name] = make(prefixes)
        except ImportError:
            print(f"{name} is not installed", file=sys.stderr)
    fib = engines["sapwood"].table
    expected = engines["sapwood"].single(texts)
    hops = [*fib.next_hops(), None]
    assert [hops[n] for n in fib.lookup_many(addresses).tolist()] == expected

    def loop(table):
        # What a user of pytricia writes for an array: an address is a str for each row.
        return [table.get(str(ipaddress.IPv4Address(n))) for n in numbers]

    def loop_of_texts(table):
        return [table.get(text) for text in texts]

    lanes = {
        ("sapwood", "lookup_many_u32"): lambda: fib.lookup_many(addresses),
        ("sapwood", "lookup_many_u32_2_threads"): lambda: fib.lookup_many(addresses, threads=2),
        ("sapwood", "lookup_many_u32_objects"): lambda: fib.lookup_many(addresses, objects=True),
        ("sapwood", "lookup_many_str"): lambda: fib.lookup_many(texts),
    }
    for name, engine in engines.items():
        lanes[name, "single_str"] = lambda engine=engine: engine.single(texts)
    if "pytricia" in engines:
        table = engines["pytricia"].table
        lanes["pytricia", "loop_u32"] = lambda: loop(table)
        lanes["pytricia", "loop_str"] = lambda: loop_of_texts(table)
    times: dict[tuple[str, str], list[float]] = {lane: [] for lane in lanes}
    for _ in range(rounds):
        for lane, run in lanes.items():
            # Short ones are repeated: the quickest of five counts for the round.
            best = None
            for _ in range(5 if lane[1].startswith("lookup_many_u32") else 1):
                took, answers = timed(run)
                best = took if best is None else min(best, took)
            if lane[1].startswith("lookup_many") and not isinstance(answers, list):
                answers = [hops[n] for n in answers.tolist()]
            assert answers == expected, lane
            times[lane].append(best / many * 1e9)
    rows = []

    def row(engine, metric, unit, values):
        rows.append(
            {
                "suite": "python",
                "case": case,
                "engine": engine,
                "metric": metric,
                "value": round(statistics.median(values), 4),
                "unit": unit,
                "rounds": len(values),
                "min": round(min(values), 4),
                "max": round(max(values), 4),
            }
        )

    for (engine, metric), values in times.items():
        row(engine, metric + "_ns", "ns", values)
    for name in engines:
        built = [in_a_process(name, path) for _ in range(min(rounds, 3))]
        row(name, "build_ns", "ns", [b["seconds"] / b["prefixes"] * 1e9 for b in built])
        row(name, "memory", "bytes", [b["bytes"] / b["prefixes"] for b in built])
    return rows


def targets(rows: list[dict]) -> list[str]:
    """The ratios that count, as lines."""
    values = {(row["engine"], row["metric"]): row["value"] for row in rows}
    if ("pytricia", "loop_u32_ns") not in values:
        return []
    many = values["sapwood", "lookup_many_u32_ns"]
    single = values["pytricia", "single_str_ns"] / values["sapwood", "single_str_ns"]
    return [
        f"one str: {single:.2f} times pytricia's speed (wanted 1.5)",
        f"a million uint32: {1e3 / many:.1f} million/s (wanted 50), "
        f"{values['pytricia', 'loop_u32_ns'] / many:.0f} times a loop over pytricia (wanted 100), "
        f"{values['pytricia', 'loop_str_ns'] / many:.0f} times one over str that are there already",
        f"memory: {values['sapwood', 'memory'] / values['pytricia', 'memory']:.2f} of pytricia's "
        "(wanted at most 0.3)",
    ]


def machine(load: float) -> str:
    """The machine, and how busy it was before: an idle one has a load of about 0."""
    model = next(
        (line.split(":")[1].split() for line in open("/proc/cpuinfo") if "model name" in line), ["?"]
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}"
    return f"{' '.join(model[:2])}, {os.cpu_count()} cores, {system}, {memory:.0f} GiB, Python {platform.python_version()}, load {load:.1f} before"


def write_csv(path: str, rows: list[dict], load: float) -> None:
    git = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    with open(path, "w") as out:
        print(f"# date: {datetime.date.today()}", file=out)
        print(f"# commit: {git.stdout.strip() or '?'}", file=out)
        print("# command: python doors/python/bench.py PREFIXES --csv FILE", file=out)
        print(f"# machine: {machine(load)}", file=out)
        print(*rows[0], sep=",", file=out)
        for row in rows:
            print(*row.values(), sep=",", file=out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prefixes", nargs="?", help="a text of prefixes, which gzip may have packed")
    parser.add_argument("--csv", help="a file for the results")
    parser.add_argument("--json", help="a file for the results")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--addresses", type=int, default=1_000_000)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        build(options.engine, options.prefixes)
        return
    load = os.getloadavg()[0]
    rows = measure(options.prefixes, options.rounds, options.addresses)
    for row in rows:
        unit = "bytes/prefix" if row["unit"] == "bytes" else row["unit"]
        print(f"{row['engine']:<13} {row['metric']:<28} {row['value']:>10.1f} {unit}  ({row['min']:.1f} to {row['max']:.1f})")
    print(*targets(rows), sep="\n")
    if options.csv:
        write_csv(options.csv, rows, load)
    if options.json:
        with open(options.json, "w") as out:
            json.dump(rows, out, indent=1)


if __name__ == "__main__":
    main()
