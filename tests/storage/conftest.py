"""Episodes of a store's tests."""

import pytest

from tests import builders


@pytest.fixture
def episode():
    def build(name, **fields):
        defaults = {"task_id": "t", "timestamp": 100.0, "code": "c", "reflection": None}
        return builders.episode(episode_id=name, **defaults | fields)

    return build
