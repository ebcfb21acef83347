"""A model per role: who asks whom, what is shared, and how it is counted."""

import pytest

from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.records import Message, Sampling
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.parts import ROLES, ConfigError, draws_by_role, load_models
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.run import carry_out
from tests.builders import scripted

ASK = [Message(role="user", content="hello")]
WORDS = "ROOT_CAUSE: {0}\nWHAT_WENT_WRONG: {0}\nWHAT_TO_CHANGE: {0}\nCONFIDENCE: 0.5\n"


@pytest.fixture
def config(tmp_path):
    base = ["benchmark=basics", "benchmark.limit=2", "loop.max_attempts=2", "tracker=none", "quiet=true"]
    (tmp_path / "strong").mkdir()
    _, strong = scripted(tmp_path / "strong", reply=WORDS.format("said by the strong one"))

    def composed(*overrides):
        return RunConfig.of(compose(*scripted(tmp_path), f"run_root={tmp_path / 'runs'}", *base, *overrides))

    composed.strong = lambda role: (f"model@roles.{role}=scripted", f"roles.{role}.{strong.removeprefix('model.')}")
    return composed


def only_run(tmp_path):
    (manifest,) = (tmp_path / "runs").glob("*/manifest.json")
    return RunFolder(manifest.parent)


def test_a_reflector_may_have_a_model_of_its_own(config, tmp_path):
    carry_out(config(*config.strong("reflector")))
    folder = only_run(tmp_path)
    for first, second in folder.attempts.values():
        assert first.trajectory.model == folder.manifest.model_fingerprint
        assert first.reflection.root_cause == "said by the strong one"
        assert "said by the strong one" in second.trajectory.messages[-1].content
        assert first.usage["reflector"].calls == first.usage["actor"].calls == 1
    assert folder.manifest.role_fingerprints.keys() == {"reflector"}
    assert folder.manifest.role_fingerprints["reflector"] != folder.manifest.model_fingerprint


@pytest.mark.parametrize("change", ["edited", "another folder"])
def test_a_changed_script_is_another_model_in_the_same_process(config, tmp_path, monkeypatch, change):
    for folder, reply in (("a", "first"), ("b", "second")):
        (tmp_path / folder).mkdir()
        scripted(tmp_path / folder, reply=reply)
    (script,) = (tmp_path / "a").glob("*")
    fingerprints = []
    for folder in ("a", "b"):
        if change == "edited":
            script.write_bytes((tmp_path / folder / script.name).read_bytes())
        else:
            monkeypatch.chdir(tmp_path / folder)
        where = script.name if change == "another folder" else script
        models = load_models(config(f"model.path={where}"))
        fingerprints.append(models.of("actor").fingerprint)
        models.close()
    assert len(set(fingerprints)) == 2


def test_an_option_makes_another_instance_but_no_second_draw(config):
    """The same weights under another option: what is counted is the call, whoever makes it."""
    models = load_models(
        config("model@roles.critic=scripted", "roles.critic.path=${model.path}", "roles.critic.slots=3")
    )
    assert models.of("critic") is not models.of("actor")
    draws, samples = draws_by_role(models), []
    for model in models.distinct:
        inner = model._model.complete
        model._model.complete = lambda *args, sample, _inner=inner, **more: (
            samples.append(sample) or _inner(*args, **more)
        )
    for role in ("actor", "critic", "actor"):
        draws[role].complete(ASK, sampling=Sampling())
    assert samples == [0, 1, 2]
    models.close()


def test_every_role_has_a_model_and_equal_ones_share_one_instance(config):
    models = load_models(config())
    draws = draws_by_role(models)
    assert set(draws) == set(ROLES)
    assert {id(draw._counts) for draw in draws.values()} == {id(draws["actor"]._counts)}
    assert {id(draw._model) for draw in draws.values()} == {id(models.of("actor"))}
    models.close()
    models = load_models(config(*config.strong("reflector"), *config.strong("critic")))
    assert models.of("reflector") is models.of("critic")
    assert models.of("suite_writer") is models.of("actor")
    assert len(models.distinct) == 2
    models.close()


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
def test_calls_of_a_rung_named_reflector_are_in_the_summary(config, tmp_path, reflector):
    overrides = ("experiment=escalation", "actor.rungs=[actor,reflector]", f"reflector={reflector}")
    carry_out(config(*overrides, *config.strong("reflector")))
    folder = only_run(tmp_path)
    reflections = [a.reflection for loop in folder.attempts.values() for a in loop if a.reflection]
    written = sum(reflection.usage.calls for reflection in reflections)
    second = [loop[1].trajectory.others["reflector"].calls for loop in folder.attempts.values()]
    figures = summary(Log.read(folder))
    assert second == [1, 1]
    assert (figures.usage["actor"].calls, figures.usage["reflector"].calls) == (2, 2 + written)
    points = Log.read(folder).points
    assert points[1].tokens_cum == sum(usage.tokens for usage in figures.usage.values())
