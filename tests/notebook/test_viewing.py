from html.parser import HTMLParser

import msgspec
import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.report import pieces as views
from reflexion_lab.errors import FolderError
from reflexion_lab.notebook.run import by_hand
from reflexion_lab.notebook.view import view
from reflexion_lab.records import OUTCOMES, Check, Critique, Grade, Message, Step, Usage
from tests import builders

HOSTILE = "</pre></details></div><script>alert(1)</script><img src=x onerror='alert(2)'>\"&amp;"
TAGS = {"div", "span", "b", "i", "mark", "pre", "details", "summary"}


class Reader(HTMLParser):
    """What a browser would make of a view: its tags, its text, and the text of every `pre` and `mark`."""

    def __init__(self, view):
        super().__init__()
        self.tags, self.attributes, self.stack, self.text = set(), set(), [], ""
        self.unfolded = []
        self.inside = {"pre": [], "mark": [], "summary": []}
        self.feed(view.html)
        self.close()
        assert self.stack == [], f"left open: {self.stack}"

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.unfolded += [len(self.inside["summary"])] if ("open", None) in attrs else []
        self.attributes |= {name for name, _ in attrs}
        self.stack.append(tag)
        if tag in self.inside:
            self.inside[tag].append("")

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        self.text += data
        for tag in set(self.stack) & set(self.inside):
            self.inside[tag][-1] += data

    @property
    def words(self):
        return " ".join(self.text.split())


FAILED = Check(name="assert f(1) == 2", outcome="fail", message="expected 2, got 1", expected="2", actual="1")


def attempt(number=1, solution="def f(x):\n    return x\n", checks=(FAILED,), output="", **fields):
    """`reply` and `messages` are fields of its trajectory."""
    failing = [check for check in checks if check.outcome != "pass"]
    outcome = failing[0].outcome if failing else "pass"
    acted = {"solution": solution, "reply": fields.pop("reply", "the reply"), "extraction": "function"}
    acted |= {"messages": fields.pop("messages", (Message(role="user", content="the prompt"),))}
    return builders.attempt(
        *checks,
        number=number,
        task_id="own/f",
        judged={"outcome": outcome, "reward": 1 - len(failing) / len(checks), "output": output},
        acted=acted | {"usage": Usage(calls=1, prompt_tokens=30, completion_tokens=7)},
        **fields,
    )


def words(source="llm", **fields):
    texts = {"root_cause": "the cause", "what_went_wrong": "the harm", "what_to_change": "the fix"}
    return builders.reflection(**texts | {"source": source, "confidence": 0.85, "category": "assertion"} | fields)


def working(attempt, *steps, **fields):
    """The attempt, by an actor of several turns."""
    return replace(attempt, trajectory=replace(attempt.trajectory, steps=steps, **fields))


def turn(number, **fields):
    """A turn that receives all that came before it, as a conversation does."""
    items = tuple(Message(role="user", content=f"message {n}") for n in range(1, number + 1))
    usage = Usage(calls=1, prompt_tokens=10 * number, completion_tokens=5)
    return Step(**{"messages": items, "reply": f"reply {number}", "usage": usage} | fields)


HEARD = Message(role=HOSTILE, content=HOSTILE)
SAID_MORE = {"what_worked": HOSTILE, "key_insight": HOSTILE, "lessons": (HOSTILE,), "action_items": (HOSTILE,)}
SAID_MORE |= {"flags": (HOSTILE,), "confidence_source": HOSTILE}
PASSED = attempt(2, "def f(x):\n    return x + 1\n", (Check(name="assert f(1) == 2", outcome="pass"),))


def test_hostile_text_stays_text(task):
    hostile = attempt(
        solution=HOSTILE,
        checks=(
            Check(name=HOSTILE, outcome=HOSTILE, error_type=HOSTILE, message=HOSTILE),
            Check(name=f"passing {HOSTILE}", outcome="pass"),
        ),
        reply=HOSTILE,
        messages=(Message(role=HOSTILE, content=HOSTILE),),
        recalled=(HOSTILE,),
        output=HOSTILE,
        stop_reason=HOSTILE,
        reflection=words(HOSTILE, root_cause=HOSTILE, problem=HOSTILE, text=HOSTILE, **SAID_MORE),
    )
    critique = Critique(severity=0.5, issues=(HOSTILE,), suggestions=(HOSTILE,), source=HOSTILE, messages=(HEARD,))
    step = Step(thought=HOSTILE, action=HOSTILE, observation=HOSTILE, error=HOSTILE, critique=critique, reply=HOSTILE)
    hostile = working(hostile, step, ended=HOSTILE, left_out=(HOSTILE,), model=HOSTILE, status=HOSTILE)
    hostile = working(hostile, *hostile.trajectory.steps, others={HOSTILE: Usage(calls=1)}, finish_reason=HOSTILE)
    changed = replace(hostile, number=2, trajectory=replace(hostile.trajectory, solution=HOSTILE + "!"))
    views_of_all = (
        view([hostile, changed]) + view({HOSTILE: hostile.reflection, f"{HOSTILE}2": None}) + view({HOSTILE: [hostile]})
    )
    views_of_all += view(replace(task, prompt=HOSTILE, task_id=HOSTILE, tags=(HOSTILE,), visible_tests=(HOSTILE,)))
    read = Reader(views_of_all)
    assert read.tags <= TAGS and read.attributes <= {"style", "open", "class", "title"}
    assert read.text.count(HOSTILE) > 70


@pytest.mark.parametrize("unseen", ["\x1b[31m", "\x00", "\r", "\u202e", "\u200b", "\u2028", "\ud800", "\x7f", "\x9b"])
def test_what_no_eye_can_see_is_spelt_out(unseen):
    spelt = unseen.encode("unicode_escape").decode()
    read = Reader(view(attempt(solution=f"x = 1{unseen}", output=f"x{unseen}", reply=unseen)))
    assert unseen not in read.text and read.text.count(spelt) == 3
    read.text.encode()


def test_a_task_view_holds_no_secret(task):
    read = Reader(view(task))
    assert "assert double(2) == 4" in read.text and "-6" not in read.text
    assert task.canonical_solution.strip() not in read.text


def test_a_program_has_the_line_numbers_that_errors_name_and_a_missing_one_is_named():
    text = "\n\n  if x:\n\ty = 'Größe 大小 ≤ 😀'\n"
    read = Reader(view(attempt(solution="\n\ndef f(x):\n\n    return x\n", reply=text)))
    lines = read.inside["pre"][0].splitlines()
    assert [line.split(maxsplit=1) for line in lines] == [["3", "def f(x):"], ["4"], ["5", "return x"]]
    assert text in read.text
    for before in (None, attempt(1), attempt(1, "")):
        assert "none in the reply" in Reader(view(attempt(2, ""), before=before)).words
    read = Reader(view(PASSED, before=attempt(1, "")))
    assert "return x + 1" in read.inside["pre"][0] and "against" not in read.words


def test_a_retry_is_shown_as_its_difference():
    read = Reader(view(PASSED, before=attempt()))
    lines = read.inside["pre"][0].splitlines()
    assert [" ".join(line.split()) for line in lines] == ["1 1 def f(x):", "2 − return x", "2 + return x + 1"]
    assert read.inside["mark"] == [" + 1"] and "diff to attempt 1: −1 +1 lines" in read.words
    assert "reward 1.00 (+1.00)" in read.words
    unlike = attempt(2, "def f(x):\n    yield from map(str, range(9))\n")
    assert Reader(view(unlike, before=attempt())).inside["mark"] == []
    same = Reader(view(attempt(2), before=attempt(1)))
    assert "same as attempt 1" in same.words and "return x" in same.text


def checked(outcome, message="", **fields):
    return attempt(checks=(Check(name="assert f(1) == 2", outcome=outcome, message=message, **fields),))


def verdict(outcome):
    right = outcome == "pass"
    return f"{'✓' if right else '✗'} {views.WORDS[outcome]} {int(right)} of 1 right"


BY = "class: assertion Root cause the cause What went wrong the harm What to change the fix Confidence 0.85"
NO_MODEL = "fallback:assertion, fallback to rules"
UNSPLIT = "expected (1, got 2), got 3"
SAID = [
    *((checked(outcome, "why"), verdict(outcome)) for outcome in OUTCOMES),
    (attempt(), "✗ assert f(1) == 2 expected 2 got 1"),
    (attempt(checks=(Check(name="assert f(1) > 2", outcome="fail", actual="1"),)), "✗ assert f(1) > 2 got 1"),
    (checked("fail", UNSPLIT), f"✗ assert f(1) == 2 failed {UNSPLIT}"),
    (checked("fail", "odd"), "✗ assert f(1) == 2 failed odd"),
    (checked("fail"), "✗ assert f(1) == 2 failed the assertion is false"),
    (checked("error", "no y", error_type="NameError", line=2), "an error NameError: no y (line 2 of the program)"),
    (attempt(reflection=words()), f"Reflection written by the model {BY}"),
    (attempt(reflection=words("rules:assertion")), f"Reflection rules:assertion {BY}"),
    (attempt(reflection=words("fallback:assertion", problem="lacks X")), f"Reflection {NO_MODEL} {BY}"),
    (attempt(reflection=words("fallback:assertion", problem="lacks X")), "Reason for the fallback lacks X"),
    (attempt(), "Recalled from memory nothing"),
    (attempt(recalled=("x-1",)), "Recalled from memory 1 episode episode x-1 content not in this run"),
    (attempt(recalled=("ep-1", "ep-2")), "Recalled from memory 2 episodes"),
]


@pytest.mark.parametrize(("attempt", "expected"), SAID, ids=[expected[:50] for _, expected in SAID])
def test_an_attempt_says_its_verdict_checks_words_and_memory(attempt, expected):
    assert expected in Reader(view(attempt)).words


def test_findings_of_tools_are_no_tests():
    checks = (
        Check(name="assert f(1) == 1", outcome="pass"),
        Check(name="return x + 'a'", kind="type", outcome="fail", error_type="unsupported", message="no +", line=2),
        Check(name="lint by ruff", kind="lint", outcome="pass"),
    )
    record = attempt(checks=checks)
    read = Reader(view(record))
    assert "✗ failed 1 of 1 right" in read.words
    assert "✗ return x + 'a' type, line 2 no + [unsupported]" in read.words
    assert repr(view(record)) == "attempt 1 at own/f: failed, 1 of 1 right"
    assert repr(view(attempt(checks=checks[2:]))) == "attempt 1 at own/f: passed"


@pytest.mark.parametrize("text", ["the prompt", "\nstarts with a blank line", "```python\nx\n```\n\n"])
def test_what_the_model_read_and_wrote_is_there_word_for_word(text):
    messages = (Message(role="system", content="be brief"), Message(role="user", content=text))
    record = attempt(messages=messages, reply=text[::-1], reflection=words(text="asked to reflect"))
    _, *blocks = Reader(view(record)).inside["pre"]
    assert blocks == ["\nbe brief", f"\n{text}", f"\n{text[::-1]}", "\nasked to reflect"]


def test_a_loop_as_strip_and_as_history():
    counts = {"checks_passed": 3, "checks_total": 9}
    grade = Grade(task_id="own/f", number=2, passed=False, outcome="timeout", sealed=False, **counts)
    strip = view({"a loop": [attempt(), replace(PASSED, stop_reason="passed")]}, grades=[grade])
    read = Reader(strip)
    assert "a loop 2 attempts, 74 tokens, loop ended: passed" in read.words
    assert "Attempt 1 feedback ✗ failed 0 of 1 right →" in read.words
    assert "Attempt 2 submitted feedback ✓ passed 1 of 1 right hidden ✗ timed out 3 of 9 right" in read.words
    assert repr(strip) == "a loop: failed, 0 of 1 right → passed, 1 of 1 right; submitted 2"
    history = Reader(view([attempt(), PASSED, replace(PASSED, number=3, parent=2)])).words
    assert "diff to attempt 1" in history and "same as attempt 2" in history


def test_every_turn_is_there_and_only_the_last_two_are_unfolded():
    steps = [turn(n, thought=f"thought {n}", action=f"tool_{n}", observation=f"seen {n}") for n in range(1, 6)]
    read = Reader(view(working(attempt(), *steps, ended="max_steps")))
    assert "Turns 5, ended: max_steps" in read.words
    for n in range(1, 6):
        assert f"Turn {n} · tool_{n} · {10 * n} + 5 tokens Thought thought {n} Observation seen {n}" in read.words
    unfolded = [read.inside["summary"][place] for place in read.unfolded]
    assert [text.split(" ·")[0] for text in unfolded] == ["Turn 4", "Turn 5"]
    failed = Reader(view(working(attempt(), turn(1, error="no action"), turn(2), turn(3))))
    assert "Turn 1 · ✗ error · 10 + 5 tokens" in " ".join(failed.inside["summary"][0].split())
    assert "Error in this turn no action" in failed.words


def test_a_turn_shows_only_new_messages():
    blocks = Reader(view(working(attempt(), turn(1), turn(2), turn(3)))).inside["pre"]
    assert [block.strip() for block in blocks if "message" in block] == ["message 1", "message 2", "message 3"]
    again = Reader(view(working(attempt(), turn(1), turn(1))))
    assert "Model input: as in the turn before" in again.words
    apart = turn(2, messages=(Message(role="user", content="another prompt"),))
    assert "Model input: user, 14 characters" in Reader(view(working(attempt(), turn(1), apart))).words


def test_a_draft_is_shown_as_its_difference_to_the_draft_before():
    first, second = attempt().trajectory.solution, PASSED.trajectory.solution
    steps = turn(1, program=first), turn(2), turn(3, program=second), turn(4, program=second)
    read = Reader(view(working(PASSED, *steps)))
    assert "Turn 1 · a first draft" in read.words
    assert "Turn 3 · diff to turn 1: −1 +1 lines" in read.words
    assert "Turn 4 · same as turn 3" in read.words
    assert "Program the draft of turn 4 1 def f(x):" in read.words
    assert len([block for block in read.inside["pre"] if "def f(x):" in block]) == 3


def test_a_critique_stands_with_its_draft_and_its_improvement():
    judged = (Message(role="user", content="judge it"),)
    usage = Usage(calls=1, prompt_tokens=8, completion_tokens=9)
    issues, more = ("no loop", "no return"), {"messages": judged, "reply": "my verdict", "usage": usage}
    first = Critique(
        severity=0.75, issues=issues, suggestions=("add both",), score=0.25, confidence=0.5, source="llm+lint", **more
    )
    second = Critique(severity=0.25, score=0.5, source="llm")
    drafts = (turn(1, program="pass", critique=first), turn(2), turn(3, program="x = 1", critique=second))
    read = Reader(view(working(attempt(), *drafts, others={"critic": usage})))
    assert "Turn 1 · a first draft · severity 0.75" in read.words
    assert "severity 0.25, improvement +0.25 ·" in read.words
    assert "Critique llm+lint critic 8 + 9 tokens Severity 0.75 Issues no loop no return" in read.words
    assert "Suggestions add both Score 0.25 Trusted 0.50" in read.words
    received = "Model input as a critic: user, 8 characters judge it Reply of the critic my verdict"
    assert received in read.words and read.words.count("critic 8 + 9 tokens") == 2


def test_an_attempt_says_its_model_its_end_and_what_did_not_fit():
    changed = replace(attempt(recalled=("ep-1",)), recalled_wisdom=("w-1",), recalled_mistakes=("m-1",))
    fields = {"left_out": ("ep-0",), "model": "small-1", "finish_reason": "length", "status": "unfinished"}
    read = Reader(view(working(changed, **fields)))
    assert "single_shot by small-1 reply ended: length unfinished" in read.words
    assert "Recalled from memory 1 episode, 1 wisdom, 1 mistake no room in the prompt ep-0 " in read.words
    assert read.words.count("no room") == 1
    usual = Reader(view(attempt())).words
    assert not [text for text in ("ended", "no room", "complete", "Turns", "thought") if text in usual]


def test_a_reflection_shows_all_that_it_says_and_nothing_empty():
    more = {"what_worked": "the loop", "key_insight": "count", "lessons": ("one", "two")}
    more |= {"action_items": ("do a", "do b")}
    read = Reader(view(attempt(reflection=words(flags=("generic",), confidence_source="measured", **more))))
    assert "class: assertion ⚑ generic Root cause" in read.words
    assert "What worked the loop What to change the fix To do do a do b Key insight count" in read.words
    assert "Lessons one two Confidence 0.85 measured" in read.words
    bare = Reader(view(attempt(reflection=words(action_items=("the fix",), what_went_wrong="")))).words
    labels = ("went wrong", "worked", "To do", "insight", "Lessons", "⚑", "fallback")
    assert not [label for label in labels if label in bare]


def test_reflections_stand_side_by_side_and_a_control_is_none():
    control = words("control:generic", text="its first words", confidence_source="none")
    alone = Reader(view(attempt(reflection=control))).words
    assert "Control instead of a reflection control:generic" in alone
    assert "written by the model" not in alone and "Confidence" not in alone
    history = view({"the model": words(), "a control": control, "nobody": None})
    read = Reader(history)
    assert "the model Reflection written by the model" in read.words
    assert "a control Control instead of a reflection control:generic" in read.words
    assert "nobody no reflection" in read.words
    assert repr(history).splitlines() == ["the model: llm", "a control: control:generic", "nobody: nothing"]


def test_views_add_up():
    failed, passed = view(attempt()), view(PASSED)
    assert (failed + passed)._repr_html_() == failed.html + passed.html
    lines = ["attempt 1 at own/f: failed, 0 of 1 right", "attempt 2 at own/f: passed, 1 of 1 right"]
    assert repr(failed + passed).splitlines() == lines


def test_stepping_by_hand_is_what_the_loop_does(tmp_path):
    reply = "ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: c\nCONFIDENCE: 1"
    rules = [{"when": "^My Python program failed", "reply": reply}]
    rules += [{"when": "What to change: c", "reply": "another try"}, {"when": "", "reply": "pass"}]
    (tmp_path / "rules.json").write_bytes(msgspec.json.encode(rules))
    script = ["model=scripted", f"model.path={tmp_path / 'rules.json'}", "actor=single_shot"]
    parts = by_hand(*script, "benchmark=basics", f"run_root={tmp_path}", "loop.max_attempts=2")
    task = parts.tasks[0]
    loop = parts.loop()
    by_step = loop.actor.act(task.public, loop.memory.recall(task.public))
    first, second = parts.loop().attempts(task.public)
    assert by_step.solution == first.trajectory.solution and first.reflection.what_to_change == "c"
    assert second.trajectory.reply == "another try"
    assert parts.judge.grade(task, second.number, second.trajectory.solution).checks_total == len(task.hidden_tests)
    assert not list(tmp_path.glob("**/manifest.json"))


RUN = {f"toy/{name}/0": [(1, True)] for name in ("count_up", "count_down", "greet")}


def test_an_unfinished_run_says_so_before_its_figure(write_run):
    assert repr(view(write_run(RUN, n_expected=8))).startswith("INCOMPLETE, 3 of 8 tasks ended: run-1: pass@1 100.0 %")
    assert repr(view(write_run(RUN, name="whole"))).startswith("run-1: pass@1 100.0 %")
    nothing = repr(view(write_run({}, n_expected=3, name="nothing")))
    assert nothing == "INCOMPLETE, 0 of 3 tasks ended: run-1: pass@1 not known (0 tasks), feedback visible"


def test_a_task_is_found_by_a_part_of_its_id_and_never_guessed(write_run):
    run = write_run(RUN)
    assert view(run, task="count_down") == view(run, task="count_down/0") == view(run, task="toy/count_down/0")
    with pytest.raises(FolderError, match="no ended loop of task 'own/0'"):
        view(run, task="own/0")  # the end of a name is no name
    with pytest.raises(FolderError, match="such as toy/greet/0"):
        view(run, task="toy/gret/0")
    with pytest.raises(FolderError, match="such as toy/count_up/0 or toy/count_down/0 or toy/greet/0"):
        view(run, task="/0")
    with pytest.raises(FolderError, match="no ended loop of task ''"):
        view(run, task="")
    with pytest.raises(TypeError, match="task: got 0"):
        view(run, task=0)


def test_a_line_of_text_holds_nothing_that_a_terminal_obeys(write_run, task):
    evil = "t/\x1b[31m\u202e"
    evil_attempt = replace(attempt(), task_id=evil)
    run = write_run(attempts={evil: [evil_attempt]})
    things = (evil_attempt, [evil_attempt], {evil: [evil_attempt]}, {evil: words()}, replace(task, task_id=evil))
    items = [view(thing) for thing in things]
    for text in map(repr, [*items, view(run, task=evil)]):
        assert not {"\x1b", "\u202e"} & set(text) and "t/\\x1b[31m\\u202e" in text
