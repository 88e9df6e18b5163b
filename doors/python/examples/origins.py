"""Origins of a million addresses: a table of prefixes, a batch of lookups, and a picture.

    python origins.py                         # a synthetic table
    python origins.py rib.bz2                 # an MRT dump: the origin of each prefix
    python origins.py prefixes.txt.gz         # lines of a prefix and an origin, or of a prefix alone

Needs numpy and matplotlib. The picture is written beside, as origins.svg.
"""

import argparse
import time
from collections import Counter

import numpy as np

from sapwood import Fib


def synthetic(many: int, seed: int = 1) -> Fib:
    """A table of prefixes with lengths and origins as a BGP table has them: most are /24."""
    rng = np.random.default_rng(seed)
    lengths = rng.choice([12, 16, 19, 20, 21, 22, 23, 24], many, p=[0.01, 0.05, 0.03, 0.05, 0.05, 0.11, 0.1, 0.6])
    starts = rng.integers(1 << 24, 223 << 24, many) >> (32 - lengths) << (32 - lengths)
    # A few systems originate many prefixes.
    origins = 64_500 + (rng.pareto(0.6, many) * 3).astype(np.int64) % 5_000
    octets = [f"{s >> 24}.{s >> 16 & 255}.{s >> 8 & 255}.{s & 255}" for s in starts.tolist()]
    return Fib((f"{o}/{n}", a) for o, n, a in zip(octets, lengths.tolist(), origins.tolist()))


def read(path: str) -> Fib:
    """A table of a file. Where it names no origins, the first octets of prefixes stand for them."""
    try:
        return Fib.from_mrt(path, value="origin")
    except ValueError as error:
        if "not an MRT dump" not in str(error):
            raise
    fib = Fib.from_text(path, truncate=True)
    if any(fib.values()):
        return fib
    return Fib((prefix, prefix.split(".")[0].split(":")[0]) for prefix in fib)


def origins_of(fib: Fib, addresses: np.ndarray) -> tuple[np.ndarray, Counter]:
    """The number of each address's origin, and how many addresses each origin has."""
    numbers = fib.lookup_many(addresses)
    counts = np.bincount(numbers[numbers >= 0], minlength=1)
    hops = fib.next_hops()
    return numbers, Counter({hops[n]: int(counts[n]) for n in np.flatnonzero(counts)})


def draw(path: str, addresses: np.ndarray, numbers: np.ndarray, origins: Counter) -> None:
    """How much of each /8 has an origin, and the origins with the most addresses."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "origins"
    from matplotlib import pyplot as plt

    first = (addresses >> 24).astype(np.int64)
    asked = np.bincount(first, minlength=256)
    found = np.bincount(first[numbers >= 0], minlength=256)
    share = np.divide(found, asked, out=np.zeros(256), where=asked > 0).reshape(16, 16)

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    image = left.imshow(share * 100, cmap="viridis", vmin=0, vmax=100)
    figure.colorbar(image, ax=left, label="addresses with an origin, %")
    left.set_xticks(range(0, 16, 2), [f"+{n}" for n in range(0, 16, 2)])
    left.set_yticks(range(0, 16, 2), [f"{n * 16}" for n in range(0, 16, 2)])
    left.set_xlabel("first octet")
    left.set_title("Share of each /8 that has a prefix")

    top = origins.most_common(15)[::-1]
    right.barh([str(origin) for origin, _ in top], [count for _, count in top], color="tab:blue")
    right.set_xlabel("addresses of the sample")
    right.set_title("Origins with the most addresses")
    right.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", nargs="?", help="an MRT dump or a text of prefixes")
    parser.add_argument("--addresses", type=int, default=1_000_000)
    parser.add_argument("--prefixes", type=int, default=100_000, help="of a synthetic table")
    parser.add_argument("--picture", default="origins.svg", help="an .svg or .png file")
    options = parser.parse_args(arguments)

    began = time.perf_counter()
    fib = read(options.table) if options.table else synthetic(options.prefixes)
    print(f"{fib} in {time.perf_counter() - began:.2f} s, {fib.memory()['total'] / 2**20:.1f} MiB")

    addresses = np.random.default_rng(2).integers(0, 2**32, options.addresses, dtype=np.uint32)
    began = time.perf_counter()
    numbers, origins = origins_of(fib, addresses)
    took = time.perf_counter() - began
    found = sum(origins.values())
    print(f"{len(addresses):,} addresses in {took * 1000:.1f} ms: {found:,} have a prefix")
    for origin, count in origins.most_common(5):
        print(f"{count:>9,}  {origin}")
    draw(options.picture, addresses, numbers, origins)
    print(f"The picture is in {options.picture}.")


if __name__ == "__main__":
    main()
