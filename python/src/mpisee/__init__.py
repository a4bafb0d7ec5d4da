"""Profiles of mpisee as data frames.

    >>> import mpisee
    >>> profile = mpisee.load("app.mpisee")
    >>> profile.run.ranks
    >>> profile.calls.groupby("comm")["time_s"].sum()

A table is read when it is first asked for. Types of columns, units and descriptions are those of docs/reference/columns.md.
"""

from ._profile import Profile, ProfileError, Run, load
from ._schema import FORMAT_VERSION, SCHEMA, Column, Table

__all__ = ["FORMAT_VERSION", "SCHEMA", "Column", "Profile", "ProfileError", "Run", "Table", "load"]
__version__ = "0.1.0"
