"""Config groups and their options (files of conf/), and the options that a config was made of."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
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

    `runs`: config and overrides of each. Equal settings have equal names: the option that some run typed, else that of
    conf/ with this class and most of the settings, else, if there is no single one, the class.
    """
    every = [(values := settings(config), typed(overrides), dict(values)) for config, overrides in runs]
    own = {
        (place, _below(place, values)): word
        for values, words, _ in every
        for place, word in words.items()
        if re.fullmatch(r"[\w.-]+", word)
    }
    for values, _, named in every:
        for key in [key for key in values if key.endswith(f".{TARGET}")]:
            place = key.removesuffix(f".{TARGET}").removesuffix(".load")
            group, anchor = "model" if place.startswith("roles.") else place.partition(".")[0], key[len(place) + 1 :]
            equal = {
                name: sum(values.get(f"{place}.{setting}") == value for setting, value in option.items())
                for name, option in options(group).items()
                if option.get(anchor) == values[key]
            }
            best = [name for name, n in equal.items() if n == max(equal.values())]
            if best or (place == group and is_group(group)):
                name = best[0] if len(best) == 1 else str(values[key]).rpartition(".")[2]
                named[place] = own.get((place, _below(place, values)), name)
    return [named for *_, named in every]


def _below(place: str, values: Mapping[str, Any]) -> str:
    return repr([item for item in values.items() if item[0].startswith(f"{place}.") and not is_seeded(item[0])])
