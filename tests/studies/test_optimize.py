"""`reflexion-lab optimize`: the lineage of a scripted proposer, budgets, kills, no call paid twice, parts apart."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
import yaml
from msgspec.structs import replace

import reflexion_lab as rl
from reflexion_lab.agent.models.simulated import SimulatedModel
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.cli import main as cli
from reflexion_lab.errors import CapReached, ConfigError, LabError, ModelError
from reflexion_lab.runner.config.compose import compose, written
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.optimize import Search, Settings, digest_of, optimize
from reflexion_lab.tasks.sandbox import sandbox
from reflexion_lab.text.prompts.render import Prompts

SEED = Prompts().instruction("solve")
HALF, ALL = "Mind edge cases.", "Think in small steps."
SMALL = ("actor=single_shot", "reflector=none", "loop.max_attempts=1", "benchmark.load.n=90", "benchmark.sample=60")
TWO = ("reflector=llm", "loop.max_attempts=2")


class Student(SimulatedModel):
    """Solves half of the tasks with the phrase `HALF`, all with `ALL` too, none without. It proposes both in turn."""

    def __init__(self, tasks, **skill):
        super().__init__(tasks, **skill)
        self.fingerprint += f":{type(self).__name__}"

    def chance(self, task, prompt):
        is_easy = int(digest_of({"task": task.task_id}), 16) % 2
        return float(HALF in prompt and (ALL in prompt or is_easy))

    def complete(self, messages, *, sampling, sample=0):
        completion = super().complete(messages, sampling=sampling, sample=sample)
        text = messages[-1].content
        if "write a new instruction" not in text:
            return completion
        why = "stop" if sampling.max_tokens == 4096 else "length"
        return replace(completion, text=f"Here it is:\n```\n{self.proposal(text, sample)}\n```", finish_reason=why)

    def proposal(self, text, sample):
        old = text.partition("```\n")[2].partition("\n```")[0]
        missing = [phrase for phrase in (HALF, ALL) if phrase not in old]
        return f"{old} {missing[0]}" if missing and not sample else "{{ prompt.__class__ }}"


class Indifferent(Student):
    """Solves half of the tasks, others for every prompt: no prompt is better."""

    def chance(self, task, prompt):
        return 0.5

    def proposal(self, text, sample):
        old = text.partition("```\n")[2].partition("\n```")[0]
        return f"{old} Variant {digest_of({'text': text})[:4]}-{sample}."


class Rude(Student):
    def proposal(self, text, sample):
        return "{{ prompt.__class__ }}"


class Cut(Student):
    def proposal(self, text, sample):
        return super().proposal(text, 0) + "\n```python\ndef f" * (len(text) % 2)

    def complete(self, messages, *, sampling, sample=0):  # cut by the limit, or within a block
        reply = super().complete(messages, sampling=sampling, sample=sample)
        is_open = {"text": reply.text.removesuffix("\n```")}
        return replace(reply, **(is_open if len(messages[-1].content) % 2 else {"finish_reason": "length"}))


class Broken(Student):
    def proposal(self, text, sample):
        if sample:  # asked once more
            return super().proposal(text, 0)
        raise ModelError("no proposal today")


def overrides(folder, student=Student, *more):
    return ["model=simulated", f"model._target_={__name__}.{student.__name__}", *SMALL, f"run_root={folder}", *more]


def searched(folder, *more, student=Student, is_tested=False, max_evaluations=200, **settings):
    settings = Settings(max_evaluations=max_evaluations, **settings)
    return optimize(overrides(folder, student, *more), settings, is_tested)


def as_json(result):
    return json.loads(msgspec.json.encode(result))


def logs(folder):
    return [Log.read(RunFolder(path.parent)) for path in Path(folder).glob("optimize/*/*/manifest.json")]


def tasks_of(folder):
    return [task_id for log in logs(folder) for task_id in log.results]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("optimize")


@pytest.fixture(scope="module")
def first(folder):
    return searched(folder)


def test_the_lineage_is_as_the_proposer_wrote_it(folder, first):
    assert first.candidates == [{"solve": SEED}, {"solve": f"{SEED} {HALF}"}, {"solve": f"{SEED} {HALF} {ALL}"}]
    assert first.parents == [[], [0], [1]]
    assert (first.best, first.passed[0], first.passed[2]) == (2, 0, first.tasks["validation"])
    assert [(each.parent, each.is_accepted, each.lost) for each in first.decisions] == [(0, True, 0), (1, True, 0)]
    assert all(each.won >= 7 and each.wealth >= 20 for each in first.decisions)
    node = yaml.safe_load(Path(first.variant).read_text())
    assert node["instructions"] == first.candidates[2]
    digests = [digest_of(candidate) for candidate in first.candidates]
    lineage = node["lineage"]
    assert (lineage["digest"], lineage["parents"], lineage["seed_digest"]) == (digests[2], [digests[1]], digests[0])
    assert (lineage["evaluations"], lineage["passed"]["validation"]) == (first.evaluations, first.passed[2])
    record = json.loads((Path(first.variant).parent / "optimization.json").read_text())
    assert record == as_json(first)


def test_a_second_run_pays_no_call_and_ends_the_same(folder, first):
    before = len(logs(folder))
    assert first.paid > 0
    assert searched(folder) == replace(first, paid=0)
    assert len(logs(folder)) == before


def test_test_tasks_run_only_with_the_flag_and_the_winner_is_an_arm_beside_the_seed(folder, first):
    search = Search(overrides(folder), Settings(max_evaluations=200))
    search.models.close()
    held_out = set(search.tasks["test"])
    assert held_out.isdisjoint(tasks_of(folder))
    tested = searched(folder, is_tested=True)
    arms = {log.arm: log for log in logs(folder) if held_out & log.results.keys()}
    assert arms.keys() == {"reflexion", "evolved"}
    assert all(log.results.keys() == held_out for log in arms.values())
    assert (tested.test.n, tested.test.repaired, tested.test.damaged) == (len(held_out), len(held_out), 0)
    screen = " ".join(repr(tested).split())
    assert "winner's curse (validation - test, by hidden tests): 0.0 [" in screen
    assert f"of 200, and {2 * len(held_out)} of --test" in screen
    assert "18 won, 0 lost by hidden tests" in screen
    assert [path.name for path in folder.glob("optimize/*/sweeps/refl*")] == [search.name]  # one scope of the caps
    assert "evolved" in repr(rl.compare(*tested.next.split()[2:]))
    assert searched(folder) == replace(tested, paid=0)  # keeps the test


def test_the_command_prints_one_screen_and_run_takes_the_winner_by_its_file(folder, first, capsys):
    assert cli.main(["optimize", *overrides(folder), "--json"]) == 0
    *screen, figures = capsys.readouterr().out.strip().split("\n")
    assert screen[0].startswith("evolved prompts (solve): +100.0 points [")
    assert len(screen) <= 15
    assert all(len(line) <= 80 or str(folder) in line for line in screen)
    assert json.loads(figures)["best"] == 2
    command = ["run", *overrides(folder / "own"), f"prompts={first.variant}", "benchmark.limit=2", "tracker=none"]
    assert cli.main(command) == 0
    (log,) = [Log.read(RunFolder(path.parent)) for path in folder.glob("own/*/manifest.json")]
    assert all(f"{SEED} {HALF} {ALL}\n" in attempt.trajectory.messages[0].content for attempt in log.every)
    assert all(attempt.evaluation.passed for attempt in log.every)


@pytest.mark.parametrize("accept", ["e_process", "greedy"])
@pytest.mark.parametrize(("student", "budget"), [(Student, 70), (Indifferent, 83)])
def test_the_budget_is_never_exceeded_and_every_evaluation_is_counted(tmp_path, accept, student, budget):
    result = searched(tmp_path, student=student, accept=accept, max_evaluations=budget)
    assert len(tasks_of(tmp_path)) == result.evaluations <= budget
    assert result.evaluations > budget - 2 * 3 - 7 - result.tasks["validation"] or not result.decisions[-1].is_accepted


def test_the_least_budget_pays_a_test_and_the_screen_says_that_the_budget_ended_it(tmp_path):
    result = searched(tmp_path, max_evaluations=58)
    (decision,) = result.decisions
    assert (decision.is_accepted, decision.is_cut, decision.won > 0) == (False, True, True)
    assert "0 accepted, 0 rejected, 1 ended by the budget, 0 unusable" in " ".join(repr(result).split())


def test_without_a_difference_greedy_accepts_and_the_test_by_betting_does_not(tmp_path):
    greedy = searched(tmp_path, student=Indifferent, accept="greedy", max_evaluations=110)
    careful = searched(tmp_path, student=Indifferent, max_evaluations=110)
    assert sum(decision.is_accepted for decision in greedy.decisions) >= 1
    assert sum(decision.is_accepted for decision in careful.decisions) == careful.best == 0
    assert repr(careful).startswith("no better prompt (solve): the seed stays")
    assert (careful.variant, len(list(tmp_path.glob("optimize/*/winner.yaml")))) == ("", int(greedy.best > 0))


def test_hidden_tests_score_where_the_user_says_so(folder, first):
    log = logs(folder)[0]
    (task_id, number), grade = next(iter(log.grades.items()))
    other = replace(log, grades={(task_id, number): replace(grade, passed=not grade.passed)})
    for scores, is_hidden in (("visible", False), ("hidden", True)):
        search = Search(overrides(folder), Settings(max_evaluations=200, scores=scores))
        search.models.close()
        assert (search.score(log, task_id) != search.score(other, task_id)) == is_hidden
        assert search.score(log, task_id, "hidden") != search.score(other, task_id, "hidden")


def test_a_harness_error_is_no_score_and_the_same_command_asks_again(tmp_path, monkeypatch):
    search = Search(overrides(tmp_path, Student, "benchmark.keep_failing=true"), Settings(max_evaluations=200))
    solved = {"solve": f"{HALF} {ALL}"}, search.tasks["validation"]
    broken = sandbox.Reported(b"", "", "", 0, False, False, 0.0, 0.0, broken="out of memory")
    with monkeypatch.context() as patch:
        patch.setattr(sandbox._Slot, "run", lambda *_: broken)
        with pytest.raises(LabError, match=r"no verdict of visible tests \(harness_error\); the same command"):
            search.scores(*solved)
    assert search.scores(*solved) == [1.0] * 18
    search.models.close()


@pytest.mark.parametrize(("side", "missing", "is_tested"), [("hidden", "visible", False), ("visible", "hidden", True)])
def test_tasks_without_tests_that_would_score_them_are_refused(tmp_path, side, missing, is_tested):
    row = {"task_id": "a", "prompt": "def f(x):\n", "entry_point": "f", "visible_tests": [], "hidden_tests": []}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(row | {f"{side}_tests": ["assert f(1) == 1"]}))
    words = ["model=simulated", *SMALL[:3], f"benchmark={tmp_path}/tasks.jsonl"]
    with pytest.raises(ConfigError, match=rf"benchmark: got 1 of 1 tasks without {missing} tests .*benchmark\.ids"):
        Search(words, Settings(max_evaluations=200), is_tested)


def test_the_reflector_learns_from_what_its_words_led_to(tmp_path):
    result = searched(tmp_path, *TWO, max_evaluations=70)
    assert list(result.candidates[0]) == ["solve", "reflect"]
    search = Search(overrides(tmp_path, Student, *TWO), Settings(max_evaluations=70))
    batch = search.evaluate(search.tasks["train"][:3], search.seed)
    examples = search.make_reflective_dataset(search.seed, batch, ["solve", "reflect"])
    assert (search.propose_new_texts(search.seed, {"reflect": []}, ["reflect"]), search.models.paid) == ({}, 0)
    search.models.close()
    assert len(examples["solve"]) == len(examples["reflect"]) == 3
    assert all("ROOT_CAUSE" in example["Generated Outputs"] for example in examples["reflect"])
    assert all("failed its tests" in example["Feedback"] for example in examples["solve"])


@pytest.mark.parametrize("student", [Rude, Cut])
def test_marks_of_a_template_and_cut_replies_are_no_proposal_and_a_search_without_news_ends(tmp_path, student):
    result = searched(tmp_path, "reflector=llm", student=student)
    assert (result.decisions, result.best, [*result.candidates[0]]) == ([], 0, ["solve"])  # one attempt reads no words
    assert result.unusable > 20
    assert "0 accepted, 0 rejected" in repr(result)


def test_another_model_may_propose(tmp_path):
    result = searched(tmp_path, student=Broken, proposer=(f"model._target_={__name__}.Student",), max_evaluations=70)
    assert result.decisions


def test_an_error_of_the_proposer_and_a_cap_end_the_search_and_the_same_command_goes_on(tmp_path):
    with pytest.raises(ModelError, match="no proposal today"):
        searched(tmp_path, student=Broken)
    assert len(tasks_of(tmp_path)) == 18 + 3  # none after the error
    with pytest.raises(CapReached, match=r"caps\.calls=30.*the same command goes on"):
        searched(tmp_path / "capped", "caps.calls=30")
    assert searched(tmp_path / "capped", "caps.calls=300").best == 2


@pytest.mark.slow
def test_killed_and_begun_again_it_gives_the_same_candidates_and_pays_no_call_twice(tmp_path, first):
    command = [sys.executable, "-m", "reflexion_lab", "optimize", *overrides(tmp_path)]
    command[command.index(f"model._target_={__name__}.Student")] = "model._target_=student.Student"
    (tmp_path / "student.py").write_text(Path(__file__).read_text())
    paths = [str(tmp_path), str(Path(__file__).parents[2])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    process = subprocess.Popen(command, env=environment, cwd=tmp_path)
    while len(logs(tmp_path)) < 4 and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    with sqlite3.connect(tmp_path / "calls.sqlite") as database:
        (held,) = database.execute("select count(*) from calls").fetchone()
    subprocess.run(command, env=environment, cwd=tmp_path, check=True)
    (path,) = tmp_path.glob("optimize/*/optimization.json")
    result = json.loads(path.read_text())
    expected = as_json(first)
    assert {key for key in expected if result[key] != expected[key]} <= {"paid", "variant", "next"}
    assert result["paid"] + held == first.paid > result["paid"]


@pytest.mark.parametrize(
    ("more", "settings", "message"),
    [
        ((), {"max_evaluations": 30}, r"--max-evaluations: got 30, expected 58 or more"),
        (("benchmark.sample=20",), {}, r"benchmark: got 8 clusters of training tasks, expected 10 or more"),
        (("feedback_source=none",), {}, r"got feedback_source=none, expected visible"),
        (("curator=wisdom", "memory.shared.shown.wisdom=1"), {}, r"memory across tasks"),
        (("benchmark.passes=2",), {}, r"got benchmark\.passes=2"),
        (("benchmark.split={test: 0.3}",), {}, r"0 for validation"),
        (("actor=continuation",), {}, r"actor, reflector: got none of them, expected a template with an instruction"),
        (("actor=react",), {}, r"actor: got the template react \(default\), whose words Jinja divides"),
        ((*TWO, "reflector.first.shape=service"), {}, r"reflector: got the template reflect_service"),
        (("cache.mode=off",), {}, r"cache\.mode: got off, expected read-write"),
        (("arm=evolved",), {}, r"arm: got evolved, expected another name"),
        (("prompts.instructions={solve: '{{ x }}'}",), {}, r"prompts\.instructions\.solve: got '{{ x }}'"),
        (("prompts.instructions={solv: 'x'}",), {}, r"prompts\.instructions\.solv"),
    ],
)
def test_what_cannot_be_searched_is_refused_before_the_first_call(tmp_path, more, settings, message):
    with pytest.raises(ConfigError, match=message):
        searched(tmp_path, *more, **settings)
    assert logs(tmp_path) == []


def test_a_missing_package_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gepa", None)
    with pytest.raises(ConfigError, match=re.escape("pip install 'reflexion_lab[optimize]'")):
        searched(tmp_path)


@pytest.mark.parametrize("text", ["variant: [", "words: 1", "- solve"])
def test_a_file_that_is_no_prompt_variant_is_refused(tmp_path, text):
    (tmp_path / "own.yaml").write_text(text)
    with pytest.raises(ConfigError, match=r"prompts: got .*own\.yaml.*expected a file in YAML"):
        compose(f"prompts={tmp_path / 'own.yaml'}")


def test_values_typed_before_a_prompt_variant_overrule_its_file(tmp_path):
    (tmp_path / "own.yaml").write_text("examples: 0\ntest_results: hidden")
    prompts = compose("prompts.examples=2", f"prompts={tmp_path / 'own.yaml'}").prompts
    assert (prompts.examples, prompts.test_results) == (2, "hidden")


@pytest.mark.parametrize(
    "text", ['it\'s "quoted" \\n', "ends in \\", 'a\\"b\\\\"', "two\nlines, {braces} = [1]: #", "null", "a\\\n"]
)
def test_texts_reach_the_config_as_they_were_written(text):
    assert compose(f"++prompts.instructions={written({'solve': text})}").prompts.instructions.solve == text
