"""What is written in one step replaces a file, and nothing but a file."""

import os
import stat
import threading

import pytest

from reflexion_lab.io.files import replace
from reflexion_lab.storage.in_memory import InMemory
from reflexion_lab.storage.place import dump


@pytest.mark.parametrize("write", [
    lambda path: replace(path, [b"whole\n"]), lambda path: dump(InMemory(), path),
    lambda path: dump(InMemory(), path, "openagents"),
], ids=["bytes", "an export", "reflections"])  # fmt: skip
def test_a_pipe_is_written_to_and_stays_one(tmp_path, write):
    """As root, an export to /dev/null would else put a file in the place of the device."""
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write(pipe)
    reader.join(10)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert len(read) == 1
    assert os.listdir(tmp_path) == ["pipe"]
