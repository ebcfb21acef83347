"""Every refusal of a command line, an override or a damaged file, word for word; nothing is changed, nothing hangs.

`messages.txt` holds them: below `$ WORDS` or `# CASE` (of `cases.py`) what is printed, `...` for a run that would go
well. To write it again, and then read the difference:

    WRITE_MESSAGES=1 python -m pytest -n0 -m "" tests/platform/bad_input/test_refusals.py
"""

import os
import shlex
from pathlib import Path

import pytest

from tests.platform.bad_input.cases import CASES, put

FILE = Path(__file__).with_name("messages.txt")
BLOCKS = dict(block.partition("\n")[::2] for block in FILE.read_text().rstrip("\n").split("\n\n"))
LINES = [block for block in BLOCKS if block.startswith("$")]


@pytest.fixture(scope="session")
def expected():
    """The messages by block; with WRITE_MESSAGES those that come take their place in the file."""
    blocks = dict(BLOCKS)
    yield blocks
    if os.environ.get("WRITE_MESSAGES"):
        kept = [block for block in blocks if block.startswith("$") or block[2:] in CASES]
        FILE.write_text("\n".join(f"{block}\n{blocks[block]}\n" for block in kept))


def check(expected, block, message):
    if os.environ.get("WRITE_MESSAGES"):
        expected[block] = message
    assert message == expected[block]


@pytest.mark.parametrize("block", LINES, ids=lambda block: block[2:42])
def test_command_line_is_refused(refused, expected, block):
    words = shlex.split(block[2:].encode().decode("unicode_escape"))
    check(expected, block, refused(*words))


@pytest.mark.parametrize("name", CASES)
def test_damaged_file_is_refused(work, refused, expected, name):
    file, content, words = CASES[name]
    put(work / file, content)
    check(expected, f"# {name}", refused(*words))


def test_each_message_has_a_case():
    assert {block[2:] for block in BLOCKS if block.startswith("#")} == set(CASES)
