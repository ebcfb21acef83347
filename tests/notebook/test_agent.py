"""`rl.agent(…)`: the loop in a program of one's own."""

import asyncio
import importlib
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from model_server import ModelServer

import reflexion_lab as rl
from reflexion_lab.cli.main import main
from reflexion_lab.errors import ConfigError, FolderError
from reflexion_lab.memory.buffer import EpisodeBuffer
from reflexion_lab.records import Evaluation, Reflection, Trajectory
from reflexion_lab.runner.folder.folder import RunFolder

FIELDS = (
    "ROOT_CAUSE: I added no sign\nWHAT_WENT_WRONG: the test wants `-2`\n"
    "WHAT_TO_CHANGE: I will put a minus before `2`\nCONFIDENCE: 0.8"
)
TASK = {
    "task_id": "mine/twice", "prompt": 'def twice(x):\n    """Two times x."""\n', "entry_point": "twice",
    "visible_tests": ["assert twice(2) == 4"], "hidden_tests": ["assert twice(5) == 10"],
}  # fmt: skip
RIGHT = "def twice(x):\n    return 2 * x\n"
SCRIPT = """
import sys, reflexion_lab as rl
with rl.agent(generate=lambda task, recollection: "-2", test=lambda code: code == "-2", memory=sys.argv[1]) as agent:
    for number in range(20):
        agent.solve(f"Write number {number} of {sys.argv[2]}")
"""


def second(task, recollection):
    """Wrong at first, right once there is a failure to read."""
    return "-2" if recollection.of_loop else "2"


def is_minus_two(code):
    return [("a number", code.lstrip("-").isdigit(), ""), ("minus two", code == "-2", f"got {code}")]


def agent(*overrides, **parts):
    return rl.agent(*overrides, **{"generate": second, "test": is_minus_two, **parts})


def test_the_package_and_the_function_share_their_name():
    package = importlib.import_module("reflexion_lab.agent")
    assert importlib.import_module("reflexion_lab.agent.reflectors.rules") is package.reflectors.rules
    assert rl.agent is package and callable(rl.agent)


def test_a_result_has_attempts_reflections_episodes_and_the_reason_of_its_end():
    mine = agent(wisdom=1)
    result = mine.solve("Write minus two.")
    assert (result.passed, result.output, result.confidence, result.stop_reason) == (True, "-2", 1.0, "passed")
    assert [attempt.evaluation.reward for attempt in result.attempts] == [0.5, 1.0]
    assert result.attempts[0].evaluation.feedback.endswith("- minus two  # got 2")
    (reflection,) = result.reflections
    assert (reflection.source, reflection.category) == ("rules:assertion", "assertion")
    remembered = [[episode.episode_id for episode in each] for each in (result.episodes, mine.memory.by_agent("agent"))]
    assert remembered == [[episode.episode_id for episode in mine.memory.by_session(result.session)]] * 2
    assert repr(result).startswith("Solution(passed after 2 attempts, passed, ")
    given = mine.solve("Write minus two again.", initial="-2")
    assert [attempt.trajectory.strategy for attempt in given.attempts] == ["given"]


@pytest.mark.parametrize(
    ("verdict", "outcome", "names"),
    [
        (True, "pass", ["test"]), (False, "fail", ["test"]), ([], "no_tests", []),
        ([("a", 1), ("b", 0, "why")], "fail", ["a", "b"]),
        (Evaluation(passed=True, outcome="pass", reward=1.0), "pass", []),
    ],
)  # fmt: skip
def test_a_test_returns_a_verdict_checks_or_an_evaluation(verdict, outcome, names):
    (attempt,) = agent(test=lambda code: verdict, max_attempts=1).solve("x").attempts
    assert (attempt.evaluation.outcome, [check.name for check in attempt.evaluation.checks]) == (outcome, names)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"test": lambda code: None}, r"test\(…\): got None, expected true or false"),
        ({"test": lambda code: ["a"]}, r"test\(…\): got \['a'\]"),
        ({"test": lambda code: "ok"}, r"test\(…\): got 'ok'"),
        ({"generate": lambda task, recollection: None}, r"generate\(…\): got a NoneType as its result"),
        ({"test": None}, "solve: the agent only remembers"),
        ({"generate": None}, r"expected rl.agent\(generate=…, test"),
    ],
)  # fmt: skip
def test_functions_that_return_something_else_are_named(parts, words):
    with pytest.raises(ConfigError, match=words):
        agent(**parts).solve("x")


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"max_attempts": 0}, "max_attempts: got 0"), ({"timeout": -1}, "timeout: got -1"),
        ({"recall": "windw"}, "recall: got 'windw'.*window"), ({"reflect": "rule"}, "model: got 'rule'"),
        ({"fallback": "none", "reflect": str}, "on_failure: got 'none'"),
        ({"memory": "notes.json"}, "store.place: .*notes.json"), ({"memory": "m", "reflect": "quoted"}, "solutions"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_before_anything_runs(parts, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.json").write_text("{}")
    with pytest.raises(ConfigError, match=words):
        agent(**parts)


def test_a_test_may_read_the_task_and_a_generator_may_return_its_whole_trajectory():
    def generate(task, recollection):
        return Trajectory(solution=task.prompt, strategy="echo", reply="I say it")

    result = agent(generate=generate, test=lambda code, task: code == task.prompt).solve("-2")
    assert (result.output, result.attempts[0].trajectory.reply) == ("-2", "I say it")


def test_what_own_code_raises_is_raised_and_earlier_attempts_are_remembered():
    def test(code):
        if code == "-2":
            raise OSError("no device")
        return False

    mine = agent(test=test)
    with pytest.raises(OSError, match="no device") as caught:
        mine.solve("x")
    assert caught.value.__notes__[-1].endswith("attempt 2")
    assert [episode.code for episode in mine.memory.by_agent("agent")] == ["2"]


@pytest.mark.parametrize("memory", ["kept.sqlite", "kept"])
def test_its_memory_stays_where_it_began_and_nothing_else_is_written(memory, tmp_path, monkeypatch):
    for name in ("home", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "home")
    mine = agent(memory=memory, reflect=lambda *values: "Look at the sign.", max_attempts=2)
    for name in ("elsewhere", "home"):
        mine.solve(name)
        monkeypatch.chdir(tmp_path / name)
    mine.close()
    assert {path.name for path in tmp_path.glob("*/*")} == {memory}
    assert len({episode.session_id for episode in agent(memory=memory).memory.by_agent("agent")}) == 2


def hang(*values):
    time.sleep(20)


@pytest.mark.parametrize(
    ("parts", "outcomes", "n_reflections"),
    [
        ({"test": hang}, ["timeout"], 0), ({"generate": hang}, ["timeout"], 0), ({"reflect": hang}, ["fail"], 0),
        ({"test": lambda code: time.sleep(0.3)}, ["timeout"], 0),
    ],
)  # fmt: skip
def test_own_code_that_hangs_ends_the_loop_in_time(parts, outcomes, n_reflections):
    mine = agent(timeout=0.25, max_attempts=9, **parts)
    result = mine.solve("x")
    assert result.seconds < 5 and not result.passed and result.stop_reason == "timeout"
    assert [attempt.evaluation.outcome for attempt in result.attempts] == outcomes
    assert len(result.reflections) == n_reflections
    assert len(mine.memory.by_session(result.session)) == 1


def test_the_time_limit_is_of_the_whole_loop_and_an_override_wins_over_it(monkeypatch):
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[-1], strftime=time.strftime)
    monkeypatch.setattr("reflexion_lab.notebook.agent.time", clock)
    slow = agent(generate=lambda *_: now.append(now[-1] + 200) or str(len(now)), timeout=500, max_attempts=50)
    result = slow.solve("x")
    assert (result.stop_reason, len(result.attempts), result.seconds) == ("timeout", 3, 600)
    monkeypatch.undo()
    slow = agent("loop.timeout=0.3", generate=lambda *_: time.sleep(1) or "2", timeout=60)
    assert slow.solve("Write minus two.").stop_reason == "timeout"


def test_what_an_own_test_raises_is_no_reason_to_ask_it_again():
    asked = []

    def test(code, task=None):
        return int(asked.append(code) or code) > 3

    with pytest.raises(ValueError, match="invalid literal"):
        agent(generate=lambda *_: "three", test=test).solve("Write a number.")
    assert asked == ["three"]
    assert agent(generate=lambda *_: "2", test=lambda code, strict=True: strict is True).solve("A number.").passed


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"task_id": "t", "entry_point": "f"}, r"task\.prompt: got no value"),
        ({"task_id": "t", "prompt": "p", "entry_point": "f", "visible_test": ()}, "did you mean 'task.visible_tests'"),
        ({"task_id": "t@pass2", "prompt": "p", "entry_point": "f"}, "@passNUMBER"),
    ],
)
def test_what_is_no_task_is_refused(task, words):
    with pytest.raises(ConfigError, match=words):
        agent().solve(task)


def test_async_functions_are_awaited_also_where_a_loop_runs():
    async def generate(task, recollection):
        await asyncio.sleep(0)
        return second(task, recollection)

    async def test(code):
        await asyncio.sleep(0)
        return is_minus_two(code)

    async def reflect(prompt):
        assert "got 2" in prompt
        await asyncio.sleep(0)
        return FIELDS

    async def program():
        return agent(generate=generate, test=test, reflect=reflect).solve("Write minus two.")

    result = asyncio.run(program())
    assert (result.passed, result.reflections[0].root_cause) == (True, "I added no sign")
    assert result.reflections[0].source == "llm"


@pytest.mark.parametrize(("fallback", "source"), [("rules", "fallback:assertion"), (None, "failed")])
def test_a_reflection_that_fails_is_replaced(fallback, source):
    def reflect(prompt):
        raise ConnectionError("no answer")

    (reflection,) = agent(reflect=reflect, fallback=fallback).solve("x").reflections
    assert reflection.source == source and "no answer" in reflection.problem


def test_a_reflector_is_taken_as_it_is_and_none_says_nothing():
    class Mine:
        def reflect(self, task, attempt, episodes):
            words = dict.fromkeys(("root_cause", "what_went_wrong", "what_to_change"), "no minus")
            return Reflection(reflection_id="mine", about_attempt=1, **words, confidence=1.0, source="rules:mine")

    assert agent(reflect=Mine()).solve("x").reflections[0].source == "rules:mine"
    assert agent(reflect=None).solve("x").reflections == ()


@pytest.mark.parametrize("place", ["memory.sqlite", "memory", None])
def test_memory_reaches_later_tasks_and_outlives_the_agent(place, tmp_path):
    path = place and tmp_path / place
    texts = []

    def generate(task, recollection):
        texts.append(recollection.text)
        return second(task, recollection)

    with agent(generate=generate, memory=path, wisdom=1) as mine:
        mine.solve("Write the number minus two in digits.")
        mine.solve("Write the number minus two in Arabic digits.")
        assert texts[0] == "" and "Attempt 1:\n```python\n2\n```" in texts[1]
        assert "Attempt 2 at a similar task, which passed" in texts[2]
        assert "(seen 2 times in 2 tasks)" in mine.recall("Write a program that computes minus two.").text
        counts = mine.memory.save(tmp_path / "all.json")
        assert (counts["episodes"], counts["wisdom"]) == (4, 1)
    with agent(memory=path) as later:  # retrieval only: nothing is generated
        nearest = [episode.task_description for episode in later.memory.relevant("minus two in Arabic digits", 1)]
        assert nearest == (["Write the number minus two in Arabic digits."] if place else [])
        assert bool(later.memory.wisdom("a program that computes", 1)) == bool(place)
        later.memory.load(tmp_path / "all.json")
        assert len(later.memory.by_agent("agent")) == 4
        again = later.solve("Write the number minus two in digits.")  # a task of before: its attempts are own ones
        assert [episode.attempt_number for episode in later.memory.by_session(again.session)] == [1, 2]
    assert len({episode.session_id for episode in later.memory.by_agent("agent")}) == 3


def test_the_same_text_twice_is_two_sessions_saved_under_names_of_their_own(tmp_path):
    mine = agent()
    first, again = mine.solve("x"), mine.solve("x")
    assert first.session != again.session and len(mine.memory.by_agent("agent")) == 4
    assert "in an earlier session, which passed" in mine.recall("x").text
    mine = agent()
    for name in ("t", "t", "t-2"):
        mine.solve({"task_id": name, "prompt": "Write minus two.", "entry_point": "solve"})
    assert set(RunFolder(mine.save_run(tmp_path / "run").path).attempts) == {"t", "t-2", "t-3"}


def test_threads_solve_at_once(tmp_path):
    with agent(memory=tmp_path / "memory.sqlite", wisdom=2) as mine, ThreadPoolExecutor(8) as pool:
        results = list(pool.map(mine.solve, [f"Write minus two, way {number % 20}" for number in range(40)]))
    assert all(result.passed for result in results) and len({result.session for result in results}) == 40
    with agent(memory=tmp_path / "memory.sqlite") as later:
        for result in results:
            assert [episode.attempt_number for episode in later.memory.by_session(result.session)] == [1, 2]
        (wisdom,) = later.memory.wisdom("a program that computes", 3)
        assert wisdom.frequency == 40


def test_loops_read_no_memory_that_is_being_changed(monkeypatch):
    """A loop that recalls while another one ends reads either none of its episodes or all."""
    mine, inside, go_on = agent(), threading.Event(), threading.Event()
    extend = EpisodeBuffer.extend

    def slowly(buffer, episodes):
        stored = extend(buffer, episodes)
        if buffer is mine.memory.archive.buffer:
            inside.set()
            assert go_on.wait(10)
        return stored

    monkeypatch.setattr(EpisodeBuffer, "extend", slowly)
    with ThreadPoolExecutor(2) as pool:
        solving = pool.submit(mine.solve, "Write minus two.")
        assert inside.wait(10)
        reading = pool.submit(mine.recall, "Write minus two, please.")
        time.sleep(0.1)
        assert not reading.done()
        go_on.set()
        assert solving.result().passed and len(reading.result().others) == 1


def test_two_processes_share_a_file(tmp_path):
    path = tmp_path / "memory.sqlite"
    with agent(memory=path) as mine:
        programs = [subprocess.Popen([sys.executable, "-c", SCRIPT, path, name]) for name in ("one", "two")]
        mine.solve("Write minus two.")
        assert [program.wait(120) for program in programs] == [0, 0]
        assert len(mine.memory.by_agent("agent")) == 2
        mine.memory.load()
        assert len(mine.memory.by_agent("agent")) == 42
        assert mine.memory.relevant("number 7 of two", 1)[0].task_description == "Write number 7 of two"


def test_memory_stays_within_its_capacity():
    mine = agent(max_episodes=10)
    for number in range(40):
        mine.solve(f"Write minus two, way {number}")
    assert len(mine.memory.by_agent("agent")) == 10
    assert mine.memory.by_agent("agent")[-1].task_description == "Write minus two, way 39"
    (wisdom,) = mine.memory.wisdom("a program that computes")
    assert 5 <= wisdom.frequency <= 10  # of at most two capacities of attempts, of which every other one failed
    assert mine.memory.save("/dev/null")["episodes"] <= 11


@pytest.mark.parametrize(
    "model", [["model.first=0.3", "model.seed=1"], ["model.first=0", "recall.k=3", "reflector=llm"]]
)
def test_the_same_tasks_in_a_run_have_the_same_attempts(model, tmp_path):
    same = ["benchmark.load.n=8", "memory.shared.shown.wisdom=2", "memory.shared.same_task=true", *model]
    tasks = rl.by_hand("model=simulated", "benchmark.load.n=8").tasks
    with rl.agent(*same, generate="simulated", test="unit_tests") as mine:
        for task in tasks:
            mine.solve(task)
        saved = mine.save_run(tmp_path / "saved")
    others = ["recall=window_then_similar", "memory.shared.round_size=1", "reflector=rules", *same, "tracker=none"]
    run = rl.run("model=simulated", *others, quiet=True, workers=1, run_root=tmp_path)

    def compared(one):
        for attempt in (attempt for task in tasks for attempt in one.attempts(task.task_id)):
            prompt = [message.content for message in attempt.trajectory.messages]
            read = [name.rpartition("/")[2] for name in attempt.recalled], attempt.recalled_wisdom
            verdict = [check.outcome for check in attempt.evaluation.checks], attempt.stop_reason
            yield prompt, attempt.trajectory.solution, read, verdict, attempt.reflection, attempt.delta

    pairs = list(zip(compared(saved), compared(run), strict=True))
    assert len(pairs) > 12 and all(mine_ == theirs for mine_, theirs in pairs)
    assert saved.summary.pass_at_1 == run.summary.pass_at_1


def test_a_saved_run_is_read_by_everything_that_reads_runs(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine = agent(memory="memory.sqlite")
    with pytest.raises(FolderError, match="got no solved task"):
        mine.save_run("runs/mine")
    text = mine.solve("Write minus two.")
    mine.solve("Write minus two.")
    mine.solve("Write minus two in words.", initial="two")
    run = mine.save_run("runs/mine")
    assert [attempt.number for attempt in run.attempts(text.attempts[0].task_id)] == [1, 2]
    assert len(run.task_ids) == 3 and run.summary.n_logged == run.summary.n_expected == 3
    assert {grade.outcome for grade in run.grades.values()} == {"no_tests"}
    assert len(rl.load(run).attempts) == 6 and rl.view(run) is not None
    results = RunFolder(tmp_path / "runs" / "mine").results.values()
    assert all(0 < result.duration < 60 for result in results)
    for command in ("show", "show --full", "verify", "track", "memory import --store copy.sqlite"):
        name, *options = command.split()
        assert main([name, *options, "runs/mine"]) in (0, None), command
    printed = capsys.readouterr().out
    assert "agent on " in printed and "nothing disagrees" in printed and "tracked: " in printed
    with pytest.raises(FolderError, match="runs/mine: got an old folder"):
        mine.save_run("runs/mine")


def test_tasks_with_hidden_tests_are_graded_when_the_run_is_saved(tmp_path):
    seen = []

    def generate(task, recollection):
        seen.append(task)
        program = RIGHT if recollection.of_loop else "def twice(x):\n    return x"
        return f"I return it twice:\n```python\n{program}```"

    with agent(generate=generate, test="unit_tests") as mine:
        assert mine.solve(TASK).output.strip() == RIGHT.strip()
        run = mine.save_run(tmp_path / "run")
    assert {task.hidden_tests for task in seen} == {()}
    assert [(grade.number, grade.passed) for grade in run.grades.values()] == [(2, True), (1, False)]
    assert run.summary.pass_at_1.k == run.summary.pass_at_1.n == 1


def test_a_served_model_writes_and_another_reflects(tmp_path):
    prompts = {"writer": [], "critic": []}

    def respond(body, headers):
        text = "\n".join(message["content"] for message in body["messages"])
        prompts[body["model"]].append(text)
        right = "I will put a minus before `2`" in text
        program = f"```python\n{RIGHT if right else 'def twice(x):' + chr(10) + '    return x'}\n```"
        reply = FIELDS if body["model"] == "critic" else program
        message = {"choices": [{"message": {"content": reply}, "finish_reason": "stop"}], "model": body["model"]}
        return 200, message | {"usage": {"prompt_tokens": 9, "completion_tokens": 5}}

    with ModelServer(respond) as server:
        at = [f"model.base_url={server.url}", f"roles.reflector.base_url={server.url}"]
        with rl.agent(*at, generate="openai/writer", reflect="openai/critic", test="unit_tests") as mine:
            result = mine.solve(TASK)
            run = mine.save_run(tmp_path / "run")
    assert (result.passed, len(result.attempts), result.reflections[0].source) == (True, 2, "llm")
    assert (len(prompts["writer"]), len(prompts["critic"])) == (2, 1)
    assert run.folder.manifest.role_fingerprints.keys() == {"reflector"}
    assert run.summary.usage["actor"].calls == 2


@pytest.mark.slow
def test_a_real_model_writes_programs_that_the_sandbox_tests(tmp_path):
    tasks = rl.by_hand("benchmark.load.n=3").tasks
    with rl.agent(generate="smollm2", test="unit_tests", memory=tmp_path / "memory.sqlite", max_attempts=2) as mine:
        results = [mine.solve(task) for task in tasks]
        run = mine.save_run(tmp_path / "run")
    assert all(result.stop_reason in ("passed", "max_attempts", "timeout") for result in results)
    assert any(result.passed for result in results) and any(result.reflections for result in results)
    assert run.summary.n_logged == 3 and run.summary.usage["actor"].calls >= 3
