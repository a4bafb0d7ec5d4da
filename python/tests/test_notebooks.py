"""The worked examples, run on a real profile."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any, Dict, List

import pytest

NOTEBOOKS = Path(__file__).parent.parent / "notebooks"
NAMES = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))


def execute(monkeypatch: pytest.MonkeyPatch, name: str, **variables: object) -> Dict[str, Any]:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, str(value))
    return runpy.run_path(str(NOTEBOOKS / name))


def make(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The program that makes notebooks of the scripts."""
    for package in ("jupytext", "nbclient", "ipykernel"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.syspath_prepend(str(NOTEBOOKS))
    import make  # type: ignore[import-not-found]

    return make


def cells(book: Any) -> List[Any]:
    return [(cell.cell_type, cell.source) for cell in book.cells]


def test_notebooks_are_their_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    maker = make(monkeypatch)
    import nbformat

    assert [script.stem for script in maker.scripts()] == NAMES and len(NAMES) == 3
    for script in maker.scripts():
        book = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
        nbformat.validate(book)
        assert cells(book) == cells(maker.notebook(script)), f"{script.stem}.ipynb is not {script.name}; run: python {NOTEBOOKS}/make.py"


@pytest.mark.parametrize("name", NAMES)
def test_notebooks_run(name: str, recorded: Path, through: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = make(monkeypatch)
    import nbformat

    os.symlink(recorded, tmp_path / "app.mpisee")
    export(through, recorded, "--parquet", tmp_path / "tables", "--hatchet", tmp_path / "app.json")
    monkeypatch.setenv("TABLES", "tables")
    # The kernel is this interpreter, with this package.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent / "src"))
    monkeypatch.setenv("JUPYTER_PATH", str(kernel(tmp_path)))
    book = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    maker.execute(book, tmp_path)
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    text = "".join(output.get("text", "") for output in outputs)
    assert not [output for output in outputs if output.output_type == "error"]
    assert "W_a1" in text or "MPI_" in text, text


def kernel(folder: Path) -> Path:
    """A folder for JUPYTER_PATH whose kernel python3 is this interpreter."""
    import json

    place = folder / "jupyter/kernels/python3"
    place.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    document = {"argv": command, "display_name": "Python 3", "language": "python"}
    (place / "kernel.json").write_text(json.dumps(document), encoding="utf-8")
    return folder / "jupyter"


def export(through: str, *arguments: object) -> None:
    subprocess.run([through, "export", *map(str, arguments)], check=True, capture_output=True)


def test_duckdb(recorded: Path, through: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("duckdb", reason="duckdb is not installed")
    tables = tmp_path / "tables"
    export(through, recorded, "--parquet", tables)
    of_csv = execute(monkeypatch, "tables_duckdb.py", PROFILE=recorded)
    of_parquet = execute(monkeypatch, "tables_duckdb.py", PROFILE=recorded, TABLES=tables)
    for answer in ("busiest", "uneven"):
        rows, others = of_csv[answer].fetchall(), of_parquet[answer].fetchall()
        assert rows and len(rows) == len(others)
        for value, other in zip(chain(*rows), chain(*others)):
            # DuckDB adds up in several threads, in whichever order they come.
            assert value == (pytest.approx(other, rel=1e-12) if isinstance(other, float) else other)
    assert '"unit":"s"' in of_parquet["metadata"][0][0]


def test_pandas(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    found = execute(monkeypatch, "imbalance_pandas.py", PROFILE=recorded)
    assert found["table"].loc["W_a1", "created_by"] == "MPI_Cart_create"
    assert 0 <= found["lost"].sum() <= 1


def test_thicket(recorded: Path, through: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("hatchet", "thicket"):
        pytest.importorskip(package, reason=f"llnl-{package} is not installed")
    import mpisee

    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file in files:
        export(through, recorded, "--hatchet", file)
    found = execute(monkeypatch, "thicket.py", FILES=":".join(map(str, files)))
    profile = mpisee.load(recorded)
    mpi_s = profile.calls["time_s"].sum()
    assert found["calls"]["time"].sum() == pytest.approx(2 * mpi_s, rel=1e-6)
    # The root has the wall time of each rank.
    roots = found["frame"].dataframe.loc[found["frame"].graph.roots[0]]
    walls = profile.ranks.set_index("rank")["wall_s"]
    for rank, wall_s in walls.items():
        assert roots.loc[rank, "time (inc)"] == pytest.approx(wall_s, rel=1e-3)


def test_networkx_has_graphs_of_the_tables(recorded: Path, tmp_path: Path) -> None:
    networkx = pytest.importorskip("networkx", reason="networkx is not installed")
    pytest.importorskip("pandas", reason="pandas is not installed")
    import mpisee

    profile = mpisee.load(recorded)
    tree = networkx.from_pandas_edgelist(
        profile.comms, "parent", "comm", "created_by", create_using=networkx.DiGraph
    )
    assert tree.edges["W", "W_a1"]["created_by"] == "MPI_Cart_create"
    pairs = profile.peers.groupby(["rank", "peer"], as_index=False)["sent_bytes"].sum()
    ranks = networkx.from_pandas_edgelist(
        pairs, "rank", "peer", "sent_bytes", create_using=networkx.DiGraph
    )
    networkx.write_graphml(ranks, tmp_path / "ranks.graphml")
    again = networkx.read_graphml(tmp_path / "ranks.graphml")
    assert again.size(weight="sent_bytes") == profile.peers["sent_bytes"].sum()
