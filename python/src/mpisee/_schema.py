"""The tables of a profile, as columns.json has them. That file is written from the row types of mpisee-profile."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any, Dict, Mapping, Optional, Tuple


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    #: ``text``, ``uint8``, ``uint32``, ``uint64``, ``int32``, ``int64`` or ``float64``.
    type: str
    #: ``s``, ``bytes``, ``cores``, or None of counts, ranks, names and flags.
    unit: Optional[str]
    #: Whether a row may have no value.
    may_be_empty: bool
    #: Whether tables of earlier versions of mpisee may lack the column.
    newer: bool
    description: str

    @property
    def default(self) -> Any:
        """The value in tables that lack the column."""
        if self.type == "text":
            return ""
        if self.may_be_empty:
            return None
        # A row of an early comms.csv stands for one communicator.
        return 1 if self.name == "count" else 0


@dataclass(frozen=True)
class Table:
    """A table of the profile directory."""

    #: The file's name without ``.csv``.
    name: str
    file: str
    description: str
    columns: Tuple[Column, ...]

    @property
    def units(self) -> Dict[str, str]:
        """The units of the columns that have one."""
        return {column.name: column.unit for column in self.columns if column.unit is not None}


def _load() -> Tuple[int, Dict[str, Table]]:
    text = resources.files(__package__).joinpath("columns.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    tables: Dict[str, Table] = {}
    for table in schema["tables"]:
        columns = tuple(Column(**column) for column in table["columns"])
        tables[table["name"]] = Table(table["name"], table["file"], table["description"], columns)
    return schema["format_version"], tables


_version, _tables = _load()

#: The newest version of the format that this package reads.
FORMAT_VERSION: int = _version
#: All tables by name, of profiles by rank and of those with sums over ranks.
SCHEMA: Mapping[str, Table] = _tables
