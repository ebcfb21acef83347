import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.errors import ModelError
from reflexion_lab.records import Message, Sampling
from tests.builders import TABLES

GREEDY = Sampling()
RULES = """
- when: "^def add"
  reply: |
    return a + b
- {when: "(?i)reflect", reply: "ROOT_CAUSE: none"}
- {when: "careful assistant", reply: "I am", scope: conversation}
"""


def user(text):
    return Message(role="user", content=text)


@pytest.fixture
def rules(tmp_path):
    def write(text, name="rules.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@given(st.lists(st.text(max_size=30), max_size=4), st.text(max_size=30))
def test_a_token_is_four_characters_begun(contents, reply):
    model = ScriptedModel(lambda messages: reply)
    usage = model.complete([user(content) for content in contents], sampling=GREEDY).usage
    assert usage.prompt_tokens == math.ceil(sum(map(len, contents)) / 4)
    assert usage.completion_tokens == math.ceil(len(reply) / 4)
    assert usage.calls == 1


def test_the_simulated_latency_is_slept_and_counted(monkeypatch):
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)
    model = ScriptedModel(lambda messages: "", seconds=2.5)
    assert model.complete([user("a")], sampling=GREEDY).usage.seconds == 2.5
    assert slept == [2.5]


def test_the_first_rule_that_matches_in_its_scope_answers(rules):
    model = ScriptedModel.from_rules(rules(RULES))
    assert model.complete([user("def add(a, b): # reflect")], sampling=GREEDY).text == "return a + b\n"
    assert model.complete([user("please REFLECT")], sampling=GREEDY).text == "ROOT_CAUSE: none"
    begun = Message(role="assistant", content="def add")
    system = Message(role="system", content="You are a careful assistant.")
    with pytest.raises(ModelError, match="begins 'hello'"):
        model.complete([user("def add"), user("hello"), begun], sampling=GREEDY)
    assert model.complete([system, user("hello"), begun], sampling=GREEDY).text == "I am"


def test_an_unforeseen_call_and_a_missing_script_are_errors_that_name_the_script(rules, tmp_path):
    path = rules(RULES)
    with pytest.raises(ModelError, match="none of its 3 rules matches") as caught:
        ScriptedModel.from_rules(path).complete([user("z" * 100)], sampling=GREEDY)
    assert str(path) in str(caught.value)
    assert f"'{'z' * 80}'" in str(caught.value)
    with pytest.raises(ValueError, match=r"model\.path: got .*absent\.yaml \(no file\), expected"):
        ScriptedModel.from_rules(tmp_path / "absent.yaml")


def test_the_fingerprint_is_of_the_rules_not_of_the_file(rules):
    entries = [{"when": "a", "reply": "b"}]
    yaml = ScriptedModel.from_rules(rules("- {when: a, reply: b}"))
    as_json = ScriptedModel.from_rules(rules(json.dumps(entries, indent="\t"), "rules.json"))
    other = ScriptedModel.from_rules(rules("- {when: a, reply: c}", "other.yaml"))
    assert yaml.fingerprint == as_json.fingerprint
    assert yaml.fingerprint.startswith("scripted:")
    assert yaml.fingerprint != other.fingerprint


@pytest.mark.parametrize(("text", "message"), TABLES["unreadable scripts"])
def test_a_script_that_cannot_be_read_is_named(rules, text, message):
    path = rules(text)
    with pytest.raises(ValueError, match=message) as caught:
        ScriptedModel.from_rules(path)
    assert f"model.path: got {path} (" in str(caught.value)
