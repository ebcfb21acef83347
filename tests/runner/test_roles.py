"""A model per role: who asks whom, what is shared, and how it is counted."""

import json

import pytest

from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.records import Message, Sampling
from reflexion_lab.runner.config.compose import assemble, compose, draws_by_role
from reflexion_lab.runner.config.parts import ROLES, ConfigError, load_models
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.run import carry_out

ASK = [Message(role="user", content="hello")]
WORDS = "ROOT_CAUSE: {0}\nWHAT_WENT_WRONG: {0}\nWHAT_TO_CHANGE: {0}\nCONFIDENCE: 0.5\n"


@pytest.fixture
def config(tmp_path):
    for name, reply in (("weak", "\n    return None\n"), ("strong", WORDS.format("said by the strong one"))):
        rules = [{"when": "", "scope": "conversation", "reply": reply}]
        (tmp_path / f"{name}.json").write_text(json.dumps(rules))

    def composed(*overrides):
        return compose(
            *("model=scripted", f"model.path={tmp_path / 'weak.json'}", f"run_root={tmp_path / 'runs'}"),
            *("benchmark=basics", "benchmark.limit=2", "loop.max_attempts=2", "tracker=none", "quiet=true"),
            *overrides,
        )

    composed.strong = lambda role: (f"model@roles.{role}=scripted", f"roles.{role}.path={tmp_path / 'strong.json'}")
    return composed


def test_a_reflector_may_have_a_model_of_its_own(config, tmp_path):
    carry_out(config(*config.strong("reflector")))
    (manifest,) = (tmp_path / "runs").glob("*/manifest.json")
    folder = RunFolder(manifest.parent)
    for first, second in folder.attempts.values():
        assert first.trajectory.model == folder.manifest.model_fingerprint
        assert first.reflection.root_cause == "said by the strong one"
        assert "said by the strong one" in second.trajectory.messages[-1].content
        assert first.usage["reflector"].calls == first.usage["actor"].calls == 1
    assert folder.manifest.role_fingerprints.keys() == {"reflector"}
    assert folder.manifest.role_fingerprints["reflector"] != folder.manifest.model_fingerprint


def test_roles_with_equal_models_share_one_instance(config):
    models = load_models(config(*config.strong("reflector"), *config.strong("critic")))
    assert models.of("reflector") is models.of("critic")
    assert models.of("suite_writer") is models.of("actor")
    assert len(models.distinct) == 2
    models.close()


class Noting:
    """Notes which draw each call is."""

    def __init__(self, model, drawn):
        self.model = model
        self.drawn = drawn

    def complete(self, messages, *, sampling, sample):
        self.drawn.append(sample)
        return self.model.complete(messages, sampling=sampling, sample=sample)


def test_a_price_of_its_own_makes_another_instance_but_no_second_draw(config):
    """The same weights under another option: what is counted is the call, whoever makes it."""
    models = load_models(
        config("model@roles.critic=scripted", "roles.critic.path=${model.path}", "roles.critic.slots=3")
    )
    assert models.of("critic") is not models.of("actor")
    draws, drawn = draws_by_role(models), []
    for model in models.distinct:
        inner = model._model.complete
        model._model.complete = lambda *args, sample, _inner=inner, **more: (
            drawn.append(sample) or _inner(*args, **more)
        )
    for role in ("actor", "critic", "actor"):
        draws[role].complete(ASK, sampling=Sampling())
    assert drawn == [0, 1, 2]
    models.close()


def test_every_role_has_a_model(config):
    models = load_models(config())
    draws = draws_by_role(models)
    assert set(draws) == set(ROLES)
    assert {id(draw) for draw in draws.values()} == {id(draws["actor"])}
    models.close()


def test_an_unknown_role_is_named(config):
    with pytest.raises(ConfigError, match=r"roles: got editor, expected some of reflector, critic"):
        load_models(config("+roles.editor={_target_: x}"))


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("model=openai", r"^model\.model: got no value"),
        ("model@roles.critic=gguf", r"^roles\.critic\.path: got no value"),
    ],
)
def test_a_model_without_its_name_is_told_where(config, override, said):
    with pytest.raises(ConfigError, match=said):
        load_models(compose(override))


def test_a_rung_that_chats_takes_no_begun_file(config):
    served = ("model@roles.strong=openai", "roles.strong.model=x", "roles.strong.base_url=http://127.0.0.1:9/v1")
    with pytest.raises(ConfigError, match=r"actor: got continuation with model=openai"):
        load_models(config("actor=warming", *served))


def test_a_resumed_run_must_have_the_same_models_in_its_roles(config):
    lab = assemble(config(*config.strong("reflector")))
    lab.close()
    with pytest.raises(ConfigError, match=r"another .*roles.*role_fingerprints"):
        assemble(config(f"resume={lab.folder.path}"))


@pytest.mark.parametrize("reflector", ["none", "llm"])
def test_what_a_rung_called_reflector_spends_is_in_the_summary(config, tmp_path, reflector):
    overrides = ("experiment=escalation", "actor.rungs=[actor,reflector]", f"reflector={reflector}")
    carry_out(config(*overrides, *config.strong("reflector")))
    (manifest,) = (tmp_path / "runs").glob("*/manifest.json")
    folder = RunFolder(manifest.parent)
    reflections = [a.reflection for made in folder.attempts.values() for a in made if a.reflection]
    written = sum(reflection.usage.calls for reflection in reflections)
    second = [made[1].trajectory.others["reflector"].calls for made in folder.attempts.values()]
    figures = summary(Log.read(folder))
    assert second == [1, 1]
    assert (figures.usage["actor"].calls, figures.usage["reflector"].calls) == (2, 2 + written)
    points = Log.read(folder).points
    assert points[1].tokens_cum == sum(usage.tokens for usage in figures.usage.values())
