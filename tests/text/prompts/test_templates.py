"""Every template in every variant: what it declares, what it shows, and that no text can leave its place."""

import re

import pytest
from jinja2 import Environment, UndefinedError, meta, nodes

from reflexion_lab.agent.reflectors.fields import LABELS
from reflexion_lab.records import Item, Mistake, Recollection, Wisdom
from reflexion_lab.text.prompts import render
from reflexion_lab.text.shorten import cut, line
from tests import builders as make

FILES = sorted(path.name.removesuffix(render.SUFFIX) for path in render.FOLDER.glob(f"*{render.SUFFIX}"))
NAMES = sorted(name for name in FILES if "." not in name)
ACTORS = sorted(name for name in NAMES if "memory" in render.declared(name) and "prompt" in render.declared(name))
"""Templates that an actor asks with: each shows its task and what memory gives."""
PROMPT = 'def double(x):\n    """Twice x.\n    >>> double(2)\n    4\n    """\n'
STUCK = "The last 2 attempts were the same program."


def episode(number, task_id="t", **fields):
    known = {
        "task_id": task_id, "episode_id": f"{task_id}-{number}", "task_description": f"about {task_id}",
        "code": f"def code_{number}(): ...", "test_results": f"feedback {number}",
    }  # fmt: skip
    return make.episode(number, **known | fields)


LESSONS = {
    "items": (Item(item_id="i", text="an item"),),
    "wisdom": (Wisdom(wisdom_id="w", pattern="a pattern", frequency=2, impact=0.1, domain="code", advice="an advice"),),
    "mistakes": (
        Mistake(mistake_id="m", task_id="o", prompt="a question", prompt_hash="", mistake="a mistake", severity=1.0),
    ),
    "insights": ("an insight",),
    "session": "a session",
}
MEMORIES = {
    "nothing": Recollection(),
    "one": Recollection(own=(episode(1),)),
    "three": Recollection(own=(episode(1), episode(2, code=""), episode(3, reflection=None))),
    "others": Recollection(others=(episode(7, "o"), episode(8, "o", passed=True))),
    "all": Recollection(others=(episode(7, "o"),), own=(episode(1),), **LESSONS),
}


def rendered(name, variant="default", examples=0, **variables):
    """The prompt of an actor, with something for all that a template may need."""
    about = dict.fromkeys(render.declared(name, variant) - {"examples"}, "    ")
    about |= {
        "form": render.known_examples()[0], "max_steps": 3, "memory": Recollection(), "passages": (), "prompt": PROMPT,
        **variables,
    }  # fmt: skip
    return render.Prompts(variant, examples).render(name, **about)


def reflecting(variant, examples=0, **variables):
    about = dict.fromkeys(render.declared("reflect", variant) - {"examples"}, "") | {"priors": [], "number": 2}
    return render.Prompts(variant, examples).render("reflect", **{**about, **variables})


@pytest.mark.parametrize("file", FILES)
def test_the_first_line_declares_the_variables_of_a_template(file):
    name, _, variant = file.partition(".")
    named = re.match(r"\{# Uses: ([\w, ]*) #\}\n", (render.FOLDER / f"{file}{render.SUFFIX}").read_text())
    assert named, f"{file}: expected a first line {{# Uses: a, b #}}"
    assert sorted(named[1].split(", ")) == sorted(needed(name, variant or "default"))


def needed(name, variant):
    """The variables that a template does not set itself, those of what it includes among them."""
    own = render.FOLDER / f"{name}.{variant}{render.SUFFIX}"
    environment = Environment()
    environment.filters |= render.FILTERS
    tree = environment.parse((own if own.is_file() else render.FOLDER / f"{name}{render.SUFFIX}").read_text())
    variables = meta.find_undeclared_variables(tree)
    for included in meta.find_referenced_templates(tree):
        variables |= needed(included.removesuffix(render.SUFFIX), variant)
    return variables - {name.name for name in tree.find_all(nodes.Name) if name.ctx in ("store", "param")}


@pytest.mark.parametrize("name", NAMES)
def test_every_missing_variable_is_an_error_and_is_named(name):
    for variant in render.VARIANTS:
        for missing in render.declared(name, variant) - {"examples"}:
            values = {key: Recollection() for key in render.declared(name, variant) if key not in (missing, "examples")}
            with pytest.raises(UndefinedError, match=missing):
                render.Prompts(variant).render(name, **values)


def test_every_file_has_a_digest_and_includes_templates_of_its_variant():
    file_digests = render.digests()
    assert sorted(file_digests) == sorted([*FILES, "examples.json"])
    assert len(set(file_digests.values())) == len(file_digests)
    texts = [rendered("solve", variant, memory=MEMORIES["one"]) for variant in render.VARIANTS]
    assert [text.count("[self-reflection on it]") for text in texts] == [0, 0, 1]


def test_an_actor_reads_its_task_once_and_every_episode():
    for case in make.pairwise(ACTORS, list(MEMORIES), render.VARIANTS, range(4)):
        name, memory, variant, examples = case
        text = rendered(name, variant, examples, memory=MEMORIES[memory])
        assert text.count(PROMPT.strip()) == 1, case
        for episode in MEMORIES[memory].episodes:
            assert f"feedback {episode.attempt_number}" in text
            assert (f"cause {episode.attempt_number}" in text) == (f"change {episode.attempt_number}" in text)
            assert (f"cause {episode.attempt_number}" in text) == (episode.reflection is not None)
        for words in ("an item", "a pattern", "an advice", "a question", "a mistake", "an insight", "a session"):
            assert (words in text) == (memory == "all"), (case, words)
        assert "None" not in text and "Undefined" not in text
        assert text == text.strip("\n") and "\n\n\n\n" not in text


@pytest.mark.parametrize("variant", render.VARIANTS)
@pytest.mark.parametrize("name", ACTORS)
def test_empty_fields_of_a_reflection_leave_no_label_behind(name, variant):
    empty = make.reflection(1, root_cause="", what_went_wrong="", what_to_change="")
    memories = [Recollection(own=(episode(1, reflection=words),)) for words in (empty, None)]
    assert len({rendered(name, variant, memory=memory) for memory in memories}) == 1


def test_a_stuck_actor_is_asked_for_a_different_approach():
    for name, variant, memory in make.pairwise(ACTORS, render.VARIANTS, ["nothing", "one", "others"]):
        text = rendered(
            name, variant, memory=Recollection(own=MEMORIES[memory].own, others=MEMORIES[memory].others, stuck=STUCK)
        )
        assert text.count(STUCK) == 1, memory
        assert text.lower().count("different approach") == 1, memory
        assert "different approach" not in rendered(name, variant, memory=MEMORIES[memory]).lower()


def test_every_continuation_ends_where_the_model_goes_on():
    for variant, examples, memory in make.pairwise(render.VARIANTS, range(4), list(MEMORIES.values())):
        assert rendered("continue_solve", variant, examples, memory=memory).endswith(PROMPT.rstrip())
        text = render.Prompts(variant, examples).render("continue_tests", prompt=PROMPT, entry_point="double")
        assert text.endswith("\nassert double")


@pytest.mark.parametrize("examples", [0, 3])
@pytest.mark.parametrize("variant", render.VARIANTS)
def test_the_prompt_of_a_reflection_has_its_labels_and_parts(variant, examples):
    text = reflecting(variant, examples, description="the task", code="the program", evidence="the evidence")
    assert all(f"\n{label}:" in text for label in LABELS)
    assert all(f"\n{words}" in text for words in ("the task", "the program", "the evidence"))
    assert re.search("[Aa]ttempt:? 2", text) and "Prior Reflections: None" in text
    prior = {"root_cause": "the last cause", "what_to_change": "the last change", "lesson": ""}
    prompt = reflecting(variant, examples, priors=[prior])
    assert (
        "Reflection 1" in prompt and "the last cause" in prompt and "the last change" in prompt and "None" not in prompt
    )


@pytest.mark.parametrize("variant", render.VARIANTS)
def test_the_number_of_tests_is_asked_for(variant):
    text = render.Prompts(variant).render("write_tests", prompt=PROMPT, entry_point="double", n=7)
    assert "7" in text and "assert double(...) == ..." in text and PROMPT.strip() in text


HOSTILE = "a\n```\nb\n`````\n~~~\n{{ 7 * 7 }}{% raw %}\0\u202e \u2028# c\rd\x0ce\n" + "x" * 5000
BAD_WORDS = {"root_cause": HOSTILE, "what_went_wrong": HOSTILE, "what_to_change": HOSTILE}
BAD = {
    "code": HOSTILE, "test_results": HOSTILE, "reflection": make.reflection(1, **BAD_WORDS),
    "task_description": HOSTILE,
}  # fmt: skip
HOSTILE_MEMORY = Recollection(
    others=(episode(1, "o", **BAD), episode(2, "o", passed=True, **BAD)),
    own=(episode(3, **BAD),),
    wisdom=(Wisdom(wisdom_id="w", pattern=HOSTILE, frequency=2, impact=0.1, domain="code", advice=HOSTILE),),
    mistakes=(
        Mistake(
            mistake_id="m", task_id="o", prompt=HOSTILE, prompt_hash="", mistake=HOSTILE, correction=HOSTILE, severity=1
        ),
    ),
    insights=(HOSTILE,),
    session=HOSTILE,
    stuck=STUCK,
)


@pytest.mark.parametrize("variant", render.VARIANTS)
@pytest.mark.parametrize("name", [name for name in ACTORS if not name.startswith("continue_")])
def test_no_text_of_others_can_leave_its_block(name, variant):
    text = rendered(name, variant, memory=HOSTILE_MEMORY)
    assert "{{ 7 * 7 }}{% raw %}" in text and "49" not in text
    outside = without_blocks(text)
    assert PROMPT.strip() not in outside and STUCK in outside
    assert not any(inside in outside.splitlines() for inside in ("b", "{{ 7 * 7 }}{% raw %}\0\u202e "))
    assert len(text) < 25_000


def without_blocks(text):
    """What a reader of markdown takes for text outside of code; every block must have been closed."""
    outside, fence = [], ""
    for row in text.split("\n"):
        mark = re.match(r"(`{3,}|~{3,})", row)
        if fence and row == fence:
            fence = ""
        elif not fence and mark:
            fence = mark[1]
        elif not fence:
            outside.append(row)
    assert not fence
    return "\n".join(outside)


@pytest.mark.parametrize("variant", render.VARIANTS)
def test_what_a_continuation_recalls_stays_in_comments(variant):
    text = rendered("continue_solve", variant, memory=HOSTILE_MEMORY)
    above = text.removesuffix(PROMPT.rstrip())
    assert all(row.startswith("#") for row in above.splitlines() if row.strip())
    assert "{{ 7 * 7 }}" in above and "49" not in above


@pytest.mark.parametrize("variant", render.VARIANTS)
def test_hostile_texts_stay_in_their_blocks_in_a_reflection(variant):
    text = reflecting(variant, description=HOSTILE, code=HOSTILE, evidence=HOSTILE)
    assert "{{ 7 * 7 }}{% raw %}" not in without_blocks(text)


def test_cutting_says_that_something_is_missing():
    assert [cut("abcd", n) for n in (5, 4, 3)] == ["abcd", "abcd", "ab…"]
    assert line(" a\n b\x0bc\u2028d ", 99) == "a b c d"
    assert render.sentences(["", "one", "two!", "a\nb"], 10) == "one. two! a b."


def test_the_examples_are_what_they_say(sandbox):
    for example in render.known_examples():
        name = re.search(r"def (\w+)", example.prompt)[1]
        checks = [
            f"assert {call.strip()} == {value.strip()}"
            for call, value in re.findall(r">>> (.*)\n(.*)\n", example.prompt)
        ]
        right = sandbox.run(example.right, name, checks).checks
        wrong = sandbox.run(example.wrong, name, checks).checks
        assert [check.outcome for check in right] == ["pass"] * len(checks)
        failing = next(check for check in wrong if check.outcome != "pass")
        assert failing.name in example.evidence
        assert (failing.error_type or failing.message) in example.evidence
        assert example.right.startswith(example.prompt.partition("\n")[0])


@pytest.mark.parametrize("variant", render.VARIANTS)
def test_an_own_episode_of_a_continuation_has_a_heading(variant):
    own = episode(2, code=PROMPT + "    return x\n", task_description=PROMPT)
    text = rendered("continue_solve", variant, memory=Recollection(others=(episode(7, "o", passed=True),), own=(own,)))
    heading = {"paper_style": "# My previous implementation", "terse": "# My attempt 2:"}
    assert f"\n{heading.get(variant, '# My attempt 2 at the function below failed:')}" in text
    assert ("# def double(x):\n#     return x\n" in text) == (variant != "default")
    assert text.count("Twice x.") == 1
    assert "previous failures" not in text, "it is untrue of a task that passed"


def test_a_program_is_shown_by_both_ends_and_one_that_passed_in_a_continuation():
    code = "def f():\n" + "    x = 1\n" * 400 + "    return x"
    for variant in render.VARIANTS:
        text = rendered("solve", variant, memory=Recollection(own=(episode(1, code=code),)))
        assert "def f():" in text and "    return x\n```" in text and "…" not in text
    passed = episode(1, code=PROMPT + "    return 2 * x\n", task_description=PROMPT, passed=True)
    text = rendered("continue_solve", "default", memory=Recollection(own=(passed,)))
    assert "# My attempt 1 at the function below passed:\n# def double(x):\n#     return 2 * x\n" in text


@pytest.mark.parametrize("name", ["reflect_service", "reflect_session", "reflect_success"])
def test_a_passed_attempt_is_not_asked_for_blame(name):
    about = dict.fromkeys(render.declared(name) - {"examples"}, "") | {"priors": [], "passed": True}
    assert not re.search("blame|is wrong|(?<!what_)failed|change that I", render.Prompts().render(name, **about))
    if "passed" in render.declared(name):
        assert "to blame" in render.Prompts().render(name, **about | {"passed": False})
