"""Folders that a killed process leaves, and those that somebody holds."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reflexion_lab.io.files import Scratch, _clear

HOLDS = "import sys; from pathlib import Path; from reflexion_lab.io.files import Scratch\n"
HOLDS += "held = Scratch(Path(sys.argv[1])); print(held.path, flush=True); sys.stdin.read()"


@pytest.fixture
def holder(tmp_path):
    """A process that has a folder of its own in the place."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process, Path(process.stdout.readline().strip())
    process.kill()
    process.communicate()


def test_it_is_gone_when_closed_and_when_its_process_ends(tmp_path, holder):
    with Scratch(tmp_path) as own:
        (own.path / "deep" / "er").mkdir(parents=True)
        assert oct(own.path.stat().st_mode & 0o777) == "0o700"
    own.close()
    process, path = holder
    process.communicate("")
    assert process.returncode == 0
    assert not path.exists()
    assert list(tmp_path.iterdir()) == []


def test_folders_of_dead_processes_go_and_of_living_ones_stay(tmp_path, holder):
    process, path = holder
    _clear.cache_clear()
    with Scratch(tmp_path):
        assert path.is_dir()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert path.is_dir()
    _clear.cache_clear()
    with Scratch(tmp_path) as own:
        assert list(tmp_path.iterdir()) == [own.path]


def test_links_are_not_followed_and_other_names_stay(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "reflexion-lab-runs").mkdir()
    (tmp_path / "reflexion-lab-0000000a").symlink_to(tmp_path / "precious")
    (tmp_path / "reflexion-lab-0000000b").touch()
    _clear.cache_clear()
    Scratch(tmp_path).close()
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["precious", "reflexion-lab-0000000a", "reflexion-lab-0000000b", "reflexion-lab-runs"]


def test_a_folder_that_was_given_another_name_stays(tmp_path):
    with Scratch(tmp_path) as own:
        own.path.rename(tmp_path / "kept")
    assert (tmp_path / "kept").is_dir()
