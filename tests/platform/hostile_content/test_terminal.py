"""Whatever a model, a task file or a file's name holds, a terminal obeys none of it."""

import io
import json
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from rich.console import Console

from reflexion_lab.analysis.report.cells import line, table
from reflexion_lab.analysis.report.sheets import Sheet, as_table
from reflexion_lab.cli import main as cli
from reflexion_lab.cli.sheets import say, say_json
from reflexion_lab.io.terminal_text import plain, visible
from reflexion_lab.runner.config.messages import full_traceback, one_line

EVIL = {
    "colour": "\x1b[31m", "title": "\x1b]0;owned\x07", "link": "\x1b]8;;http://evil\x1b\\on\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;ZXZpbA==\x07", "device control": "\x1bP+q544e\x1b\\",
    "eight bits": "\x9b31m\x9d0;owned\x9c", "return": "good\rbad\b\b\b\x7f",
    "direction": "\u202eabc\u2066\u2069\u200f\u061c",
    "unseen": "\u200b\u2060\ufeff\u00ad\ue000\U000e0041\u115f\u3164\uffa0\u17b4\ufe0f\u180e", "half": "\ud800\udfff",
    "nobody's": "\uffff\ufdd0\U0010ffff", "markup": "[bold red]x[/] [link=http://evil]y[/link] :smile:",
    "breaks": "\x0b\x0c\x1c\x85\u2028\u2029",
}  # fmt: skip
ALL = "".join(EVIL.values())
OBEYED = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def harmful(text: str) -> set[str]:
    """Characters that a terminal obeys, or that no eye sees."""
    unseen = "\u115f\u1160\u17b4\u17b5\u180b\u2800\u3164\uffa0\ufe0f"
    return {c for c in text if c != "\n" and (unicodedata.category(c) in OBEYED or c in unseen)}


@pytest.mark.parametrize("name", EVIL)
def test_what_is_spelt_out_can_be_read_and_harms_nobody(name: str) -> None:
    for text in (visible(EVIL[name]), plain(EVIL[name])):
        assert not harmful(text)
    assert visible("Größe 大小 é 😀\nnaïve") == "Größe 大小 é 😀\nnaïve"


def test_terminal_lines_and_tables_show_text_literally() -> None:
    for style in (True, False):
        out = io.StringIO()
        console = Console(file=out, width=4000, force_terminal=style, no_color=True)
        rich_table = table(ALL, ALL, "figure")
        rich_table.add_row(line(ALL), line(ALL))
        for part in (line(ALL), rich_table, as_table(Sheet(title=ALL, columns=(ALL,), rows=((ALL,),), caption=ALL))):
            console.print(part)
        text = re.sub(r"\x1b\[[\d;]*m", "", out.getvalue())  # rich's own
        assert not harmful(text)
        assert text.count("[link=http://evil]y[/link] :smile:") == 9


def test_what_commands_say_is_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    say(ALL)
    say_json({"reply": ALL.replace("\ud800\udfff", ""), "nothing": float("nan")})
    out = capsys.readouterr().out
    assert not harmful(out)
    assert json.loads(out.splitlines()[-1])["nothing"] is None


def test_errors_with_their_causes_notes_and_tracebacks_are_harmless() -> None:
    try:
        try:
            raise KeyError(ALL)
        except KeyError as inner:
            raise ValueError(f"{ALL}: found") from inner
    except ValueError as problem:
        problem.add_note(ALL)
        short, full = one_line(problem), full_traceback(problem)
    assert not harmful(short)
    assert "\n" not in short
    assert not harmful(full)
    assert "KeyError" in full


NAME = "evil\x1b]0;owned\x07\x9b\u202e[bold]"


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / NAME).mkdir()
    for name in (f"{NAME}.jsonl", f"{NAME}.zip", f"{NAME}.yaml", f"{NAME}/manifest.json", f"{NAME}.jsonl.gz"):
        (tmp_path / name).write_bytes(json.dumps({"run_id": ALL, "format": ALL}, ensure_ascii=True).encode())
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ["show", NAME], ["show", f"{NAME}-absent"], ["report", NAME], ["compare", NAME, f"{NAME}-absent"],
        ["track", NAME, "--uri", NAME], ["replay", f"{NAME}.zip"], ["bundle", NAME], ["check", f"{NAME}.yaml", NAME],
        ["audit", f"{NAME}.jsonl"], ["audit", f"{NAME}.jsonl.gz"], ["memory", "import", f"{NAME}.jsonl"],
        ["memory", "show", "--store", f"{NAME}.jsonl"], ["recordings", f"{NAME}.jsonl"],
        ["lint-dataset", f"{NAME}.jsonl"], ["estimate", f"model={NAME}"], [f"{NAME}"], ["show", "--", "a", NAME],
        ["doctor", f"--{NAME}"], ["wisdom", NAME], ["run", f"benchmark={NAME}"], ["run", f"{NAME}"],
        ["run", f"+arm={NAME}"],
        ["run", "benchmark=jsonl", f"benchmark.load.path='{NAME}.jsonl'", "model=simulated", "tracker=none"],
        ["run", f"resume='{NAME}'", "model=simulated", "tracker=none", "benchmark.load.n=2"],
    ],
    ids=lambda command: " ".join(command)[:20].encode("unicode_escape").decode(),
)  # fmt: skip
def test_the_complaint_of_a_command_repeats_names_without_harm(lab: Path, command: list[str], capfd) -> None:
    try:
        code = cli.main(command)
    except SystemExit as end:
        code = int(str(end.code))
    text = "".join(capfd.readouterr())
    assert code == 2
    assert text.strip()
    assert not harmful(text)


def test_a_bug_shows_its_traceback_without_harm(tmp_path: Path) -> None:
    lines = [
        "import sys",
        "from reflexion_lab.cli import main as cli, show",
        "show.show = lambda asked: {}[asked.run]",
        "cli.main(sys.argv[1:])",
    ]
    program = "\n".join(lines)
    command = [sys.executable, "-c", program, "show", "\x1b]0;owned\x07\u202e"]
    process = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert process.returncode == 1
    assert "KeyError" in process.stderr
    assert not harmful(process.stderr)
