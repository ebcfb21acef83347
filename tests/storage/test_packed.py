"""Compressed records behave like those in a dictionary."""

from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.records import Episode
from reflexion_lab.storage.in_memory import Packed
from tests import builders


def episode(number):
    return builders.episode(episode_id=f"ep-{number}", code="é\ud800"[: 1 + (number == 7)] * number)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.integers(0, 9))))
def test_records_come_back_as_from_a_dictionary(changes):
    packed, plain = Packed(Episode), {}
    for key, number in changes:
        for records in (packed, plain):
            if number is None:
                records.pop(key, None)
            else:
                records[key] = episode(number)
        assert list(packed.items()) == list(plain.items())
        assert (len(packed), "a" in packed) == (len(plain), "a" in plain)


def test_a_snapshot_keeps_replaced_and_removed_records():
    packed = Packed(Episode)
    packed["a"], packed["b"] = episode(1), episode(2)
    snapshot = packed.snapshot()
    packed["a"] = episode(3)
    del packed["b"]
    assert list(snapshot) == [episode(1), episode(2)]
    assert dict(packed) == {"a": episode(3)}
