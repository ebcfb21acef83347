"""Which store a place means."""

import warnings
from contextlib import closing
from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

from reflexion_lab.records import Episode
from reflexion_lab.storage.in_memory import InMemory
from reflexion_lab.storage.jsonl import Jsonl
from reflexion_lab.storage.place import opened
from reflexion_lab.storage.sql import Sql

CONF = Path(__file__).parents[2] / "conf" / "store"


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("", InMemory),
        ("{}/memory", Jsonl),
        ("{}/kept.v2", Jsonl),
        ("{}/a.sqlite", Sql),
        ("{}/a.db", Sql),
        ("sqlite:///{}/b", Sql),
    ],
)
def test_a_place_means_one_store(tmp_path, place, kind):
    with closing(opened(place.format(tmp_path))) as store:
        assert type(store) is kind


@pytest.mark.parametrize("name", ["episodes.jsonl", "all.json", "notes"])
def test_a_single_file_is_sent_to_the_import(tmp_path, name):
    (tmp_path / name).write_text("{}")
    with pytest.raises(ValueError, match=r"store\.place: got .*, a file, expected .*memory import"):
        opened(tmp_path / name)


@pytest.mark.parametrize("days", [0, -1.0, float("nan")])
def test_retention_is_above_zero_days(days):
    with pytest.raises(ValueError, match=r"opened\.retention_days: got .*, expected .*above 0, or null"):
        opened("", days)


def test_without_retention_all_is_kept(tmp_path, episode):
    with closing(opened(tmp_path)) as store:
        store.append([episode("ancient", timestamp=1.0)])
    with closing(opened(tmp_path)) as store:
        assert len(list(store.read(Episode))) == 1


@pytest.mark.parametrize(("name", "kind"), [("none", InMemory), ("jsonl", Jsonl), ("sqlite", Sql), ("postgresql", Sql)])
def test_every_config_opens_its_store(tmp_path, server, name, kind):
    config = OmegaConf.create({"run_root": str(tmp_path), "store": OmegaConf.load(CONF / f"{name}.yaml")})
    if name == "postgresql":
        config.store.place = server.url
    with closing(instantiate(config.store, _convert_="all")) as store:
        assert type(store) is kind


@pytest.mark.parametrize(("name", "size"), [("folder", 100_000), ("kept.sqlite", 1_000_000)])
def test_a_full_disk_keeps_whole_appends_alone(tmp_path, fill, episode, name, size):
    returned, error = fill(tmp_path / name, size)
    assert returned > 0
    assert "cannot be appended to" in error and "free some space and try again; earlier records are intact" in error
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with closing(opened(tmp_path / name)) as store:
            assert [stored.episode_id for stored in store.read(Episode)] == [
                f"e{n}{c}" for n in range(returned) for c in "abc"
            ]
            store.append([episode("after")])
            assert [stored.episode_id for stored in store.read(Episode)][-1] == "after"
