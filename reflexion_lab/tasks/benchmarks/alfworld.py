"""ALFWorld's games from its data folder as tasks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

from reflexion_lab.errors import ConfigError, DataError
from reflexion_lab.limits import Positive, validated
from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.benchmark import LOCAL_PATH, Benchmark
from reflexion_lab.tasks.environments.alfworld import HOW, played, server
from reflexion_lab.tasks.environments.replay import SUCCESS
from reflexion_lab.tasks.environments.server import Server

WORKERS, SECONDS = 2, 120.0


@validated
def alfworld(
    path: str, part: Literal["train", "valid_seen", "valid_unseen"] = "valid_unseen", n: Positive | None = None
) -> Benchmark:
    """The solvable games below `path`/json_2.1.1/`part`, by name; the first `n` of them.

    As ALFWorld's own loader, it leaves out games with movable receptacles and sliced objects. A task's prompt is the
    first observation, which states the goal; its cluster is the kind of task. Raises ConfigError: ALFWorld is not
    installed, or there is no such folder or game; DataError: a game's file cannot be read.
    """
    folder = Path(path).expanduser() / "json_2.1.1" / part
    if not folder.is_dir():
        raise ConfigError("benchmark.load.path", f"{folder}, no such folder", "the data of ALFWorld", HOW)
    own = server()
    try:
        games = list(_solvable(folder))[:n]
        with ThreadPoolExecutor(WORKERS) as pool:
            tasks = list(pool.map(lambda game: _task(own, folder, *game), games))
    finally:
        own.close()
    if not tasks:
        raise ConfigError("benchmark.load.path", f"{folder} without a solvable game", "game.tw-pddl files", HOW)
    return Benchmark(name=f"alfworld-{part}", tasks=tuple(tasks))


def _solvable(folder: Path) -> Iterator[tuple[Path, str, bytes]]:
    """Game, kind of task and content of each file."""
    for about in sorted(folder.rglob("traj_data.json")):
        path = about.with_name("game.tw-pddl")
        if any(word in str(path.relative_to(folder)) for word in ("movable", "Sliced")) or not path.is_file():
            continue
        content = path.read_bytes()
        try:
            is_solvable, kind = json.loads(content)["solvable"], json.loads(about.read_bytes())["task_type"]
        except (ValueError, KeyError, TypeError) as problem:
            raise DataError(path, f"{type(problem).__name__}: {problem}", "a game of ALFWorld", HOW) from None
        if is_solvable:
            yield path, str(kind), content


def _task(own: Server, folder: Path, path: Path, kind: str, content: bytes) -> Task:
    session = played(own, path, SECONDS)
    beginning = session.observe().text
    session.close()
    walkthrough = json.loads(content).get("walkthrough") or ()
    return Task(
        task_id=f"alfworld/{path.parent.relative_to(folder).as_posix()}",
        prompt=beginning,
        entry_point="",
        kind="actions",
        data={LOCAL_PATH: str(path), "sha256": hashlib.sha256(content).hexdigest()},
        visible_tests=(SUCCESS,),
        hidden_tests=(SUCCESS,),
        canonical_solution="\n".join(walkthrough),
        tags=(kind,),
        cluster=kind,
    )
