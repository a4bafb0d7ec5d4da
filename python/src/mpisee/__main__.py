"""Runs the profiler of the same wheel: `python -m mpisee PROGRAM` is `mpisee PROGRAM`."""

import os
import sys

from mpisee._answers import program
from mpisee._error import ProfileError


def main() -> None:
    """Replaces this process by the command."""
    try:
        profiler = program("mpisee")
    except ProfileError as error:
        sys.exit(f"mpisee: {error}. `cargo xtask package wheel` makes a package with the profiler")
    try:
        os.execv(profiler, ["mpisee", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"mpisee: cannot start '{profiler}': {error.strerror}")


if __name__ == "__main__":
    main()
