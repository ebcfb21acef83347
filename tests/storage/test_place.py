"""Which store a place means."""

import os
import subprocess
import sys
import warnings
from contextlib import closing
from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import OmegaConf

import reflexion_lab
from reflexion_lab.records import Episode
from reflexion_lab.storage.in_memory import InMemory
from reflexion_lab.storage.jsonl import Jsonl
from reflexion_lab.storage.place import opened
from reflexion_lab.storage.sql import Sql

CONF = Path(__file__).parents[2] / "conf" / "store"


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("", InMemory), ("{}/memory", Jsonl), ("{}/kept.v2", Jsonl), ("{}/a.sqlite", Sql), ("{}/a.db", Sql),
        ("sqlite:///{}/b", Sql),
    ],
)  # fmt: skip
def test_a_place_means_one_store(tmp_path, place, kind):
    with closing(opened(place.format(tmp_path))) as store:
        assert type(store) is kind


@pytest.mark.parametrize("name", ["episodes.jsonl", "all.json", "notes"])
def test_a_single_file_is_sent_to_the_import(tmp_path, name):
    (tmp_path / name).write_text("{}")
    with pytest.raises(ValueError, match=r"store\.place: got .*, a file, expected .*memory import"):
        opened(tmp_path / name)


@pytest.mark.parametrize(("name", "kind"), [("none", InMemory), ("jsonl", Jsonl), ("sqlite", Sql), ("postgresql", Sql)])
def test_every_config_opens_its_store(tmp_path, server, name, kind):
    config = OmegaConf.create({"run_root": str(tmp_path), "store": OmegaConf.load(CONF / f"{name}.yaml")})
    if name == "postgresql":
        config.store.place = server.url
    with closing(instantiate(config.store, _convert_="all")) as store:
        assert type(store) is kind


FULL_DISK = """
import resource, sys
from reflexion_lab.errors import StoreError
import reflexion_lab
from reflexion_lab.records import Episode
from reflexion_lab.storage.place import opened
store = opened(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    for n in range(100_000):
        store.append([Episode(episode_id=f"e{n}{c}", agent_id="a", task_id="t", attempt_number=1, code="x" * 3000,
                              test_results="", reflection=None, passed=False) for c in "abc"])
except StoreError as error:
    print(n, error)
"""
"""Appends three at a time in a process whose files may grow to so many bytes; prints how many appends returned."""


@pytest.mark.parametrize(("name", "size"), [("folder", 100_000), ("kept.sqlite", 1_000_000)])
def test_a_full_disk_keeps_whole_appends_alone(tmp_path, episode, name, size):
    environment = {**os.environ, "PYTHONPATH": str(Path(reflexion_lab.__file__).parents[1])}
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path / name), str(size)]
    output = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    count, error = output.split(" ", 1)
    returned = int(count)
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
