"""From overrides to a config: Hydra's composition, once a process for each choice of groups.

`compose` serves Python and most commands, `hydra_main` the command `run` with Hydra's flags, `grid.cells` sweeps. Only
`runner.config` and `studies.sweeps.launch` import Hydra.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from reflexion_lab.errors import ConfigError
from reflexion_lab.io.files import UNREADABLE, content
from reflexion_lab.runner.config.build import Config, as_job, plain, refit, suggestion
from reflexion_lab.runner.config.choices import CONF, is_group
from reflexion_lab.runner.config.messages import all_messages, is_hydra_error
from reflexion_lab.runner.config.parts import chat_choices
from reflexion_lab.runner.folder.manifest import EXECUTION_KEYS, flat

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override


_HYDRA = threading.RLock()
"""Lock around Hydra's global state."""
_SETS = re.compile(r"\+*(preset|experiment)=")
"""Choices that set values of other groups."""
_READ = ("actor", "reviser", "model", "roles", "suite_writer", "feedback_source")
"""Keys that `chat_choices` reads."""


def compose(*overrides: str) -> Config:
    """The config of `reflexion-lab run *overrides`; also in a notebook."""
    overrides = in_full(overrides)
    own = [word for word in overrides if word.lstrip("+~").startswith("hydra")]
    words = [word for word in overrides if word not in own]
    try:
        with _HYDRA:
            return with_values(words, conf_version()) if not own else with_values(words, object(), own, bool)
    except ConfigError:
        raise
    except Exception:
        try:
            return with_values(words, object(), own, bool)  # for Hydra's own message
        except Exception as problem:
            raise with_override_at_fault(problem, overrides) from problem.__cause__


@functools.lru_cache(maxsize=32)
def set_without(version: object, groups: tuple[str, ...], *choices: str) -> dict[str, Any]:
    """Values by group that `choices` set without a choice of the `groups`; none if they choose parts within one."""
    try:
        cfg = _composed(*choices, *(f"~{group}" for group in groups))
    except Exception as problem:
        if "Could not override" not in str(problem):
            raise
        return {}
    return {group: plain(cfg[group], resolve=False) for group in groups if cfg.get(group)}


def with_values(
    words: Sequence[str], version: object, searched: Sequence[str] = (), is_group: Callable[[str], bool] = is_group
) -> Config:
    """The config of the overrides `words`, with the parts that `chat_choices` names unless `words` choose others. What
    a preset or an experiment sets below a group holds for another option of the group as far as this takes it.

    Hydra composes once for each choice of groups, which takes 0.2 s; values are set on a copy. `version`: choices are
    composed again when it changes. `searched`: overrides of Hydra's search path, in which `is_group` looks, too; with
    `bool`, Hydra composes all words. Raises ConfigError: `reflection.enabled` contradicts the reflector.
    """
    from omegaconf import OmegaConf, open_dict

    cfg = _with_values(words, version, searched, is_group)
    keys = [word.lstrip("+~").partition("=")[0] for word in words]
    reflection = cfg.get("reflection") or {}
    choices = [*chat_choices(cfg), *["reflector=none"] * (reflection.get("enabled") is False)]
    if choices := [choice for choice in choices if choice.partition("=")[0] not in keys]:
        cfg = _with_values([*words, *choices], version, searched, is_group)
    sets = [word for word in words if _SETS.match(word)]
    chosen = re.findall(r"^(\w+)=(?!\{)", "\n".join((*words, *choices)), re.MULTILINE) if sets else ()
    groups = tuple(
        group for group in chosen if (CONF / group).is_dir() and cfg.get(group) and group != "stop"
    )  # a list
    for group, values in set_without(version, groups, *searched, *sets).items() if groups else ():
        refit(node := plain(cfg[group], resolve=False), values, group, [*_dotted(words)])
        OmegaConf.update(cfg, group, node, merge=False)
    if "enabled" in reflection:
        from reflexion_lab.runner.config.check import WORDLESS

        name = str((cfg.get("reflector") or {}).get("_target_")).rpartition(".")[2]
        got, expected = (str(each).lower() for each in (reflection["enabled"], name != WORDLESS[1]))
        if got != expected:
            raise ConfigError("reflection.enabled", got, f"{expected} with the reflector {name}, or reflector=…")
        with open_dict(cfg):
            del cfg["reflection"]
    return cfg


def late_values(words: Sequence[str], is_group: Callable[[str], bool]) -> dict[str, tuple[str, Any]]:
    """Keys and values by word, of the `words` that set a single value by which no other one and no choice changes: they
    may be set after composition (`RunConfig.having`) where the config has a single value there.
    """
    if any(word.startswith(("+", "~")) or "{" in word for word in words):
        return {}
    refitted = {word.partition("=")[0] for word in words} if any(map(_SETS.match, words)) else set()
    late = {}
    for word in words:
        key = word.partition("=")[0]
        group = key.partition(".")[0]
        is_free = group not in _READ and (group == key or group not in refitted)
        if is_free and re.fullmatch(r"\w+(\.\w+)*", key) and not is_group(key):
            value = parsed(word).value()
            if (value is None or isinstance(value, str | int | float)) and value != "???":
                late[word] = key, value
    return late


def _dotted(words: Sequence[str]) -> Iterator[str]:
    """Dotted keys that `words` set: `recall.omega` of `recall={omega: 3}`."""
    for override in map(parsed, words):
        yield from (key for key, _ in flat({override.get_key_element().lstrip("+~"): override.value()}) if "." in key)


@functools.lru_cache(maxsize=4096)  # the cells of a sweep share most of their words
def parsed(word: str) -> Override:
    """An override by Hydra's grammar. Raises HydraException."""
    from hydra.core.override_parser.overrides_parser import OverridesParser

    (override,) = OverridesParser.create().parse_overrides([word])
    return override


def in_full(overrides: Sequence[str]) -> tuple[str, ...]:
    """Overrides with `model=PROVIDER/NAME`, `benchmark=FILE`, `prompts=FILE` in full, and ++ if no file has a key."""
    by_override = sorted(map(_in_full, overrides), key=lambda words: words[0] != "prompts=default" or len(words) == 1)
    return tuple(chain(*by_override))  # what a prompt variant's file sets comes before any value that is typed


_SERVED = re.compile(
    r"model(@[\w.]+)?=((openai|vllm|ollama|llamacpp-server|hf)/(?P<name>[^,]+)"
    r"|(?:anthropic|azure|bedrock|cohere|deepseek|fireworks_ai|gemini|groq|huggingface|mistral|openrouter|together_ai"
    r"|vertex_ai|xai)/[^,]+)"
)
"""Servers of OpenAI's protocol, and weights of transformers, which have a config file each; providers of LiteLLM."""
_TASKS = re.compile(r"benchmark=((?:hf://)?[^,]+\.\w+|hf://[^,]+)")
_PROMPTS = re.compile(r"prompts=([^,]+\.ya?ml)")
_LEFT_OUT = re.compile(
    r"[\w.]+\.sampling\.(top_p|stop|grammar)=|(model|roles\.\w+)\.reasoning_effort=|memory\.(shared\.max_mistakes|heading)="
    r"|benchmark\.fields[.=]|reflection\.enabled=|loop\.first_draw=|prompts\.(test_results|failed_program)="
    r"|prompts\.instructions[.=]"
)
"""Values that many nodes, or all, leave out; of `benchmark.fields` any field of a file."""


def _in_full(override: str) -> tuple[str, ...]:
    bare = re.sub(
        r"""^((?:model(?:@[\w.]+)?|benchmark|prompts)=)(["'])([^"'\\]*)\2$""", r"\1\3", override
    )  # of a mapping
    if served := _SERVED.fullmatch(bare):
        package, model = served[1] or "", re.sub(r"\\(.)", r"\1", served["name"] or served[2])
        key = f"{package[1:] or 'model'}.{'path' if served[3] == 'hf' else 'model'}"
        return f"model{package}={served[3] or 'litellm'}", f"{key}={_quoted(model)}"
    if _TASKS.fullmatch(bare if bare == override else bare.replace(",", "_")):
        return "benchmark=jsonl", f"benchmark.load.path={_quoted(bare.removeprefix('benchmark='))}"
    if variant := _PROMPTS.fullmatch(bare):
        return "prompts=default", *_variant(Path(variant[1]))
    return (f"++{override}",) if _LEFT_OUT.match(override) else (override,)


def _variant(path: Path) -> list[str]:
    """Overrides for the values in a prompt variant's file. Raises ConfigError: it cannot be read, or has other keys."""
    expected = f"a file in YAML with some of {', '.join(VARIANT_KEYS)}, as `reflexion-lab optimize` writes it"
    try:
        node = msgspec.yaml.decode(content(path, expected), type=dict[str, Any])
    except (ValueError, *UNREADABLE) as problem:
        raise ConfigError("prompts", f"{path} ({' '.join(str(problem).split())})", expected) from None
    if strange := sorted(node.keys() - {*VARIANT_KEYS, "_target_", "lineage"}):
        raise ConfigError("prompts", f"{path} with {', '.join(strange)}", expected)
    return [f"++prompts.{key}={written(node[key])}" for key in VARIANT_KEYS if key in node]


def written(value: Any) -> str:
    """The value in Hydra's override grammar."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, list | tuple):
        return f"[{','.join(map(written, value))}]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}:{written(inner)}" for key, inner in value.items()) + "}"
    text = str(value)
    is_plain = not isinstance(value, str) or re.fullmatch(r"(?!(?i:true|false|null|inf|nan)$)[A-Za-z_][\w-]*", text)
    # A backslash is an escape before a quote and at the end alone.
    return text if is_plain else '"' + re.sub(r'(\\*)("|\Z)', lambda m: m[1] * 2 + '\\"' * bool(m[2]), text) + '"'


VARIANT_KEYS = ("variant", "examples", "test_results", "failed_program", "instructions")


def _quoted(text: str) -> str:
    """`text` as a value of Hydra's grammar."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _with_values(
    words: Sequence[str], version: object, searched: Sequence[str], is_group: Callable[[str], bool]
) -> Config:
    from omegaconf import OmegaConf

    overrides = [*map(parsed, words)]
    choices = [override for override in overrides if _is_choice(override, is_group)]
    if any(_depends_on_order(override) for override in choices):
        return _composed(*searched, *words)
    cfg: Config = pickle.loads(_composed_once(version, *searched, *(each.input_line or "" for each in choices)))
    for override in overrides:
        if override not in choices:
            OmegaConf.update(cfg, override.key_or_group, override.value(), force_add=override.is_force_add())
    return cfg


def conf_version() -> tuple[tuple[str, int], ...]:
    """Paths and times of change of all config files."""
    return tuple(sorted((str(path), path.stat().st_mtime_ns) for path in CONF.rglob("*.yaml")))


@functools.lru_cache(maxsize=256)
def _composed_once(version: object, *choices: str) -> bytes:
    return pickle.dumps(_composed(*choices))  # read five times as fast as a config is copied


def _depends_on_order(override: Override) -> bool:
    """Whether it adds or deletes a value, or sets a whole group: it may overrule a value before it."""
    changes = override.is_add(), override.is_force_add(), override.is_delete()
    return any(changes) or not isinstance(override.value(), str | list | None)


def _is_choice(override: Override, is_group: Callable[[str], bool]) -> bool:
    """Whether the override does more than set a value: it chooses a group, adds by +, deletes, or sweeps."""
    changes = (override.is_add(), override.is_delete(), override.package is not None, override.is_sweep_override())
    return any(changes) or "/" in override.key_or_group or is_group(override.key_or_group)


def hydra_main(job: Callable[[Config], None], arguments: Sequence[str]) -> None:
    """Call `job` with the config of the command line `arguments`, unless Hydra only prints (`--cfg`, `--info`,
    `--shell-completion`). Overrides alone need no Hydra application, which would compose them twice.
    """
    from hydra import main
    from hydra._internal.utils import get_args_parser  # no public module has it
    from omegaconf import OmegaConf

    arguments = in_full(arguments)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # so that Hydra raises config errors instead of printing them
    sys.argv = ["reflexion-lab run", *arguments]
    flags = get_args_parser().parse_args(arguments)
    own = [f"hydra.searchpath=['file://{Path(flags.config_dir).absolute()}']"] if flags.config_dir else []
    is_known = Path(flags.config_dir or CONF).is_dir() and not (flags.config_name or flags.config_path)
    cfg = compose(*own, *flags.overrides) if is_known and not flags.shell_completion else None

    @functools.wraps(job)
    def completed(by_hydra: Config) -> None:
        with as_job([word for word in flags.overrides if not word.lstrip("+~").startswith("hydra")]):
            job(by_hydra if cfg is None else cfg)

    if cfg is not None and not any(word.lstrip("+~").startswith(("-", "hydra")) for word in arguments):
        completed(cfg)
    elif cfg is not None and flags.cfg == "job":
        node = OmegaConf.select(cfg, flags.package or "")
        print(OmegaConf.to_yaml(node, resolve=flags.resolve).rstrip() if OmegaConf.is_config(node) else node)
    else:
        try:
            main(version_base="1.3", config_path=str(CONF), config_name="config")(completed)()
        except FileExistsError as problem:
            raise ConfigError("hydra.run.dir", f"{problem.filename}, a file", "a folder") from None


def with_override_at_fault(problem: Exception, overrides: Sequence[str]) -> Exception:
    """`problem` with a hint at a near key. A file that cannot be read becomes a ConfigError."""
    suggest_key(problem, overrides)
    if is_hydra_error(problem):
        return problem
    groups = [word for word in overrides if is_group(word.partition("=")[0])]
    named = next((word for word in reversed(groups) if re.search(r"=(null|[\d.]+)$", word)), " ".join(groups[-1:]))
    is_file = not isinstance(problem, ValueError) or isinstance(problem, UnicodeDecodeError)
    return ConfigError(f"{named}: {problem}{'; expected a file in YAML' * is_file}")


def suggest_key(problem: Exception, overrides: Sequence[str]) -> None:
    """Add the suggestion existing key to Hydra's error about an unknown key."""
    if unknown := re.search(r"is not in struct\s+full_key: (?!hydra\.)(\S+)", all_messages(problem)):
        others = [override for override in overrides if override.partition("=")[0] != unknown[1]]
        from reflexion_lab.runner.config.record import places

        try:
            cfg = _composed(*others)
        except Exception:  # another override is invalid, too
            cfg = _composed()
        groups = {path.name for path in CONF.iterdir() if path.is_dir()}
        if hint := suggestion(unknown[1], places(plain(cfg, resolve=False)) | groups):
            problem.add_note(hint)


def _composed(*overrides: str) -> Config:
    from hydra import compose as hydra_compose

    with hydra_initialized():
        cfg: Config = hydra_compose("config", overrides=list(overrides))
    return cfg


@contextlib.contextmanager
def hydra_initialized() -> Iterator[None]:
    """Hydra with the lab's configs, for one thread at a time; a context of the caller is restored afterwards."""
    from hydra import initialize_config_dir
    from hydra._internal.sources_registry import SourcesRegistry
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.plugins import Plugins

    from reflexion_lab.runner.config.files import ParsedFiles

    with _HYDRA:
        Plugins.instance()  # registers Hydra's sources
        state, sources = GlobalHydra.instance(), SourcesRegistry.instance().types
        outer, state.hydra = state.hydra, None
        try:
            of_hydra, sources["file"] = sources["file"], ParsedFiles
            try:
                context = initialize_config_dir(version_base="1.3", config_dir=str(CONF))
            finally:  # a launcher's processes register Hydra's own
                sources["file"] = of_hydra
            with context:
                yield
        finally:
            GlobalHydra.instance().hydra = outer


def restored(config: Mapping[str, Any]) -> Config:
    """The config of a manifest; missing execution keys are null."""
    from omegaconf import OmegaConf

    return OmegaConf.create({**dict.fromkeys(EXECUTION_KEYS), **config})
