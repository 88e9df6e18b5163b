"""Ordered maps for routes, names and ranges.

Fib: IPv4 and IPv6 prefixes, looked up by longest prefix, one by one or in arrays.
IpSet: sets of addresses: prefixes, ranges, union, difference.
NameMap: an ordered dict of texts, bytes or domain names.
RangeMap: ranges of integers, and the gaps between them.
FibFile, NameFile: saved maps, read where they lie.
LiveFib, LiveNames, LiveRanges: maps that one process writes while others read them.
"""

import sys

from . import _native
from ._mapping import InMemory, LiveReading, LiveWriting, Opened, Ranges, Reading, Routes, complete
from ._native import *
from ._native import __version__

complete(_native.Fib, InMemory, Routes)
complete(_native.NameReader, Opened)
complete(_native.NameMap, InMemory)
complete(_native.RangeMap, InMemory, Ranges)
complete(_native.RangeSnapshot, Reading, Ranges)
complete(_native.FibFile, Opened, Routes)
if sys.platform == "linux":
    complete(_native.LiveFib, LiveReading, Routes)
    complete(_native.LiveFibWriter, LiveWriting, Routes)
    complete(_native.LiveNames, LiveReading)
    complete(_native.LiveNamesWriter, LiveWriting)
    complete(_native.LiveRanges, LiveReading, Ranges)
    complete(_native.LiveRangesWriter, LiveWriting, Ranges)

__all__ = sorted(name for name in _native.__all__ if not name.startswith("_"))

del sys, complete, InMemory, LiveReading, LiveWriting, Opened, Ranges, Reading, Routes
