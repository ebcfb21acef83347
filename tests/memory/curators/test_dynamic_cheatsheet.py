"""Dynamic Cheatsheet: traces worked by hand from its rules."""

import json
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from reflexion_lab.cli import main as cli
from reflexion_lab.memory.curators.controls import Filler, Shuffled
from reflexion_lab.memory.curators.curated import CuratedMemory
from reflexion_lab.memory.curators.dynamic_cheatsheet import PAGE, PAIRS, DynamicCheatsheet
from reflexion_lab.memory.curators.items import ItemLimits, ItemMemory, rebuilt
from reflexion_lab.memory.retrieval.jaccard import Jaccard
from reflexion_lab.records import Batch, Item, Sampling, Selection, Task, Usage
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.text.shorten import estimated
from tests import builders
from tests.memory.curators.conftest import Scripted, loop

LONG = "word " * 300


def curator(model, **options):
    return DynamicCheatsheet(model, Sampling(), Jaccard(), **options)


CUMULATIVE = [
    *yaml.safe_load((Path(__file__).parent / "cheatsheet_pages.yaml").read_text()),
    ("<cheatsheet>" * 1000, None), (f"<cheatsheet>{LONG}</cheatsheet>", "T"),  # beyond the limit: refused
]  # fmt: skip


def test_cumulative_rewrites_the_page_after_each_task():
    model = Scripted(*(reply for reply, _ in CUMULATIVE))
    method, memory, page = curator(model), ItemMemory((), ItemLimits(max_tokens=200)), ""
    for number, (reply, after) in enumerate(CUMULATIVE):
        (batch,) = method.due([loop(f"t/{number}", True)])
        curation = method.curate(memory.items, batch)
        assert f"The cheatsheet so far:\n```text\n{page or '(empty)'}\n```" in model.prompts[-1]
        memory.apply(curation.operations, reply)
        page = after or page
        assert [item.text for item in method.select(memory.items, batch.finished[0].task).items] == [page] * bool(page)
        assert curation.unreadable == (after is None), reply
    assert len(memory) == 1


def test_a_page_that_was_cut_leaves_the_old_one():
    """The released code takes over what there is, and loses the rest of the page in silence."""
    page = Item(item_id=PAGE, text="Sort first.")
    model = Scripted("<cheatsheet>\nSort first. Then sea")
    model.finish_reason = "length"
    curation = curator(model).curate((page,), Batch(finished=(loop("a", True),)))
    assert (curation.operations, curation.unreadable) == ((), 1)
    assert "below 307 words" in model.prompts[0]


def test_a_control_keeps_the_page_that_was_written_and_shows_another():
    replies = ["<cheatsheet>Sort first.</cheatsheet>"] * 2
    for control in (Filler, Shuffled):
        memory = CuratedMemory(control(curator(Scripted(*replies), variant="retrieval_synthesis")), ItemLimits())
        list(memory.learn(0, [loop("sort a", True, prompt="sort a list")]))
        task = Task(task_id="sort b", prompt="sort b list", entry_point="f")
        selection = memory.selection(task)
        assert [item.text for item in selection.written] == ["Sort first."]
        assert "Sort first." not in [item.text for item in selection.items]
        attempt = builders.attempt(task_id="sort b", written_items=selection.written)
        list(memory.learn(1, [memory.finished(task, [attempt])]))
        assert "Sort first." in [item.text for item in memory.memory.items]


def test_neither_prompt_nor_pair_shows_a_verdict_or_hints_at_one():
    judged = builders.attempt(
        number=2, judged={"feedback": "assert f(1) == 2 failed"}, reflection=builders.reflection()
    )
    batch = Batch(finished=(replace(loop("t/1", False), attempts=(judged,)),))
    model = Scripted("<cheatsheet>A</cheatsheet>")
    curator(model).curate((), batch)
    (pair,) = curator(model, variant="retrieval_synthesis").curate((), batch).operations
    for text in (model.prompts[0], pair.text):
        assert f"Program:\n{builders.ADD.strip()}" in text
        assert not any(word in text for word in ("passed", "failed", "tested", "Attempt", "f(1) == 2", "cause 1"))


def prompted(name, words):
    return Task(task_id=name, prompt=words, entry_point="f")


def finished_after(selection, name, words, calls=1):
    """A loop whose actor read `selection`, as the lab records it."""
    first = loop(name, True, prompt=words)
    written = tuple(item for item in selection.items if item.item_id != PAGE)
    usage = Usage(calls=calls)
    attempts = (replace(first.attempts[0], written_items=written, selection_usage=usage),)
    return Batch(finished=(replace(first, attempts=attempts, shown=selection.items),))


def test_retrieval_synthesis_writes_the_page_before_each_task():
    """By hand: t/1 finds no pair; t/2 writes A; t/3 is unreadable and reads A; t/4 writes B from three pairs."""
    model = Scripted("<cheatsheet>A</cheatsheet>", "No page.", "<cheatsheet>B</cheatsheet>")
    method, memory = curator(model, variant="retrieval_synthesis"), ItemMemory()
    stream = [("t/1", "sum a list"), ("t/2", "sum two lists"), ("t/3", "sum of a set"), ("t/4", "sum all lists")]
    trace = []
    for name, words in stream:
        calls = len(model.prompts)
        selection = method.select(memory.items, prompted(name, words))
        batch = finished_after(selection, name, words, len(model.prompts) - calls)
        curation = method.curate(memory.items, batch)
        memory.apply(curation.operations, name)
        page = memory.get(PAGE)
        trace.append(([i.text for i in selection.items], page and page.text, len(memory), curation.unreadable))
    assert trace == [([], None, 1, 0), (["A"], "A", 3, 0), (["A"], "A", 4, 1), (["B"], "B", 5, 0)]
    assert [prompt.count("Earlier task") for prompt in model.prompts] == [1, 2, 3]
    assert all(words in prompt for (_, words), prompt in zip(stream[1:], model.prompts, strict=True))
    assert not any("passed" in prompt for prompt in model.prompts)
    assert [item.item_id for item in memory.items if item.section != PAIRS] == [PAGE]


def test_limits_remove_the_oldest_pairs_and_never_the_page():
    method = curator(Scripted(), variant="retrieval_synthesis")
    page = Item(item_id="page-1", text="Keep this page.")
    memory = ItemMemory((), ItemLimits(max_tokens=64))
    for number in range(5):
        selection = Selection(items=(page,) if number == 0 else ())
        batch = finished_after(selection, f"t/{number}", f"about number {number}", calls=0)
        memory.apply(method.curate(memory.items, batch).operations, str(number))
        assert memory.tokens <= 64
    assert (memory.items[0].item_id, memory.items[0].text) == (PAGE, page.text)
    assert [item.sources for item in memory.items[1:]] == [("t/3",), ("t/4",)]


def test_a_prompt_fits_the_context_of_the_model():
    model = Scripted("<cheatsheet>A</cheatsheet>")
    model.context = 1400
    pairs = [Item(item_id=str(n), text=f"{n} {LONG}", key="sum", section=PAIRS) for n in range(3)]
    curator(model, variant="retrieval_synthesis").select(pairs, prompted("t/9", "sum"))
    assert estimated(model.prompts[0]) + Sampling().max_tokens <= model.context


@pytest.mark.parametrize(("limit", "is_shown"), [(100, False), (400, True), (0, True)])
def test_a_page_that_was_written_before_a_task_keeps_the_limit_of_memory(tmp_path, limit, is_shown):
    """Replies of 300 words: beyond a limit of 100 tokens, no actor reads them, memory lacks them, and they count."""
    rules = [
        {"when": "cheatsheet that helps", "reply": f"<cheatsheet>{LONG}</cheatsheet>"},
        {"when": "", "scope": "conversation", "reply": "```python\nno = 1\n```"},
    ]
    (tmp_path / "script.json").write_text(json.dumps(rules))
    stream = (
        "model=scripted", f"model.path={tmp_path / 'script.json'}", "actor=single_shot", "reflector=none",
        "loop.max_attempts=1", "benchmark.limit=4", "memory.shared.round_size=1", "tracker=none", "quiet=true",
        "curator=dynamic_cheatsheet", "curator.variant=retrieval_synthesis", "curator.max_chars=100",
        f"memory.shared.items.max_tokens={limit}", f"run_root={tmp_path / 'runs'}",
    )  # fmt: skip
    assert cli.main(["run", *stream]) == 0
    (manifest,) = (tmp_path / "runs").glob("*/manifest.json")
    folder = RunFolder(manifest.parent)
    attempts = list(folder.each_attempt())
    assert sum(attempt.selection_usage.calls for attempt in attempts) == 3
    assert any("word word" in message.content for a in attempts for message in a.trajectory.messages) is is_shown
    operations = [operation for update in folder.updates for operation in update.operations]
    assert (PAGE in {item.item_id for item in rebuilt((), operations)}) is is_shown
    assert sum(update.unreadable for update in folder.updates) == (0 if is_shown else 3)
    assert not any(update.refused for update in folder.updates)
