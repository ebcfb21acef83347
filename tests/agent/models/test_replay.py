from contextlib import closing

import pytest

from reflexion_lab.agent.models.cache import CachedModel
from reflexion_lab.agent.models.replay import ReplayModel
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.errors import ModelError
from reflexion_lab.records import Sampling
from reflexion_lab.storage.call_store import CallStore
from tests.builders import says

GREEDY = Sampling()


def record(path, name):
    with closing(CachedModel(ScriptedModel(lambda messages: f"{name} speaks", name=name), path)) as model:
        model.complete(says("hi"), sampling=GREEDY)


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_recording_is_replayed_word_for_word_and_its_folder_left_alone(tmp_path):
    record(tmp_path / "calls", "one")
    before = contents(tmp_path)
    for mode in (0o755, 0o555):
        tmp_path.chmod(mode)
        (tmp_path / "calls").chmod(mode & 0o666)
        with closing(ReplayModel(tmp_path / "calls")) as replay:
            completion = replay.complete(says("hi"), sampling=GREEDY)
            assert (completion.text, completion.cached) == ("one speaks", True)
            assert replay.fingerprint == "scripted:one"
            with pytest.raises(ModelError, match=r"calls holds no reply to draw 1 .* begins 'hi'"):
                replay.complete(says("hi"), sampling=GREEDY, sample=1)
        assert contents(tmp_path) == before
    tmp_path.chmod(0o755)


def test_the_model_must_be_the_only_one_or_be_named(tmp_path):
    record(tmp_path / "calls", "one")
    with pytest.raises(ModelError, match=r"replies of scripted:one, none of scripted:two"):
        ReplayModel(tmp_path / "calls", "scripted:two")
    record(tmp_path / "calls", "two")
    with pytest.raises(ModelError, match=r"scripted:one, scripted:two.*set model\.fingerprint"):
        ReplayModel(tmp_path / "calls")
    with closing(ReplayModel(tmp_path / "calls", "scripted:two")) as replay:
        assert replay.complete(says("hi"), sampling=GREEDY).text == "two speaks"
    with closing(CallStore(tmp_path / "empty")) as store:
        store.open()
    with pytest.raises(ModelError, match="replies of no model"):
        ReplayModel(tmp_path / "empty")
