"""A profile directory, opened."""

from __future__ import annotations

import importlib.util
import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Generic, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union, overload

from . import _frames
from ._answers import Answer, Option, answer, run_profiled
from ._error import ProfileError
from ._schema import FORMAT_VERSION, SCHEMA, Table

if TYPE_CHECKING:
    from typing import Literal

    import pandas
    import polars

#: The data frame of the chosen library.
Frame = TypeVar("Frame")

#: Tables of a profile by rank, and the ones with sums over ranks in their place.
_SUMS = {
    "ranks": "nodes",
    "calls": "totals",
    "peers": "offsets",
    "outside": "outside-totals",
    "regions": "region-totals",
    "variables": "variable-totals",
    "gpu": "gpu-totals",
}
#: Tables of sums over ranks; the others are in profiles by rank.
_OF_SUMS = {*_SUMS.values(), "spread"}
#: Tables that each profile has, if it is one by rank, and if it is one of sums.
_ALWAYS = {False: {"ranks", "comms", "calls", "peers", "regions"}, True: {"nodes", "comms", "totals", "spread", "offsets"}}


@dataclass(frozen=True)
class Run:
    """The run as a whole, from ``run.json``."""

    #: Version of the profile's format.
    format_version: int
    command: Tuple[str, ...]
    #: Processes in ``MPI_COMM_WORLD``.
    ranks: int
    nodes: int
    mpi_library: str
    #: When rank 0 left ``MPI_Init`` and entered ``MPI_Finalize``; None if that is unknown.
    start: Optional[datetime]
    end: Optional[datetime]
    #: Whether every rank's counters are in the profile, and if not, why.
    complete: bool
    incomplete_because: Optional[str]
    #: Whether rows are sums over ranks.
    folded: bool
    #: Calls that are in no table, by reason.
    not_seen: Mapping[str, int]
    #: Remarks about recording.
    notes: Tuple[str, ...]
    #: All of ``run.json``.
    raw: Mapping[str, Any]


class Profile(Generic[Frame]):
    """A profile, whose tables are read when they are first asked for."""

    def __init__(self, directory: Path, run: Run, backend: Optional[str]) -> None:
        self.directory = directory
        self.run = run
        self.backend = backend
        self._frames: Dict[str, Frame] = {}

    @property
    def tables(self) -> List[str]:
        """The names of the tables that the profile has."""
        return [name for name in SCHEMA if self._path(SCHEMA[name]) is not None]

    def table(self, name: str) -> Frame:
        """A table by its name, the file's without ``.csv``. It has no rows if the profile's format lets it be left out."""
        table = self._schema(name)
        if name not in self._frames:
            self._frames[name] = self._read(table)
        return self._frames[name]

    def units(self, name: str) -> Dict[str, str]:
        """The units of a table's columns: ``s``, ``bytes``, ``cores``."""
        return self._schema(name).units

    def _schema(self, name: str) -> Table:
        if name not in SCHEMA:
            raise ProfileError(f"there is no table '{name}'; there are {', '.join(SCHEMA)}")
        return SCHEMA[name]

    def _path(self, table: Table) -> Optional[Path]:
        paths = (self.directory / table.file, self.directory / f"{table.name}.parquet")
        return next((path for path in paths if path.exists()), None)

    def _read(self, table: Table) -> Frame:
        path = self._path(table)
        if path is None:
            self._explain_absence(table)
        readers = {
            "pandas": (_frames.read_pandas, _frames.empty_pandas),
            "polars": (_frames.read_polars, _frames.empty_polars),
        }
        read, empty = readers[_installed(self.backend)]
        try:
            frame: Frame = empty(table) if path is None else read(table, path)
        except _frames.FrameError as error:
            raise ProfileError(str(error)) from error
        except ImportError as error:
            raise ProfileError(f"'{path}' cannot be read without a package: {error}") from error
        except (OSError, UnicodeDecodeError) as error:
            raise ProfileError(f"cannot read '{path}': {error}") from error
        return frame

    def _explain_absence(self, table: Table) -> None:
        """An error if the table has to be there, or is of the other kind of profile."""
        folded = self.run.folded
        if folded and table.name in _SUMS:
            raise ProfileError(
                f"'{self.directory}' has sums over ranks, so there is no table '{table.name}'; "
                f"'{_SUMS[table.name]}' is in its place"
            )
        if not folded and table.name in _OF_SUMS:
            raise ProfileError(
                f"'{self.directory}' has rows of each rank, so there is no table '{table.name}' of sums over ranks"
            )
        if table.name in _ALWAYS[folded]:
            raise ProfileError(f"'{self.directory}' has no {table.file}; the profile is not whole")

    @property
    def ranks(self) -> Frame:
        """One row per process: host, wall time, MPI time, time on cores."""
        return self.table("ranks")

    @property
    def comms(self) -> Frame:
        """One row per communicator: name, parent, creating call, size, members, label, topology."""
        return self.table("comms")

    @property
    def calls(self) -> Frame:
        """One row per communicator, rank, region, operation, size class and memory: calls, bytes, time."""
        return self.table("calls")

    @property
    def peers(self) -> Frame:
        """One row per communicator, rank and peer: messages each way, and one-sided operations."""
        return self.table("peers")

    @property
    def outside(self) -> Frame:
        """Messages and one-sided operations with processes of other worlds."""
        return self.table("outside")

    @property
    def regions(self) -> Frame:
        """One row per rank and named region: wall time, MPI time, entries."""
        return self.table("regions")

    @property
    def arrivals(self) -> Frame:
        """When members entered and left sampled collective calls."""
        return self.table("arrivals")

    @property
    def collectives(self) -> Frame:
        """How many collective calls there were and are in ``arrivals``, with mean times."""
        return self.table("collectives")

    @property
    def messages(self) -> Frame:
        """When both ends of sampled messages began and ended their parts."""
        return self.table("messages")

    @property
    def streams(self) -> Frame:
        """How many messages of each tag there were and are in ``messages``."""
        return self.table("streams")

    @property
    def sites(self) -> Frame:
        """Return addresses of MPI calls and on call paths; function, file and line once ``mpisee-through sites --resolve`` has run."""
        return self.table("sites")

    @property
    def paths(self) -> Frame:
        """Calls that took so long that their whole path was taken."""
        return self.table("paths")

    @property
    def stacks(self) -> Frame:
        """The sites of each path, from the MPI call outwards."""
        return self.table("stacks")

    @property
    def order(self) -> Frame:
        """One row per thread and its sequence of calls, with ``--order``; ``table("order-rules")`` has the sequences."""
        return self.table("order")

    @property
    def variables(self) -> Frame:
        """Performance variables of MPI, where ``--mpi-t`` chose some."""
        return self.table("variables")

    @property
    def gpu(self) -> Frame:
        """What kernels of GPUs accessed elsewhere."""
        return self.table("gpu")

    @property
    def gpus(self) -> Frame:
        """The GPUs of each node that a rank saw, and the ranks that used them."""
        return self.table("gpus")

    @property
    def nics(self) -> Frame:
        """The network adapters of nodes with GPUs."""
        return self.table("nics")

    @property
    def copies(self) -> Frame:
        """Copies between host and GPUs, and launches, where ``--gpu-copies`` counted them."""
        return self.table("copies")

    @property
    def staged(self) -> Frame:
        """Copies right before a send or right after a receive of the same memory of the host."""
        return self.table("staged")

    @property
    def binaries(self) -> Frame:
        """The files in which objects of ``gpu`` have addresses."""
        return self.table("binaries")

    @property
    def pes(self) -> Frame:
        """The PE of NVSHMEM that each rank is."""
        return self.table("pes")

    @property
    def nodes(self) -> Frame:
        """Of a profile with sums over ranks: one row per node."""
        return self.table("nodes")

    @property
    def totals(self) -> Frame:
        """Of a profile with sums over ranks: what ``calls`` has, over ranks."""
        return self.table("totals")

    @property
    def spread(self) -> Frame:
        """Of a profile with sums over ranks: how the totals of ranks differ."""
        return self.table("spread")

    @property
    def offsets(self) -> Frame:
        """Of a profile with sums over ranks: messages by the distance of the peer."""
        return self.table("offsets")

    def answer(self, command: str, **options: Option) -> Answer:
        """The result of a command of mpisee-through about this profile; its options by their long names."""
        if any(self.directory.glob("*.parquet")):
            raise ProfileError(f"'{self.directory}' has tables that were exported; answers need the profile itself")
        return answer(command, self.directory, **options)

    def summary(self, **options: Option) -> Answer:
        """The run, and communicators by their time."""
        return self.answer("summary", **options)

    def advise(self, **options: Option) -> Answer:
        """The findings with most time, with causes and remedies."""
        return self.answer("advise", **options)

    def efficiency(self, **options: Option) -> Answer:
        """Factors of parallel efficiency, and what each communicator costs."""
        return self.answer("efficiency", **options)

    def waits(self, **options: Option) -> Answer:
        """Who is late, and where others wait."""
        return self.answer("waits", **options)

    def ops(self, **options: Option) -> Answer:
        """Operations by time."""
        return self.answer("ops", **options)

    def sizes(self, **options: Option) -> Answer:
        """Calls by message size."""
        return self.answer("sizes", **options)

    def matrix(self, **options: Option) -> Answer:
        """Who sends to whom."""
        return self.answer("matrix", **options)

    def locality(self, **options: Option) -> Answer:
        """Traffic that stays on a node."""
        return self.answer("locality", **options)

    def diff(self, other: Union[str, "os.PathLike[str]", Profile[Any]], **options: Option) -> Answer:
        """How a later run differs from this one."""
        after = other.directory if isinstance(other, Profile) else other
        return answer("diff", self.directory, after, **options)

    def __repr__(self) -> str:
        command = " ".join(self.run.command) or "unknown command"
        ranks, nodes = (
            f"{number} {noun}{'' if number == 1 else 's'}"
            for number, noun in ((self.run.ranks, "rank"), (self.run.nodes, "node"))
        )
        return f"<mpisee profile '{self.directory.name}': {command}, {ranks} on {nodes}>"


def _moment(text: Any) -> Optional[datetime]:
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None


def _read_run(directory: Path) -> Run:
    no_profile = f"'{directory}' is not a profile directory: "
    hint = "; give the NAME.mpisee directory that the run left"
    if not directory.is_dir():
        what = "it is a file" if directory.exists() else "there is nothing of that name"
        raise ProfileError(no_profile + what + hint)
    path = directory / "run.json"
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ProfileError(no_profile + "it has no run.json" + hint) from error
    except OSError as error:
        raise ProfileError(f"cannot read '{path}': {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"'{path}' is not JSON: {error}") from error
    version = raw.get("format_version") if isinstance(raw, dict) else None
    if not isinstance(version, int):
        raise ProfileError(no_profile + "its run.json has no format_version" + hint)
    if version > FORMAT_VERSION:
        raise ProfileError(
            f"'{directory}' has format version {version}, this package reads up to {FORMAT_VERSION}; "
            "use the package that came with the mpisee that wrote it"
        )
    return Run(
        format_version=version,
        command=tuple(raw.get("command") or ()),
        ranks=raw.get("ranks") or 0,
        nodes=raw.get("nodes") or 0,
        mpi_library=(raw.get("mpi") or {}).get("library", ""),
        start=_moment(raw.get("start")),
        end=_moment(raw.get("end")),
        complete=raw.get("complete", False),
        incomplete_because=raw.get("incomplete_because"),
        folded=raw.get("folded", False),
        not_seen=raw.get("not_seen") or {},
        notes=tuple(raw.get("notes") or ()),
        raw=raw,
    )


if TYPE_CHECKING:

    @overload
    def load(directory: Union[str, "os.PathLike[str]"], backend: Literal["pandas"]) -> Profile[pandas.DataFrame]: ...

    @overload
    def load(directory: Union[str, "os.PathLike[str]"], backend: Literal["polars"]) -> Profile[polars.DataFrame]: ...

    @overload
    def load(directory: Union[str, "os.PathLike[str]"]) -> Profile[pandas.DataFrame]: ...

    @overload
    def load(directory: Union[str, "os.PathLike[str]"], backend: Optional[str]) -> Profile[Any]: ...


def load(directory: Union[str, "os.PathLike[str]"], backend: Optional[str] = None) -> Profile[Any]:
    """Opens a profile directory, or a folder that ``mpisee-through export --parquet`` wrote.

    ``backend`` is ``pandas`` or ``polars``; left out, it is pandas if that is installed, else polars.
    """
    return _open(directory, backend)


def _open(directory: Union[str, "os.PathLike[str]"], backend: Optional[str]) -> Profile[Any]:
    run = _read_run(Path(directory))
    # The working folder may change.
    return Profile(Path(directory).absolute(), run, _known(backend))


_BACKENDS = ("pandas", "polars")


def _known(backend: Optional[str]) -> Optional[str]:
    if backend is not None and backend not in _BACKENDS:
        raise ProfileError(f"there is no backend '{backend}'; there are pandas and polars")
    return backend


def _installed(backend: Optional[str]) -> str:
    """The library that was chosen, else the first one that is installed."""
    wanted = _BACKENDS if backend is None else (backend,)
    installed = [name for name in wanted if importlib.util.find_spec(name) is not None]
    if not installed:
        raise ProfileError(f"tables need {' or '.join(wanted)}; install it with: pip install {wanted[0]}")
    return installed[0]


def run(
    command: Sequence[Union[str, "os.PathLike[str]"]],
    output: Union[str, "os.PathLike[str]", None] = None,
    backend: Optional[str] = None,
) -> Profile[Any]:
    """Runs a program under mpisee, waits for its end, and opens its profile.

    ``command`` is that of a shell, with ``mpisee`` before the program: ``["mpirun", "-n", "4", "mpisee", "./app"]``.
    ``output`` is the profile's name, which ends in .mpisee, else the first of run.mpisee, run-2.mpisee and so on that
    is free. A program that
    fails is a ``subprocess.CalledProcessError``. Its profile is there all the same, and ``mpisee-through recover`` has what
    killed ranks left.
    """
    _known(backend)
    return _open(run_profiled(command, output), backend)
