"""Recorded replies through parser and extractor, on rows of our own and on recorded ones."""

import csv
import gzip
import io
import json

import pytest
from rich.console import Console

from experiments._tools import parsing as command
from experiments._tools import replies as study
from experiments._tools.parsing_cases import read_cases, write_cases
from experiments._tools.parsing_report import alarms, as_rows, disagreements, reflections, replies, save, show
from experiments._tools.replies import CAUSES, Words, extracted, parse_recorded, parsed, recorded
from reflexion_lab.audit import stored_programs
from reflexion_lab.tasks.sandbox.sandbox import Limits

PROMPT = 'def double(x):\n    """Twice x."""\n'
TEST = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(-3) == -6\n"
RIGHT, WRONG = "def double(x):\n    return 2 * x\n", "def double(x):\n    return x\n"
CLAIMS = f"{RIGHT}assert double(2) == 5\n"
HELPER, CALLS = "def twice(x):\n    return 2 * x\n", "def double(x):\n    return twice(x)\n"
FIELDS = "ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: c\nCONFIDENCE: 0.5"


def row(*attempts, problem="own/double", prompt=PROMPT, model="gpt"):
    task = {"problem": problem, "entry_point": "double", "prompt": prompt, "test": TEST}
    return {"model": model, **task, "attempts": list(attempts)}


def answer(raw, *, code="", passed=True, **more):
    """`code` is what the log judged, the completion behind the prompt without it."""
    judged = {"code": code} if code else {}
    return {"raw": raw, "own_pass": passed, "own_lenient": passed, **judged, **more}


def fenced(*blocks):
    return "\n\nAnd then:\n\n".join(f"```python\n{block}```" for block in blocks)


@pytest.fixture
def read(write_rows):
    def run(*rows, **options):
        return parse_recorded([write_rows(*rows)], workers=2, quiet=True, **options)

    return run


def test_replies_with_the_logs_verdict_have_no_cause(read):
    result = read(
        row(answer(fenced(RIGHT), code=RIGHT), answer("    return 2 * x\n"), answer(WRONG, code=WRONG, passed=False))
    )
    assert [(reply.rule, reply.passed, reply.differs, reply.cause) for reply in result.replies] == [
        ("fence+function", True, False, ""),
        ("body", True, False, ""),
        ("function", False, False, ""),
    ]


@pytest.mark.parametrize(
    ("cause", "attempt", "passed"),
    [
        ("own asserts", answer(fenced(CLAIMS), code=CLAIMS, passed=False), True),
        ("helper", answer(fenced(HELPER, CALLS), code=CALLS, passed=False), True),
        ("last definition", answer(fenced(WRONG, RIGHT), code=WRONG, passed=False), True),
        ("last definition", answer(fenced(RIGHT, WRONG), code=RIGHT), False),
        ("imports", answer("    return math.prod((2, x))\n"), False),
        ("harness", answer(fenced(RIGHT), code=RIGHT, passed=False), True),
        ("harness", answer(fenced(WRONG), code=WRONG), False),
        ("unexplained", answer(fenced(RIGHT), code=WRONG, passed=False), True),
    ],
)
def test_a_disagreement_has_the_executed_cause(read, cause, attempt, passed):
    result = read(row(attempt))
    (reply,) = result.replies
    assert (reply.cause, reply.passed, reply.differs) == (cause, passed, True)
    assert CAUSES[cause] in repr(disagreements(result))


def test_definitions_in_the_prompt_are_a_cause(read):
    prompt = "import math\n\n\n" + PROMPT
    code = "def double(x):\n    return math.prod((2, x))\n"
    assert read(row(answer(fenced(code), code=code, passed=False), prompt=prompt)).replies[0].cause == "prompt"


@pytest.mark.slow
def test_a_slow_program_has_the_cause_time(read, monkeypatch):
    slow = "import time\n\n\ndef double(x):\n    time.sleep(0.7)\n    return 2 * x\n"
    monkeypatch.setattr(stored_programs, "LIMITS", Limits(wall_seconds=0.5, cpu_seconds=1))
    (reply,) = read(row(answer(fenced(slow), code=slow, passed=False))).replies
    assert (reply.passed, reply.cause) == (True, "time")


def test_equal_programs_run_once(read):
    result = read(row(answer(fenced(RIGHT), code=RIGHT), answer(RIGHT, code=RIGHT)), row(answer(WRONG, passed=False)))
    assert (len(result.replies), result.executed) == (3, 2)


def test_a_reply_without_code_has_no_program_and_does_not_pass(read):
    result = read(row(answer("I cannot do that.", passed=False), answer("    pass\n", passed=False)))
    first, second = result.replies
    assert (first.program, first.rule, first.usable, first.passed) == ("", "none", False, False)
    assert (second.rule, second.usable) == ("stub", False)
    everyone = list(as_rows(result))[1]
    assert (everyone["name"], everyone["no_program"], everyone["failed"]) == ("all", 1, 2)


def test_free_text_needs_rules_and_is_whole_in_form(read):
    words = "The loop `for i in {}` stops one short:\n- it leaves out the last item\n\nI will fix it."
    result = read(row({"reflection": words}, {"reflection": FIELDS}))
    first, second = result.words
    assert (first.parsed, first.kept, first.crash) == (False, True, "")
    assert first.problem == "the reply lacks ROOT_CAUSE, WHAT_WENT_WRONG, WHAT_TO_CHANGE, CONFIDENCE"
    assert (second.parsed, second.problem) == (True, "")
    assert "| 2 | 1 | 50.0" in " ".join(repr(reflections(result)).split())


def test_words_that_no_form_can_hold_are_counted():
    assert not parsed(Words(model="m", task_id="t", text="...")).kept


def test_an_exception_is_reported_and_stops_nothing(read, monkeypatch):
    def broken(*_):
        raise RecursionError("too deep")

    reply = answer(fenced(RIGHT), code=RIGHT, passed=False)
    monkeypatch.setattr(study, "extract", broken)
    monkeypatch.setattr(study, "parse_fields", broken)
    result = read(row(reply), row({"reflection": "words"}))
    assert [case.crash for case in (*result.replies, *result.words)] == ["RecursionError: too deep"] * 2
    (alarm,) = alarms(result)
    assert alarm.startswith("EXCEPTION at 2 recorded replies: RecursionError: too deep")
    out = io.StringIO()
    show(result, Console(file=out, width=80))
    assert "EXCEPTION" in out.getvalue()


def test_the_extractor_sees_no_hidden_test(tmp_path, monkeypatch):
    texts = []
    monkeypatch.setattr(study, "extract", lambda text, task: texts.append(task) or ("", "none"))
    (tmp_path / "log.jsonl").write_text(json.dumps(row(answer(RIGHT))))
    (reply,) = recorded(tmp_path / "log.jsonl")
    extracted(reply)
    assert reply.task.hidden_tests
    assert texts == [reply.task.public]


def test_rows_and_sheets_hold_the_same_figures(read):
    result = read(
        row(answer(fenced(RIGHT), code=RIGHT), answer(fenced(WRONG, RIGHT), code=WRONG, passed=False)),
        row(answer(WRONG, code=WRONG, passed=False), {"reflection": "words"}, model="other"),
    )
    rows = {(as_row["part"], as_row["by"], as_row["name"]): as_row for as_row in as_rows(result)}
    both = rows["completions", "model", "all"]
    assert (both["n"], both["logged_pass"], both["extracted_pass"], both["agree"]) == (3, 1, 2, 2)
    assert rows["disagreements", "cause", "last definition"]["n"] == 1
    assert rows["reflections", "model", "other"]["failed"] == 1
    assert len({tuple(row) for row in rows.values()}) == 1
    sheet = replies(result, "model")
    assert [line[0] for line in sheet.rows] == ["gpt", "other", "all"]
    assert sheet.rows[-1][-2] == "2"
    assert sheet.rows[-1][-1].startswith("66.7 [")
    with pytest.raises(ValueError, match="by: got 'colour', expected model or rule"):
        replies(result, "colour")


def test_table_and_figure_are_reproducible(read, tmp_path):
    result = read(row(answer(fenced(RIGHT), code=RIGHT), answer(fenced(RIGHT, WRONG), code=RIGHT)))
    first = [path.read_bytes() for path in save(result, tmp_path / "one")]
    assert first == [path.read_bytes() for path in save(result, tmp_path / "two")]
    table = list(csv.DictReader(io.StringIO(first[0].decode())))
    assert [line["part"] for line in table].count("disagreements") == 1
    assert b"passes in the log alone" in first[1]


def test_evidence_gives_the_same_table_and_figure_without_texts(read, tmp_path):
    result = read(
        row(answer(fenced(RIGHT), code=RIGHT), answer(fenced(RIGHT, WRONG), code=RIGHT), answer("no", passed=False)),
        row({"reflection": "my own words"}),
    )
    write_cases(result, tmp_path)
    again = read_cases(tmp_path)
    files = [[path.read_bytes() for path in save(each, tmp_path / "out")] for each in (result, again)]
    assert files[0] == files[1]
    assert [reply.definitions for reply in again.replies] == [1, 2, 0]
    assert again.executed == result.executed
    evidence = "".join(path.read_text() for path in tmp_path.glob("*.csv"))
    assert "return" not in evidence and "my own" not in evidence
    with pytest.raises(ValueError, match=r"cases\.csv"):
        read_cases(tmp_path / "elsewhere")


def test_an_invalid_transcript_is_named_by_line_and_field(tmp_path):
    for lines, message in (
        ("", "got no reply, expected transcripts"),
        ('{"problem": "p"}', "line 1, field attempts"),
        ('{"attempts": [{"raw": "x"}]}', "line 1, field problem"),
        (json.dumps(row({"raw": "x"})), "line 1, field own_pass: got nothing"),
        (json.dumps(row({"raw": 3, "own_pass": True})), "line 1, field raw: got 3, expected text"),
    ):
        (tmp_path / "log.jsonl").write_text(lines)
        with pytest.raises(ValueError, match=message):
            parse_recorded([tmp_path / "log.jsonl"], quiet=True)


def command_line(*words):
    return command.parsing(command.parser().parse_args(list(map(str, words))))


def test_the_command_prints_json_last(tmp_path, capsys):
    lines = [row(answer(fenced(RIGHT), code=RIGHT)), row({"reflection": "words"})]
    with gzip.open(tmp_path / "log.jsonl.gz", "wt") as file:
        file.write("\n".join(map(json.dumps, lines)))
    assert command_line(tmp_path / "log.jsonl.gz", "--out", tmp_path / "out", "--json") == 0
    printed = capsys.readouterr().out
    output = json.loads(printed.splitlines()[-1])
    assert (output["reflections"], output["completions"], output["executed"]) == (1, 1, 1)
    assert (tmp_path / "out" / "table.csv").exists()
    assert str(tmp_path / "out" / "figure.svg") in printed
    assert command_line(tmp_path / "log.jsonl.gz", "--limit", 1, "--json") == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["reflections"] == 0


def test_a_missing_file_fails_before_any_execution(tmp_path):
    with pytest.raises(ValueError, match=r"absent\.jsonl: got no such file"):
        command_line(tmp_path / "absent.jsonl")
    (tmp_path / "taken").write_text("")
    with pytest.raises(ValueError, match="--out"):
        command_line(tmp_path / "absent.jsonl", "--out", tmp_path / "taken")


def test_recorded_replies_have_almost_all_logged_verdicts(recorded_runs):
    files = sorted((recorded_runs / "transcripts").glob("*.jsonl.gz"))
    result = parse_recorded(files, limit=30, quiet=True)
    assert not list(alarms(result))
    assert (len(result.words), len(result.replies)) == (90, 144)
    assert not any(word.parsed for word in result.words)  # free text, all of it
    assert all(word.kept for word in result.words)
    assert all(reply.program for reply in result.replies)
    differing = [(reply.task_id, reply.cause) for reply in result.replies if reply.differs]
    assert differing == [("HumanEval/8", "imports")]


def test_all_recorded_words_and_code_get_through(recorded_runs):
    records = [
        record for path in sorted((recorded_runs / "transcripts").glob("*.jsonl.gz")) for record in recorded(path)
    ]
    words = [parsed(record) for record in records if isinstance(record, Words)]
    assert len(words) == 1020
    assert not any(word.crash or word.parsed for word in words)
    assert all(word.kept for word in words)
    programs = [extracted(record) for record in records[::16] if not isinstance(record, Words)]
    assert len(programs) > 500
    assert all(program.program and not program.crash for program in programs)
