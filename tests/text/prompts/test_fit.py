"""How much of memory enters a prompt: the bound, the order, and what is said of the rest."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reflexion_lab.records import Mistake, Recollection, Wisdom
from reflexion_lab.text.prompts.render import VARIANTS, Prompts
from reflexion_lab.text.shorten import estimated
from tests import builders as make

TEXT = st.text(st.sampled_from("abcdefgh ijklm NOP \n\t.,()[]`'\"{}%#01239λ数\0"), max_size=400)
STEADY = settings(
    max_examples=150, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)


@st.composite
def memories(draw):
    def episode(name, task_id):
        texts = {key: draw(TEXT) for key in ("root_cause", "what_went_wrong", "what_to_change")}
        return make.episode(
            episode_id=name, task_id=task_id, task_description=draw(TEXT), code=f"code of {name} {draw(TEXT)}",
            test_results=f"[{name}] {draw(TEXT)}",
            reflection=make.reflection(reflection_id=name, **texts) if draw(st.booleans()) else None,
        )  # fmt: skip

    others, own, lessons = (draw(st.integers(0, 3)) for _ in range(3))
    return Recollection(
        others=tuple(episode(f"other{n}", "other") for n in range(others)),
        own=tuple(episode(f"own{n}", "t") for n in range(own)),
        wisdom=tuple(
            Wisdom(wisdom_id=f"wise{n}", pattern=f"[wise{n}]" + draw(TEXT), frequency=2, impact=0.1, domain="code")
            for n in range(lessons)
        ),
        mistakes=tuple(
            Mistake(
                mistake_id=f"bad{n}", task_id="o", prompt=draw(TEXT), prompt_hash="", mistake=f"[bad{n}] " + draw(TEXT),
                severity=1.0,
            )
            for n in range(lessons)
        ),
        insights=tuple(f"[insight{n}] {draw(TEXT)}" for n in range(lessons)),
        session=draw(st.sampled_from(["", "[session] so far"])),
        stuck=draw(st.sampled_from(["", "The last 2 attempts were the same program."])),
    )  # fmt: skip


@STEADY
@given(
    memory=memories(),
    prompt=TEXT,
    context=st.integers(300, 8192),
    reply=st.integers(0, 1024),
    name=st.sampled_from(["solve", "continue_solve"]),
    variant=st.sampled_from(VARIANTS),
    examples=st.integers(0, 3),
)
def test_a_prompt_fits_its_room_unless_the_task_does_not(memory, prompt, context, reply, name, variant, examples):
    prompts, space, about = Prompts(variant, examples), max(context - reply, 0), {"prompt": prompt}
    fitted = prompts.fit(name, space, memory, **about)
    bare = Recollection(stuck=memory.stuck)
    least = Prompts(variant).render(name, memory=bare, **about)
    assert estimated(fitted.text) <= max(space, estimated(least))
    ids = [episode.episode_id for episode in memory.episodes]
    ids += [entry.wisdom_id for entry in memory.wisdom] + [entry.mistake_id for entry in memory.mistakes]
    newest = {each.episode_id: ["Attempt 1 failed. ", *dict(each.statements).values()] for each in memory.own[-1:]}
    in_part = {name for name, words in newest.items() if any(text in fitted.text for text in words)}
    marks = {item: f"[{item}]" for item in ids} | {insight: insight.split()[0] for insight in memory.insights}
    unmarked = {item for item, mark in marks.items() if mark not in fitted.text}
    assert unmarked >= set(fitted.left_out) >= unmarked - in_part
    assert prompts.fit(name, None, memory, **about) == (prompts.render(name, memory=memory, **about), (), ())


def episode(name, size, task_id="t"):
    return make.episode(episode_id=name, task_id=task_id, code="x" * 8, test_results="1" * size, reflection=None)


MEMORY = Recollection(
    others=(episode("far", 60, "o"), episode("near", 60, "o")),
    own=(episode("old", 60), episode("new", 60)),
    wisdom=(Wisdom(wisdom_id="wise", pattern="1" * 60, frequency=2, impact=0.1, domain="code"),),
    mistakes=(Mistake(mistake_id="bad", task_id="o", prompt="q", prompt_hash="", mistake="1" * 60, severity=1.0),),
    insights=("older insight" + "1" * 60, "newer insight" + "1" * 60),
    session="the session" + "1" * 60,
)
ORDER = ["new", "old", "near", "far", "wise", "bad", "newer insight", "older insight", "the session", "last_vowel"]
ABOUT = {"prompt": "def f(): ..."}


def kept(fitted):
    named = [name for name in ORDER[:6] if name not in fitted.left_out]
    return named + [words for words in ORDER[6:] if words in fitted.text]


def test_the_most_needed_comes_first():
    prompts, orders = Prompts(examples=1), []
    whole = estimated(prompts.render("solve", memory=MEMORY, **ABOUT))
    for space in (*range(0, whole, 5), whole):
        names = kept(prompts.fit("solve", space, MEMORY, **ABOUT))
        if names not in orders:
            orders.append(names)
    assert [names[-1] for names in orders if names == ORDER[: len(names)] and names] == ORDER
    assert orders[0] == [] and orders[-1] == ORDER


def test_what_does_not_fit_is_skipped_and_what_is_shown_keeps_its_order():
    memory = replace(MEMORY, others=(), own=(episode("small", 20), episode("large", 800), episode("new", 20)))
    fitted = Prompts().fit("solve", 250, memory, **ABOUT)
    assert "large" in fitted.left_out and not {"small", "new"} & set(fitted.left_out)
    space = estimated(Prompts().render("solve", memory=replace(MEMORY, session="", insights=()), **ABOUT))
    text = Prompts().fit("solve", space, MEMORY, **ABOUT).text
    assert text.count("similar task, which") == 2
    assert text.rindex("similar task, which") < text.rindex("\nAttempt 1:")


@pytest.mark.parametrize("name", ["solve", "continue_solve"])
def test_the_newest_own_episode_is_shortened_and_not_skipped(name):
    words = make.reflection(root_cause="the cause", what_went_wrong="the symptom", what_to_change="the change")
    code = "def f():\n" + "".join(f"    x = {n}\n" for n in range(200)) + "    return x"
    memory = Recollection(own=(replace(episode("new", 300), code=code, reflection=words),))
    prompts, whole = Prompts(), Prompts().render(name, memory=memory, **ABOUT)
    bare = estimated(prompts.render(name, memory=Recollection(), **ABOUT))
    for space in range(bare + 100, estimated(whole), 11):  # an excerpt grows by whole lines, of several tokens each
        fitted = prompts.fit(name, space, memory, **ABOUT)
        assert "the change" in fitted.text and not fitted.left_out
        assert estimated(fitted.text) <= space
        if "def f():\n    x = 0" in fitted.text.partition("def f(): ...")[2]:
            assert "1" * 300 in fitted.text, "the program gives way before the results"


@pytest.mark.parametrize("words", ["What to change: return the length", "expected 3, got 4"])
@pytest.mark.parametrize("name", ["solve", "continue_solve", "think", "react"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_without_room_for_its_frame_one_line_says_what_to_change(variant, name, words):
    newest = replace(episode("new", 0), code="x = 1\n" * 60, test_results=words)
    if change := words.partition(": ")[2]:
        newest = replace(newest, reflection=make.reflection(what_went_wrong="w " * 99, what_to_change=change))
    prompts, about = Prompts(variant), {**ABOUT, "max_steps": 3, "transcript": ""}
    line = f"Attempt 1 failed. {words}"
    least = estimated(prompts.render(name, memory=Recollection(hint=line), **about))
    for space in (least, least + 3):
        text, left_out, _ = prompts.fit(name, space, Recollection(own=(newest,)), **about)
        assert line in text and not left_out and estimated(text) <= space
    passed = replace(newest, passed=True)
    assert prompts.fit(name, least, Recollection(own=(passed,)), **about).left_out == ("new",)


def test_a_task_that_is_too_long_alone_is_left_as_it_is():
    fitted = Prompts(examples=3).fit("solve", 10, MEMORY, **{**ABOUT, "prompt": "word " * 100})
    assert fitted.text == Prompts().render("solve", memory=Recollection(), **{**ABOUT, "prompt": "word " * 100})
    assert fitted.left_out == tuple(sorted((*MEMORY.insights, "bad", "far", "near", "new", "old", "wise")))


SEARCH = 5
"""Renders that look for the longest of a text of so few characters, itself included."""


def test_a_tight_fit_needs_few_renders(monkeypatch):
    count, render = [], Prompts.render
    monkeypatch.setattr(Prompts, "render", lambda *args, **more: count.append(1) or render(*args, **more))
    Prompts(examples=1).fit("solve", 200, MEMORY, **ABOUT)
    assert len(count) <= len(ORDER) + 3 + 3 * SEARCH
