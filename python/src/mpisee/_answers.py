"""Results of the commands of mpisee-through, as data. The program itself answers, so numbers are those that it prints."""

from __future__ import annotations

import html
import importlib.metadata
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ._error import ProfileError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

#: A row of an answer: values by the names of columns.
Row = Dict[str, Any]
#: The value of an option: text or a number, True for an option without a value, a list for one that is repeated.
Option = Union[str, int, float, bool, "os.PathLike[str]", Iterable[Union[str, int, float, "os.PathLike[str]"]], None]

#: Rows that a notebook shows of a table.
_SHOWN_ROWS = 40


def program(name: str) -> str:
    """The path of a program of mpisee: in the folder of ``MPISEE_THROUGH``, in the same wheel, or in ``PATH``."""
    named = os.environ.get("MPISEE_THROUGH")
    if named:
        return str(Path(named).with_name(name))
    try:
        installed = importlib.metadata.files("mpisee") or []
    except importlib.metadata.PackageNotFoundError:
        installed = []
    # Completions for shells have the same names.
    own = (str(file.locate()) for file in installed if file.name == name and file.parent.name == "bin")
    own = (path for path in own if os.path.exists(path))
    found = next(own, None) or shutil.which(name)
    if found is None:
        raise ProfileError(
            f"{name} is neither installed with this package nor in PATH; put the folder of mpisee's programs into PATH"
        )
    return found


class Answer:
    """The result of a command: tables of rows, and facts beside them.

    >>> waits = mpisee.load(heat).waits(call="allreduce")
    >>> waits.rows[0]["comm"], waits.rows[0]["rank"]
    ('W_a1', 0)
    >>> list(waits.tables)
    ['waits', 'communicators', 'findings']
    """

    #: The command line that gave it, from the command's name on.
    arguments: Tuple[str, ...]
    #: Tables by name; the first one is the main one.
    tables: Mapping[str, List[Row]]
    #: Everything else: single values and lists of text, by name.
    facts: Mapping[str, Any]
    #: 0; 1 of ``check``, ``expect`` and ``diff`` with bounds if something is not as it should be.
    exit_code: int

    def __init__(self, arguments: Tuple[str, ...], document: Mapping[str, Any], exit_code: int) -> None:
        def is_table(value: Any) -> bool:
            return isinstance(value, list) and all(isinstance(row, dict) for row in value)

        # Notes are lists of text, which may be empty.
        texts = ("caveats", "notes")
        self.arguments = arguments
        self.tables = {name: value for name, value in document.items() if is_table(value) and name not in texts}
        self.facts = {name: value for name, value in document.items() if name not in self.tables}
        self.exit_code = exit_code
        self._folder = os.getcwd()

    def table(self, name: Optional[str] = None) -> List[Row]:
        """The rows of a table; without a name, of the first one."""
        if name is None:
            return next(iter(self.tables.values()), [])
        if name not in self.tables:
            there = ", ".join(self.tables) or "none"
            raise ProfileError(f"{self.arguments[0]} has no table '{name}'; there are {there}")
        return self.tables[name]

    @property
    def rows(self) -> List[Row]:
        """The rows of the first table."""
        return self.table()

    @property
    def caveats(self) -> List[str]:
        """Sentences on what the numbers lack."""
        partial = self.facts.get("partial_because")
        return [*self.facts.get("caveats", []), *([partial] if partial else [])]

    def to_pandas(self, name: Optional[str] = None) -> pandas.DataFrame:
        """A table as a data frame of pandas, whose integers may be missing."""
        import pandas

        def column(name: str) -> Any:
            values = [row.get(name) for row in rows]
            # Times that are whole numbers by chance are times.
            is_real = any(isinstance(value, float) for value in values)
            return pandas.Series(values, dtype="Float64") if is_real else pandas.Series(values).convert_dtypes()

        rows = self.table(name)
        return pandas.DataFrame({name: column(name) for name in (rows[0] if rows else ())})

    def to_polars(self, name: Optional[str] = None) -> polars.DataFrame:
        """A table as a data frame of polars."""
        import polars

        return polars.DataFrame(self.table(name), infer_schema_length=None)

    def to_arrow(self, name: Optional[str] = None) -> pyarrow.Table:
        """A table of Arrow, with pyarrow."""
        import pyarrow

        return pyarrow.Table.from_pylist(self.table(name))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The first table for other libraries, by Arrow's interface in C; it needs pyarrow.

        >>> import duckdb
        >>> ops = mpisee.load(heat).ops()
        >>> duckdb.sql("select call, calls from ops order by calls desc limit 1").fetchall()
        [('MPI_Sendrecv', 400)]
        """
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __str__(self) -> str:
        """Runs the command again, and returns what it prints."""
        return _run([*self.arguments, "--format", "table"], self._folder).stdout.rstrip("\n")

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name} ({_counted(len(rows))})" for name, rows in self.tables.items())
        return f"<mpisee {' '.join(self.arguments)}: {sizes or 'no tables'}>"

    def _repr_html_(self) -> str:
        parts = [f"<p>{html.escape(text)}</p>" for text in self.caveats]
        return "".join(parts + [_table_in_html(name, rows) for name, rows in self.tables.items()])


def _counted(rows: int) -> str:
    return f"{rows} row{'' if rows == 1 else 's'}"


def _table_in_html(name: str, rows: List[Row]) -> str:
    columns = list(rows[0]) if rows else []

    def line(kind: str, cells: Iterable[str]) -> str:
        return "<tr>" + "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in cells) + "</tr>"

    head = line("th", columns)
    body = "".join(line("td", (_in_html(row.get(column)) for column in columns)) for row in rows[:_SHOWN_ROWS])
    left = len(rows) - _SHOWN_ROWS
    more = f"<p>{_counted(left)} more</p>" if left > 0 else ""
    return f"<table><caption>{html.escape(name)}</caption><thead>{head}</thead><tbody>{body}</tbody></table>{more}"


def _in_html(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _option(name: str, value: Option) -> List[str]:
    """An option as words of a command line."""
    flag = "--" + name.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return []
    if value is True:
        return [flag]
    if isinstance(value, os.PathLike):
        return [f"{flag}={os.fspath(value)}"]
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [word for one in value for word in _option(name, one)]
    return [f"{flag}={value}"]


def _run(arguments: Sequence[str], folder: Optional[str] = None) -> subprocess.CompletedProcess[str]:
    through = program("mpisee-through")
    try:
        done = subprocess.run(
            [through, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            cwd=folder,
        )
    except OSError as error:
        raise ProfileError(f"cannot start '{through}': {error.strerror}") from error
    if done.returncode not in (0, 1):
        said = done.stderr.strip() or f"it ended with {done.returncode}"
        raise ProfileError(" ".join(said.split()).replace("mpisee-through: ", "", 1))
    return done


def answer(command: str, *arguments: Union[str, "os.PathLike[str]"], **options: Option) -> Answer:
    """Has ``mpisee-through`` answer: a command, its arguments, and its options by their long names.

    ``comm="W_a1*"`` is ``--comm 'W_a1*'``, ``by_node=True`` is ``--by-node``, and a list repeats its option.

    >>> mpisee.answer("diff", heat, heat, fail_if=["calls+0"]).exit_code
    0
    """
    words = [word for name, value in options.items() for word in _option(name, value)]
    paths = (os.fspath(argument) for argument in arguments)
    # A path that begins with a dash would be an option.
    line = (command, *words, *(os.path.join(".", path) if path.startswith("-") else path for path in paths))
    done = _run([*line, "--format", "json"])
    try:
        document = json.loads(done.stdout)
    except ValueError as error:
        raise ProfileError(f"mpisee-through {command} has no answer in JSON: {' '.join(done.stderr.split())}") from error
    return Answer(line, document, done.returncode)


def run_profiled(
    command: Sequence[Union[str, "os.PathLike[str]"]], output: Union[str, "os.PathLike[str]", None]
) -> Path:
    """Runs a command with ``mpisee`` in it, and returns where its profile is."""
    if isinstance(command, (str, bytes)):
        raise ProfileError('the command is a text; give its words, as in: mpisee.run(["mpirun", "-n", "4", "mpisee", "./app"])')
    words = [os.fspath(word) for word in command]
    if not words:
        raise ProfileError('the command is empty; give its words, as in: mpisee.run(["mpirun", "-n", "4", "mpisee", "./app"])')
    profile = Path(output) if output is not None else _unused("run")
    # As the profiler names it.
    if profile.suffix != ".mpisee":
        profile = profile.with_name(f"{profile.name}.mpisee")
    if profile.exists():
        raise ProfileError(f"'{profile}' is there already; name another output, or remove it")
    # The command may name the program in any way, so the profile's name comes beside it. The folder
    # of mpisee comes last, so that the launcher is the one that the shell would start.
    search = os.environ.get("PATH", os.defpath) + os.pathsep + os.path.dirname(program("mpisee"))
    environment = {**os.environ, "PATH": search, "MPISEE_OUTPUT": str(profile.absolute())}
    # It is this package's own, and no option of the profiler.
    environment.pop("MPISEE_THROUGH", None)
    subprocess.run(words, env=environment, check=True)
    if not profile.exists():
        raise ProfileError(
            f"'{' '.join(words)}' has left no profile '{profile}'. If its folder cannot be written, the messages of "
            "the run name another place. Else put mpisee before the program, without --output and --repeat, as in: "
            'mpisee.run(["mpirun", "-n", "4", "mpisee", "./app"])'
        )
    return profile


def _unused(name: str) -> Path:
    """The first of NAME.mpisee, NAME-2.mpisee and so on that does not exist."""
    profile, number = Path(f"{name}.mpisee"), 1
    while profile.exists():
        number += 1
        profile = Path(f"{name}-{number}.mpisee")
    return profile
