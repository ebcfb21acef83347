"""The commands as the shell would call them, on stores of a few episodes."""

import argparse
import json
import re
from types import SimpleNamespace

import pytest

from reflexion_lab.cli import memory, wisdom
from reflexion_lab.records import Episode, Reflection
from reflexion_lab.storage.place import opened
from tests import builders


def _reflection(cause="the loop ends early", **fields) -> Reflection:
    texts = {"what_went_wrong": "the last item is missing", "what_to_change": "count to n", "category": "assertion"}
    return builders.reflection(**{"reflection_id": "r", "root_cause": cause} | texts | fields)


def _episode(number, cause="the loop ends early", **fields) -> Episode:
    places = {"session_id": f"s/{number}", "task_id": f"task/{number}", "agent_id": "arm", "attempt_number": 1}
    texts = {"task_description": f"sum the first {number} numbers", "reflection": _reflection(cause)}
    return builders.episode(number, **places | texts | {"confidence": 0.5, "timestamp": 1000.0 + number} | fields)


@pytest.fixture
def episode():
    return _episode


@pytest.fixture
def reflection():
    return _reflection


@pytest.fixture
def lab(capsys):
    """Runs a command; gives its exit code, its words with white space folded, and the JSON of its last line."""

    def run(*arguments):
        top = argparse.ArgumentParser()
        commands = top.add_subparsers()
        memory.add(commands)
        wisdom.add(commands)
        options = top.parse_args([str(argument) for argument in arguments])
        capsys.readouterr()
        code = options.command(options) or 0
        out = capsys.readouterr().out
        last = json.loads(out.splitlines()[-1]) if "--json" in arguments else None
        return SimpleNamespace(code=code, raw=out, out=re.sub(r"\s+", " ", out), json=last)

    return run


@pytest.fixture(params=["store.sqlite", "store"])
def place(tmp_path, request):
    """A SQLite file, and a folder of JSON lines."""
    return tmp_path / request.param


@pytest.fixture
def fill(place):
    """Appends records to the store, and says where it is."""

    def fill(*records):
        store = opened(str(place))
        store.append(records)
        store.close()
        return place

    return fill


@pytest.fixture
def held(place):
    """All records of a kind that the store holds."""

    def held(kind, where=None):
        store = opened(str(where or place))
        try:
            return list(store.read(kind))
        finally:
            store.close()

    return held
