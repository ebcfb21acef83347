import base64
import gzip
import hashlib
import json
import re

import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.report.history import MOST_LINES, Sources, _as_episode
from reflexion_lab.analysis.report.page import page, save_page, task_lines
from reflexion_lab.analysis.report.pieces import LONGEST
from reflexion_lab.analysis.report.screen import task_screen
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.cli.main import main
from reflexion_lab.memory.lessons.wisdom import wisdom_of
from reflexion_lab.notebook.view import view
from reflexion_lab.records import Check, Critique, Step, Wisdom

VERDICTS = {
    "t/10": [(0.0, False), (1, True)], "t/9": [(0.0, False), (1, True)], "t/once": [(1, True)],
    "t/never": [(0.0, False), (0.5, False), (0.0, True)], "t/damaged": [(0.0, True), (1, False)],
}  # fmt: skip
HOSTILE = "</script><script>alert(1)</script>]]><!--\x00\u202e\ud800'\"&amp;"


class Page:
    """What a browser would make of the file, without one."""

    def __init__(self, text):
        self.text = text
        self.scripts = dict(re.findall(r'<script type="[^"]*" id="([^"]*)">(.*?)</script>', text, re.DOTALL))
        self.running = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
        self.index = json.loads(self.scripts["index"])
        self.policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1].replace("&#39;", "'")

    def packed(self, name):
        return gzip.decompress(base64.b64decode(self.scripts[name])).decode()

    def history(self, task_id):
        place = [task["id"] for task in self.index["tasks"]].index(task_id)
        return self.packed(f"task-{place}")


def test_tasks_are_sorted_by_result_and_marked_by_hidden_verdicts(write_run):
    lines = task_lines(Log.read(write_run(VERDICTS)))
    assert [(task.task_id, task.result) for task in lines] == [
        ("t/damaged", "damaged"), ("t/never", "not solved"), ("t/9", "repaired"), ("t/10", "repaired"),
        ("t/once", "solved at once"),
    ]  # fmt: skip
    assert [task.marks for task in lines[:2]] == [(("✓", True), ("✗", False)), (("✗✗", False), ("✓", True))]
    assert [(task.submitted, task.solved_at) for task in lines] == [(2, 0), (2, 0), (2, 2), (2, 2), (1, 1)]


@pytest.mark.parametrize("sealed", [True, False])
def test_ungraded_attempts_have_no_verdict_before_the_seal(write_run, sealed):
    results = {task.task_id: task.result for task in task_lines(Log.read(write_run(VERDICTS, sealed=sealed)))}
    assert results["t/9"] == ("repaired" if sealed else "right")
    assert results["t/damaged"] == ("damaged" if sealed else "wrong")
    assert results["t/once"] == "solved at once"


def test_the_page_holds_the_very_history_that_a_notebook_shows(write_run):
    run = write_run(VERDICTS)
    html = Page(page(Log.read(run)))
    for task_id in VERDICTS:
        assert html.history(task_id) == view(run, task=task_id).html
    assert [task["id"] for task in html.index["tasks"]][:2] == ["t/damaged", "t/never"]


def test_the_head_names_metric_interval_source_and_what_is_missing(write_run):
    head = page(Log.read(write_run(VERDICTS, n_expected=9))).partition("<main>")[0]
    for text in ("pass@1 60.0 %", "Wilson 95 %", "of n = 5", "feedback: visible", "seed 7", "5 of 9 tasks have ended"):
        assert text in head
    assert "UPPER BOUND" not in head
    oracle = write_run(VERDICTS, feedback_source="oracle", name="oracle")
    head = page(Log.read(oracle)).partition("<main>")[0]
    assert "UPPER BOUND, not pass@1" in head
    assert "pass@1" not in head.replace("UPPER BOUND, not pass@1", "")
    empty = Page(page(Log.read(write_run({}, n_expected=3, name="empty"))))
    assert "No loop has ended yet" in empty.text
    assert empty.index["tasks"] == []


def hostile(attempt, reflection, text):
    """An attempt of which all that a model, a program or a benchmark can write is `text`."""
    critique = Critique(severity=0.5, issues=(text,), source=text)
    step = Step(thought=text, observation=text, program=text, critique=critique, reply=text)
    words = replace(reflection(1, words=text), category=text, source=text)
    changed = replace(attempt(text, 1, 0, text, reflection=words), recalled=(text,), recalled_wisdom=(text,))
    checks = (Check(name=text, outcome="fail", expected=text, actual=text),)
    trajectory = replace(changed.trajectory, reply=text, steps=(step,), model=text)
    return replace(changed, trajectory=trajectory, evaluation=replace(changed.evaluation, checks=checks))


def test_hostile_words_stay_words(attempt, reflection, write_run):
    hostile_attempt = hostile(attempt, reflection, HOSTILE)
    log = replace(
        Log.read(write_run({"t/1": [(0.0, False)]})),
        attempts={HOSTILE: [hostile_attempt], "ok": [replace(hostile_attempt, task_id="ok")]},
    )
    html = Page(page(log))
    html.text.encode()
    task = next(task for task in html.index["tasks"] if task["id"] != "ok")
    assert len(html.running) == 1
    assert html.text.count("<script") == 3 + len(html.index["tasks"]) == html.text.count("</script>")
    assert task["id"].startswith("</script><script>alert(1)")
    fragment = html.history(task["id"])
    assert "<script" not in fragment
    assert fragment.count("&lt;script&gt;") > 15
    assert not re.search("[\x00\u202e\ud800]", html.text + fragment)
    assert "alert(1)" in html.packed("texts")


def test_huge_lines_and_programs_are_cut_with_a_notice(attempt, reflection, write_run):
    long = hostile(attempt, reflection, "x" * 1_000_000)
    many = replace(attempt("t/1", 2, 0, "a\n" * 1_000_000))
    html = view([long, many, replace(many, number=3)]).html
    assert len(html) < 40 * LONGEST
    assert f"{1_000_000 - LONGEST:,} more characters in the run folder" in html
    assert f"1,000,000 lines, of which at most {MOST_LINES:,} are shown" in html


def test_only_the_pages_own_script_runs_and_nothing_is_loaded(write_run):
    html = Page(page(Log.read(write_run(VERDICTS))))
    digest = base64.b64encode(hashlib.sha256(html.running[0].encode()).digest()).decode()
    rules = dict(rule.strip().split(" ", 1) for rule in html.policy.split(";"))
    assert rules["script-src"] == f"'sha256-{digest}'"
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert not re.search(r"(?:src|href)=[\"'](?!#)", html.text)
    assert not re.search(r"https?://|@import|url\(", html.text)


def test_every_filter_names_only_what_is_there_and_counts_its_tasks(write_run):
    text = page(Log.read(write_run(VERDICTS)))
    assert '<option value="repaired">repaired (2)</option>' in text
    assert '<option value="3">3 (1)</option>' in text
    assert 'id="categories"' not in text  # a single class is no choice
    (noscript,) = re.findall(r"<noscript>(.*?)</noscript>", text, re.DOTALL)
    assert "JavaScript" in noscript


def test_search_covers_programs_and_reflections_of_all_attempts(write_run, attempt, reflection):
    attempts = [
        attempt("t/1", 1, 0, "first = 1", reflection=reflection(1, words="the cause")),
        attempt("t/1", 2, 1, "then = 2"),
    ]
    html = Page(page(Log.read(write_run(attempts={"t/1": attempts}))))
    (text,) = json.loads(html.packed("texts"))
    assert {"t/1", "first = 1", "the cause", "then = 2"} <= set(text.split("\n"))


def test_report_writes_pages_into_run_folders_or_out(write_run, tmp_path, capsys):
    runs = [write_run(VERDICTS, name=name) for name in ("one", "two")]
    main(["report", "--html", str(runs[0].path)])
    assert (runs[0].path / "run.html").read_text() == page(Log.read(runs[0]))
    main(["report", "--html", *(str(run.path) for run in runs), "--out", str(tmp_path / "pages")])
    assert sorted(path.name for path in (tmp_path / "pages").iterdir()) == ["one.html", "two.html"]
    assert capsys.readouterr().out.count("written: ") == 3


def test_a_page_that_cannot_be_written_leaves_the_one_that_was_there(write_run):
    run = write_run(VERDICTS)
    path = save_page(run)
    before = path.read_bytes()
    (run.path / "grades.jsonl").write_text('{"task_id": 3}\n')
    with pytest.raises(ValueError, match="line 1"):
        save_page(run)
    assert path.read_bytes() == before
    assert [path.name for path in run.path.glob("*run.html*")] == ["run.html"]


def test_a_harness_error_is_no_verdict_on_a_task(write_run):
    log = Log.read(run := write_run(VERDICTS))
    spoilt = {key: replace(grade, passed=False, outcome="harness_error") for key, grade in log.grades.items()}
    for task in task_lines(replace(log, grades=spoilt)):
        assert (task.result, task.solved_at) == ("not graded", 0)
        assert task.marks == (("?" * len(task.attempts), None),)
        assert task_screen(run, replace(log, grades=spoilt), task.task_id)[0].endswith("not graded")
    only_first = log.grades | {("t/9", 1): spoilt["t/9", 1]}
    results = {task.task_id: task.result for task in task_lines(replace(log, grades=only_first))}
    assert (results["t/9"], results["t/10"]) == ("right", "repaired")


RUN_ID = "20260101-000000-000000-reflexion-toy-s7"


def test_an_episode_has_its_place_and_its_words(attempt, reflection):
    loop = [attempt("t/1", 1, 0.5, reflection=reflection(1)), replace(attempt("t/1", 2, 1), recalled=("ep-t/1-1",))]
    other = RUN_ID.replace("s7", "s8")
    names = (f"ep-{RUN_ID}/t/1-1", f"ep-{RUN_ID}/t/1-2", f"ep-{other}/t/9-3")
    reader = replace(attempt("t/2", 1, 0), recalled=names)
    first, second, elsewhere = Sources({"t/1": loop, "t/2": [reader]}, RUN_ID).memory_items(reader)
    assert (first.kind, first.where, first.is_own) == ("episode", "attempt 1 at t/1", False)
    assert dict(first.words) == {"verdict": "failed, 0 of 1 right", "root cause": "cause 1", "to change": "change"}
    assert (second.where, second.words) == ("attempt 2 at t/1", [("verdict", "passed, 1 of 1 right")])
    assert (elsewhere.where, elsewhere.words, elsewhere.is_own) == (f"attempt 3 at t/9, run {other}", [], False)
    (own,) = Sources({"t/1": loop}).memory_items(loop[1])  # outside of any run
    assert (own.where, own.is_own) == ("attempt 1 at this task", True)
    assert "cause 1" in view(loop).html


def test_wisdom_is_of_the_initial_memory_else_of_the_run_itself(attempt, reflection):
    texts = {"pattern": "off by one", "domain": "code", "advice": "count"}
    known = Wisdom(wisdom_id="wis-1", frequency=4, impact=0, tasks=("a", "b", "c", "d"), **texts)
    shared = [attempt(f"t/{n}", 1, 0, reflection=reflection(1, words="Forgot the `key`")) for n in (1, 2)]
    (own,) = wisdom_of(map(_as_episode, shared))
    reader = replace(attempt("t/3", 1, 0), recalled_wisdom=("wis-1", own.wisdom_id, "wis-lost"))
    items = Sources({a.task_id: [a] for a in (*shared, reader)}, RUN_ID, [known]).memory_items(reader)
    assert [item.where for item in items] == [
        "4 attempts at a, b, c and 1 more", "2 attempts at t/1, t/2, as it stood at the end", ""
    ]  # fmt: skip
    assert items[0].words == [("pattern", "off by one"), ("advice", "count")]
    assert items[1].words[0] == ("pattern", "Forgot the `key`")
    assert items[2].words == []


def test_mistakes_show_their_failure(attempt):
    name = f"mistake-{RUN_ID}/t/1-abc123"
    reader = replace(attempt("t/2", 1, 0), recalled_mistakes=(name,))
    (item,) = Sources({"t/1": [attempt("t/1", 1, 0), attempt("t/1", 2, 1)], "t/2": [reader]}, RUN_ID).memory_items(
        reader
    )
    assert (item.where, item.words) == ("t/1", [("attempt 1", "assert True: failed the assertion is false")])
