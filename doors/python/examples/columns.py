"""Origins of the addresses in columns of polars and pyarrow, without a loop over rows.

Needs polars, pyarrow and numpy.
"""

import numpy as np
import polars as pl
import pyarrow as pa

from sapwood import Fib

FIB = Fib(
    {
        "192.0.2.0/24": 64500,
        "198.51.100.0/24": 64501,
        "198.51.100.128/25": 64502,
        "2001:db8::/32": 64503,
    }
)


def origins(fib: Fib, addresses, *, mapped: bool = False) -> np.ndarray:
    """The origin of each address of a column, as uint32; 0 where there is none."""
    hops = np.array([hop or 0 for hop in fib.next_hops()] + [0], dtype=np.uint32)
    return hops[fib.lookup_many(addresses, mapped=mapped)]  # -1 takes the last one


def with_origins(frame: pl.DataFrame, fib: Fib, column: str) -> pl.DataFrame:
    """A frame with one more column: the origins of a column of addresses."""
    found = pl.Series("origin", origins(fib, frame[column]))
    return frame.with_columns(found.replace(0, None))


def main() -> None:
    # Texts of both families, with a null.
    frame = pl.DataFrame(
        {
            "address": ["192.0.2.7", "2001:db8::1", None, "198.51.100.200", "203.0.113.1"],
            "bytes": [10, 20, 30, 40, 50],
        }
    )
    frame = with_origins(frame, FIB, "address")
    print(frame)
    print(frame.group_by("origin").agg(pl.col("bytes").sum()).sort("origin"))

    # Numbers: the column's memory is read as it is.
    numbers = pa.array([0xC0000207, 0xC6336401, 0xC63364FF, 0xCB007101], type=pa.uint32())
    table = pa.table({"address": numbers, "origin": pa.array(origins(FIB, numbers))})
    print(table.to_pydict())

    # What is missing finds nothing: -1, here 0.
    print(origins(FIB, pa.array([0xC0000207, None], type=pa.uint32())).tolist())

    # IPv4 peers as a socket for both families shows them.
    print(origins(FIB, ["::ffff:192.0.2.7", "2001:db8::1"], mapped=True).tolist())


if __name__ == "__main__":
    main()
