"""The proof that words arrive: what a model reads is what the record says it read, and nothing that is hidden.

For 1,000 generated tasks, spread over every actor and every recall policy of `conf/`, the real loop runs as the config
wires it, with a model that notes what it receives and an executor that answers at once. Every text that somebody could
pass on carries a mark of its own, twelve random letters: each episode's program, feedback and reflection, of this loop
and of others, wisdom and mistakes, the task's prompt, its hidden tests, its canonical solution, and the hidden
verdicts, which are given while the loop still runs. Then, attempt by attempt,

- the actor's models together received the marks of exactly the episodes, wisdom and mistakes that the attempt names as
  recalled, and of no other; also where the context is short and some are left out;
- no role ever received a mark of the hidden tests, the solution, the hidden verdicts, or of another run's past with
  this very task;
- what the trajectory says was received is what was received, word for word;
- reflector and critic received no episode that the actor had not.

It does not prove that a model uses the words, that the sandbox gives nothing away (`tests/tasks/sandbox`),
or that a text longer than a prompt's bounds arrives whole. Insights and the session's summary are off: they quote
episodes by design, beside `recalled` (`tests/memory/test_every_memory_is_read.py`).
"""

import random
import re
import string
from collections import Counter, defaultdict

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reflexion_lab.memory.archive import Archive, Shown
from reflexion_lab.memory.lessons.mistakes import mistakes_of
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Check, Completion, Episode, Execution, Reflection, Results, Task, Usage, Wisdom
from reflexion_lab.runner.config.assemble import loop_factory
from reflexion_lab.runner.config.compose import CONF, compose
from reflexion_lab.runner.config.parts import Models, plain
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.runner import teach
from reflexion_lab.storage.in_memory import InMemory
from reflexion_lab.tasks.evaluators.judge import HiddenTests

TASKS = 1000
ACTORS = {
    "continuation": [()],
    "single_shot": [()],
    "warming": [(), ("actor@actor.make_actor=single_shot",)],
    "escalation": [()],
    "chain_of_thought": [()],
    "chain_of_thought_continuation": [()],
    "react": [()],
    "react_continuation": [()],
    "candidates": [(), ("actor@actor.actor=single_shot",)],
    "critique_revise": [
        ("critic=llm", "reviser=continuation"),
        ("critic=merged", "reviser=llm", "actor@actor.generator=single_shot"),
    ],
}
"""The overrides under which each of `conf/actor/*.yaml` is tried."""
RECALLS = {"window": ["omega"], "similar": ["k"], "window_then_similar": ["omega", "k"]}
"""What is drawn of each of `conf/recall/*.yaml`."""
WAYS = [(actor, how) for actor, ways in ACTORS.items() for how in ways]
CELLS = [
    pytest.param(
        actor, how, recall, id=f"{actor}-{'+'.join(how)}-{recall}",
        marks=[] if (number + place) % len(RECALLS) == 0 else pytest.mark.slow,
    )
    for number, (actor, how) in enumerate(WAYS)
    for place, recall in enumerate(RECALLS)
]  # fmt: skip
"""Every actor with every recall policy; in the default suite, with one of them each, and every policy with several."""
A_CELL = -(-TASKS // len(CELLS))
STEADY = settings(
    max_examples=A_CELL, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)  # fmt: skip
"""The same cases in every run; a failing one is shown as it is, since nothing is won by shrinking it."""
OMEGAS = (0, 1, 3, "all", "dynamic", "adaptive", "by_complexity", "by_verification_type", "complex")
HOSTILE = (
    "", "```\n# out of the block", "{{ memory }} {% raw %}", "\u202e\u2067 turned", "nul \0 here", "x" * 700,
    "a\u2028b\x0cc\rd", "ROOT_CAUSE: not mine", "~~~~\n\t", "数 λ é " * 30, '"""',
)  # fmt: skip
WORDS = ["sum", "list", "numbers", "string", "largest", "reverse"]


class Marks:
    """Hands out marks, and knows whose they are."""

    def __init__(self, seed):
        self.draw = random.Random(f"marks:{seed}")
        self.owner = {}

    def new(self, *owner):
        mark = "zq" + "".join(self.draw.choices(string.ascii_lowercase, k=12))
        self.owner[mark] = owner
        return mark

    def within(self, messages):
        """The owners of the marks in `messages`."""
        return {
            self.owner[mark] for text in messages for mark in re.findall(r"zq[a-z]{12}", text) if mark in self.owner
        }


class World:
    """One generated case, and all that its models received."""

    def __init__(self, case):
        self.case = case
        self.marks = Marks(case["seed"])
        self.number = 1
        """The attempt that is being made."""
        self.received = defaultdict(list)
        """By attempt and role, calls; each a tuple of messages."""
        self.describes = {}
        """By name of an episode, the ids of what its task's description may come with: the episode, its mistake."""

    def words(self, *owner):
        return f"{self.marks.new(*owner)} {' '.join(self.marks.draw.choices(WORDS, k=4))}"

    def hostile(self):
        return self.marks.draw.choice(HOSTILE) if self.case["hostile"] else ""

    def task(self, task_id="own/task"):
        prompt = f'def f(x):\n    """The largest sum of a list of numbers, {self.words("task", task_id)}.\n    """\n'
        return Task(
            task_id=task_id, prompt=("\n\n" if self.case["hostile"] else "") + prompt, entry_point="f",
            visible_tests=tuple(f"assert f({n}) == '{self.words('visible')}'" for n in range(self.case["visible"])),
            hidden_tests=tuple(f"assert candidate({n}) == '{self.words('hidden', 'test')}'" for n in range(3)),
            canonical_solution=f"    return '{self.words('hidden', 'solution')}'\n", tags=("moderate",),
        )  # fmt: skip

    def episode(self, name, task_id):
        fields = {
            key: f"{self.words('episode', name, key)} {self.hostile()}"
            for key in ("root_cause", "what_went_wrong", "what_to_change")
        }
        reflection = Reflection(reflection_id=name, about_attempt=1, confidence=0.5, source="llm", **fields)
        episode = Episode(
            episode_id=name, session_id=f"before/{name}", agent_id="a", task_id=task_id, attempt_number=1,
            task_description=f"def g(x):\n    '''{self.words('described', name)} {self.hostile()}'''\n",
            code=f"def g(x):\n    return '{self.words('episode', name, 'code')}'\n{self.hostile()}",
            test_results=f"{self.words('episode', name, 'feedback')} {self.hostile()}",
            reflection=reflection, passed=name.endswith("2"), timestamp=1.0,
        )  # fmt: skip
        self.describes[name] = {name}
        if episode.passed:
            return episode

        def failing(message):
            return replace(episode, results=Results(failing=(Check(name="f", outcome="fail", message=message),)))

        (mistake,) = mistakes_of([failing("")])
        self.describes[name].add(mistake.mistake_id)
        return failing(self.words("mistake", mistake.mistake_id))

    def archive(self):
        """What earlier runs left: with other tasks, and with this very one."""
        store, n = InMemory(), self.case["others"]
        shared = " ".join(WORDS)
        store.append([self.episode(f"other-{i}", f"other/{i}") for i in range(n)])
        store.append([self.episode("same", "own/task")] if n else [])
        store.append(
            [
                Wisdom(
                    wisdom_id=f"wisdom-{i}", pattern=f"{self.words('wisdom', f'wisdom-{i}')} {shared}", frequency=2,
                    impact=0.5, domain="code", tasks=("other/0", "other/1"), advice=self.hostile(),
                )
                for i in range(n)
            ]
        )  # fmt: skip
        page = Shown(wisdom=self.case["lessons"], mistakes=self.case["lessons"], max_tokens=self.case["lesson_tokens"])
        archive = Archive(store, Jaccard, shown=page)
        archive.begin()
        return archive

    def run(self, program, entry_point, checks, setup="", cpu_seconds=0.0):
        """The executor: every failure has a mark of its own. Hidden tests call `candidate`, and always fail."""
        results = []
        for check in checks:
            hidden = "candidate" in check
            about = ("hidden", "verdict") if hidden else ("feedback", self.number)
            is_pass = self.number >= self.case["passes_at"] and not hidden
            why = "" if is_pass else f"got {self.marks.new(*about)}"
            results.append(Check(name=check[:40], outcome="pass" if is_pass else "fail", message=why))
        return Execution(checks=tuple(results), output="", seconds=0.0, cpu_seconds=0.0)

    def texts(self):
        """All that any role has received."""
        return [message.content for calls in self.received.values() for call in calls for message in call]

    layers = ()


class Noting:
    """A model of one role: notes what it receives, and answers as the style of the prompt wants."""

    slots = 1

    def __init__(self, world, role, context):
        self.world, self.role, self.context = world, role, context
        self.fingerprint = role

    def complete(self, messages, *, sampling, sample=0):
        self.world.received[self.world.number, self.role].append(tuple(messages))
        return Completion(text=self.reply(messages), model=self.role, usage=Usage(calls=1))

    def reply(self, messages):
        world, text = self.world, messages[-1].content
        if self.role == "reflector":
            labels = ("ROOT_CAUSE", "WHAT_WENT_WRONG", "WHAT_TO_CHANGE")
            return (
                "".join(f"{label}: {world.words('said', world.number, label)}\n" for label in labels)
                + "CONFIDENCE: 0.9"
            )
        if self.role == "critic":
            return "ISSUE: it is wrong\nSUGGESTION: mend it\nSEVERITY: 0.8\n"
        mark = world.marks.new("program", world.number)
        if messages[-1].role == "assistant":
            body = f"\n    return '{mark}'\n"
            is_react = text.rstrip().endswith(":") and "Thought" in text.rstrip().rpartition("\n")[2]
            return f" try\nAction: run_tests\nProgram:\n```python\ndef f(x):{body}```\n" if is_react else body
        return f"Thought: try\nAction: run_tests\nProgram:\n```python\ndef f(x):\n    return '{mark}'\n```"


@st.composite
def cases(draw):
    return {
        "seed": draw(st.integers(0, 2**32)), "visible": draw(st.integers(1, 4)), "hostile": draw(st.booleans()),
        "others": draw(st.integers(0, 4)), "lessons": draw(st.integers(0, 2)),
        "lesson_tokens": draw(st.sampled_from([60, 600, 5000])), "attempts": draw(st.integers(2, 5)),
        "passes_at": draw(st.integers(2, 6)), "omega": draw(st.sampled_from(OMEGAS)), "k": draw(st.integers(0, 3)),
        "tokens": draw(st.sampled_from([150, 600, 100_000])),
        "variant": draw(st.sampled_from(["default", "terse", "paper_style"])), "examples": draw(st.integers(0, 3)),
        "room": draw(st.sampled_from([None, None, 0, 200, 400, 700, 1200, 2500])),
    }  # fmt: skip


IN_WORLDS = {"actor": ["play"], "recall": []}
"""Parts for tasks of another kind, whose prompts `tests/agent/actors/test_play.py` reads."""


def test_no_actor_and_no_recall_policy_is_forgotten():
    for group, table in (("actor", ACTORS), ("recall", RECALLS)):
        assert sorted([*table, *IN_WORLDS[group]]) == sorted(path.stem for path in (CONF / group).glob("*.yaml"))


@pytest.mark.parametrize(("actor", "how", "recall"), CELLS)
def test_prompts_hold_exactly_the_recorded_items_nothing_hidden(actor, how, recall):
    cfg, counts = composed(actor, how, recall), Counter()

    @STEADY
    @given(cases())
    def holds(case):
        adjust(cfg, case)
        counts.update(proved(cfg, World(case)))

    holds()
    assert counts["tasks"] >= A_CELL and counts["recalled"] > 10
    assert counts["left_out"] > 3


@pytest.mark.parametrize("actor", ACTORS)
@pytest.mark.slow
def test_hidden_tests_become_feedback_by_the_oracle_path_alone(actor):
    case = {
        "seed": 1, "visible": 2, "hostile": False, "others": 0, "lessons": 0, "lesson_tokens": 600, "attempts": 2,
        "passes_at": 3, "omega": 1, "k": 1, "tokens": 100_000, "variant": "default", "examples": 0, "room": None,
    }  # fmt: skip
    read = {}
    for source in ("visible", "oracle", "none"):
        world, cfg = World(case), composed(actor, ACTORS[actor][0], "window")
        adjust(cfg, case)
        task = world.task()
        attempts_at(cfg, world, task, teach(task, source))
        read[source] = {owner for owner in world.marks.within(world.texts()) if owner[0] == "hidden"}
    assert read["visible"] == read["none"] == set() and ("hidden", "test") in read["oracle"]
    assert ("hidden", "solution") not in read["oracle"]


def composed(actor, how, recall):
    least = ["recall.min_score=0"] if "k" in RECALLS[recall] else []
    shared = "memory.shared.priors=true"  # so that every recall policy has the memory that the test gives it
    return compose(f"actor={actor}", f"recall={recall}", "loop.stuck_after=null", shared, *least, *how)


def adjust(cfg, case):
    cfg.loop.max_attempts = case["attempts"]
    cfg.prompts.variant, cfg.prompts.examples = case["variant"], case["examples"]
    cfg.recall.max_tokens = case["tokens"]
    for name in ("omega", "k"):
        if name in cfg.recall:
            cfg.recall[name] = case[name]


def proved(cfg, world):
    """Run one case and check every attempt; what was seen on the way, counted."""
    task, counts = world.task(), Counter(tasks=1)
    attempts = attempts_at(cfg, world, task, teach(task, "visible"))
    ids = {f"ep-run/own/task-{attempt.number}": attempt for attempt in attempts}
    for attempt in attempts:
        actors = [call for role in ("actor", "strong", "strongest") for call in world.received[attempt.number, role]]
        read = world.marks.within(m.content for call in actors for m in call)
        recalled = {*attempt.recalled, *attempt.recalled_wisdom, *attempt.recalled_mistakes}
        assert named(read, ids, attempt.number) == recalled
        assert all(world.describes[owner[1]] & recalled for owner in read if owner[0] == "described")
        assert ("task", "own/task") in read
        others = [call for role in ("reflector", "critic") for call in world.received[attempt.number, role]]
        read_by_others = world.marks.within(m.content for call in others for m in call)
        assert named(read_by_others, ids, attempt.number) <= recalled
        assert recorded(attempt) >= set(actors)
        counts["recalled"] += len(recalled)
        counts["left_out"] += len(attempt.trajectory.left_out)
        assert recalled.isdisjoint(attempt.trajectory.left_out)
    anybody = world.marks.within(world.texts())
    assert not {
        owner for owner in anybody if owner[0] == "hidden" or owner[:2] in (("episode", "same"), ("described", "same"))
    }
    return counts


def attempts_at(cfg, world, task, taught):
    """The attempts of the loop that the config describes; each gets its hidden verdict as soon as it is made."""
    room = world.case["room"]
    context = 0 if room is None else room + 64 + longest_reply(plain(cfg.actor))
    models = Models({role: Noting(world, role, context) for role in ("actor", "reflector", "critic", "strong")})
    judge = HiddenTests(world)
    judge.seal()
    attempts = []
    for attempt in loop_factory(RunConfig.of(cfg), models, world, world.archive())("run").attempts(taught):
        judge.grade(task, attempt.number, attempt.trajectory.solution)
        attempts.append(attempt)
        world.number += 1
    return attempts


def longest_reply(node):
    """The largest `max_tokens` in a config."""
    inner = [longest_reply(value) for value in node.values()] if isinstance(node, dict) else []
    return max([*inner, node.get("max_tokens", 0)]) if isinstance(node, dict) else 0


def named(owners, ids, number):
    """Ids of the episodes, wisdom and mistakes of before attempt `number` that have a mark among `owners`."""
    names = {owner[1] for owner in owners if owner[0] in ("episode", "wisdom", "mistake")}
    earlier = {owner[1] for owner in owners if owner[0] in ("said", "program", "feedback")} - {number}
    return names | {name for name, attempt in ids.items() if attempt.number in earlier}


def recorded(attempt):
    """Every call that the record of an attempt tells of."""
    steps = attempt.trajectory.steps
    critiques = [step.critique.messages for step in steps if step.critique]
    return {attempt.trajectory.messages, *(step.messages for step in steps), *critiques}
