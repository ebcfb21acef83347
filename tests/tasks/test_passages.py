"""Questions over passages, played: what a search, a lookup and an answer do, and how such a play is graded."""

import json

import pytest
from msgspec.structs import replace

import reflexion_lab as rl
from reflexion_lab.agent.reflectors.evidence import describe
from reflexion_lab.cli.main import main
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Task
from reflexion_lab.tasks.environments.passages import UNKNOWN, Passages
from reflexion_lab.tasks.environments.replay import FAILED
from reflexion_lab.tasks.evaluators.answers import check_of
from reflexion_lab.tasks.evaluators.executed import executed
from reflexion_lab.tasks.evaluators.unit_tests import UnitTests
from reflexion_lab.text.replies.answers import extract_answer
from tests import builders as make
from tests.agent.actors.test_play import play, turn
from tests.builders import scripted

LIFE = ["She was born in Bergen.", "She studied.", "She taught.", "She wrote.", "She sang.", "Later she lived in Oslo."]
PASSAGES = [["Helgoland Suite", ["It is by Anna Vik."]], ["Anna Vik (composer)", LIFE], ["Bergen", ["A city."]]]


def question(task_id="q", **data) -> Task:
    return Task(
        task_id=task_id, prompt="Where was the composer of the Helgoland Suite born?", entry_point="", kind="answer",
        data={"passages": PASSAGES, **data}, hidden_tests=(check_of("exact", "Bergen"),), canonical_solution="Bergen",
    )  # fmt: skip


def observations(*actions):
    session = Passages().start(question())
    return [session.act(action).text for action in actions]


def test_a_search_shows_the_beginning_of_a_passage_and_a_lookup_finds_the_rest():
    texts = observations("Search[anna vik (Composer)]", "Lookup[OSLO]", "lookup[she]", "Lookup[she]", "Lookup[moon]")
    assert texts == [
        " ".join(LIFE[:5]),
        "(Result 1 / 1) Later she lived in Oslo.",
        "(Result 1 / 6) She was born in Bergen.",
        "(Result 2 / 6) She studied.",
        "There are no more results.",
    ]


def test_lookups_end_and_a_search_begins_them_again():
    texts = observations("Search[Helgoland Suite]", *["Lookup[by]"] * 2, "Search[Helgoland Suite]", "Lookup[by]")
    assert texts[1:] == ["(Result 1 / 1) It is by Anna Vik.", "There are no more results.", *texts[:2]]
    assert observations("Lookup[by]") == ["There is no passage yet: search for one."]


def test_a_search_without_its_title_names_similar_ones_the_nearest_first():
    (text,) = observations("Search[Vik, who sang in Bergen]")
    assert text == "There is no Vik, who sang in Bergen. Similar: [Anna Vik (composer); Bergen; Helgoland Suite]"


@pytest.mark.parametrize(("title", "shown"), [
    ("New York", "A state."), ("New York, New York", "A song."), ("new york new york", "A song."), ("!!!", "A band."),
    ("'New York'", "A state."), ("Cafe\u0301 de l\u2019Europe", "It can\u2019t close."),
])  # fmt: skip
def test_a_title_is_that_of_its_passage_before_one_of_equal_words(title, shown):
    names = {"New York, New York": "A song.", "New York": "A state.", "!!!": "A band."}
    names["Caf\u00e9 de l'Europe"] = "It can\u2019t close."
    session = Passages().start(question(passages=[[name, [text]] for name, text in names.items()]))
    assert session.act(f"Search[{title}]").text == shown
    assert session.act("Search[???]").text.startswith("There is no ???.")
    if "close" in shown:
        assert session.act('Lookup["can\'t close"]').text.startswith("(Result 1 / 1)")


@pytest.mark.parametrize(("action", "answer"), [
    ("Finish[Bergen]", "Bergen"), ("finish [ a [b] ]", "a [b]"), ("Finish(Oslo)", "Oslo"), ("Finish[Oslo", "Oslo"),
    ("Finish[St. John's].", "St. John's"), ("Finish[Oslo]</s>", "Oslo"),
    ("Finish[Oslo] since it is [1].", "Oslo"),
    ("**Finish[Oslo]**", "Oslo"), ("Finish[a (b)] (final answer)", "a (b)"), ("Finish(f(x))", "f(x)"),
    ("Finish[]", ""), ("Finish[ ]", ""), ("Finish()", ""),
    ("Finish", ""), ("Answer[Oslo]", ""), ("", ""),
])  # fmt: skip
def test_an_answer_ends_a_play(action, answer):
    observation = Passages().start(question()).act(action)
    assert (observation.answer, observation.is_over) == (answer, bool(answer))
    assert observation.is_success is False  # the right answer is in no world
    assert observation.text == (f"You answered: {answer}" if answer else UNKNOWN)


def test_a_play_submits_its_answer_and_says_how_to_search():
    trajectory, model = play(turn("Search[Bergen]"), turn("Finish[Bergen]"), task=question(), environment=Passages())
    assert (trajectory.solution, trajectory.extraction, trajectory.ended) == ("Bergen", "finish", "over")
    head = model.received[0][0].content
    assert "Search[title] shows" in head
    assert "Helgoland Suite born?" in head
    assert "world" not in head
    assert "She was born" not in head


@pytest.mark.parametrize("reply", [
    "Finish[Bergen]", "I know it.\n**Finish[Bergen]**", "Thought: So.\nAction:\nFinish[Bergen]",
    "Thought: So. Action: Finish[Bergen] Observation: Correct.", "Action: Finish[Bergen]<|im_end|>",
    "Action: Finish[Bergen]</s></s>",
])  # fmt: skip
def test_an_answer_is_read_from_replies_as_models_write_them(reply):
    trajectory, _ = play(reply, task=question(), environment=Passages())
    assert (trajectory.solution, len(trajectory.steps)) == ("Bergen", 1)


@pytest.mark.parametrize(("turns", "why"), [
    ([turn("Search[Bergen]"), turn("Lookup[a]")] * 4, "all turns were taken"),
    ([turn("Search[Bergen]")], "the same action gave the same observation three times"),
])  # fmt: skip
def test_a_play_without_an_answer_is_told_how_it_ended(turns, why):
    trajectory, _ = play(*turns, task=question(), environment=Passages())
    verdict = UnitTests(None).evaluate(replace(question(), visible_tests=question().hidden_tests), trajectory)
    assert (verdict.outcome, verdict.feedback) == ("extraction_failed", f"No answer was given: {why}.")
    attempt = make.attempt(acted={"solution": ""}, trajectory=trajectory, evaluation=verdict)
    assert describe(attempt, None) == f"my {len(trajectory.steps)} turns ended without an answer: {why}"


def test_a_play_without_an_answer_fails_and_that_of_a_world_that_fails_has_no_verdict():
    unfinished, _ = play(turn("Search[Bergen]"), turn("Lookup[a]"), task=question(), environment=Passages())
    assert (unfinished.solution, unfinished.extraction) == ("", "none")
    lost, model = play(turn("Finish[Bergen]"), task=replace(question(), data={}), environment=Passages())
    assert (lost.solution.startswith(FAILED), lost.ended, model.received) == (True, "world_failed", [])
    (check,) = executed(question(), lost.solution, question().hidden_tests, None).checks
    assert check.outcome == "harness_error"
    assert "KeyError: 'passages'" in check.message
    assert "Bergen" not in check.name


@pytest.mark.parametrize("reply", [f"Answer: {FAILED}", f"Answer:\n{FAILED}", f"Answer:\n```\n{FAILED}\n```", FAILED])
def test_no_reply_takes_its_answer_out_of_the_rate(reply):
    answer = extract_answer(reply, question()).program
    acted, _ = play(turn(f"Finish[{FAILED.strip()}]"), task=question(), environment=Passages())
    for solution in (answer, acted.solution):
        (check,) = executed(question(), solution, question().hidden_tests, None).checks
        assert check.outcome == "fail"


def rows_of(folder, n=6):
    path = folder / "rows.jsonl"
    rows = [
        {"_id": f"q{i}", "question": f"Who wrote suite {i}?", "answer": f"Vik {i}", "context": PASSAGES}
        for i in range(n)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "experiment=hotpotqa", f"benchmark={path}", "tracker=none"


def test_the_experiment_plays_rows_as_those_of_hotpotqa(tmp_path, capsys):
    given = (*rows_of(tmp_path), "model=simulated")
    with (tmp_path / "rows.jsonl").open("a") as file:
        file.write(json.dumps({"_id": "q6", "question": "Who has no passages?", "answer": "Nobody"}) + "\n")
    with pytest.raises(ConfigError, match=r"environment: got Passages and 1 task without passages, such as q6"):
        rl.run(*given, run_root=tmp_path, quiet=True)
    result = rl.run(*given, "benchmark.keep_failing=true", run_root=tmp_path, quiet=True)
    assert result.summary.no_verdict == ("q6",)
    assert (result.summary.is_upper_bound, result.summary.pass_at_1.n) == (True, 6)
    attempts = [attempt for name, each in result.log.attempts.items() if name != "q6" for attempt in each]
    assert {attempt.trajectory.solution in {f"Vik {n}" for n in range(6)} for attempt in attempts} == {True, False}
    assert all((a.trajectory.solution in a.trajectory.steps[-1].action) for a in attempts)
    assert main(["show", str(result.folder.path), "q0"]) == 0
    assert "Search[Helgoland Suite]" in capsys.readouterr().out


@pytest.mark.parametrize(("reply", "warns"), [("I look for it.", True), (turn("Finish[Oslo]"), False)])
def test_plays_whose_replies_have_no_action_are_named_first(tmp_path, capsys, reply, warns):
    given = (*rows_of(tmp_path, 1), "reflector=none", "loop.max_attempts=2", *scripted(tmp_path, reply=reply))
    result = rl.run(*given, run_root=tmp_path, quiet=True)
    assert main(["show", str(result.folder.path)]) == 0
    first = capsys.readouterr().out.split("\n")[0]
    assert first.startswith("NO ACTION: 6 of 6 turns" if warns else "UPPER BOUND")


def test_plays_agree_by_their_answers_and_a_single_one_has_no_verdict(tmp_path):
    given = (
        *rows_of(tmp_path),
        "evaluator=self_consistency",
        "feedback_source=none",
        "loop.max_attempts=1",
        "reflector=none",
    )
    voted = ("actor=candidates", "actor@actor.actor=play", "actor.rule=vote", "actor.n=3")
    result = rl.run(*given, *voted, "model=simulated", "model.first=1", run_root=tmp_path, quiet=True)
    verdicts = [attempt.evaluation for attempts in result.log.attempts.values() for attempt in attempts]
    assert {(verdict.passed, verdict.reward) for verdict in verdicts} == {(True, 1.0)}
    single = rl.run(*given, "model=simulated", run_root=tmp_path, quiet=True)
    assert {each[0].evaluation.outcome for each in single.log.attempts.values()} == {"no_tests"}


def test_a_simulated_play_is_of_its_own_question_whatever_memory_shows(tmp_path):
    given = (*rows_of(tmp_path), "model=simulated", "model.first=1", "model.spread=0")
    result = rl.run(*given, "curator=full_history", "memory.shared.round_size=1", run_root=tmp_path, quiet=True)
    assert result.summary.pass_at_1.k == 6
    assert any(attempt.recalled_items for attempts in result.log.attempts.values() for attempt in attempts)


def test_plays_that_differ_in_a_turn_alone_are_not_the_same_calls(tmp_path, capsys):
    given, folders = rows_of(tmp_path, 1), []
    for word in ("suite", "moon"):
        step, end = turn(f"Lookup[{word}]"), turn("Finish[Oslo]")
        model = scripted(tmp_path, {"when": "Observation:", "scope": "conversation", "reply": end}, reply=step)
        arm = (f"arm={word}", "loop.max_attempts=1", "reflector=none", *model)
        folders.append(str(rl.run(*given, *arm, run_root=tmp_path, quiet=True).folder.path))
    assert main(["compare", *folders]) == 0
    assert "SAME CALLS" not in capsys.readouterr().out
