"""Config groups and their options (files of conf/), and the options that a config was made of."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from reflexion_lab.runner.folder.manifest import flat, is_seeded, settings

PACKAGE = Path(__file__).parents[2]
CONF = next(path for path in (PACKAGE / "conf", PACKAGE.parent / "conf") if path.name == "conf" and path.is_dir())
"""The config folder: inside an installed wheel, else at the top of the checkout."""
TARGET = "_target_"


def is_group(key: str) -> bool:
    """Whether `key` names a config group of the lab."""
    return (CONF / key).is_dir()


@functools.cache
def options(group: str) -> dict[str, dict[str, Any]]:
    """Settings of each option of a group, by dotted key; defaults of other groups are left out."""
    files = {path.stem: msgspec.yaml.decode(path.read_bytes()) or {} for path in sorted((CONF / group).glob("*.yaml"))}
    bases = {name: [base for base in node.pop("defaults", ()) if base in [*files]] for name, node in files.items()}
    own = {name: dict(flat(node)) for name, node in files.items()}
    return {name: {k: v for base in (*bases[name], name) for k, v in own[base].items()} for name in files}


def typed(overrides: Iterable[str]) -> dict[str, str]:
    """Values of overrides by the place that they set, of a group where it is put: `curator@curator.first=memento`."""
    parts = (re.fullmatch(r"[+~]*(?:[^=@]+@)?([^=@]+)=(.*)", override, re.DOTALL) for override in overrides)
    return {part[1]: part[2] for part in parts if part}


def by_choice(runs: Iterable[tuple[Mapping[str, Any], Sequence[str]]]) -> list[dict[str, Any]]:
    """Settings of configs by dotted key, and beside them the option of each group by its place: `retriever: bm25`.

    `runs`: config and overrides of each. Equal settings have equal names: the option that some run typed, else the most
    similar one of conf/, else the class.
    """
    every = [(settings(config), typed(overrides)) for config, overrides in runs]
    nodes = [dict(_nodes(values)) for values, _ in every]
    names = {
        (place, repr(node)): words[place]
        for (_, words), own in zip(every, nodes, strict=True)
        for place, node in own.items()
        if re.fullmatch(r"[\w.-]+", words.get(place, ""))
    }
    return [
        values | {place: names.get((place, repr(node))) or _option(place, node) for place, node in own.items()}
        for (values, _), own in zip(every, nodes, strict=True)
    ]


def _nodes(values: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Places of groups, with the settings there but for seeds."""
    for key in [key for key in values if key.endswith(f".{TARGET}")]:
        place = key.removesuffix(f".{TARGET}").removesuffix(".load")
        node = {k.removeprefix(f"{place}."): v for k, v in values.items() if k.startswith(f"{place}.")}
        if is_group(_group(place)) and (place == _group(place) or _fitting(place, node)):
            yield place, {setting: value for setting, value in node.items() if not is_seeded(setting)}


def _group(place: str) -> str:
    return "model" if place.startswith("roles.") else place.partition(".")[0]


def _fitting(place: str, node: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The options with the class of `node`."""
    anchor = TARGET if TARGET in node else f"load.{TARGET}"
    return {name: own for name, own in options(_group(place)).items() if own.get(anchor) == node[anchor]}


def _option(place: str, node: Mapping[str, Any]) -> str:
    """The option with most settings of `node`; the class if several have as many, or none has this class."""
    fitting = _fitting(place, node)
    equal = {name: sum(node.get(key) == value for key, value in own.items()) for name, own in fitting.items()}
    best = [name for name, n in equal.items() if n == max(equal.values())]
    return best[0] if len(best) == 1 else str(node.get(TARGET)).rpartition(".")[2]
