"""Loading profiles: types, units, and errors that are one sentence."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Callable

import pytest

import mpisee
from mpisee._schema import SCHEMA

pandas = pytest.importorskip("pandas", reason="pandas is not installed")


def fails(expected: str, action: Callable[[], Any]) -> None:
    with pytest.raises(mpisee.ProfileError) as caught:
        action()
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_tables_have_the_types_of_the_schema(small: Path) -> None:
    profile = mpisee.load(small)
    calls = profile.calls
    assert {name: str(calls[name].dtype) for name in ("rank", "size_max", "time_s")} == {
        "rank": "uint32",
        "size_max": "uint64",
        "time_s": "float64",
    }
    assert calls["size_max"].max() == 2**63
    assert calls.groupby("call")["time_s"].sum()["MPI_Allreduce"] == 3.25
    assert profile.comms["label"].tolist() == ["NA"]
    assert profile.ranks["involuntary_switches"].tolist() == [3, pandas.NA]
    assert str(profile.ranks["involuntary_switches"].dtype) == "UInt64"


def test_columns_have_units(small: Path) -> None:
    profile = mpisee.load(small)
    assert profile.units("calls")["time_s"] == "s"
    assert profile.calls.attrs["units"]["bytes"] == "bytes"
    assert "shortest" in profile.calls.attrs["descriptions"]["min_s"]
    assert profile.ranks.attrs["units"]["cpu_quota"] == "cores"


def test_the_run_is_read_with_its_types(small: Path) -> None:
    run = mpisee.load(small).run
    assert (run.ranks, run.command, run.mpi_library) == (2, ("./app", "my input"), "Open MPI v5.0.3")
    assert run.start is not None and run.end is not None and (run.end - run.start).total_seconds() == 10
    assert "2 ranks on 1 node>" in repr(mpisee.load(small))


def test_tables_are_read_when_they_are_asked_for(small: Path) -> None:
    profile = mpisee.load(small)
    (small / "peers.csv").write_text("comm,rank\nW,0\n")
    assert len(profile.calls) == 3
    fails("has no column 'peer'", lambda: profile.peers)
    (small / "calls.csv").unlink()
    assert len(profile.calls) == 3, "what was read is kept"


def test_a_table_that_may_be_left_out_is_empty(small: Path) -> None:
    profile = mpisee.load(small)
    assert "arrivals" not in profile.tables and "calls" in profile.tables
    assert profile.arrivals.empty and "arrival_s" in profile.arrivals.columns
    (small / "calls.csv").unlink()
    fails("has no calls.csv; the profile is not whole", lambda: profile.calls)


def test_each_table_is_an_attribute(small: Path) -> None:
    profile = mpisee.load(small)
    # Names with a dash are none of Python.
    names = [name for name in SCHEMA if "-" not in name]
    assert [name for name in names if not isinstance(getattr(type(profile), name, None), property)] == []


def test_early_tables_get_the_columns_that_they_lack(small: Path) -> None:
    (small / "comms.csv").write_text(
        "comm,parent,created_by,size,members,label,topology,reorder,nodes,freed\nW,,,2,0-1,,,,1,0\n"
    )
    comms = mpisee.load(small).comms
    assert comms["count"].tolist() == [1] and comms["between"].tolist() == [""]


def test_sums_over_ranks_are_in_tables_of_their_own(tmp_path: Path, writer: Callable[..., Path]) -> None:
    tables: Any = {"nodes": [], "comms": [], "totals": [], "spread": [], "offsets": []}
    profile = mpisee.load(writer(tmp_path / "many.mpisee", tables, folded=True))
    assert profile.totals.empty
    fails("'totals' is in its place", lambda: profile.calls)


@pytest.mark.parametrize(
    "change, expected",
    [
        (lambda run: run.update(format_version=mpisee.FORMAT_VERSION + 1), "this package reads up to"),
        (lambda run: run.pop("format_version"), "no format_version"),
    ],
)
def test_formats_that_are_newer_are_refused(small: Path, change: Callable[[Any], Any], expected: str) -> None:
    run = json.loads((small / "run.json").read_text())
    change(run)
    (small / "run.json").write_text(json.dumps(run))
    fails(expected, lambda: mpisee.load(small))


def test_what_is_no_profile_is_said_in_a_sentence(small: Path, tmp_path: Path) -> None:
    fails("there is nothing of that name", lambda: mpisee.load(tmp_path / "none"))
    fails("it is a file", lambda: mpisee.load(small / "run.json"))
    fails("it has no run.json", lambda: mpisee.load(tmp_path))
    fails("there is no table 'cals'", lambda: mpisee.load(small).table("cals"))
    fails("there is no backend 'numpy'", lambda: mpisee.load(small, "numpy"))  # type: ignore[call-overload]
    (small / "calls.csv").write_text((small / "calls.csv").read_text().replace("MPI_Isend,4", "MPI_Isend,four"))
    fails("calls.csv' is not what the profile's format has there", lambda: mpisee.load(small).calls)
    (small / "run.json").write_text("{")
    fails("is not JSON", lambda: mpisee.load(small))


@pytest.mark.parametrize("backend", ["pandas", "polars"])
def test_tables_that_are_cut_off_are_refused(small: Path, backend: Any) -> None:
    path = small / "calls.csv"
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    fails("calls.csv' has no end; the file may be cut off", lambda: mpisee.load(small, backend).calls)
    lines = whole.decode().splitlines()
    lines[1] = ",".join(lines[1].split(",")[:9])
    path.write_text("".join(f"{line}\n" for line in lines))
    fails("calls.csv' ", lambda: mpisee.load(small, backend).calls)
    path.unlink()
    (small / "calls.parquet").write_bytes(b"no table")
    fails("calls.parquet' is no Parquet that can be read", lambda: mpisee.load(small, backend).calls)


def test_a_profile_is_read_from_any_folder(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(small.parent)
    profile = mpisee.load(small.name)
    monkeypatch.chdir("/")
    assert len(profile.calls) > 0


def test_polars_reads_the_same(small: Path) -> None:
    pytest.importorskip("polars", reason="polars is not installed")
    profile = mpisee.load(small, backend="polars")
    assert profile.calls["size_max"].max() == 2**63
    assert profile.comms["label"].to_list() == ["NA"]
    assert profile.ranks["involuntary_switches"].to_list() == [3, None]
    assert profile.messages.is_empty()
    (small / "calls.csv").write_text((small / "calls.csv").read_text().replace("MPI_Isend,4", "MPI_Isend,four"))
    fails("calls.csv' is not what the profile's format has there", lambda: mpisee.load(small, "polars").calls)


@pytest.mark.parametrize("backend", ["pandas", "polars"])
def test_parquet_is_read_like_csv(small: Path, tmp_path: Path, through: str, backend: Any) -> None:
    for package in ("pyarrow", backend):
        pytest.importorskip(package, reason=f"{package} is not installed")
    folder = tmp_path / "tables"
    subprocess.run([through, "export", str(small), "--parquet", str(folder)], check=True, capture_output=True)
    profile, exported = mpisee.load(small, backend), mpisee.load(folder, backend)
    assert exported.tables == profile.tables and exported.run == profile.run
    for name in profile.tables:
        assert exported.table(name).equals(profile.table(name)), name


def test_parquet_has_units_and_descriptions(small: Path, tmp_path: Path, through: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    subprocess.run([through, "export", str(small), "--parquet", str(tmp_path)], check=True, capture_output=True)
    for name in ("calls", "ranks"):
        schema = parquet.read_schema(tmp_path / f"{name}.parquet")
        described = json.loads(schema.metadata[b"mpisee.columns"])
        for column, about in zip(mpisee.SCHEMA[name].columns, described):
            assert (about["name"], about["description"]) == (column.name, column.description)
            assert about["unit"] == column.unit
            assert schema.field(column.name).nullable == column.may_be_empty
        assert json.loads(schema.metadata[b"mpisee.run"])["ranks"] == 2
