"""What remains possible where a check can only be judged in the candidate's own process.

A check that is a loop or a whole function runs beside the candidate, whose code can reach everything around it. These
programs forge there, each by another door. They stand apart: a pass of theirs is possible, and the table shows it; to
break the lab or its records is not. The same tricks against checks that are judged apart are rows of the other
families, and must fail.
"""

from __future__ import annotations

from msgspec.structs import replace

from reflexion_lab.hostile.attack import IN_PLACE, WRONG, Attack
from reflexion_lab.hostile.forged_reports import with_nonce

POSSIBLE = ("pass", "fail", "error", "early_exit")


def possible(name: str, tries: str, program: str, checks: tuple[str, ...] = IN_PLACE) -> Attack:
    return Attack(name=name, tries=tries, program=program, expected=POSSIBLE, checks=checks, mode="in_place")


def forged_in_place(name: str, tries: str, line: str) -> Attack:
    """Lines with the nonce may pass here, but not break the lab."""
    return replace(with_nonce(name, tries, line, checks=IN_PLACE), expected=POSSIBLE, mode="in_place")


ATTACKS = (
    possible(
        "in place: an always equal value",
        "__eq__ that is always true",
        "class Liar:\n    def __eq__(self, other):\n        return True\ndef f(x):\n    return Liar()",
    ),
    possible(
        "in place: exec does nothing",
        "to shadow exec in the globals of the frames above",
        "import sys\nframe = sys._getframe().f_back\nwhile frame:\n"
        "    frame.f_globals['exec'] = lambda *_: None\n    frame = frame.f_back" + WRONG,
    ),
    possible(
        "in place: the caller's constants",
        "to return the constant that its caller will compare with",
        "import sys\ndef f(x):\n    return max(c for c in sys._getframe(1).f_code.co_consts if type(c) is int)",
    ),
    possible(
        "in place: unittest is patched",
        "assertEqual that never fails",
        "import unittest\nunittest.TestCase.assertEqual = lambda *_: None" + WRONG,
        ("import unittest\nunittest.TestCase().assertEqual(f(1), 2)",),
    ),
    forged_in_place(
        "in place: a report with the nonce",
        "to write a pass with the nonce found through its frames",
        'b\'[0, "pass", "", "", 0, 0.0]\'',
    ),
    forged_in_place(
        "in place: poses as a broken harness", "to end the run", 'b\'[0, "harness_error", "", "", 0, 0.0]\''
    ),
    forged_in_place(
        "in place: an outcome of its own", "an outcome that there is not", 'b\'[0, "passed", "", "", 0, 0.0]\''
    ),
    forged_in_place(
        "in place: endless seconds", "numbers that no record may hold", 'b\'[0, "fail", "", "", 0, 1e999]\''
    ),
    forged_in_place(
        "in place: an exception of 2 MB",
        "to flood records",
        'b\'[0, "fail", "%s", "", 0, 0.0]\' % (b\'x\' * 2_000_000)',
    ),
)
