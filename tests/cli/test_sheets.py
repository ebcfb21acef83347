"""Output of commands."""

import json

from reflexion_lab.cli.sheets import say_json


def test_json_is_one_ascii_line_whatever_a_log_holds(capsys):
    value = {"id": "\ud800x", "rate": float("nan"), "rows": [(1, float("inf"))]}
    say_json(value)
    printed = capsys.readouterr().out
    assert printed.isascii()
    assert json.loads(printed) == {"id": "\ud800x", "rate": None, "rows": [[1, None]]}
