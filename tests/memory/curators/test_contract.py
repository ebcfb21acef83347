"""The contract of every curator in conf/curator, whatever its method."""

import random
from types import SimpleNamespace

import pytest

from reflexion_lab.errors import ModelError
from reflexion_lab.memory.curators.curated import CuratedMemory
from reflexion_lab.memory.curators.history import rounds
from reflexion_lab.memory.curators.items import after
from reflexion_lab.records import Completion, Message, Sampling, Task, Usage
from reflexion_lab.runner.config.build import plain, takes
from reflexion_lab.runner.config.compose import CONF, compose
from reflexion_lab.runner.config.parts import Models, load_curated, with_defaults
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.run import carry_out
from reflexion_lab.text.shorten import estimated
from tests import builders

NAMES = sorted(path.stem for path in (CONF / "curator").glob("*.yaml"))
METHODS = [name for name in NAMES if name not in ("none", "gold")]
"""Without those that keep nothing, or the solutions of their own benchmark."""
STREAM = (
    *builders.FAMILIES, "benchmark.load.n=16", "benchmark.load.families=3",
    "actor=single_shot", "reflector=rules", "loop.max_attempts=2", "loop.reflect_on_last=true",
    "memory.shared.round_size=3", "tracker=none", "quiet=true",
)  # fmt: skip


class Replies:
    """A model with a reply for every call; keeps the prompts."""

    fingerprint, slots, context = "replies", 1, 0

    def __init__(self, reply) -> None:
        self.reply = reply
        self.prompts: list[str] = []

    def complete(self, messages: list[Message], *, sampling: Sampling, sample: int = 0) -> Completion:
        self.prompts.append("\n".join(message.content for message in messages))
        return Completion(text=self.reply(len(self.prompts)), model="m", usage=Usage(calls=1, prompt_tokens=7))


def curated(name: str, model: Replies, *overrides: str) -> CuratedMemory:
    cfg = with_defaults(RunConfig.of(compose(f"curator={name}", *overrides)))
    memory = load_curated(RunConfig.of(cfg), Models({"actor": model}))  # type: ignore[dict-item]
    assert memory is not None
    return memory


def loop(memory: CuratedMemory, task: Task, passed: bool):
    """A finished loop of two attempts, of which the second passed or not."""
    shown = tuple(item.item_id for item in memory.selection(task).items)
    judged = {"feedback": "assert f(1) == 2: got 3", "passed": False}
    first = builders.attempt(
        task_id=task.task_id, recalled_items=shown, judged=judged, reflection=builders.reflection()
    )
    last = builders.attempt(task_id=task.task_id, number=2, recalled_items=shown, judged={"passed": passed})
    return memory.finished(task, [first, last])


def tasks(n: int) -> list[Task]:
    hidden = {"hidden_tests": ("assert candidate(7) == 'HIDDEN'",), "canonical_solution": "def f(): return 'SOLUTION'"}
    return [
        Task(task_id=f"t/{number}", prompt=f"def f{number}(x):\n    '''Task {number}.'''", entry_point="f", **hidden)
        for number in range(n)
    ]


HOSTILE = (
    "", "I cannot help with that.", "\x00\ud83d{[(<", "{" * 5000, '{"operations": [{"type": "ADD"}]}', "ADD: " * 2000,
    "<cheatsheet>", "ADD 1", "```json\nnull\n```", "- " * 3000, "EVOLVE: yes\nLINK: " + "9" * 5000,
    "TITLE: a\nCONTENT: b\n" * 300, "WORKFLOW: a\n" + "STEP: b\n" * 300,
    "EVOLVE: yes\n" + "NEIGHBOUR: 1\nTAGS: x\n" * 50,
)  # fmt: skip


@pytest.mark.parametrize("words", [*METHODS, "ace curator.variant=paper", "expel curator.variant=paper"])
def test_limits_hold_for_any_replies_and_the_log_rebuilds_memory(words):
    readable = (
        "Sort the list first.", "ADD 1: Use a set.", "EDIT 1: Use a list.", "REMOVE 1: a.", "AGREE 1: a.",
        "title: x\ndescription: y\ncontent: z", "WORKFLOW: a\nSTEP: b\nSTEP: c", "<cheatsheet>Sort first.</cheatsheet>",
        '{"key_insight": "x", "operations": [{"type": "ADD", "section": "OTHERS", "content": "Sort first."}]}',
    )  # fmt: skip

    def reply(n: int) -> str:
        rng = random.Random(f"{words}:{n}")
        return "\n".join(rng.choice(HOSTILE + readable) for _ in range(rng.randint(1, 6)))

    name, *more = words.split()
    limits = ("memory.shared.items.max_items=5", "memory.shared.items.max_tokens=200")
    memory, log = curated(name, Replies(reply), *more, *limits), []
    for number, task in enumerate(tasks(400)):
        updates = list(memory.learn(number, [loop(memory, task, passed=number % 3 > 0)]))
        log += updates
        assert len(memory.memory) <= 5
        shown = memory.selection(task).items if task.task_id.endswith("0") else ()
        for items, is_bank in ((memory.memory.items, False), (shown, True)):
            assert sum(estimated(i.text) for i in items if memory.memory.is_banked(i) == is_bank) <= 200
        assert all(update.digest for update in updates)
    assert any(update.operations for update in log)
    assert list(after((), log)) == list(memory.memory.items)


@pytest.mark.parametrize("name", METHODS)
def test_no_prompt_holds_hidden_tests_or_solutions(name):
    model = Replies(lambda n: "I cannot help with that")
    memory = curated(name, model)
    updates = list(memory.learn(0, [loop(memory, task, passed=n % 2 == 0) for n, task in enumerate(tasks(9))]))
    texts = [*model.prompts, *(item.text for item in memory.memory.items), repr(updates)]
    assert not [text for text in texts if "HIDDEN" in text or "SOLUTION" in text]
    assert bool(model.prompts) == takes("curator", plain(compose(f"curator={name}").curator), "model")


@pytest.mark.parametrize("name", NAMES)
def test_memory_does_not_depend_on_workers_and_survives_an_interruption(name, tmp_path, monkeypatch):
    def run(place: str, *overrides: str) -> RunFolder:
        carry_out(compose(*STREAM, f"curator={name}", f"run_root={tmp_path / place}", *overrides))
        (path,) = [path.parent for path in (tmp_path / place).glob("*/manifest.json")]
        return RunFolder(path)

    whole = run("one", "workers=1")
    expected = [_without_time(update) for update in whole.updates]
    assert [_without_time(update) for update in run("many", "workers=8").updates] == expected
    if not expected:
        assert name == "none"
        return
    stop = SimpleNamespace(left=len(expected) // 2 + 1)
    append = RunFolder.append

    def failing(folder, file, record):
        if file == "operations.jsonl":
            stop.left -= 1
            if not stop.left:
                raise ModelError("the server is gone")
        append(folder, file, record)

    monkeypatch.setattr(RunFolder, "append", failing)
    with pytest.raises(ModelError):
        run("killed", "workers=2")
    monkeypatch.undo()
    (folder,) = [path.parent for path in (tmp_path / "killed").glob("*/manifest.json")]
    before = RunFolder(folder).updates
    resumed = run("killed", f"resume={folder}")
    assert len(before) < len(expected)
    assert [_without_time(update) for update in resumed.updates] == expected
    assert after((), resumed.updates) == after((), whole.updates)
    assert rounds(resumed.updates)[-1].items == expected[-1].items


def _without_time(update):
    from msgspec.structs import replace

    return replace(update, usage=replace(update.usage, seconds=0.0))
