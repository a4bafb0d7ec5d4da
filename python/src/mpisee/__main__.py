"""Runs the profiler of the same wheel: `python -m mpisee PROGRAM` is `mpisee PROGRAM`."""

import os
import sys
from importlib.metadata import PackageNotFoundError, files


def main() -> None:
    """Replaces this process by the command."""
    try:
        installed = files("mpisee") or []
    except PackageNotFoundError:
        installed = []
    for file in installed:
        # The package is a folder of the same name.
        if file.name == "mpisee":
            os.execv(str(file.locate()), ["mpisee", *sys.argv[1:]])
    sys.exit("mpisee: only the package that reads profiles is installed; `cargo xtask package wheel` makes one with the profiler")


if __name__ == "__main__":
    main()
