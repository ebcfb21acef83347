"""Five arms on dead tasks: what each retry reads, which tasks are dead, and planted effects that are recovered."""

import re
import shlex
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from experiments.dead_units import analysis, simulated
from experiments.dead_units.dead_tasks import dead_tasks
from experiments.dead_units.student import OWN_TURN, Student, shape
from reflexion_lab.agent.actors.single_shot import SingleShot
from reflexion_lab.memory.episodic import NoSharedMemory
from reflexion_lab.memory.recall import Window
from reflexion_lab.records import Sampling, Task
from reflexion_lab.runner.config.build import build
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.registration import FILE, read
from tests import builders as make

FOLDER = Path(__file__).parent
STUDY = read(FOLDER / FILE)
TASK = Task(
    task_id="t",
    prompt='def double(x):\n    """Twice x."""\n',
    entry_point="double",
    canonical_solution="    return 2 * x\n",
)
PROGRAM = "def double(x):\n    return x"
FACTS = "0 of 1 tests passed. Failing:\n- assert double(2) == 4  # expected 4, got 2"
FIRST = "Complete this Python function. Reply with the whole function in one code block, and nothing else.\n\n"
FIRST += f"```python\n{TASK.prompt.strip()}\n```"
EARLIER = "\n\nEarlier attempts:\n\nAttempt 1:"
SHOWN = f"```python\n{PROGRAM}\n```"
WORDS = "Root cause: cause 1\nWhat went wrong: wrong 1\nWhat to change: change 1"
REQUEST = "Write a different, corrected function."
BESIDE = {"bare": "", "facts": FACTS, "placebo": "(filler)", "words": f"{FACTS}\n{WORDS}"}
RETRIES = {"blind": [("user", FIRST)]}
for _name, _text in BESIDE.items():
    _after = f"{_text}\n\n{REQUEST}".strip()
    _gap = "\n" if _text else "\n\n"
    RETRIES[f"{_name}_user"] = [("user", f"{FIRST}{EARLIER}\n{SHOWN}{_gap}{_after}")]
    RETRIES[f"{_name}_assistant"] = [("user", FIRST + EARLIER), ("assistant", SHOWN), ("user", _after)]


def retry(arm):
    """Messages of attempt 2 after a failed one, by the config of the study."""
    cfg = compose(
        *[word for word in shlex.split(STUDY.shared) if "=experiments/" not in word], *shlex.split(STUDY.arms[arm])
    )
    reflection = make.reflection(1) if "LLMReflector" in str(cfg.reflector) else None
    failed = make.episode(1, task_id="t", code=PROGRAM, test_results=FACTS, reflection=reflection)
    model = make.Replies("")
    actor = SingleShot(model, Sampling(), build(cfg.prompts, "prompts"))
    actor.act(TASK, Window(cfg.recall.omega).select([failed], TASK, NoSharedMemory()))
    assert (cfg.arm, cfg.actor._target_.rpartition(".")[2], cfg.loop.stuck_after) == (arm, "SingleShot", None)
    return model.requests[-1][0]


@pytest.mark.parametrize("arm", STUDY.arms)
def test_a_retry_reads_what_its_arm_says(arm):
    """The whole prompt of every arm, word by word; of the filler only its lines and marks."""
    messages = [(message.role, message.content) for message in retry(arm)]
    if arm.startswith("placebo"):
        filler = re.search(r"[A-Z][a-z, ]+\n- [A-Za-z, ]+  # [A-Za-z, ]+(?=\n\nWrite)", messages[-1][1])[0]
        assert abs(len(filler) - len(FACTS)) < 0.35 * len(FACTS)
        messages[-1] = (messages[-1][0], messages[-1][1].replace(filler, "(filler)"))
    assert messages == RETRIES[arm]


@pytest.mark.parametrize("arm", [arm for arm in STUDY.arms if arm != "blind"])
def test_the_student_recognizes_the_prompt_of_an_arm(arm):
    name, _, role = arm.partition("_")
    factors = {each: dict.fromkeys(BESIDE, 0.0) for each in analysis.ROLES}
    factors[role][name] = 100.0
    student = Student([TASK], mean=0.5, spread=0.1, factors=factors)
    draft = f"# wrong draft 00ff\n{TASK.canonical_program}"
    messages = [replace(message, content=message.content.replace(PROGRAM, draft)) for message in retry(arm)]
    assert "wrong draft" not in student.complete(messages, sampling=Sampling()).text
    factors[role][name] = 0.0
    blunt = Student([TASK], mean=0.5, spread=0.1, factors=factors)
    assert "wrong draft" in blunt.complete(messages, sampling=Sampling()).text
    assert student.fingerprint != blunt.fingerprint
    assert shape(retry(arm)[-1].content.partition(SHOWN)[2] or retry(arm)[-1].content) == name
    assert OWN_TURN not in str(messages)


def draws(*programs, passed=(), outcome="fail"):
    return [
        make.attempt(
            number=number, acted={"solution": program}, judged={"passed": number in passed, "outcome": outcome}
        )
        for number, program in enumerate(programs, start=1)
    ]  # fmt: skip


def test_a_task_is_dead_if_all_draws_failed_and_keeps_its_last_program():
    loops = {
        "dead": draws("a", "b", "c"),
        "last without a program": draws("a", "b", " "),
        "solved": draws("a", "b", "c", passed={3}),
        "interrupted": draws("a", "b"),
        "no program": draws("", "", ""),
        "not tested": draws("a", "b", "c", outcome="no_tests"),
    }
    tasks = {name: replace(TASK, task_id=name, cluster="template") for name in loops}
    dead = dead_tasks(tasks, loops, 3)
    assert [(task.task_id, task.initial_code) for task in dead] == [("dead", "c"), ("last without a program", "b")]
    assert dead[0] == replace(tasks["dead"], initial_code="c")
    assert msgspec.json.decode(msgspec.json.encode(dead[0]), type=Task) == dead[0]


@pytest.mark.slow
def test_every_arm_retries_the_same_program_with_draws_of_its_own(tmp_path):
    from reflexion_lab.analysis.run_log import Log
    from reflexion_lab.runner.folder.folder import RunFolder

    dead = simulated.first_stage(tmp_path / "first", 60)
    tasks = {task.task_id: task for task in msgspec.json.Decoder(Task).decode_lines(dead.read_bytes())}
    logs = [Log.read(RunFolder.existing(path)) for path in simulated.second_stage(tmp_path / "second", dead, [1])]
    assert [log.arm for log in logs] == list(STUDY.arms)
    for log in logs:
        assert log.attempts.keys() == tasks.keys() and log.manifest.benchmark == STUDY.benchmark
        for name, attempts in log.attempts.items():
            assert attempts[0].trajectory.solution == tasks[name].initial_code
            assert attempts[0].trajectory.usage.calls == 0 and not attempts[0].evaluation.passed
            assert len(attempts) == 2 or log.arm == "blind"


def test_the_published_intervals_hold_what_was_planted():
    rows, shares = analysis.contrasts(FOLDER), analysis.rates(FOLDER)
    assert len(rows) == 14 and len(shares) == len(STUDY.arms) == 9
    assert sum(map(analysis.holds, rows)) >= 12 and sum(map(analysis.holds, shares)) >= 8
    margin = STUDY.equivalence_margin
    assert analysis.reading(rows, "user", margin) == "failing checks repay the harm, to within ±6 points of the draw"
    assert analysis.reading(rows, "user", margin / 2).startswith("undecided")
    assert analysis.reading(rows, "assistant", margin) == "failing checks do more than repay the harm"


@pytest.mark.parametrize(
    ("harm", "repaid", "more", "largest", "words"),
    [
        (0.0, 0.0, 0.0, 0.04, "undecided: no harm of the program is detected"),
        (-0.1, 0.0, 0.0, 0.04, "undecided: harm is detected, and no repair of it"),
        (-0.1, 0.1, 0.0, 0.04, "failing checks repay the harm, to within ±6 points of the draw"),
        (
            -0.1,
            0.1,
            0.0,
            0.06,
            "undecided: failing checks repay at least a part of the harm, and may do more than repay it",
        ),
        (-0.2, 0.1, -0.1, 0.14, "failing checks repay a part of the harm"),
        (-0.1, 0.2, 0.1, 0.14, "failing checks do more than repay the harm"),
    ],
)
def test_the_claim_is_read_from_three_contrasts_and_equality_needs_the_margin(harm, repaid, more, largest, words):
    values = {("bare", "blind"): harm, ("facts", "bare"): repaid, ("facts", "blind"): more}
    rows = [
        {"role": "user", "arm": arm, "baseline": base, "value": value, "low": value - 0.05, "high": value + 0.05,
         "p_holm": 0.01 if value else 1.0, "largest": largest}
        for (arm, base), value in values.items()
    ]  # fmt: skip
    assert analysis.reading(rows, "user", 0.06) == words


def test_the_size_in_the_study_is_too_small_for_the_discordance_of_the_student():
    first, *own = analysis.designs(FOLDER, analysis.contrasts(FOLDER))
    assert first["detected"] > 0.8 and first["within"] > 0.8
    assert [row["discordance"] for row in own] == [0.16, 0.24, 0.19, 0.27]
    assert all(row["detected"] < 0.4 and row["within"] < 0.6 for row in own)
