"""What a probe tells of a run: as much as the run then takes, where tasks cost alike; and nothing is paid twice."""

import json

import pytest

from reflexion_lab.agent.models.capped import CapReached
from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.cli import main as cli
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Usage
from reflexion_lab.runner.config.compose import assemble, compose
from reflexion_lab.runner.config.grid import cells
from reflexion_lab.studies.estimate import Range, estimate

WORDS = "ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: c\nCONFIDENCE: 0.5\n"
RULES = [{"when": "ROOT_CAUSE", "reply": WORDS}, {"when": "", "scope": "conversation", "reply": "\n    return None\n"}]


@pytest.fixture
def overrides(tmp_path):
    """Tasks whose prompts are equally long, and a model that never passes."""
    rows = []
    for n in range(10, 22):
        prompt = f'def same_{n}(x):\n    """The number {n}.\n    >>> same_{n}(1)\n    {n}\n    """\n'
        tests = [f"assert same_{n}(1) == {n}"], [f"assert candidate(2) == {n}"]
        row = {"task_id": f"own/{n}", "prompt": prompt, "entry_point": f"same_{n}", "visible_tests": tests[0]}
        rows.append(row | {"hidden_tests": tests[1], "canonical_solution": f"    return {n}\n"})
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "rules.json").write_text(json.dumps(RULES))
    return [
        *("benchmark=jsonl", f"benchmark.load.path={tmp_path / 'tasks.jsonl'}", "tracker=none", "quiet=true"),
        *("model=scripted", f"model.path={tmp_path / 'rules.json'}", f"run_root={tmp_path / 'runs'}"),
        *("loop.stuck_after=null", "loop.max_attempts=2"),
    ]


def carried_out(cfg):
    """The summary of a whole run, and its models, which say what was paid for."""
    lab = assemble(cfg)
    try:
        lab.runner.run()
    finally:
        lab.close()
    return summary(Log.read(lab.folder)), lab.models


def exactly(number):
    return Range(number, number, number)


def test_where_tasks_cost_alike_the_estimate_is_what_the_run_takes(overrides):
    told = estimate([compose(*overrides)])
    found, models = carried_out(compose(*overrides))
    assert told.roles.keys() == found.usage.keys() == {"actor", "reflector"}
    for role, usage in found.usage.items():
        part = told.roles[role]
        assert part.calls == exactly(usage.calls)
        assert part.prompt_tokens == exactly(usage.prompt_tokens)
        assert part.completion_tokens == exactly(usage.completion_tokens)
    assert told.total.calls == exactly(48)
    assert told.first_attempts.calls == exactly(12)
    assert told.retries.calls == exactly(36)
    assert told.to_pay.calls == exactly(models.made)


def test_the_probes_calls_are_hits_in_the_run(overrides):
    told = estimate([compose(*overrides)], 3)
    assert told.paid.calls == 12
    _, models = carried_out(compose(*overrides))
    assert (models.stored, models.made) == (12, 36)


def test_a_second_estimate_pays_nothing_and_tells_the_same(overrides):
    first, second = (estimate([compose(*overrides)]) for _ in range(2))
    assert second.paid == Usage()
    assert (first.total, first.roles, first.to_pay) == (second.total, second.roles, second.to_pay)
    assert "12 calls of the probe were in the cache before" in second.notes[0]


def test_what_the_cells_of_a_sweep_share_is_counted_once(overrides):
    sweep = [*overrides[:-1], "loop.max_attempts=1,2", "recall.omega=0,1", "loop.reflect_on_last=false"]
    told = estimate([cell.cfg for cell in cells(sweep)])
    made = sum(carried_out(cell.cfg)[1].made for cell in cells(sweep))
    assert (told.cells, told.tasks, told.probed) == (4, 48, 3)
    assert told.to_pay.calls == exactly(made)
    assert told.total.calls == exactly(
        12 * 4
    )  # a first attempt, a reflection, a retry that shows it, one that does not
    assert told.apart.calls == exactly(12 * (1 + 1 + 3 + 3))


def test_tasks_of_different_cost_give_a_range(overrides):
    chosen = [*overrides, "model=simulated", "actor=single_shot", "model.first=0.5", "model.spread=1"]
    told = estimate([compose(*(part for part in chosen if not part.startswith(("model.path", "model=scripted"))))], 12)
    assert told.total.calls.low < told.total.calls.mean < told.total.calls.high
    assert told.to_pay.calls == exactly(0)


def test_nothing_that_a_run_takes_is_above_the_bound(overrides):
    told = estimate([compose(*overrides)])
    assert told.at_most.calls == 48
    assert told.at_most.tokens > told.total.tokens.high


def test_money_is_told_by_the_models_price(overrides):
    chosen = [part for part in overrides if not part.startswith(("model.path", "model=scripted"))]
    chosen += ["model=simulated", "actor=single_shot", "model.first=0", "model.repair=0", "recall.max_tokens=4000"]
    chosen += ["model.price_per_million=[1000000,2000000]"]
    told = estimate([compose(*chosen)])
    found, _ = carried_out(compose(*chosen))
    assert told.total.cost.mean == pytest.approx(sum(usage.cost for usage in found.usage.values()), rel=0.01)
    assert told.total.cost.mean > 0
    assert set(told.prices.values()) == {"1e+06/2e+06 per million, as the config says"}


def test_nothing_is_written_but_the_caches_and_the_ledger(overrides, tmp_path):
    estimate([compose(*overrides, "store=jsonl", f"memory.reflection_files={tmp_path / 'words'}")])
    kept = {path.name.removesuffix("-wal").removesuffix("-shm") for path in (tmp_path / "runs").iterdir()}
    assert kept <= {"calls.sqlite", "executions.sqlite", "embeddings.sqlite", "spending.sqlite"}
    assert not (tmp_path / "words").exists()


def test_the_caps_hold_for_the_probe_too(overrides):
    with pytest.raises(CapReached, match=r"caps\.calls=5 is reached"):
        estimate([compose(*overrides, "caps.calls=5")])


def test_without_a_cache_nothing_is_probed(overrides):
    with pytest.raises(ConfigError, match=r"cache\.mode: got off"):
        estimate([compose(*overrides, "cache.mode=off")])


def test_a_probe_without_a_retry_says_that_it_saw_none(overrides, tmp_path):
    (tmp_path / "rules.json").write_text(
        json.dumps([{"when": "", "scope": "conversation", "reply": "\n    return 10\n"}])
    )
    told = estimate([compose(*overrides, "benchmark.ids=[own/10]")])
    assert told.retries.calls == exactly(0)
    assert "saw no retry" in told.notes[0]


def test_the_command_prints_a_table_and_one_json_object(overrides, capsys):
    assert cli.main(["estimate", *overrides, "--json"]) == 0
    *table, last = capsys.readouterr().out.splitlines()
    told = json.loads(last)
    assert told["total"]["calls"] == [48, 48, 48] or told["total"]["calls"] == {"low": 48, "mean": 48, "high": 48}
    assert told["paid"]["calls"] == 12
    text = " ".join(" ".join(table).split())
    assert "12 tasks, from 3 probed" in text
    assert "still to pay 36 [36, 36]" in text


def test_the_command_takes_a_sweep(overrides, capsys):
    rest = [part for part in overrides if not part.startswith("loop.max_attempts")]
    assert cli.main(["estimate", *rest, "--tasks", "2", "-m", "loop.max_attempts=1,2", "seed=0,1"]) == 0
    assert "4 cells, 48 tasks, from 2 probed" in capsys.readouterr().out
