"""Games of TextWorld (Côté et al., arXiv 1806.11532), made from a seed and played in a process apart."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from reflexion_lab.errors import ConfigError, HarnessError
from reflexion_lab.limits import Above0, Positive, validated
from reflexion_lab.records import Observation, Record, Task
from reflexion_lab.tasks.environments.server import Connection, Server

FAMILIES: dict[str, int] = {"custom": 10, "treasure_hunter": 30, "coin_collector": 100, "cooking": 5, "simple": 3}
"""Highest level of each family. `custom`: a quest of that many actions; `treasure_hunter` and `coin_collector`: the
level of their authors; `cooking`: that many ingredients, with knife and oven from 2 on; `simple`: 1 dense, 2 balanced,
3 sparse scores.
"""
BANNER = re.compile(r"^[ _|\\/$>]*$")
PROMPT = re.compile(r"\n>[^\n]*\Z")
"""The game's own prompt and status line."""
UNKNOWN = "Nothing happened: this is none of the admissible actions."
TRIALS = 30
"""Maps that are drawn for a quest."""
SECONDS = 120.0
"""For the generation of one game, which takes 1 to 5 s of an idle machine."""


class Game(Record, frozen=True, kw_only=True):
    """A generated game."""

    family: str
    level: int
    seed: int
    sha256: str
    """Of its file."""
    beginning: str
    """The first observation, which states the goal."""
    max_score: int
    walkthrough: tuple[str, ...]


class TextWorld:
    """Plays the games of `benchmark=textworld`. `max_steps`: actions of a play at most; `seconds`: for one action."""

    needs, help = "family", ""

    @validated
    def __init__(self, max_steps: Positive = 30, seconds: Above0 = 30.0) -> None:
        self.max_steps = max_steps
        self.seconds = seconds
        self._server = server()
        self.ready = self._server.ready

    def start(self, task: Task) -> Play:
        """Raises HarnessError: the game cannot be made, or another version of TextWorld makes another one."""
        path = made(self._server, *(task.data[name] for name in ("family", "level", "seed")))
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != task.data.get("sha256"):
            got = f"textworld {metadata.version('textworld')} makes the game {digest[:12]}"
            raise HarnessError(f"{task.task_id}: {got}, expected {str(task.data.get('sha256'))[:12]}, as in its task")
        return Play(Connection(self._server, f"{__name__}:Player", {"path": str(path)}, self.seconds))

    def close(self) -> None:
        self._server.close()


class Play:
    """A session in a child of the server."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._newest = self._observed(None)

    def observe(self) -> Observation:
        return self._newest

    def act(self, text: str) -> Observation:
        self._newest = self._observed(text)
        return self._newest

    def close(self) -> None:
        self._connection.close()

    def _observed(self, action: str | None) -> Observation:
        return msgspec.convert(self._connection.ask(action), Observation)


def server() -> Server:
    """A server that has imported TextWorld. Raises ConfigError: it is not installed."""
    if find_spec("textworld") is None:
        raise ConfigError("environment", "textworld, which is not installed", "pip install 'reflexion-lab[worlds]'")
    return Server(("textworld.challenges", f"{__name__}:warm"))


def games(requests: Sequence[tuple[str, int, int]], workers: int = 2) -> list[Game]:
    """The games of `requests`: family, level, seed. Raises HarnessError: one cannot be made."""
    own = server()
    try:
        with ThreadPoolExecutor(workers) as pool:
            paths = list(pool.map(lambda game: made(own, *game), requests))
    finally:
        own.close()
    return [msgspec.json.decode(path.with_suffix(".game.json").read_bytes(), type=Game) for path in paths]


def made(own: Server, family: str, level: int, seed: int) -> Path:
    """The file of a game, which is made if the user's cache has none. Raises HarnessError."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = root / "reflexion_lab" / f"textworld-{metadata.version('textworld')}"
    path = folder / f"{family}-{level}-{seed}.z8"
    if not path.with_suffix(".game.json").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        values = {"family": family, "level": level, "seed": seed, "path": str(path)}
        Connection(own, f"{__name__}:maker", values, SECONDS).close()
    return path


def maker(family: str, level: int, seed: int, path: str) -> Callable[[Any], None]:
    """Make a game and describe it in a file beside it. Runs in a child of the server."""
    import textworld
    from textworld.generator import QuestGenerationError

    with tempfile.TemporaryDirectory(dir=Path(path).parent) as folder:
        for again in range(TRIALS):  # a map that was drawn may not permit a quest of the length
            options = textworld.GameOptions()
            options.seeds = seed + again * 1_000_003
            options.path = str(Path(folder) / "game.z8")
            with contextlib.suppress(QuestGenerationError):
                file = _compiled(family, level, options)
                break
        else:
            raise HarnessError(f"{family}-{level}/{seed}: none of {TRIALS} maps permits such a quest")
        player = Player(file)
        game = Game(
            family=family,
            level=level,
            seed=seed,
            sha256=hashlib.sha256(Path(file).read_bytes()).hexdigest(),
            beginning=player(None)["text"],
            max_score=player.state.max_score,
            walkthrough=tuple(player.state.policy_commands),
        )
        for ending in (".json", ".z8"):  # the first says which actions are admissible
            Path(file).with_suffix(ending).replace(Path(path).with_suffix(ending))
        about = Path(folder) / "game.json"
        about.write_bytes(msgspec.json.encode(game))
        about.replace(Path(path).with_suffix(".game.json"))
    return lambda _: None


def _compiled(family: str, level: int, options: Any) -> str:
    import textworld
    from textworld.challenges import CHALLENGES

    if family == "custom":
        options.nb_rooms, options.nb_objects = level + 1, 2 * level + 2
        options.chaining.min_length = options.chaining.max_length = options.chaining.max_depth = level
        return str(textworld.make(options)[0])
    settings = {
        "level": level, "rewards": ("dense", "balanced", "sparse")[min(level, 3) - 1], "goal": "detailed",
        "test": False, "recipe": level, "take": level, "go": 6, "open": True, "cook": level > 1, "cut": level > 1,
        "drop": False, "recipe_seed": options.seeds["map"], "split": None,
    }  # fmt: skip
    _, make, _ = CHALLENGES[f"tw-{family}"]
    return str(textworld.generator.compile_game(make(settings, options), options))


def warm() -> None:
    """Load what every session needs, before the server forks one. The library keeps what it parsed."""
    from textworld.generator.data import KnowledgeBase

    KnowledgeBase.deserialize(KnowledgeBase.default().serialize())


class Player:
    """A game in progress; a call with an action, or None, gives the observation. Runs in a child of the server."""

    def __init__(self, path: str, wrappers: Sequence[Any] = ()) -> None:
        import textworld

        wanted = ("admissible_commands", "score", "max_score", "won", "lost", "policy_commands")
        self._game = textworld.start(path, textworld.EnvInfos(**dict.fromkeys(wanted, True)), list(wrappers))
        self.state = self._game.reset()
        self._text, self._is_over = printed(self.state.feedback), False

    def __call__(self, action: str | None) -> dict[str, Any]:
        if action is not None and not self._is_over:
            admissible = {each.casefold(): each for each in self.state.admissible_commands}
            # others are for the interpreter: `save` and `restore` reach other sessions, `a. b` is two actions
            if command := admissible.get(" ".join(action.casefold().split())):
                self.state, _, self._is_over = self._game.step(command)
            self._text = printed(self.state.feedback) if command else UNKNOWN
        return {
            "text": self._text,
            "actions": [] if self._is_over else sorted(self.state.admissible_commands),
            "score": self.state.score or 0,
            "is_over": self._is_over,
            "is_success": bool(self.state.won),
        }


def printed(feedback: str) -> str:
    """What the game prints, without its banner, prompt, status line and the questions after its end."""
    text = PROMPT.sub("", feedback.partition("\nWould you like to RESTART")[0])
    lines = [line.strip() for line in text.splitlines() if not line.strip() or not BANNER.match(line)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
