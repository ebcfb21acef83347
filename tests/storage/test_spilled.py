"""Records in a temporary file behave like those in a dictionary, and take less memory."""

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.records import Episode
from reflexion_lab.storage.spilled import Spilled
from tests import builders


def episode(number):
    return builders.episode(episode_id=f"ep-{number}", code="é" * number)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 9))))
def test_records_come_back_as_from_a_dictionary(changes):
    spilled, plain = Spilled(Episode), {}
    for key, number in changes:
        for records in (spilled, plain):
            if number is None:
                records.pop(key, None)
            else:
                records[key] = episode(number)
        assert list(spilled.items()) == list(plain.items())
        assert (len(spilled), "a" in spilled) == (len(plain), "a" in plain)


def test_a_snapshot_keeps_replaced_and_removed_records():
    spilled = Spilled(Episode)
    spilled["a"], spilled["b"] = episode(1), episode(2)
    snapshot = spilled.snapshot()
    spilled["a"] = episode(3)
    del spilled["b"]
    assert list(snapshot) == [episode(1), episode(2)]
    assert dict(spilled) == {"a": episode(3)}


def test_a_full_disk_is_one_line_and_the_earlier_records_stand(monkeypatch):
    spilled = Spilled(Episode)
    spilled["a"] = episode(1)
    with monkeypatch.context() as patched:
        calls = []

        def full(file, body, offset):
            calls.append(offset)
            if len(calls) > 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return len(body) // 2

        patched.setattr(os, "pwrite", full)
        with pytest.raises(
            OSError, match=r"shared memory cannot be written \(No space left on device\); free"
        ) as caught:
            spilled["b"] = episode(2)
    assert caught.value.errno == errno.ENOSPC
    assert dict(spilled) == {"a": episode(1)}
    spilled["b"] = episode(2)
    assert dict(spilled) == {"a": episode(1), "b": episode(2)}
