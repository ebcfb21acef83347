"""Households of ALFWorld (Shridhar et al., arXiv 2010.03768), from the data folder of the user."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from reflexion_lab.errors import ConfigError, HarnessError
from reflexion_lab.limits import Above0, Positive, validated
from reflexion_lab.records import Task
from reflexion_lab.tasks.environments.server import Connection, Server
from reflexion_lab.tasks.environments.textworld import Play, Player

NEEDED = {"alfworld": "alfworld", "fast_downward": "alfworld"}
"""Packages by module."""
HOW = "pip install alfworld; then alfworld-download, which fills ~/.cache/alfworld"


class ALFWorld:
    """Plays the games of `benchmark=alfworld`. `max_steps`: actions of a play at most, 49 in the paper of Reflexion;
    `seconds`: for one action.
    """

    needs, help = "local_path", ""

    @validated
    def __init__(self, max_steps: Positive = 49, seconds: Above0 = 60.0) -> None:
        self.max_steps = max_steps
        self.seconds = seconds
        self._server = server()
        self.ready = self._server.ready

    def start(self, task: Task) -> Play:
        """Raises HarnessError: the file of the game is not there, or is another one."""
        path = Path(str(task.data.get("local_path")))
        if not path.is_file():
            raise HarnessError(f"{task.task_id}: {path}, no such file, expected the game of its task")
        if hashlib.sha256(path.read_bytes()).hexdigest() != task.data.get("sha256"):
            raise HarnessError(f"{task.task_id}: {path} is another game than that of its task")
        return played(self._server, path, self.seconds)

    def close(self) -> None:
        self._server.close()


def server() -> Server:
    """A server that has imported ALFWorld. Raises ConfigError: it is not installed."""
    for module, package in NEEDED.items():
        if find_spec(module) is None:
            raise ConfigError("environment", f"{package}, which is not installed", "ALFWorld with its data", HOW)
    return Server(("alfworld.agents.environment.alfred_tw_env", __name__))


def played(own: Server, path: Path, seconds: float) -> Play:
    return Play(Connection(own, f"{__name__}:household", {"path": str(path)}, seconds))


def household(path: str) -> Any:
    """A game in progress, whose objects have the names of ALFWorld. Runs in a child of the server."""
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler

    return Player(path, (AlfredDemangler,))
