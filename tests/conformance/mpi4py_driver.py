"""Runs one test class of mpi4py's own tests on this rank and writes the outcome of each of its tests to cases.RANK.jsonl.

    mpi4py_driver.py TEST_DIRECTORY MODULE CLASS [--ignore-skips]

With --ignore-skips, tests that mpi4py leaves out because of the name or version of the MPI library are run as well: what the
native library cannot do, the preload may.
"""

import importlib
import json
import os
import sys
import unittest


class Recorder(unittest.TextTestResult):
    """Tells each test's beginning and outcome at once, so that a test that hangs can be named."""

    stream_of_cases = None

    def tell(self, test, outcome, reason=""):
        name = test.id().split(".", 1)[-1] if hasattr(test, "id") else str(test)
        os.write(
            Recorder.stream_of_cases, (json.dumps({"case": name, "outcome": outcome, "reason": reason}) + "\n").encode()
        )

    def startTest(self, test):
        super().startTest(test)
        self.tell(test, "begun")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.tell(test, "pass")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.tell(test, "fail", str(err[1])[:300])

    def addError(self, test, err):
        super().addError(test, err)
        self.tell(test, "fail", str(err[1])[:300])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.tell(test, "skip", reason)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.tell(test, "fail", str(err[1])[:300])

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.tell(test, "pass")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.tell(test, "fail", "unexpected success")


def main(arguments):
    directory, module, class_name = arguments[:3]
    sys.path.insert(0, directory)
    from mpi4py import MPI

    if "--ignore-skips" in arguments:
        import mpiunittest

        mpiunittest.skipMPI = lambda *_conditions: lambda case: case
    rank = MPI.COMM_WORLD.Get_rank()
    Recorder.stream_of_cases = os.open(f"cases.{rank}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    cases = unittest.defaultTestLoader.loadTestsFromTestCase(getattr(importlib.import_module(module), class_name))
    done = unittest.TextTestRunner(sys.stderr, resultclass=Recorder, verbosity=2).run(cases)
    return 0 if done.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
