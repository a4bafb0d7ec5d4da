"""The worked examples, run on a real profile."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict

import pytest

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"


def execute(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: Path) -> Dict[str, Any]:
    monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
    return runpy.run_path(str(NOTEBOOKS / name))


def export(through: str, *arguments: object) -> None:
    subprocess.run([through, "export", *map(str, arguments)], check=True, capture_output=True)


def test_duckdb(recorded: Path, through: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    tables = tmp_path / "tables"
    export(through, recorded, "--parquet", tables)
    of_csv = execute(monkeypatch, "tables_duckdb.py", recorded)
    of_parquet = execute(monkeypatch, "tables_duckdb.py", recorded, tables)
    for answer in ("busiest", "uneven"):
        rows = of_csv[answer].fetchall()
        assert rows == of_parquet[answer].fetchall() and rows
    assert '"unit":"s"' in of_parquet["metadata"][0][0]


def test_pandas(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    found = execute(monkeypatch, "imbalance_pandas.py", recorded)
    assert found["table"].loc["W_a1", "created_by"] == "MPI_Cart_create"
    assert 0 <= found["lost"].sum() <= 1


def test_thicket(recorded: Path, through: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("hatchet", "thicket"):
        pytest.importorskip(package, reason=f"llnl-{package} is not installed")
    import mpisee

    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file in files:
        export(through, recorded, "--hatchet", file)
    found = execute(monkeypatch, "thicket.py", *files)
    profile = mpisee.load(recorded)
    mpi_s = profile.calls["time_s"].sum()
    assert found["calls"]["time"].sum() == pytest.approx(2 * mpi_s, rel=1e-6)
    # The root has the wall time of each rank.
    roots = found["frame"].dataframe.loc[found["frame"].graph.roots[0]]
    walls = profile.ranks.set_index("rank")["wall_s"]
    for rank, wall_s in walls.items():
        assert roots.loc[rank, "time (inc)"] == pytest.approx(wall_s, rel=1e-3)


def test_networkx_reads_the_graphs(recorded: Path, through: str, tmp_path: Path) -> None:
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    import mpisee

    profile = mpisee.load(recorded)
    export(through, recorded, "--graphml", tmp_path / "comms.graphml")
    comms = networkx.read_graphml(tmp_path / "comms.graphml")
    time_s = profile.calls.groupby("comm")["time_s"].sum()
    assert comms.nodes["W_a1"]["time_s"] == pytest.approx(time_s["W_a1"])
    assert comms.edges["W", "W_a1"]["created_by"] == "MPI_Cart_create"
    export(through, recorded, "--graphml", tmp_path / "ranks.graphml", "--graph", "ranks")
    ranks = networkx.read_graphml(tmp_path / "ranks.graphml")
    assert ranks.size(weight="bytes") == profile.peers["sent_bytes"].sum()
