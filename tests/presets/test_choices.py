"""Every preset runs with every reflector and any kind of model by the plain command."""

import inspect
import itertools
import json
import shlex
from pathlib import Path

import pytest
import yaml

from reflexion_lab.cli import main as cli
from reflexion_lab.runner.config import compose as module
from reflexion_lab.runner.config.build import located
from reflexion_lab.runner.config.choices import options
from reflexion_lab.runner.config.compose import CONF, _composed, compose
from reflexion_lab.runner.config.grid import cells
from reflexion_lab.runner.config.parts import with_defaults
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.folder.folder import RunFolder
from tests.builders import TABLES, pairwise
from tests.studies.small_runs import chat_server

PRESETS = sorted(options("preset"))
MODELS = {
    "simulated": ["model=simulated", "model.first=0", "model.repair=0"],
    "scripted": ["model=scripted", "model.path=script.json"],
    "openai": ["model=openai", "model.model=tiny", "model.context=4096"],
}
REFLECTORS = [f"reflector={name}" for name in sorted(options("reflector")) if name != "quoted"]
REFLECTORS += ["reflector=quoted store=none memory.reflection_files=null", "reflection.enabled=false"]
QUICK = ("reflector=none", "reflector=rules", "reflection.enabled=false")
WORDLESS, SILENT = ("none", "false"), ("rules", "feedback_only", "generic", "quoted", "shuffled")
"""Reflectors without words, and those with words that make no call."""


@pytest.fixture
def attempts(tmp_path, monkeypatch):
    """Run two attempts at one task by the command line; returns them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "planted-key")
    (tmp_path / "script.json").write_text(
        json.dumps([{"when": "", "scope": "conversation", "reply": "\n    return None\n"}])
    )
    small = ("loop.max_attempts=2", "loop.stuck_after=null", "tracker=none", "quiet=true")

    def run(*words, root="runs", n=1):
        assert cli.main(["run", *words, *small, f"benchmark.load.n={n}", f"run_root={root}"]) == 0
        (folder,) = {path.parent for path in (tmp_path / root).glob("*/manifest.json")}
        return next(iter(RunFolder(folder).attempts.values()))

    return run


@pytest.mark.parametrize(("preset", "words", "model"), [
    pytest.param(preset, words, model, marks=() if words in QUICK else pytest.mark.slow)
    for preset, words, model in pairwise(PRESETS, REFLECTORS, [*MODELS])
])  # fmt: skip
def test_a_preset_runs_with_any_reflector_and_any_kind_of_model(attempts, preset, words, model):
    reflector = words.partition("=")[2].split()[0]
    with chat_server(lambda request: {"text": "no program"}) as server:
        more = [*MODELS[model], *([f"model.base_url={server.url}"] if model == "openai" else [])]
        if reflector == "shuffled":
            attempts(*MODELS["simulated"], root="pool", n=2)
            more.append(f"reflector.pool=[{next(Path('pool').glob('*reflexion*'))}]")
        loop = attempts(f"preset={preset}", *words.split(), *more)
    assert len(loop) == 2
    assert {attempt.trajectory.strategy == "critique_revise" for attempt in loop} == {preset == "jido"}
    assert {attempt.reflection is None for attempt in loop} == {reflector in WORDLESS}
    is_asked = any(attempt.usage["reflector"].calls for attempt in loop if attempt.reflection)
    assert is_asked == (reflector not in (*WORDLESS, *SILENT))


@pytest.fixture
def own(tmp_path):
    """Hydra's search path of a folder with config files of one's own."""
    for name, text in TABLES["own_files"].items():
        (tmp_path / "conf" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "conf" / name).write_text(text)
    return f"hydra.searchpath=[file://{tmp_path}/conf]"


@pytest.mark.parametrize(("words", "same"), [*TABLES["preset_choices"].items(), *TABLES["own_choices"].items()])
def test_what_a_preset_sets_below_a_group_holds_for_the_option_that_takes_it(words, same, own):
    more = [own] if words in TABLES["own_choices"] else []
    whole = _composed(*more, *shlex.split(same))
    assert compose(*more, *words.split()) == whole
    assert next(iter(cells([*more, *words.split(), "seed=0,1"]))).cfg == with_defaults(RunConfig.of(whole))


def test_a_reflector_that_reduces_anothers_words_reduces_those_of_the_preset():
    for preset, reflector in itertools.product(PRESETS, ("keywords", "length_matched")):
        whole, reduced = compose(f"preset={preset}"), compose(f"preset={preset}", f"reflector={reflector}")
        assert reduced.reflector.first == whole.reflector


def test_presets_of_ones_own_run_by_every_command_and_keep_the_words_that_were_typed(own, attempts, tmp_path):
    typed = ["reflector=keywords", "~reflector.first.on_failure", "preset=mine", *MODELS["simulated"]]
    for n, place in enumerate(([own], ["--config-dir", "conf"], ["-m", own, "seed=0"])):
        assert len(attempts(*place, *typed, root=f"runs{n}")) == 2
        (path,) = (tmp_path / f"runs{n}").glob("*/manifest.json")
        words = [word.removesuffix("=null") for word in json.loads(path.read_bytes())["provenance"]["overrides"]]
        assert [word for word in words if "reflector" in word or word in typed] == typed


def test_an_own_preset_is_read_again_after_a_change_and_the_labs_share_compositions(own, tmp_path, monkeypatch):
    path, words = tmp_path / "conf" / "preset" / "mine.yaml", [own, "preset=mine", "reflector=llm"]
    assert [cell.cfg.reflector["timeout"] for cell in cells(words)] == [None]
    path.write_text(path.read_text().replace("timeout: null", "timeout: 60"))
    assert [cell.cfg.reflector["timeout"] for cell in cells(words)] == [compose(*words).reflector.timeout] == [60]
    calls = []
    monkeypatch.setattr(module, "_composed", lambda *words: calls.append(words) or _composed(*words))
    assert len(cells(["preset=openagents", "reflector=quoted", "model=simulated", "seed=range(0,20)"])) == 20
    assert len(calls) == len({*calls}) <= 3


@pytest.mark.parametrize(("words", "rule"), [*TABLES["reflection_enabled"].items()])
def test_reflection_enabled_agrees_with_the_reflector(words, rule, capsys):
    for flags in ([], ["--cfg", "job"], ["-m"]):
        assert cli.main(["run", *flags, *words.split()]) == 2
        assert f"reflection.enabled: {rule}" in capsys.readouterr().err


def test_a_name_under_which_options_share_a_value_of_a_preset_means_the_same_in_each():
    for path in [*CONF.glob("preset/*.yaml"), *CONF.glob("experiment/*.yaml")]:
        for group, values in yaml.safe_load(path.read_text()).items():
            parts = [yaml.safe_load(option.read_text()).get("_target_") for option in CONF.glob(f"{group}/*.yaml")]
            kinds = [inspect.signature(located(part)).parameters for part in parts if part]
            for name in values if kinds else ():
                assert len({str(kind[name].annotation) for kind in kinds if name in kind}) == 1, (path, group, name)


def test_a_value_of_ones_own_that_the_option_does_not_take_is_refused(attempts, capsys):
    assert cli.main(["run", "preset=openagents", "reflector=none", "reflector.timeout=9", "quiet=true"]) == 2
    assert "error: reflector.timeout: unknown key" in capsys.readouterr().err
