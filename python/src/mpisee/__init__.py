"""Profiles of mpisee: its tables as data frames, and answers of its commands as data.

    >>> profile = mpisee.load(heat)
    >>> profile.run.ranks
    2
    >>> int(profile.calls.groupby("call")["calls"].sum()["MPI_Sendrecv"])
    400
    >>> for row in profile.waits(comm="W_a*", call="messages").rows:
    ...     print(f"rank {row['rank']} caused {row['caused_s']:.4f} s")
    rank 0 caused 0.0907 s
    rank 1 caused 0.0082 s

A table is read when it is first asked for. Types of columns, units and descriptions are those of docs/reference/columns.md.
Answers need the program mpisee-through, which is in the same wheel.
"""

from ._answers import Answer, answer
from ._error import ProfileError
from ._profile import Profile, Run, load, run
from ._schema import FORMAT_VERSION, SCHEMA, Column, Table

__all__ = [
    "FORMAT_VERSION",
    "SCHEMA",
    "Answer",
    "Column",
    "Profile",
    "ProfileError",
    "Run",
    "Table",
    "answer",
    "load",
    "run",
]
__version__ = "0.9.0"
