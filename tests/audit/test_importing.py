"""Recorded runs of other systems become runs of ours: executed again, with nothing invented and nothing dropped."""

import functools
from collections import Counter

import pytest

from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import summary
from reflexion_lab.audit.import_runs import import_files
from reflexion_lab.audit.importing import read_recordings
from reflexion_lab.audit.samples import run_samples
from reflexion_lab.cli.main import main
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.tasks.benchmarks.recorded import recorded

PROMPT = 'def double(x):\n    """Twice x."""\n'
TEST = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(0) == 0\n"
RIGHT, WRONG = "def double(x):\n    return x + x\n", "def double(x):\n    return x\n"
FIELDS = "ROOT_CAUSE: x itself\nWHAT_WENT_WRONG: 1\nWHAT_TO_CHANGE: twice\nCONFIDENCE: 0.9\n"


def step(code=RIGHT, passed=True, own=None, **fields):
    own = code == RIGHT if own is None else own
    test = "assert double(1) == 2"
    feedback = {"recomputed_passed": [test] * passed, "recomputed_failed": [test] * (not passed)}
    return {"code": code, "feedback": feedback, "own_pass": own, "own_lenient": own, **fields}


def transcript(*attempts, problem="own/1", **fields):
    row = {"source": "somebody/else", "run": "m/run1", "model": "m", "strategy": "reflexion(max_iters=2)"}
    row |= {"bench": "own", "problem": problem, "entry_point": "double"}
    row |= {"prompt": PROMPT, "test": TEST, "visible_tests": None}
    return row | {"attempts": list(attempts), "logged_is_solved": True, "solution_is_attempt": 0} | fields


@pytest.fixture
def write(write_rows):
    return functools.partial(write_rows, name="log.jsonl")


@pytest.fixture
def take(write, tmp_path):
    def take(*rows, **options):
        return import_files([write(*rows)], tmp_path / "runs", quiet=True, workers=2, **options)

    return take


def read(imported):
    return Log.read(RunFolder.existing(imported.folder))


def test_a_recording_becomes_a_finished_run(take):
    (run,) = take(transcript(step(WRONG, passed=False, reflection="It is x."), step()))
    log = read(run)
    manifest, first, second = log.manifest, *log.attempts["own/1"]
    assert (manifest.config["arm"], manifest.feedback_source, manifest.seed) == ("reflexion", "self_tests", 1)
    assert manifest.model_fingerprint == "recorded:somebody/else/m"
    assert (manifest.n_expected, manifest.slots, manifest.prompt_digests) == (1, 0, {})
    assert (first.trajectory.solution, second.trajectory.solution) == (WRONG, RIGHT)
    assert first.evaluation.outcome == "fail" and first.evaluation.checks[0].actual == "1"
    assert second.evaluation.passed and second.delta.reward_change == 1.0
    assert (first.stop_reason, second.stop_reason) == ("", "passed")
    assert [log.grades["own/1", n].passed for n in (1, 2)] == [False, True]
    assert [log.grades["own/1", n].sealed for n in (1, 2)] == [True, False]
    assert log.written["own/1"].tests == ("assert double(1) == 2",)
    assert summary(log).pass_at_1.k == 1


def test_our_verdicts_count_and_differences_are_listed(take):
    (run,) = take(transcript(step(WRONG, passed=True, own=True), step(own=True)))
    account = run.account
    assert not read(run).attempts["own/1"][0].evaluation.passed
    assert (account.feedback.compared, account.feedback.agree, account.feedback.recorded_alone) == (2, 1, 1)
    assert (account.hidden.agree, account.hidden.differing) == (1, ("own/1/1",))


def test_the_sources_submission_is_recorded_beside_ours(take):
    (run,) = take(
        transcript(step(WRONG, passed=False), step(), solution_is_attempt=0),
        transcript(step(), problem="own/2", solution_is_attempt=None),
        transcript(step(), problem="own/3", solution_is_attempt=None, solution=f"{RIGHT}\n\n"),
    )
    assert run.account.submitted_by_source == {"own/1": 1, "own/2": None, "own/3": 1}
    assert read(run).results["own/1"].submitted == 2
    assert run.account.submissions_differ == 1
    assert (run.account.source_pass.k, run.account.source_pass.n) == (1, 2)


def test_loops_keep_their_length_and_odd_ends_are_counted(take):
    went_on = transcript(step(), step(WRONG, passed=False), step(WRONG, passed=False))
    early = transcript(step(WRONG, passed=False), problem="own/2")
    (run,) = take(went_on, early)
    log = read(run)
    assert [len(attempts) for attempts in log.attempts.values()] == [3, 1]
    assert (run.account.went_on, run.account.ended_early) == (1, 1)
    ends = {result.task_id: result.stop_reason for result in log.results.values()}
    assert ends == {"own/1": "max_attempts", "own/2": "recorded_end"}
    assert submitted_at(log.attempts["own/1"]).number == 1


def test_a_loop_shorter_than_another_runs_longest_ended_early(take):
    wrong = step(WRONG, passed=False)
    long, short = take(transcript(*[wrong] * 3, run="m/run1"), transcript(*[wrong] * 2, run="m/run2"))
    ends = [(run.account.ended_early, read(run).results["own/1"].stop_reason) for run in (long, short)]
    assert ends == [(0, "max_attempts"), (1, "recorded_end")]
    assert {read(run).manifest.config["loop"]["max_attempts"] for run in (long, short)} == {3}


def test_a_prompt_in_prose_spoils_no_program(take):
    prose = {"prompt": "Write a function double, it's twice its argument.", "strategy": "simple_repeat"}
    row = transcript(step(WRONG, passed=False), step(), visible_tests=["assert double(1) == 2"], **prose)
    for lenient in (True, False):
        log = read(take(row, lenient=lenient)[0])
        assert [attempt.evaluation.outcome for attempt in log.attempts["own/1"]] == ["fail", "pass"]
        assert log.grades["own/1", 2].passed and summary(log).pass_at_1.k == 1


BODY = "return x + x\n"


@pytest.mark.parametrize(
    ("prompt", "reply", "solution"),
    [
        ("It's twice its argument.", RIGHT, RIGHT),
        (PROMPT.rstrip("\n"), f"    {BODY}", f"{PROMPT}    {BODY}"),
        (f"{PROMPT}    ", BODY, f"{PROMPT}    {BODY}"),
        (f"{PROMPT}    ", "y = x + x\n    return y\n", f"{PROMPT}    y = x + x\n    return y\n"),
        (f"{PROMPT}    ", f"    {BODY}", f"{PROMPT}    {BODY}"),
        (f"{PROMPT}    ", f"\n{RIGHT}", f"{PROMPT}\n{RIGHT}"),
        (f"{PROMPT}    ", RIGHT, f"{PROMPT}{RIGHT}"),
    ],
)
def test_a_reply_completes_its_prompt_or_stands_alone(take, prompt, reply, solution):
    step = {"code": None, "raw": reply, "visible_pass": True, "own_lenient": True}
    (run,) = take(transcript(step, prompt=prompt, visible_tests=["assert double(1) == 2"]))
    (attempt,) = read(run).attempts["own/1"]
    extraction = "recorded: reply" if solution == reply else "recorded: prompt + reply"
    assert (attempt.trajectory.solution, attempt.trajectory.extraction) == (solution, extraction)
    assert attempt.evaluation.passed and read(run).grades["own/1", 1].passed


@pytest.mark.parametrize("place", ["feedback", "test", "test that returns"])
def test_a_test_too_deep_to_compare_stops_no_import(take, place):
    deep = f"assert double(2) == 4 or {'+'.join(['1'] * 2000)}"
    returns = "    return\n" * (place == "test that returns")
    hidden = {"test": f"def check(candidate):\n    {deep}\n{returns}"} if "test" in place else {}
    (run,) = take(transcript(step(feedback=[deep] if place == "feedback" else []), **hidden))
    assert (run.account.tasks, run.account.overlapping) == (1, 0)


def test_excluded_rows_are_listed_with_their_reason(take):
    (run,) = take(
        transcript(step()),
        transcript(step(WRONG)),
        transcript(problem="own/2"),
        transcript({"code": 3}, problem="own/3"),
    )
    assert run.account.excluded == (
        ("line 2, own/1", "a second row of this task and run; the first, line 1, counts"),
        ("line 3, own/2", "attempts: got none, expected at least one"),
        ("line 4, own/3", "code: got 3, expected text"),
    )
    assert read(run).manifest.n_expected == run.account.tasks == 1


def test_runs_that_word_a_prompt_differently_keep_their_own_tasks(take):
    reworded = PROMPT.replace("Twice", "Two times")
    first, second = take(transcript(step()), transcript(step(WRONG), run="m/run2", prompt=reworded))
    loads = [read(run).manifest.config["benchmark"]["load"] for run in (first, second)]
    assert [(load["run"], load["model"]) for load in loads] == [("m/run1", "m"), ("m/run2", "m")]
    assert [recorded(**_arguments(load))[0].prompt for load in loads] == [PROMPT, reworded]
    assert [run_samples(run.folder, attempts=False).__next__().prompt for run in (first, second)] == [PROMPT, reworded]


def _arguments(load):
    return {name: value for name, value in load.items() if name != "_target_"}


def test_a_run_without_a_usable_row_is_reported(write, tmp_path, capsys):
    assert main(["import", str(write(transcript())), "--out", str(tmp_path / "runs")]) == 0
    assert "left out: line 1, own/1: attempts: got none" in " ".join(capsys.readouterr().out.split())


def test_an_attempt_without_a_program_is_kept_and_fails(take):
    (run,) = take(transcript(step(WRONG, passed=False), step(None, own=False, feedback=None)))
    log = read(run)
    assert run.account.without_program == ("own/1/2",)
    assert log.attempts["own/1"][1].evaluation.outcome == "extraction_failed"
    assert not log.grades["own/1", 2].passed


def test_the_judge_alone_is_lenient_and_strict_is_strict(take, tmp_path):
    needs = "def double(x: Optional[int]):\n    return x + x\n"
    (run,) = take(transcript(step(needs, passed=False, own_pass=False, own_lenient=True)))
    assert not read(run).attempts["own/1"][0].evaluation.passed  # the loop's tests met the program as it was
    assert read(run).grades["own/1", 1].passed
    (strict,) = take(transcript(step(needs, passed=False, own_pass=False, own_lenient=True)), lenient=False)
    assert not read(strict).grades["own/1", 1].passed
    assert strict.folder != run.folder
    assert [run.account.hidden.agree for run in (run, strict)] == [1, 1]


def test_a_cut_ends_every_loop_and_says_so(take):
    (run,) = take(transcript(step(WRONG, passed=False), step(WRONG, passed=False), step()), cut=2)
    log = read(run)
    assert len(log.attempts["own/1"]) == 2
    assert (log.manifest.config["recorded"]["cut"], log.manifest.config["loop"]["max_attempts"]) == (2, 2)
    assert run.folder.name.endswith("-a2-s1")


def test_a_cut_loop_has_only_the_tests_that_it_saw(take):
    first = "Tested passed:\n\nTests failed:\nassert double(1) == 2 # output: 1"
    second = "Tested passed:\nassert double(1) == 2\n\nTests failed:\nassert double(0) == 1 # output: 0"
    row = transcript({"code": WRONG, "feedback": first}, {"code": RIGHT, "feedback": second})
    whole, cut = (read(take(row, cut=cut)[0]) for cut in (None, 1))
    assert whole.written["own/1"].tests == ("assert double(1) == 2", "assert double(0) == 1")
    assert cut.written["own/1"].tests == ("assert double(1) == 2",)
    assert [check.name for check in cut.attempts["own/1"][0].evaluation.checks] == ["assert double(1) == 2"]


def test_usage_and_reflections_are_only_those_recorded(take):
    paid = {"raw": "    return x + x\n", "code": None, "prompt_tokens": 9, "completion_tokens": 4, "latency_s": 0.5}
    row = transcript({**paid, "visible_pass": False, "reflection": FIELDS, "own_lenient": True}, step())
    (run,) = take(row)
    first, second = read(run).attempts["own/1"]
    usage = first.trajectory.usage
    assert (usage.calls, usage.prompt_tokens, usage.completion_tokens, usage.seconds) == (1, 9, 4, 0.5)
    assert first.trajectory.solution == PROMPT + "    return x + x\n"
    assert first.trajectory.reply == "    return x + x\n"
    assert (first.reflection.source, first.reflection.what_to_change) == ("recorded", "twice")
    assert (second.reflection, second.trajectory.usage.tokens) == (None, 0)
    assert "tokens of reflections" in read(run).manifest.config["recorded"]["not_recorded"]


def test_reflections_without_our_fields_are_kept_as_text(take):
    (run,) = take(transcript(step(WRONG, passed=False, reflection="It returns x itself.")))
    reflection = read(run).attempts["own/1"][0].reflection
    fields = (reflection.text, reflection.root_cause, reflection.confidence_source)
    assert fields == ("It returns x itself.", "", "none")


def test_a_single_shot_has_no_feedback_despite_visible_tests(take):
    (run,) = take(transcript(step(WRONG), strategy="simple", visible_tests=["assert double(1) == 2"]))
    log = read(run)
    assert (log.manifest.feedback_source, log.manifest.config["arm"]) == ("none", "simple")
    assert log.attempts["own/1"][0].evaluation.outcome == "no_tests"
    assert (log.results["own/1"].stop_reason, run.account.ended_early) == ("no_feedback", 0)


def test_an_unknown_strategy_needs_a_feedback_source(take):
    row = transcript(step(), strategy="tree of thoughts", visible_tests=["assert double(1) == 2"])
    with pytest.raises(ValueError, match=r"got strategy 'tree of thoughts', .*expected .*--feedback-source"):
        take(row)
    (run,) = take(row, feedback_source="visible")
    assert (read(run).manifest.config["arm"], read(run).manifest.feedback_source) == ("tree of thoughts", "visible")


def test_a_strategys_name_leads_to_no_other_folder(take, tmp_path):
    (run,) = take(transcript(step(), strategy="x/../../outside/y"), feedback_source="visible")
    assert run.folder.parent == tmp_path / "runs"
    assert not (tmp_path / "outside").exists()


def test_runs_of_one_variant_are_seeds_of_one_arm(take):
    fields = {"strategy": "simple_repeat", "visible_tests": ["assert double(1) == 2"]}
    imported = take(*(transcript(step(), run=f"m/run{n}", **fields) for n in (1, 2)))
    (arm,) = arms([run.folder for run in imported])
    assert (arm.label, arm.seeds, arm.feedback_source) == ("retry", (1, 2), "visible")


def test_identical_attempts_under_two_names_are_reported(take):
    imported = take(transcript(step(), run="a/run1"), transcript(step(), run="b/run1"))
    assert [run.account.same_as for run in imported] == ["", "a/run1"]


def test_every_run_of_a_file_has_its_own_folder(take):
    lone = [transcript(step(), run=run) for run in ("alpha", "beta")]
    numbered = [transcript(step(), run=run) for run in ("x/gamma/run1", "y/gamma/run1", "y/gamma/run2")]
    models = [transcript(step(), run="delta/run1", model=model) for model in ("m", "n")]
    rows = [*lone, *numbered, *models, transcript(step(), run="alone", model="o")]
    imported = take(*rows)
    names = [run.folder.name.removeprefix("recorded-reflexion-").removesuffix("-log-s1") for run in imported]
    assert len(set(names)) == len(names) == 8
    assert (names[0], names[1], names[2], names[-1]) == ("alpha", "beta", "x-gamma", "o")
    assert all(run.is_new for run in imported)
    (again,) = take(*rows, only=["beta"])
    assert (again.folder, again.is_new) == (imported[1].folder, False)


def test_an_imported_run_is_kept_and_another_is_refused(take):
    (first,) = take(transcript(step()))
    (again,) = take(transcript(step()))
    assert (first.is_new, again.is_new, again.account) == (True, False, first.account)
    with pytest.raises(ValueError, match="got another run"):
        take(transcript(step()), transcript(step(), problem="own/2"))


def test_feedback_in_text_lists_tests_without_output(write):
    text = "Tested passed:\nassert double(0) == 0\n\nTests failed:\nassert double(1) == 2 # output: 1"
    only_failed = (
        "Tested passed:\n\nTests failed:\nassert double(1) == 2 # output: 1\nself.assertEqual(double(2), 4) # output: x"
    )
    path = write(
        transcript({"code": WRONG, "feedback": text}, {"code": RIGHT, "feedback": text.replace("Tests failed:", "")}),
        transcript({"code": WRONG, "feedback": only_failed}, problem="own/2"),
        transcript({"code": WRONG, "feedback": []}, problem="own/3", visible_tests=["assert double(3) == 6"]),
        transcript({"code": WRONG, "feedback": "Tested passed:\n\nTests failed:"}, problem="own/4"),
    )
    loops = read_recordings([path])[0].loops
    assert [loop.tests for loop in loops] == [
        ("assert double(0) == 0", "assert double(1) == 2"),
        ("assert double(1) == 2", "self.assertEqual(double(2), 4)"),
        ("assert double(3) == 6",),
        (),
    ]
    assert [loop.steps[0].passed_feedback for loop in loops] == [False, False, True, None]


def test_a_test_over_several_lines_is_one(take):
    failed = 'assert double(\n    2,\n) == 4 # output: 2\nassert double("""a\n  b""") == 1 # output: ab'
    broken = "assert double((1) == 2\nassert double(3) == 6 # output: 3"
    feedback = f"Tested passed:\nassert double(0) == \\\n    0\n\nTests failed:\n{broken}\n{failed}"
    log = read(take(transcript({"code": WRONG, "feedback": feedback}, step()))[0])
    assert log.written["own/1"].tests == (
        "assert double(0) == \\\n    0",
        "assert double((1) == 2",
        "assert double(3) == 6",
        "assert double(\n    2,\n) == 4",
        'assert double("""a\n  b""") == 1',
        "assert double(1) == 2",
    )
    outcomes = [check.outcome for check in log.attempts["own/1"][0].evaluation.checks]
    assert outcomes == ["pass", "error", "fail", "fail", "fail", "fail"]


def test_a_file_that_is_no_transcript_is_named(write):
    messages = {
        "{": "line 1",
        '{"solution": ""}': "solution, expected a transcript",
        "": "got no row, expected one JSON object per line",
    }
    for row, message in messages.items():
        path = write(row)
        with pytest.raises(ValueError, match=message) as raised:
            read_recordings([path])
        assert str(raised.value).startswith(f"{path}")


def test_rows_without_tests_need_humaneval_tasks(take):
    row = transcript(step("def add(x: int, y: int):\n    return x + y\n"), problem="HumanEval/53", entry_point="add")
    bare = {key: value for key, value in row.items() if key not in ("prompt", "test")}
    (run,) = take(bare, {**bare, "problem": "own/9"})
    assert run.account.excluded == (("line 2, own/9", "no task of humaneval"),)
    assert run.account.tasks == 1 and len(run.account.absent) == 163
    assert read(run).grades["HumanEval/53", 1].passed
    with pytest.raises(ValueError, match="--hidden humaneval"):
        take(bare, hidden="own")


def test_imported_runs_go_through_show_and_compare(take, capsys):
    steps, tests = (step(WRONG, passed=False), step()), ["assert double(1) == 2"]
    rows = [
        transcript(*steps, run=f"{name}/run{n}", strategy=name, visible_tests=tests)
        for n in (1, 2)
        for name in ("reflexion", "simple_repeat")
    ]
    folders = [str(run.folder) for run in take(*rows)]
    assert main(["show", folders[0]]) == 0
    assert main(["compare", *folders, "--baseline", "retry", "--unit", "calls"]) == 0
    output = capsys.readouterr().out
    assert "self_tests" in output and "visible" in output


def test_the_command_reports_an_error_in_one_line(write, tmp_path, capsys):
    path = write(transcript(step()))
    assert main(["import", str(path), "--out", str(tmp_path / "runs"), "--only", "nobody"]) == 2
    assert capsys.readouterr().err.startswith("error: --only: got no run of nobody")


@pytest.mark.slow
@pytest.mark.soak
def test_our_execution_reproduces_gpt4_on_mbpp(recorded_runs, tmp_path):
    """Curves are by current attempt: a task whose loop has ended keeps its last verdict."""
    (run,) = import_files([recorded_runs / "transcripts" / "noah_mbpp_gpt4.jsonl.gz"], tmp_path, quiet=True)
    log = read(run)
    passed = {
        task_id: [log.grades[task_id, a.number].passed for a in attempts] for task_id, attempts in log.attempts.items()
    }
    assert len(passed) == 377
    current = [sum(of_task[min(t, len(of_task)) - 1] for of_task in passed.values()) for t in range(1, 6)]
    assert current == [311, 278, 292, 279, 295]
    assert [sum(any(of_task[:t]) for of_task in passed.values()) for t in range(1, 6)] == [311, 326, 329, 329, 330]
    assert [point.solved for point in log.points] == [311, 305, 305, 303, 304]
    crossed = Counter(
        (attempts[0].evaluation.passed, log.grades[task_id, 1].passed) for task_id, attempts in log.attempts.items()
    )
    assert crossed == {(True, True): 212, (True, False): 27, (False, True): 99, (False, False): 39}
    assert (run.account.feedback.compared, run.account.feedback.agree) == (836, 836)
    assert (run.account.hidden.compared, run.account.hidden.agree) == (836, 836)
    assert (run.account.went_on, run.account.ended_early, run.account.excluded) == (5, 0, ())
