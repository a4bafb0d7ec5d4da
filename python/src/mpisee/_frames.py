"""Reads one table as a data frame of pandas or polars."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any, Callable, List

from ._schema import Table


class FrameError(Exception):
    """A table cannot be read; the text is a sentence without its end."""


def header(path: Path) -> List[str]:
    """The names of the columns in a CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        return next(csv.reader(file), [])


def check_end(path: Path) -> None:
    """An error if the last row has no end."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                raise FrameError(f"the last row of '{path}' has no end; the file may be cut off")


def check_values(table: Table, path: Path, names: List[str], lacks: Callable[[str], bool]) -> None:
    """An error if a column that is in the file lacks values that each row has."""
    for column in table.columns:
        if column.name in names and not column.may_be_empty and column.type != "text" and lacks(column.name):
            raise FrameError(f"'{path}' has rows without '{column.name}'; the file was changed or cut off")


def missing(table: Table, found: List[str], path: Path) -> List[Any]:
    """The columns that an early table lacks; an error if it lacks any other."""
    lacking = [column for column in table.columns if column.name not in found]
    for column in lacking:
        if not column.newer:
            raise FrameError(
                f"'{path}' has no column '{column.name}' (its header row is '{','.join(found)}'); "
                "the file was changed or is of another program"
            )
    return lacking


def pandas_type(type_: str, may_be_empty: bool) -> str:
    """The type of a column in pandas; integers that may be missing have its nullable types."""
    if type_ == "text":
        return "str"
    if may_be_empty and type_ != "float64":
        return f"UInt{type_[4:]}" if type_.startswith("uint") else f"Int{type_[3:]}"
    return type_


def read_pandas(table: Table, path: Path) -> Any:
    """The table as a ``pandas.DataFrame``, with units and descriptions in ``attrs``."""
    import pandas

    if path.suffix == ".parquet":
        try:
            frame = pandas.read_parquet(path)
        except (ValueError, OSError) as error:
            raise FrameError(f"'{path}' is no Parquet that can be read: {error}") from error
        names = list(frame.columns)
        lacking = missing(table, names, path)
    else:
        check_end(path)
        names = header(path)
        lacking = missing(table, names, path)
        types = {column.name: pandas_type(column.type, column.may_be_empty) for column in table.columns}
        numbers = {column.name: [""] for column in table.columns if column.type != "text"}
        try:
            frame = pandas.read_csv(
                path,
                dtype={name: types[name] for name in names if name in types},
                # Text that reads like a missing value, such as a label "NA", is text.
                keep_default_na=False,
                na_values=numbers,
            )
        except (ValueError, OverflowError) as error:
            raise FrameError(f"'{path}' is not what the profile's format has there: {error}") from error
    check_values(table, path, names, lambda name: bool(frame[name].isna().any()))
    for column in lacking:
        frame[column.name] = column.default
    for column in table.columns:
        # CSV has no text that is missing, and so Parquet's is as there.
        values = frame[column.name].fillna("") if column.type == "text" else frame[column.name]
        frame[column.name] = values.astype(pandas_type(column.type, column.may_be_empty))
    return described(table, frame)


def described(table: Table, frame: Any) -> Any:
    """A frame of pandas with units and descriptions of its columns in ``attrs``."""
    frame.attrs["units"] = table.units
    frame.attrs["descriptions"] = {column.name: column.description for column in table.columns}
    return frame


def empty_pandas(table: Table) -> Any:
    """The table without rows."""
    import pandas

    columns = {
        column.name: pandas.Series([], dtype=pandas_type(column.type, column.may_be_empty)) for column in table.columns
    }
    return described(table, pandas.DataFrame(columns))


def polars_types(table: Table) -> Any:
    """The types of the columns in polars."""
    import polars

    types = {
        "text": polars.String,
        "uint8": polars.UInt8,
        "uint32": polars.UInt32,
        "uint64": polars.UInt64,
        "int32": polars.Int32,
        "int64": polars.Int64,
        "float64": polars.Float64,
    }
    return {column.name: types[column.type] for column in table.columns}


def read_polars(table: Table, path: Path) -> Any:
    """The table as a ``polars.DataFrame``."""
    import polars

    types = polars_types(table)
    if path.suffix == ".parquet":
        try:
            frame = polars.read_parquet(path)
        except (polars.exceptions.PolarsError, OSError) as error:
            raise FrameError(f"'{path}' is no Parquet that can be read: {error}") from error
        names = frame.columns
        lacking = missing(table, names, path)
    else:
        check_end(path)
        names = header(path)
        lacking = missing(table, names, path)
        known = {name: types[name] for name in names if name in types}
        try:
            frame = polars.read_csv(path, schema_overrides=known)
        except polars.exceptions.PolarsError as error:
            why = str(error).splitlines()[0]
            raise FrameError(f"'{path}' is not what the profile's format has there: {why}") from error
    check_values(table, path, names, lambda name: frame[name].null_count() > 0)
    defaults = [polars.lit(column.default, dtype=types[column.name]).alias(column.name) for column in lacking]
    # An empty field of text is no missing value.
    texts = [polars.col(column.name).fill_null("") for column in table.columns if column.type == "text"]
    return frame.with_columns(defaults).with_columns(texts)


def empty_polars(table: Table) -> Any:
    """The table without rows."""
    import polars

    return polars.DataFrame(schema=polars_types(table))
