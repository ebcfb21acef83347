"""Every key of every config, changed: the config digest sees what changes a result, and nothing else."""

import json
import re
from itertools import zip_longest

import pytest
from msgspec.structs import replace

from reflexion_lab.cli import main as cli
from reflexion_lab.runner.config.build import plain
from reflexion_lab.runner.config.compose import CONF, compose
from reflexion_lab.runner.config.grid import cell_digest
from reflexion_lab.runner.config.parts import with_defaults
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.folder import manifest
from reflexion_lab.text.prompts.render import digests
from tests.builders import manifest as new_manifest

LISTED = ("stop", "experiment", "preset", "hydra")
"""Groups that are no single part; the rules of `stop` are composed all at once."""
GROUPS = [
    [f"{group.name}={path.stem}" for path in sorted(group.glob("*.yaml"))]
    for group in sorted(CONF.iterdir())
    if group.is_dir() and group.name not in LISTED
]
CONFIGS = [tuple(filter(None, choices)) for choices in zip_longest(*GROUPS)]
"""Every choice of every group once, as many at once as there are groups: to compose a config takes its time."""
EXECUTION = re.compile(
    rf"({'|'.join(manifest.EXECUTION_KEYS)})(\..*)?|{'|'.join(map(re.escape, manifest.PLACED))}"
    rf"|(model|roles\.\w+|embedder)\.({'|'.join(manifest.HOW_ASKED)})"
)


def leaves(node, key=()):
    if isinstance(node, dict) and node:
        for name, value in node.items():
            yield from leaves(value, (*key, name))
    else:
        yield key


def recorded(*overrides):
    """The config in the manifest of a run."""
    return with_defaults(RunConfig.of(compose(*overrides))).whole


def changed(config, key):
    """`config` with another value at `key`."""
    name, *below = key
    value = config[name]
    if below:
        return {**config, name: changed(value, below)}
    if isinstance(value, bool):
        return {**config, name: not value}
    if isinstance(value, int | float):
        return {**config, name: value + 1}
    return {**config, name: f"{value}-other"}


def test_no_choice_of_any_group_is_forgotten():
    choices_listed = sorted(choice for choices in CONFIGS for choice in choices)
    assert choices_listed == sorted(choice for group in GROUPS for choice in group)
    assert len(choices_listed) > 70


EVERY_STOP = f"stop=[{','.join(sorted(path.stem for path in (CONF / 'stop').glob('*.yaml')))}]", "stop.budget.cost=null"


@pytest.mark.parametrize("choices", [(), *CONFIGS, EVERY_STOP], ids=" ".join)
@pytest.mark.slow
def test_a_digest_changes_with_exactly_the_measured_keys(choices):
    config = plain(compose(*choices, "storage.url=postgresql://host/lab"))
    digest = manifest.config_digest(config)
    keys = list(leaves(config))
    assert len(keys) > 80
    for key in keys:
        is_asked = "api_key_env" in config["model"] if key[0] == "model" else True
        is_execution = EXECUTION.fullmatch(".".join(key)) is not None and is_asked
        other = manifest.config_digest(changed(config, key))
        assert (other == digest) is is_execution, ".".join(key)


def test_the_documented_table_of_keys_is_that_of_the_code():
    page = (CONF.parent / "docs" / "configuration.md").read_text()
    rows = re.findall(r"^\| (`.*?) \| (\S.*?) \|", page.partition("## Keys and digests")[2].partition("\n## ")[0], re.M)
    by_keys = {tuple(re.findall(r"`([^`]+)`", keys)): answer for keys, answer in rows}
    no = {key for keys, answer in by_keys.items() if answer == "no" for key in keys} - {"model=openai"}
    assert no == {*manifest.EXECUTION_KEYS, *manifest.PLACED, *manifest.HOW_ASKED} - {"prices"}
    assert by_keys["prices",] == "if a stop rule has a `cost`"


def run_with(config, **fields):
    """The manifest of a run with this config."""
    return new_manifest("run", config=config, config_digest=manifest.config_digest(config), **fields)


def test_a_digest_that_is_not_of_the_config_is_a_disagreement():
    from reflexion_lab.studies.replay.verify import of_config

    run = run_with(recorded("model=simulated", "actor=single_shot"))
    assert of_config(run).disagreements == ()
    assert len(of_config(replace(run, config={**run.config, "temperature": 0.5})).disagreements) == 1


def test_a_salt_changes_no_digest_and_one_that_looks_like_that_of_a_run_is_refused(capsys):
    config = recorded("model=simulated", "curator=raw_trajectories")
    digest = manifest.config_digest(config)
    config["memory"]["shared"]["items"]["salt"] = digest  # as in the manifest of the run
    assert manifest.config_digest(config) == digest
    assert cli.main(["run", "curator=full_history", "memory.shared.items.salt='0123456789abcdef'"]) == 2
    assert "memory.shared.items.salt: got 0123456789abcdef, expected another form than 16" in capsys.readouterr().err


def test_runs_with_salts_of_their_own_are_two_cells_and_two_arms(tmp_path, capsys):
    stream = ("model=simulated", "actor=single_shot", "benchmark.limit=2", "curator=full_history", "tracker=none")
    key = "memory.shared.items.salt"
    assert cli.main(["run", "-m", *stream, f"{key}=null,a,b", f"run_root={tmp_path}", "arm=salted"]) == 0
    assert "3 cells: 3 done" in capsys.readouterr().out
    runs = [json.loads(path.read_text()) for path in tmp_path.glob("*/manifest.json")]
    by_salt = {run["config"]["memory"]["shared"]["items"]["salt"]: run["config_digest"] for run in runs}
    assert len(set(by_salt.values())) == 3
    unset = manifest.config_digest(recorded(*stream, "arm=salted"))
    assert by_salt[unset] == unset
    assert cli.main(["compare", str(tmp_path)]) == 0
    compared = capsys.readouterr().out
    assert all(f"salt={name}" in compared for name in ("a", "b", "None"))


PROMPTS = digests()


@pytest.mark.parametrize(("prompts", "expected"), [
    (PROMPTS, []), (PROMPTS | {"solve": "0" * 16}, ["prompt_digests"]),
    ({name: digest for name, digest in PROMPTS.items() if name != "solve"}, ["prompt_digests"]),
])  # fmt: skip
def test_runs_with_other_prompts_differ(prompts, expected):
    config = recorded("model=simulated")
    assert manifest.differences(*(run_with(config, prompt_digests=each) for each in (PROMPTS, prompts))) == expected


def test_edited_prices_are_a_difference_if_a_rule_reads_costs():
    for cost, expected in ((None, []), (0.5, ["prices of models"])):
        config = {**recorded("model=simulated"), "stop": {"budget": {"cost": cost}}}
        runs = [run_with(config, prices={"actor": price}) for price in ("1 USD", "2 USD")]
        assert manifest.differences(*runs) == expected


def test_cells_differ_by_store_and_not_by_run_root():
    here, there = (compose("store=sqlite", f"store.place={place}") for place in ("a.sqlite", "b.sqlite"))
    assert cell_digest(here).partition("-")[0] == cell_digest(there).partition("-")[0]
    assert cell_digest(here) != cell_digest(there)
    roots = [compose("store=sqlite", f"run_root={root}") for root in ("runs", "/data/moved")]
    assert cell_digest(roots[0]) == cell_digest(roots[1])
