"""Makes the notebooks of the scripts beside this one: `python make.py` writes them without output, `python make.py --execute` runs them
in the current folder and keeps what they print (PROFILE, TABLES and FILES name what they read)."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, List

import jupytext
import nbclient
import nbformat

HERE = Path(__file__).parent


def scripts() -> List[Path]:
    """The scripts that are notebooks."""
    return sorted(path for path in HERE.glob("*.py") if path.name != "make.py")


def notebook(script: Path) -> Any:
    """The script as a notebook without output; the same each time."""
    book = jupytext.read(script, fmt="py:percent")
    for number, cell in enumerate(book.cells, 1):
        cell.id = f"cell-{number}"
        cell.metadata = {}
    book.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    book.nbformat, book.nbformat_minor = 4, 5
    return book


def execute(book: Any, folder: Path) -> None:
    """Runs all cells; an error in one is raised."""
    nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(folder)}}).execute()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--execute", action="store_true", help="run them, and keep what they print")
    wanted = parser.parse_args()
    for script in scripts():
        book = notebook(script)
        if wanted.execute:
            execute(book, Path.cwd())
            for cell in book.cells:
                cell.metadata = {}
            book.metadata.language_info = {"name": "python"}
        nbformat.write(book, script.with_suffix(".ipynb"))


if __name__ == "__main__":
    main()
