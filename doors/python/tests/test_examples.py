"""The examples run, on small tables."""

import importlib.util
import pathlib

import numpy as np
import pytest

from sapwood import Fib

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_origins_of_a_synthetic_table(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "origins.svg"
    load("origins").main(["--prefixes", "5000", "--addresses", "20000", "--picture", str(picture)])
    shown = capsys.readouterr().out
    assert "IPv4 and 0 IPv6 prefixes" in shown and "20,000 addresses in" in shown
    assert picture.read_text().lstrip().startswith("<?xml")


def test_origins_of_texts(tmp_path):
    origins = load("origins")
    path = tmp_path / "table"
    path.write_text("10.0.0.0/8 64500\n11.0.0.0/8 64501\n12.0.0.0/8 64500\n")
    fib = origins.read(str(path))
    addresses = np.array([0x0A000001, 0x0B000001, 0x0C000001, 1], np.uint32)
    numbers, counts = origins.origins_of(fib, addresses)
    assert numbers[0] == numbers[2] >= 0 and numbers[3] == -1
    assert counts == {"64500": 2, "64501": 1}
    path.write_text("10.0.0.0/8\n2001:db8::/32\n")
    assert dict(origins.read(str(path)).items()) == {"10.0.0.0/8": "10", "2001:db8::/32": "2001"}


def test_columns(capsys):
    pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    columns = load("columns")
    columns.main()
    shown = capsys.readouterr().out
    assert "'origin': [64500, 64501, 64502, 0]" in shown
    assert shown.endswith("[64500, 0]\n[64500, 64503]\n")
    import polars as pl

    frame = pl.DataFrame({"a": ["192.0.2.7", "2001:db8::1", None, "198.51.100.200", "203.0.113.1"]})
    found = columns.with_origins(frame, columns.FIB, "a")["origin"]
    assert found.to_list() == [64500, 64503, None, 64502, None]
    # Columns of numbers, chunked and not, are read as arrays.
    import pyarrow as pa

    fib = Fib({"10.0.0.0/8": 1})
    chunked = pa.chunked_array([[0x0A000001], [1]], type=pa.uint32())
    for column in (chunked, pl.Series([0x0A000001, 1], dtype=pl.UInt32), pl.Series([0x0A000001, 1])):
        assert fib.lookup_many(column).tolist() == [0, -1]
    packed = pa.array([b"\x0a\0\0\1", None, b"\0\0\0\1"], type=pa.binary(4))
    assert fib.lookup_many(packed).tolist() == [0, -1, -1]
    assert fib.lookup_many(pl.Series([0x0A000001, None], dtype=pl.UInt32)).tolist() == [0, -1]


def test_the_benchmark_compares_its_answers(tmp_path, capsys, monkeypatch):
    spec = importlib.util.spec_from_file_location("bench", EXAMPLES.parent / "bench.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    path, table = tmp_path / "table", tmp_path / "record.csv"
    path.write_text("\n".join(bench.synthetic(3000)))
    options = ["bench.py", str(path), "--rounds", "1", "--addresses", "2000", "--csv", str(table)]
    monkeypatch.setattr("sys.argv", options)
    bench.main()
    assert "lookup_many_u32_ns" in capsys.readouterr().out
    lines = table.read_text().splitlines()
    assert lines[4] == "suite,case,engine,metric,value,unit,rounds,min,max"
    assert any(line.startswith("python,bgp,sapwood,memory,") for line in lines)
    # Wrong answers are an error.
    monkeypatch.setattr(bench.Sapwood, "single", lambda self, texts: [None] * len(texts))
    with pytest.raises(AssertionError):
        bench.measure(str(path), 1, 2000)
