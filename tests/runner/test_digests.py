"""Every key of every config, changed: the config digest sees what changes a result, and nothing else."""

import hashlib
import json
import re
from itertools import zip_longest
from pathlib import Path

import pytest

from reflexion_lab.cli import main as cli
from reflexion_lab.records import Manifest
from reflexion_lab.runner.config.build import plain
from reflexion_lab.runner.config.compose import CONF, compose
from reflexion_lab.runner.config.grid import cell_digest, digest_of
from reflexion_lab.runner.config.parts import with_defaults
from reflexion_lab.runner.folder import manifest
from reflexion_lab.text.prompts.render import FOLDER, SUFFIX, digests

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
    rf"|(model|roles\.\w+)\.({'|'.join(manifest.HOW_ASKED)})"
)


def leaves(node, key=()):
    if isinstance(node, dict) and node:
        for name, value in node.items():
            yield from leaves(value, (*key, name))
    else:
        yield key


def recorded(*overrides):
    """The config in the manifest of a run."""
    return plain(with_defaults(compose(*overrides)))


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
    assert by_keys[manifest.DATA,] == "yes"


OLD = json.loads((Path(__file__).parent / "manifest_of_an_earlier_version.json").read_text())
"""Shortened, as commit 6c4eb05 wrote it:
`reflexion-lab run model=simulated actor=single_shot tracker=none benchmark.limit=2 store=sqlite`
"""


def test_the_digest_of_an_earlier_version_is_no_disagreement():
    from reflexion_lab.studies.replay.verify import of_config

    assert of_config(manifest_of(OLD)).disagreements == ()
    changed = {**OLD, "config": {**OLD["config"], "temperature": 0.5}}
    assert len(of_config(manifest_of(changed)).disagreements) == 1


def test_later_keys_count_as_defaults_in_an_old_manifest():
    overrides = ["model=simulated", "actor=single_shot", "tracker=none", "benchmark.limit=2", "store=sqlite"]
    overrides += ["recall.max_tokens=600", "loop.reflect_on_last=true"]  # the defaults of that version
    for more, expected in (([], []), (["memory.shared.across_cells=true"], ["memory"])):
        now = recorded(*overrides, *more)
        differences = manifest.differences(manifest_of(OLD), manifest_of({**OLD, "config": now}))
        assert differences == expected


def test_a_run_without_a_curator_has_the_digest_that_it_had_before_there_were_any():
    config = recorded("model=simulated", "model@roles.reflector=simulated")
    before = json.loads(json.dumps(config))
    del before["curator"], before["memory"]["shared"]["items"]
    assert "curator" not in before["roles"]
    assert manifest.config_digest(before) == manifest.config_digest(config)
    first, now = (manifest_of({**OLD, "config": each}) for each in (before, config))
    assert manifest.differences(first, now) == []
    config["curator"] = recorded("curator=raw_trajectories")["curator"]
    curated = manifest_of({**OLD, "config": config})
    assert manifest.differences(first, curated) == ["curator"]
    digest = manifest.config_digest(config)
    config["memory"]["shared"]["items"]["salt"] = digest  # as in the manifest of the run
    assert manifest.config_digest(config) == digest


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


def test_a_salt_that_looks_like_that_of_a_run_without_one_is_refused(capsys):
    assert cli.main(["run", "curator=full_history", "memory.shared.items.salt='0123456789abcdef'"]) == 2
    assert "memory.shared.items.salt: got 0123456789abcdef, expected another form than 16" in capsys.readouterr().err


PROMPTS = digests()
FORMER = {now: then for then, now in manifest.SAME_WITHOUT_ITEMS.items()}
BEFORE_ITEMS = {name: FORMER.get(digest, digest) for name, digest in PROMPTS.items() if name not in ("awm", "expel")}


@pytest.mark.parametrize(
    ("curator", "now", "expected"),
    [
        ("none", PROMPTS, []),
        ("none", PROMPTS | {"lessons": "0" * 16}, ["prompt_digests"]),
        ("none", PROMPTS | {"solve": "0" * 16}, ["prompt_digests"]),
        ("none", {name: digest for name, digest in PROMPTS.items() if name != "solve"}, ["prompt_digests"]),
        ("raw_trajectories", PROMPTS, ["prompt_digests"]),
    ],
)
def test_prompts_of_a_run_from_before_there_were_items_differ_only_where_it_could_read_them(curator, now, expected):
    config = recorded(f"curator={curator}")
    runs = [manifest_of({**OLD, "config": config, "prompt_digests": prompts}) for prompts in (BEFORE_ITEMS, now)]
    assert BEFORE_ITEMS["lessons"] != PROMPTS["lessons"]
    assert manifest.differences(*runs) == expected


def test_templates_that_count_as_equal_differ_by_their_block_for_items_alone():
    for name in ("lessons", "lessons.terse"):
        text = (FOLDER / f"{name}{SUFFIX}").read_text()
        block = re.compile(r"\{% for item in memory.items %\}.*?\{% endfor %\}\n", re.DOTALL)
        former = hashlib.sha256(block.sub("", text, count=1).encode()).hexdigest()[:16]
        assert manifest.SAME_WITHOUT_ITEMS[former] == PROMPTS[name]


def test_edited_prices_are_a_difference_if_a_rule_reads_costs():
    for cost, expected in ((None, []), (0.5, ["prices of models"])):
        config = {**OLD["config"], "stop": {"budget": {"cost": cost}}}
        runs = [manifest_of({**OLD, "config": config, "prices": {"actor": price}}) for price in ("1 USD", "2 USD")]
        assert manifest.differences(*runs) == expected


def test_cells_differ_by_store_and_not_by_run_root():
    here, there = (compose("store=sqlite", f"store.place={place}") for place in ("a.sqlite", "b.sqlite"))
    assert digest_of(here) == digest_of(there)
    assert cell_digest(here) != cell_digest(there)
    roots = [compose("store=sqlite", f"run_root={root}") for root in ("runs", "/data/moved")]
    assert cell_digest(roots[0]) == cell_digest(roots[1])


def manifest_of(fields):
    import msgspec

    return msgspec.convert(fields, Manifest)
