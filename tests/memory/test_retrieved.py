"""What a search retrieved can be looked at: in the record, on the screen, on the run page and in frames."""

import re

import pytest

import reflexion_lab as rl
from reflexion_lab.cli.main import main
from reflexion_lab.runner.config.check import arm_warnings
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.tasks.benchmarks.basics import basics
from reflexion_lab.text.replies.tokens import tokens

RUN = ("experiment=reflexion", "benchmark=basics", "benchmark.limit=10", "model=simulated", "model.first=0.3",
       "model.repair=0.3", "memory.shared.round_size=2", "tracker=none", "recall.max_tokens=3000")  # fmt: skip
SHOWN = "memory.shared.shown={mistakes: 2, wisdom: 2, insights: 3, max_tokens: 3000}"
PROMPTS, MISTAKE = {task.task_id: task.prompt for task in basics()}, re.compile(r"/(basics/.*/\d+)-")
INSIGHTS = re.compile(r"Key insights so far:\n((?:- .*\n?)+)")
ARMS = {
    "episodes": (("recall=window_then_similar", "recall.min_score=0.1", "recall.k=2"), "Jaccard", {"ep"}),
    "lessons": (("recall=window", SHOWN), "Jaccard", {"mistake", "wis"}),
    "lessons that hardly fit": (("recall=window", SHOWN.replace("3000", "60")), "Jaccard", {"wis"}),
    "the curator's": (("recall=window", "curator=raw_trajectories", "retriever=bm25"), "BM25", {"item"}),
    "both": (("recall=similar", "recall.min_score=0", "retriever=random", SHOWN), "Random", {"ep", "mistake", "wis"}),
    "none": (("recall=window",), "", set()),
}


@pytest.mark.parametrize("arm", ARMS)
def test_each_retrieved_item_stands_with_its_place_and_query(arm, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    words, retriever, kinds = ARMS[arm]
    run = rl.run(*RUN, *words, quiet=True)
    every = [attempt for attempts in RunFolder(run.path).attempts.values() for attempt in attempts]
    prefixes = set()
    for attempt in every:
        names = (attempt.recalled, attempt.recalled_wisdom, attempt.recalled_mistakes, attempt.recalled_items)
        for item in attempt.retrieved:
            assert item.item_id in sum(names, ()) and item.item_id not in attempt.trajectory.left_out
            assert item.retriever == retriever and 0 < item.score <= 1 and item.rank >= 1 and item.text
            prefixes.add(kind := item.item_id.partition("-")[0])
            if (kind, retriever) == ("mistake", "Jaccard"):
                of, asked = {*tokens(PROMPTS[MISTAKE.search(item.item_id)[1]])}, {*tokens(item.query)}
                assert item.score == pytest.approx(len(of & asked) / len(of | asked), abs=1e-6)
        prompt = "\n".join(message.content for message in attempt.trajectory.messages)
        listed = [line[2:] for block in INSIGHTS.findall(prompt) for line in block.splitlines()]
        assert listed == [*attempt.recalled_insights]
    assert kinds == {prefix if prefix in ("ep", "mistake", "wis") else "item" for prefix in prefixes}
    read = max(every, key=lambda attempt: (len(attempt.retrieved), len(attempt.recalled_insights)))
    assert main(["show", str(run.path), read.task_id]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(lines).split())
    page = rl.view(run, task=read.task_id)._repr_html_()
    for item in read.retrieved:
        place = f"rank {item.rank}, score {item.score:.2f}"
        assert place in text and place in page and f"query ({retriever}): " in text
    assert all(" ".join(insight.split())[:40] in text for insight in read.recalled_insights)
    lacking = [a.trajectory.left_out for a in every if a.task_id == read.task_id and a.trajectory.left_out]
    assert all(f"no room in the prompt ({len(ids)}): {' '.join(ids[0].split())[:40]}" in text for ids in lacking)
    is_named = "no room in the prompt" in text
    assert ("no room in the prompt" in page) == is_named == bool(lacking) == (arm == "lessons that hardly fit")
    assert rl.load(run).attempts.left_out.sum() == sum(len(attempt.trajectory.left_out) for attempt in every)
    memory = rl.load(run, texts=True).memory
    assert int(memory["rank"].notna().sum()) == sum(len(attempt.retrieved) for attempt in every)
    assert set(memory["query"].dropna()) == {item.query for attempt in every for item in attempt.retrieved}
    foreign = memory[(memory.source_task != memory.task_id) & memory.source_task.notna()]
    assert bool(len(foreign)) == bool(kinds & {"ep", "mistake"})


def test_text_and_place_of_another_runs_items_are_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    stored = (*RUN, "store=jsonl", "store.place=memory", "recall=similar", "recall.min_score=0")
    rl.run(*stored, quiet=True)
    run = rl.run(*stored, "seed=1", "memory.shared.round_size=16", quiet=True)
    attempt = next(attempts[0] for attempts in RunFolder(run.path).attempts.values() if attempts[0].retrieved)
    assert main(["show", str(run.path), attempt.task_id]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert f"score {attempt.retrieved[0].score:.2f}: {attempt.retrieved[0].text[:30]}" in text


@pytest.mark.parametrize(
    ("retriever", "min_score", "says"),
    [("bm25", 0.25, "27 %"), ("embedding", 0.25, "every query"), ("hybrid", 0.25, "every query"),
     ("random", 0.25, "ranks"), ("jaccard", 0.25, ""), ("tfidf", 0.25, ""), ("bm25", 0.1, ""), ("recency", 0, "")],
)  # fmt: skip
def test_a_threshold_meant_for_jaccard_has_a_line(retriever, min_score, says):
    config = compose(f"retriever={retriever}", f"recall.min_score={min_score}", "recall=similar")
    lines = [line for line in arm_warnings(RunConfig.of(config)) if line.startswith("recall.min_score: ")]
    assert len(lines) == bool(says) and all(says in line for line in lines)
