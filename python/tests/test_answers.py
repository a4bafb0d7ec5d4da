"""Answers of mpisee-through as data, and runs that are started from Python."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import pytest

import mpisee

pytestmark = pytest.mark.usefixtures("through")


def fails(expected: str, action: Callable[[], Any]) -> None:
    with pytest.raises(mpisee.ProfileError) as caught:
        action()
    assert expected in str(caught.value) and "\n" not in str(caught.value)


def test_answers_are_those_of_the_command(recorded: Path, through: str) -> None:
    profile = mpisee.load(recorded)
    for answer in (profile.ops(kind="p2p"), profile.waits(), profile.sizes(), profile.answer("ranks")):
        shown = subprocess.run([through, *answer.arguments, "--format", "csv"], capture_output=True, text=True, check=True)
        rows = list(csv.DictReader(io.StringIO(shown.stdout)))
        assert len(rows) == len(answer.rows) > 0, answer
        for row, expected in zip(answer.rows, rows):
            numbers = {
                name: value for name, value in row.items() if name in expected and type(value) in (int, float)
            }
            assert numbers and numbers == pytest.approx({name: float(expected[name]) for name in numbers}, abs=1e-8)


def test_options_are_those_of_the_command(recorded: Path) -> None:
    profile = mpisee.load(recorded)
    some = profile.ops(comm=["W*", "S"], call="*send")
    assert some.arguments == ("ops", "--comm=W*", "--comm=S", "--call=*send", str(recorded))
    assert profile.matrix(by="node").arguments[1] == "--by=node"
    assert profile.waits(each=True, ranks=None).arguments == ("waits", "--each", str(recorded))
    assert profile.diff(profile).arguments == ("diff", str(recorded), str(recorded))


def test_tables_go_to_other_libraries(recorded: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    ops = mpisee.load(recorded).ops()
    calls = {row["call"]: row["calls"] for row in ops.rows}
    pandas = ops.to_pandas("operations")
    assert dict(zip(pandas["call"], pandas["calls"])) == calls
    assert str(pandas["calls"].dtype) == "Int64"
    assert dict(ops.to_polars().select("call", "calls").iter_rows()) == calls
    assert dict(zip(*(ops.to_arrow().column(name).to_pylist() for name in ("call", "calls")))) == calls
    assert dict(duckdb.sql("select call, calls from ops").fetchall()) == calls
    fails("has no table 'calls'; there are operations", lambda: ops.to_pandas("calls"))


def test_an_answer_can_be_read(recorded: Path, through: str) -> None:
    ops = mpisee.load(recorded).ops()
    shown = subprocess.run([through, "ops", str(recorded)], capture_output=True, text=True, check=True)
    assert str(ops) == shown.stdout.rstrip("\n")
    assert repr(ops) == f"<mpisee ops {recorded}: operations ({len(ops.rows)} rows)>"
    text = ops._repr_html_()
    assert "<caption>operations</caption>" in text and f"<td>{ops.rows[0]['call']}</td>" in text


def test_text_of_programs_is_no_html() -> None:
    answer = mpisee.Answer(("ops", "a"), {"rows": [{"call": "<b>", "n": None}] * 41, "caveats": ["1 < 2"]}, 0)
    text = answer._repr_html_()
    assert "<td>&lt;b&gt;</td><td></td>" in text and "<p>1 &lt; 2</p>" in text and "<p>1 row more</p>" in text


def test_unusable_questions_are_one_sentence(recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = mpisee.load(recorded)
    fails("frobnicate", lambda: profile.answer("frobnicate"))
    fails("--frob", lambda: profile.ops(frob=1))
    fails("nothing.mpisee", lambda: mpisee.answer("ops", tmp_path / "nothing.mpisee"))
    monkeypatch.setenv("MPISEE_THROUGH", str(tmp_path / "mpisee-through"))
    fails("cannot start", lambda: profile.ops())
    monkeypatch.delenv("MPISEE_THROUGH")
    monkeypatch.setenv("PATH", str(tmp_path))
    fails("mpisee-through is neither installed", lambda: profile.ops())


def test_a_bound_that_is_exceeded_is_an_answer(recorded: Path) -> None:
    checked = mpisee.answer("check", recorded)
    assert checked.exit_code == 0 and mpisee.load(recorded).diff(recorded, fail_if="calls+0").exit_code == 0
    examples = Path(__file__).parents[2] / "examples/profiles"
    balanced = examples / "heat-balanced.mpisee"
    assert mpisee.load(examples / "heat.mpisee").diff(balanced, fail_if="calls-0").exit_code == 1


def test_a_run_gives_its_profile(recorded: Path, through: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A stand-in for the profiler: its program fails if it is called "bad".
    stand_in = tmp_path / "mpisee"
    stand_in.write_text(
        f"#!{sys.executable}\nimport os, shutil, sys\n"
        f"shutil.copytree({str(recorded)!r}, os.environ['MPISEE_OUTPUT'])\nsys.exit(sys.argv[1:] == ['bad'])\n"
    )
    stand_in.chmod(0o755)
    # A launcher of the same folder is not the one that a shell would start.
    (tmp_path / "env").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "env").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mpisee-through").symlink_to(through)
    monkeypatch.setenv("MPISEE_THROUGH", str(tmp_path / "mpisee-through"))
    ranks = mpisee.load(recorded).run.ranks
    assert mpisee.run(["env", "A=mpisee", "mpisee", "./app", "7"]).run.ranks == ranks
    assert mpisee.run(["mpisee", "app"]).directory == tmp_path / "run-2.mpisee"
    assert mpisee.run([str(stand_in), "app"], output=tmp_path / "b.mpisee").directory == tmp_path / "b.mpisee"
    assert mpisee.run(["mpisee", "app"], output="v1.2").directory == tmp_path / "v1.2.mpisee"
    fails("the command is empty", lambda: mpisee.run([]))
    fails("is there already", lambda: mpisee.run(["mpisee", "app"], output="b.mpisee"))
    fails("'true' has left no profile 'run-3.mpisee'", lambda: mpisee.run(["true"]))
    fails("the command is a text", lambda: mpisee.run("mpirun mpisee ./app"))
    fails("no backend 'panda'", lambda: mpisee.run(["mpisee", "app"], backend="panda"))
    with pytest.raises(subprocess.CalledProcessError):
        mpisee.run(["mpisee", "bad"])
    assert Path("run-3.mpisee").is_dir()


def test_answers_need_no_library_of_data_frames(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    profile = mpisee.load(recorded)
    assert profile.waits().rows
    fails("tables need pandas or polars", lambda: profile.calls)


def test_times_are_real_numbers_and_answers_keep_their_folder(
    recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = mpisee.Answer(("waits",), {"waits": [{"s": 1, "n": 2, "t": None}, {"s": 0.5, "n": None, "t": None}]}, 0)
    types = {name: str(type_) for name, type_ in answer.to_pandas().dtypes.items()}
    assert (types["s"], types["n"]) == ("Float64", "Int64")
    monkeypatch.chdir(recorded.parent)
    ops = mpisee.load(recorded.name).ops()
    monkeypatch.chdir(tmp_path)
    assert "MPI_" in str(ops)
