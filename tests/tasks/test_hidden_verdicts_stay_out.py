"""Hidden verdicts do not reach loops.

Two checks of the real composition. The search walks all objects that are reachable from loops, memory, archive, store
and models, and reads every file and prompt. The flip inverts every hidden verdict and compares all other data. Both
must find planted leaks.
"""

import gc
import json
import re
import types
from pathlib import Path

import pytest

from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.analysis.summary import bare
from reflexion_lab.records import Episode, Grade, Session, Wisdom
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.storage.place import opened
from reflexion_lab.tasks.evaluators.judge import HiddenTests
from reflexion_lab.tasks.sandbox.cached import CachedSandbox

MARK = "hushed"
"""Occurs only in hidden tests and canonical solutions."""
REFLECTION = (
    "ROOT_CAUSE: The line returns the wrong number\nWHAT_WENT_WRONG: the check failed\n"
    "WHAT_TO_CHANGE: multiply by two\nCONFIDENCE: 0.9\n"
)
SERVICE = json.dumps(
    {"category": "root_cause", "analysis": "wrong", "suggestion": "multiply by two", "confidence": 0.9}
)
LEARNING = (
    "benchmark=jsonl", "benchmark.keep_failing=true", "actor=single_shot", "store=sqlite",
    "recall=window_then_similar", "recall.min_score=0",
    "recall.omega=adaptive", "retriever=recency", "memory.shared.round_size=3", "memory.shared.priors=true",
    "memory.shared.shown={wisdom:2,mistakes:2,insights:3}", "memory.show_session=true", "loop.max_attempts=3",
    "loop.stuck_after=null", "tracker=none", "quiet=true", "cache.mode=off",
)  # fmt: skip
REFLECTORS = {
    "llm": (), "llm_json": (), "rules": ("reflector.enough=1",), "generic": (), "feedback_only": (),
    "length_matched": (), "keywords": (), "none": (), "shuffled": ("reflector.pool=POOL",),
}  # fmt: skip


def planted(name: str, kind: str) -> dict[str, object]:
    """A task on `2 * x`. A wrong program passes the feedback of a `lucky` task, a right one fails that of `unlucky`."""
    visible = {"right": f"{name}(2) == 4", "lucky": f"{name}(0) == 0", "unlucky": f"{name}(1) == 99"}[kind]
    return {
        "task_id": f"planted/{name}",
        "prompt": f'def {name}(x):\n    """Twice x, a {kind} one.\n\n    >>> {visible}\n    True\n    """\n',
        "entry_point": name,
        "visible_tests": [f"assert {visible}"],
        "hidden_tests": [f"assert {name}(31) == 62, '{MARK} {name}'"],
        "canonical_solution": f"    {MARK} = 2 * x\n    return {MARK}\n",
    }


TASKS = [planted(f"{kind}_{turn}", kind) for turn in range(2) for kind in ("right", "lucky", "unlucky")]


def replies(messages):
    """A right program for an unlucky task, and for a `right` one with feedback in the prompt; otherwise a wrong one."""
    text = messages[-1].content
    if "ROOT_CAUSE" in text:
        return REFLECTION
    if "suggestion" in text and "category" in text:
        return SERVICE
    name, kind = re.search(r'def (\w+)\(x\):\s+"""Twice x, a (\w+) one', text).groups()
    has_feedback = kind == "right" and re.search("What to change|Failing", text)
    body = "2 * x" if kind == "unlucky" or has_feedback else "x"
    return f"```python\ndef {name}(x):\n    return {body}\n```"


class Run:
    """One run of the real composition that records its loops; `judge` can replace its judge."""

    def __init__(self, folder: Path, tasks, *overrides, judge=None) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))
        (folder / "script.json").write_text('[{"when": "", "reply": ""}]')  # `replies` takes its place
        self.store = folder / "memory.sqlite"
        cfg = compose(
            *LEARNING, f"benchmark.load.path={folder / 'tasks.jsonl'}", "model=scripted",
            f"model.path={folder / 'script.json'}", f"run_root={folder / 'runs'}", f"store.place={self.store}",
            f"memory.reflection_files={folder / 'reflections'}", "workers=1", *overrides,
        )  # fmt: skip
        self.lab = assemble(cfg)
        self.model = self.lab.model._model = ScriptedModel(replies)
        runner = self.lab.runner
        self.loops, make = [runner.loop], runner.loop

        def recorded_loop():
            self.loops.append(make())
            return self.loops[-1]

        runner.loop = recorded_loop
        if judge:
            runner.judge = judge(self.lab)
        try:
            runner.run()
            self.prompts = [tuple(message.content for message in call) for call in self.model.received]
            self.traces = list(self._traces())
            self.learned = self._learned()
        finally:
            self.lab.close()

    @property
    def grades(self):
        return {key: grade.passed for key, grade in self.lab.folder.grades.items()}

    def _traces(self):
        """Where the hidden tests, or a verdict by them, is reachable from the loops."""
        self.walked = set()
        for item in reachable([*self.loops, self.lab.archive, self.lab.models, self.lab.archive.store]):
            self.walked.add(type(item))
            if isinstance(item, Grade):
                yield f"a Grade on {item.task_id}"
            if isinstance(item, str | bytes) and MARK in str(item):
                yield str(item)[:80]
        # Only the judge's grades and the input file may have hidden tests.
        for path in self.folder.rglob("*"):
            if (
                path.is_file()
                and path.name not in ("grades.jsonl", "tasks.jsonl")
                and MARK.encode() in path.read_bytes()
            ):
                yield path.name
        yield from (text for call in self.prompts for text in call if MARK in text)

    def _learned(self) -> bytes:
        """Content of loops, memory and store, without ids and times."""
        archive, run_id = self.lab.archive, self.lab.folder.manifest.run_id
        store = opened(str(self.store))
        records = {kind.__name__: list(store.read(kind)) for kind in (Episode, Wisdom)}
        store.close()
        state = {
            **records,
            "attempts": self.lab.folder.attempts,
            "omega": archive.omega,
            "priors": dict(archive.outcomes),
            "insights": archive.insights.newest(""),
            "prompts": self.prompts,
            "files": {
                str(path.relative_to(self.folder)): json.loads(path.read_bytes())
                for path in sorted((self.folder / "reflections").rglob("*.json"))
            },
        }
        return json.dumps(bare(state, run_id), sort_keys=True).encode()


def reachable(roots):
    """Every object reachable from `roots`, without classes and modules, which reach everything."""
    reached, waiting = {}, list(roots)
    while waiting:
        item = waiting.pop()
        if id(item) in reached or isinstance(item, type | types.ModuleType | types.FrameType):
            continue
        reached[id(item)] = item
        yield item
        if isinstance(item, types.FunctionType):
            waiting += [item.__closure__, item.__defaults__, item.__kwdefaults__, item.__dict__]
        else:
            waiting += gc.get_referents(item)


def flipped(tasks):
    return [{**task, "hidden_tests": [test.replace("==", "!=") for test in task["hidden_tests"]]} for task in tasks]


OFTEN = ("llm", "rules", "keywords")
"""Reflectors that are not marked slow."""


@pytest.mark.parametrize(
    "reflector", [name if name in OFTEN else pytest.param(name, marks=pytest.mark.slow) for name in REFLECTORS]
)
def test_flipped_hidden_verdicts_change_nothing_in_a_loop(tmp_path, reflector):
    chosen = [f"reflector={reflector}", *REFLECTORS[reflector]]
    if reflector == "shuffled":
        pool = Run(tmp_path / "pool", TASKS, "reflector=llm").lab.folder.path
        chosen = [text.replace("POOL", str(pool)) for text in chosen]
    run, other = Run(tmp_path / "run", TASKS, *chosen), Run(tmp_path / "other", flipped(TASKS), *chosen)
    assert {Episode, Session, CachedSandbox} <= run.walked  # the search reaches these
    assert run.traces == other.traces == []
    assert run.grades == {key: not passed for key, passed in other.grades.items()}
    assert set(run.grades.values()) == {True, False}
    assert run.learned == other.learned


class Remembering(HiddenTests):
    """A judge that leaks every grade to the archive."""

    def __init__(self, lab) -> None:
        super().__init__(lab.sandbox)
        self.archive = lab.archive

    def grade(self, task, number, solution):
        grade = super().grade(task, number, solution)
        self.leak(task, grade)
        return grade

    def leak(self, task, grade):
        self.archive.leaked = [*getattr(self.archive, "leaked", ()), grade]


class TellingTests(Remembering):
    """Leaks hidden tests to the other tasks."""

    def leak(self, task, grade):
        self.archive.insights.add("another task", task.hidden_tests[0])


class Counting(Remembering):
    """Leaks only one count in the priors, no object and no text."""

    def leak(self, task, grade):
        passed, total = self.archive.outcomes.get("assertion", (0, 0))
        self.archive.outcomes["assertion"] = (passed + grade.passed, total + 1)


@pytest.mark.parametrize("judge", [Remembering, TellingTests])
def test_the_search_finds_a_judge_that_leaks(tmp_path, judge):
    run = Run(tmp_path / "run", TASKS, "reflector=rules", judge=judge)
    assert run.traces


def test_the_flip_finds_a_judge_that_leaks_counts(tmp_path):
    run, other = (
        Run(tmp_path / name, tasks, "reflector=rules", "reflector.enough=1", judge=Counting)
        for name, tasks in (("run", TASKS), ("other", flipped(TASKS)))
    )
    assert run.traces == []
    assert run.learned != other.learned
