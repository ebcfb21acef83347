"""The cells of a sweep: Hydra's grammar and the order of its basic sweeper."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.config.build import Config
from reflexion_lab.runner.config.choices import is_group as is_lab_group
from reflexion_lab.runner.config.compose import (
    conf_version,
    hydra_initialized,
    in_full,
    late_values,
    suggest_key,
    with_values,
    written,
)
from reflexion_lab.runner.config.parts import with_defaults
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.folder.manifest import config_digest, data_place, shard_of, store_place, value_at


class Cell(NamedTuple):
    """One run of a sweep."""

    number: int
    """Index from 0 in Hydra's order: the last swept key varies fastest."""
    overrides: tuple[str, ...]
    """All overrides, swept or not, without those of Hydra itself."""
    cfg: RunConfig
    """With its defaults."""

    @classmethod
    def of(cls, number: int, overrides: Sequence[str], cfg: RunConfig | Config) -> Cell:
        return cls(number, tuple(overrides), with_defaults(RunConfig.of(cfg)))

    @property
    def digest(self) -> str:
        return cell_digest(self.cfg)


def cell_digest(cfg: RunConfig | Config) -> str:
    """The digest of its manifest, with suffixes for shard, file of tasks, and place of a store: contents count."""
    config = with_defaults(RunConfig.of(cfg)).recorded
    place = store_place(config) + shard_of(config) + data_place(config)
    return config_digest(config) + (f"-{hashlib.sha256(place.encode()).hexdigest()[:8]}" if place else "")


def cells(overrides: Sequence[str]) -> list[Cell]:
    """The cells of `reflexion-lab run -m *overrides`.

    Raises HydraException: an override is malformed or names an unknown key; a note names the cell.
    """
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.override_parser.overrides_parser import OverridesParser

    with hydra_initialized():
        loader = GlobalHydra.instance().config_loader()
        parser = OverridesParser.create(config_loader=loader)
        every = parser.parse_overrides(list(in_full(overrides)))
        searched = [override.input_line or "" for override in every if override.key_or_group == "hydra.searchpath"]
        own = [each for each in every if not str(each.key_or_group).replace("/", ".").startswith("hydra.")]
        fixed = [override.input_line or "" for override in own if not override.is_sweep_override()]
        swept = parser.parse_overrides(_swept_by_config(searched + fixed)) + own
        (grid,) = BasicSweeper.split_arguments(swept, None)
        in_files = functools.cache(lambda key: bool(loader.get_group_options(key, overrides=searched)))
        is_group = in_files if searched else is_lab_group  # which asks no repository of Hydra's
        version = object() if searched else conf_version()  # files of a search path may change between two sweeps
        chosen = [in_full(words) for words in grid]  # a sweep over models: model=openai/a,openai/b
        common = set(chosen[0]).intersection(*chosen) if chosen else set()

        @functools.lru_cache(maxsize=64)
        def composed(*words: str) -> RunConfig:
            return RunConfig.of(with_values(words, version, searched, is_group))

        def config(words: Sequence[str]) -> RunConfig:
            late = {word: item for word, item in late_values(words, is_group).items() if word not in common}
            with contextlib.suppress(Exception):  # a value that another needs, say: all words at once say what is wrong
                cfg = composed(*(word for word in words if word not in late))
                if all(_is_leaf(cfg.unresolved, key) for key, _ in late.values()):
                    return cfg.having(dict(late.values()))
            return composed(*words)

        return [_cell(n, words, config) for n, words in enumerate(chosen)]


def lines(grid: dict[str, Any]) -> list[str]:
    """A grid as override lines: `{"recall.omega": [0, 1], "seed": 0}` is `recall.omega=0,1 seed=0`.

    Lists, ranges, NumPy arrays and pandas Series are swept over; a list inside a list is a value. Raises ConfigError: a
    list to sweep over is empty; TypeError: a value is no null, boolean, number, text, path, list or mapping.
    """
    return [f"{key}={_values(key, _plain_value(key, value))}" for key, value in grid.items()]


def _values(key: str, value: Any) -> str:
    if value == []:
        raise ConfigError(key, "an empty list", "one value or more to sweep over", "[[]] is an empty list")
    return ",".join(map(written, value)) if isinstance(value, list) else written(value)


def _plain_value(key: str, value: Any) -> Any:
    """Convert arrays, Series, ranges and paths to lists, numbers and text."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple | range):
        return [_plain_value(key, item) for item in value]
    if isinstance(value, dict):
        return {name: _plain_value(key, item) for name, item in value.items()}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(
        f"{key}: got {type(value).__name__}, expected null, true, a number, text, a path, a list or a mapping"
    )


def _swept_by_config(fixed: list[str]) -> list[str]:
    """Sweep parameters of the chosen experiment, `hydra.sweeper.params`."""
    from hydra import compose

    try:
        params = compose("config", overrides=fixed, return_hydra_config=True).hydra.sweeper.params
    except Exception as problem:
        problem.add_note("a key that only choices of a swept group have is swept, too: KEY=choice(VALUE)")
        raise
    return [f"{key}={value}" for key, value in (params or {}).items()]


def _is_leaf(config: dict[str, Any], key: str) -> bool:
    """Whether the plain config has a value at the dotted key that is no list and no mapping."""
    parent, _, name = key.rpartition(".")
    node = value_at(config, parent) if parent else config
    return isinstance(node, dict) and name in node and not isinstance(node[name], dict | list)


def _cell(number: int, words: Sequence[str], config: Callable[[Sequence[str]], RunConfig]) -> Cell:
    try:
        return Cell.of(number, words, config(words))
    except Exception as problem:
        suggest_key(problem, words)
        problem.add_note(f"in cell {number}: {' '.join(words)}")
        raise
