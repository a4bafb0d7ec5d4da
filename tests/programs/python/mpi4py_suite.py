"""Runs the tests of mpi4py and writes what came of each into a file of this rank.

Usage: mpi4py_suite.py OUTCOMES MAIN ARGUMENTS...
OUTCOMES.RANK gets a line per test, its name, a tab and its outcome. MAIN is the test/main.py of mpi4py's sources.
"""

import os
import re
import runpy
import sys
import unittest

OUTCOMES, MAIN = sys.argv[1:3]


class Recorder(unittest.TextTestResult):
    """Writes each outcome at once, so that a test that ends the program is known."""

    file = None

    def note(self, name, outcome):
        if Recorder.file is None:
            from mpi4py import MPI

            Recorder.file = open(f"{OUTCOMES}.{MPI.COMM_WORLD.Get_rank()}", "w", encoding="utf-8")
        print(name, outcome.replace("\n", " "), sep="\t", file=Recorder.file, flush=True)

    def note_error(self, test, what, error):
        kind, value, _ = error
        # An address is another one in each run.
        text = re.sub(r"0x[0-9a-fA-F]+", "0x", f"{kind.__name__}: {value}")
        self.note(test.id(), f"{what} {text}")

    def startTest(self, test):
        super().startTest(test)
        self.note(test.id(), "began")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test.id(), "ok")

    def addError(self, test, err):
        super().addError(test, err)
        self.note_error(test, "error", err)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note_error(test, "failure", err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test.id(), f"skipped {reason}")

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.note(test.id(), "failure as expected")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.note(test.id(), "success unexpected")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.note_error(subtest, "failure", err)
            self.note(test.id(), "failure of a part")


unittest.TextTestRunner.resultclass = Recorder
sys.argv = [MAIN, *sys.argv[3:]]
sys.path[0] = os.path.dirname(MAIN)
sys.dont_write_bytecode = True
runpy.run_path(MAIN, run_name="__main__")
