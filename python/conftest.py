"""Names for the examples in the package's documentation."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Dict

import pytest

import mpisee

HEAT = Path(__file__).parent.parent / "examples/profiles/heat-balanced.mpisee"


@pytest.fixture(autouse=True)
def examples(request: pytest.FixtureRequest, doctest_namespace: Dict[str, Any]) -> None:
    """The package, and a profile of two ranks; they need the program mpisee-through."""
    if not isinstance(request.node, pytest.DoctestItem):
        return
    if not (os.environ.get("MPISEE_THROUGH") or shutil.which("mpisee-through")):
        pytest.skip("mpisee-through is neither in PATH nor named by MPISEE_THROUGH")
    doctest_namespace.update(mpisee=mpisee, heat=str(HEAT))
