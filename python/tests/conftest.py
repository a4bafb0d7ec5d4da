"""Small profiles, as the profiler writes them."""

from __future__ import annotations

import csv
import json
import os
import shutil
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

import pytest

import mpisee

Rows = List[Dict[str, Any]]


def write(directory: Path, tables: Dict[str, Rows], **run: Any) -> Path:
    """Writes a profile with these tables, each with all columns of the schema."""
    directory.mkdir()
    for name, rows in tables.items():
        names = [column.name for column in mpisee.SCHEMA[name].columns]
        with (directory / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    document = {
        "format_version": mpisee.FORMAT_VERSION,
        "command": ["./app", "my input"],
        "mpisee_version": "0.1.0",
        "mpi": {"library": "Open MPI v5.0.3", "flavour": "openmpi-5.0", "thread_level": "single"},
        "start": "2025-06-01T12:00:00Z",
        "end": "2025-06-01T12:00:10Z",
        "ranks": 2,
        "nodes": 1,
        "complete": True,
        "incomplete_because": None,
        "clock": "tsc",
        "recording_was_off": False,
        "not_seen": {},
        **run,
    }
    (directory / "run.json").write_text(json.dumps(document), encoding="utf-8")
    return directory


def call(rank: int, name: str, calls: int, size: int, time_s: float) -> Dict[str, Any]:
    return {
        "comm": "W", "rank": rank, "region": "", "call": name, "size_min": size, "size_max": size, "memory": "host",
        "calls": calls, "bytes": calls * size, "time_s": time_s, "min_s": 0, "max_s": time_s,
    }  # fmt: skip


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Two ranks, of which only one knows its time on cores; a label that looks like a missing value."""
    rank = {"host": "n0", "wall_s": 10, "gpu": "", "profiler_s": 0}
    return write(
        tmp_path / "app.mpisee",
        {
            "ranks": [
                {**rank, "rank": 0, "pid": 11, "mpi_s": 1.25, "cpu_user_s": 9.5, "involuntary_switches": 3},
                {**rank, "rank": 1, "pid": 12, "mpi_s": 2.0},
            ],
            "comms": [{"comm": "W", "size": 2, "count": 1, "members": "0-1", "label": "NA", "nodes": 1, "freed": 0}],
            "calls": [
                call(0, "MPI_Allreduce", 1, 2**63, 1.25),
                call(1, "MPI_Allreduce", 3, 8, 2.0),
                call(0, "MPI_Isend", 1, 4, 0.000000120),
            ],
            "peers": [],
            "regions": [],
        },
    )


@pytest.fixture
def writer() -> Callable[..., Path]:
    return write


@pytest.fixture
def through() -> str:
    """The program mpisee-through; tests that need it are skipped where there is none."""
    program: Optional[str] = os.environ.get("MPISEE_THROUGH") or shutil.which("mpisee-through")
    if program is None:
        pytest.skip("mpisee-through is neither in PATH nor named by MPISEE_THROUGH")
    return program


@pytest.fixture
def recorded() -> Path:
    """A profile of a real run, of examples/stencil2d.c on several ranks."""
    directory = os.environ.get("MPISEE_PROFILE")
    if directory is None:
        pytest.skip("MPISEE_PROFILE does not name a profile of a real run")
    return Path(directory)
