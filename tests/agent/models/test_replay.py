import pytest

from reflexion_lab.agent.models.cache import CachedModel
from reflexion_lab.agent.models.replay import ReplayModel
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.errors import ModelError
from reflexion_lab.records import Message, Sampling
from reflexion_lab.storage.call_store import CallStore

GREEDY = Sampling()


def says(text):
    return [Message(role="user", content=text)]


def record(path, *names):
    for name in names:
        model = CachedModel(ScriptedModel(lambda messages, name=name: f"{name} speaks", name=name), path)
        model.complete(says("hi"), sampling=GREEDY)
        model.close()


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_recording_is_replayed_word_for_word(tmp_path):
    record(tmp_path / "calls", "one")
    replay = ReplayModel(tmp_path / "calls")
    completion = replay.complete(says("hi"), sampling=GREEDY)
    assert (completion.text, completion.cached) == ("one speaks", True)
    assert replay.fingerprint == "scripted:one"
    replay.close()


def test_an_unseen_call_is_an_error_that_names_the_file(tmp_path):
    record(tmp_path / "calls", "one")
    replay = ReplayModel(tmp_path / "calls")
    with pytest.raises(ModelError, match=r"calls holds no reply to draw 1 .* begins 'hi'"):
        replay.complete(says("hi"), sampling=GREEDY, sample=1)
    replay.close()


def test_of_several_models_one_must_be_named(tmp_path):
    record(tmp_path / "calls", "one", "two")
    with pytest.raises(ModelError, match=r"scripted:one, scripted:two.*set model\.fingerprint"):
        ReplayModel(tmp_path / "calls")
    replay = ReplayModel(tmp_path / "calls", "scripted:two")
    assert replay.complete(says("hi"), sampling=GREEDY).text == "two speaks"
    replay.close()


def test_a_model_that_was_not_recorded_is_named(tmp_path):
    record(tmp_path / "calls", "one")
    with pytest.raises(ModelError, match=r"replies of scripted:one, none of scripted:two"):
        ReplayModel(tmp_path / "calls", "scripted:two")


def test_an_empty_recording_is_refused(tmp_path):
    record(tmp_path / "calls")
    store = CallStore(tmp_path / "calls")
    store.open()
    store.close()
    with pytest.raises(ModelError, match="replies of no model"):
        ReplayModel(tmp_path / "calls")


def test_replaying_leaves_its_folder_as_it_was(tmp_path):
    record(tmp_path / "calls", "one")
    before = contents(tmp_path)
    replay = ReplayModel(tmp_path / "calls")
    replay.complete(says("hi"), sampling=GREEDY)
    replay.close()
    assert contents(tmp_path) == before


def test_a_recording_in_a_readonly_folder_is_replayed(tmp_path):
    record(tmp_path / "calls", "one")
    (tmp_path / "calls").chmod(0o444)
    tmp_path.chmod(0o555)
    try:
        replay = ReplayModel(tmp_path / "calls")
        assert replay.complete(says("hi"), sampling=GREEDY).text == "one speaks"
        replay.close()
    finally:
        tmp_path.chmod(0o755)


def test_replies_stored_meanwhile_by_another_run_are_seen(tmp_path):
    record(tmp_path / "calls", "one")
    replay = ReplayModel(tmp_path / "calls")
    recorder = CachedModel(ScriptedModel(lambda messages: "new", name="one"), tmp_path / "calls")
    recorder.complete(says("more"), sampling=GREEDY)
    assert replay.complete(says("more"), sampling=GREEDY).text == "new"
    recorder.close()
    replay.close()
