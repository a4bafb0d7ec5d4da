"""Groups a calls.csv as `mpisee-through summary` does, with DuckDB or polars, and prints the seconds that took.

Usage: group_calls.py duckdb|polars CALLS.CSV

Start of the interpreter and imports are not in the time: they are no part of the work.
"""

import sys
import time


def with_duckdb(path):
    import duckdb

    connection = duckdb.connect()
    start = time.perf_counter()
    rows = connection.execute(
        """
        SELECT comm, call, sum(time_s), min(time_s), max(time_s), sum(bytes), sum(calls)
        FROM (
            SELECT comm, call, rank, sum(time_s) AS time_s, sum(bytes) AS bytes, sum(calls) AS calls
            FROM read_csv(?) GROUP BY comm, call, rank
        )
        GROUP BY comm, call
        """,
        [path],
    ).fetchall()
    return time.perf_counter() - start, rows


def with_polars(path):
    import polars as pl

    start = time.perf_counter()
    sums = [pl.col(column).sum() for column in ("time_s", "bytes", "calls")]
    rows = (
        pl.scan_csv(path)
        .group_by("comm", "call", "rank")
        .agg(sums)
        .group_by("comm", "call")
        .agg(
            pl.col("time_s").sum(),
            pl.col("time_s").min().alias("min_s"),
            pl.col("time_s").max().alias("max_s"),
            pl.col("bytes").sum(),
            pl.col("calls").sum(),
        )
        .collect(engine="streaming")
        .rows()
    )
    return time.perf_counter() - start, rows


seconds, rows = {"duckdb": with_duckdb, "polars": with_polars}[sys.argv[1]](sys.argv[2])
assert rows, "no rows"
print(seconds)
