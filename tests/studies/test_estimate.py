"""Estimates from a probe: exact where tasks cost alike; no call of the probe is paid twice."""

import json
import re

import pytest

from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.cli import main as cli
from reflexion_lab.errors import CapReached, ConfigError
from reflexion_lab.records import Usage
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.grid import cells
from reflexion_lab.studies.estimate import Range, estimate
from tests.builders import FAMILIES
from tests.studies.small_runs import REFLECTION, run_lab, script

NEVER = {"when": "", "scope": "conversation", "reply": "\n    return None\n"}
RULES = [{"when": "ROOT_CAUSE", "reply": REFLECTION.format("c")}, NEVER]


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

    return [
        *("benchmark=jsonl", f"benchmark.load.path={tmp_path / 'tasks.jsonl'}", "tracker=none", "quiet=true"),
        *("model=scripted", f"model.path={script(tmp_path, RULES)}", f"run_root={tmp_path / 'runs'}"),
        *("loop.stuck_after=null", "loop.max_attempts=2", "loop.reflect_on_last=true"),
    ]


def run(overrides):
    """The summary of a whole run, and its models, which count calls."""
    lab = run_lab(compose(*overrides))
    return summary(Log.read(lab.folder)), lab.models


def simulated(overrides, *more):
    others = [override for override in overrides if not override.startswith(("model.path", "model=scripted"))]
    return [*others, "model=simulated", "actor=single_shot", *more]


def exactly(number):
    return Range(number, number, number)


def test_where_tasks_cost_alike_the_estimate_is_exact(overrides):
    expected, again = (estimate([compose(*overrides)]) for _ in range(2))
    assert again.paid == Usage()
    assert (again.total, again.roles, again.to_pay) == (expected.total, expected.roles, expected.to_pay)
    assert "12 calls of the probe were in the cache before" in again.notes[0]
    figures, models = run(overrides)
    assert expected.roles.keys() == figures.usage.keys() == {"actor", "reflector"}
    for role, usage in figures.usage.items():
        for field in ("calls", "prompt_tokens", "completion_tokens"):
            assert getattr(expected.roles[role], field) == exactly(getattr(usage, field)), (role, field)
    assert expected.total.calls == exactly(48)
    assert expected.first_attempts.calls == exactly(12)
    assert expected.retries.calls == exactly(36)
    assert expected.paid.calls == models.stored == 12
    assert expected.to_pay.calls == exactly(models.paid) == exactly(36)
    assert expected.at_most.calls == 48
    assert expected.at_most.tokens > expected.total.tokens.high


@pytest.mark.slow
def test_calls_shared_by_cells_are_counted_once(overrides):
    grid = [*overrides[:-1], "loop.max_attempts=1,2", "recall.omega=0,1", "loop.reflect_on_last=false"]
    expected = estimate([cell.cfg for cell in cells(grid)])
    total = sum(run_lab(cell.cfg).models.paid for cell in cells(grid))
    assert (expected.cells, expected.tasks, expected.probed) == (4, 48, 3)
    assert expected.to_pay.calls == exactly(total)
    # a first attempt, a reflection, a retry that shows it, one that does not
    assert expected.total.calls == exactly(12 * 4)
    assert expected.apart.calls == exactly(12 * (1 + 1 + 3 + 3))


def test_other_seeds_are_probed_on_other_tasks(overrides, tmp_path):
    expected = estimate([compose(*overrides, f"seed={seed}") for seed in range(3)])
    names = {
        name for path in tmp_path.glob("runs/calls.sqlite*") for name in re.findall(rb"same_\d+", path.read_bytes())
    }
    assert expected.probed == 3 and len(names) > 6


def test_tasks_of_different_cost_give_a_range(overrides):
    cfg = compose(*simulated(overrides, "model.first=0.5", "model.spread=1"))
    expected, whole = estimate([cfg], 6), estimate([cfg], 12)
    assert expected.total.calls.low < expected.total.calls.mean < expected.total.calls.high
    assert whole.total.calls.low == whole.total.calls.high
    assert whole.to_pay.calls == exactly(0)


def test_cost_is_computed_from_the_price_of_the_model(overrides):
    never_solved = ("model.first=0", "model.repair=0", "recall.max_tokens=4000")
    priced = simulated(overrides, *never_solved, "model.price_per_million=[1000000,2000000]")
    expected = estimate([compose(*priced)])
    figures, _ = run(priced)
    assert expected.total.cost.mean == pytest.approx(sum(usage.cost for usage in figures.usage.values()), rel=0.01)
    assert expected.total.cost.mean > 0
    assert set(expected.prices.values()) == {"1e+06/2e+06 per million, as the config says"}


def test_a_probe_writes_nothing_but_caches_and_ledger_and_reflects_as_its_run_does(overrides, tmp_path):
    default = [*overrides, "loop.reflect_on_last=null"]
    stored = estimate([compose(*default, "store=jsonl", f"memory.reflection_files={tmp_path / 'words'}")])
    assert stored.roles["reflector"].calls == exactly(24)
    assert estimate([compose(*default)]).roles["reflector"].calls == exactly(12)
    files = {path.name.removesuffix("-wal").removesuffix("-shm") for path in (tmp_path / "runs").iterdir()}
    assert files <= {"calls.sqlite", ".calls.sqlite.lock", "executions.sqlite", "embeddings.sqlite", "spending.sqlite"}
    assert not (tmp_path / "words").exists()


@pytest.mark.parametrize(("override", "error", "message"), [
    ("caps.calls=5", CapReached, r"caps\.calls=5 is reached"), ("cache.mode=off", ConfigError, r"cache\.mode: got off"),
    ("+sed=1", ConfigError, "sed: unknown key"),
])  # fmt: skip
def test_a_probe_keeps_the_caps_and_needs_a_cache(overrides, override, error, message):
    with pytest.raises(error, match=message):
        estimate([compose(*overrides, override)])


def test_a_probe_without_a_retry_says_so(overrides, tmp_path):
    script(tmp_path, [{**NEVER, "reply": "\n    return 10\n"}])
    expected = estimate([compose(*overrides, "benchmark.ids=[own/10]")])
    assert expected.retries.calls == exactly(0)
    assert "saw no retry" in expected.notes[0]


def test_the_command_prints_a_table_and_one_json_object_and_takes_a_sweep(overrides, capsys):
    assert cli.main(["estimate", *overrides, "--json"]) == 0
    *table, last = capsys.readouterr().out.splitlines()
    expected = json.loads(last)
    assert expected["total"]["calls"] == {"low": 48, "mean": 48, "high": 48}
    assert expected["paid"]["calls"] == 12
    text = " ".join(" ".join(table).split())
    assert "12 tasks, from 3 probed" in text
    assert "still to pay 36 [36, 36]" in text
    rest = [override for override in overrides if not override.startswith("loop.max_attempts")]
    assert cli.main(["estimate", *rest, "--tasks", "2", "-m", "loop.max_attempts=1,2", "seed=0,1"]) == 0
    assert "4 cells, 48 tasks, from 2 probed" in capsys.readouterr().out


STUDY = """\
name: two arms
hypotheses: [The script learns nothing.]
primary_metric: pass_at_1
arms: {one: loop.max_attempts=1 arm=one, two: loop.max_attempts=2 arm=two}
baseline: one
benchmark: tasks
n_tasks: 12
seeds: [0, 1]
budget: {calls: 1000}
minimum_detectable_effect: 1.0
exclusions: []
stopping: after all runs
"""


def test_a_study_is_estimated_as_the_sweep_of_its_arms_and_seeds(overrides, capsys, tmp_path):
    (tmp_path / "study.yaml").write_text(STUDY)
    words = [override for override in overrides if not override.startswith("loop.max_attempts")]
    assert cli.main(["estimate", "--study", str(tmp_path / "study.yaml"), *words, "--json"]) == 0
    of_study = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (of_study["cells"], of_study["tasks"]) == (4, 48)
    assert cli.main(["estimate", *words, "--json", "-m", "loop.max_attempts=1,2", "seed=0,1"]) == 0
    of_sweep = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert of_study["total"] == of_sweep["total"]
    assert (of_study["paid"]["calls"], of_sweep["paid"]["calls"]) == (of_study["total"]["calls"]["mean"] / 4, 0)


STREAM = (
    *FAMILIES, "benchmark.load.n=12", "benchmark.load.families=3", "tracker=none",
    "actor=single_shot", "loop.max_attempts=2", "memory.shared.round_size=1", "quiet=true",
)  # fmt: skip
CURATORS = ["ace", "expel", "awm", "a_mem", "memento", "dynamic_cheatsheet curator.variant=retrieval_synthesis"]


def estimated(capsys, root, *words):
    """What the command prints, and its figures."""
    assert cli.main(["estimate", "--json", *STREAM, f"run_root={root}", *words]) == 0
    *text, figures = capsys.readouterr().out.splitlines()
    return " ".join(" ".join(text).split()), json.loads(figures)


@pytest.mark.parametrize(
    ("curator", "size"),
    [pytest.param(name, 1 + 4 * (n % 2), marks=[pytest.mark.slow] * (n > 1)) for n, name in enumerate(CURATORS)],
)
def test_a_probe_of_all_tasks_is_the_run_with_its_curator(tmp_path, capsys, curator, size):
    words = (*f"curator={curator}".split(), f"memory.shared.round_size={size}")
    text, expected = estimated(capsys, tmp_path, *words, "--tasks", "12")
    figures, models = run([*STREAM, f"run_root={tmp_path}", *words])
    calling = {role: usage for role, usage in figures.usage.items() if usage.calls}
    assert expected["roles"].keys() == calling.keys()
    assert ("curator" in calling) == (curator != "memento")
    for role, usage in calling.items():
        assert expected["roles"][role]["calls"]["mean"] == usage.calls
        assert expected["roles"][role]["prompt_tokens"]["mean"] == pytest.approx(usage.prompt_tokens)
    assert models.paid == expected["to_pay"]["calls"]["high"] == 0
    assert "note: memory" not in text


@pytest.mark.parametrize("curator", ["ace", "expel"])
def test_an_estimate_counts_the_curators_calls_and_bounds_full_memory(tmp_path, capsys, curator):
    words = f"curator={curator}".split()
    text, expected = estimated(capsys, tmp_path, *words, "--tasks", "4")
    figures, models = run([*STREAM, f"run_root={tmp_path}", *words])
    assert models.stored >= expected["paid"]["calls"] > 4  # the run pays no call of the probe again
    for role in ("actor", "curator"):
        assert expected["roles"][role]["calls"]["low"] <= figures.usage[role].calls
    assert figures.usage["actor"].prompt_tokens <= expected["at_most"]["prompt_tokens"]
    assert "note: memory grows after the probe" in text


def test_a_curator_is_probed_in_whole_rounds(tmp_path, capsys):
    easy = ("curator=expel", "memory.shared.round_size=6", "model.without=1")
    text, expected = estimated(capsys, tmp_path, *easy, "--tasks", "3")
    assert "12 tasks, from 6 probed" in text
    assert expected["roles"]["curator"]["calls"] == {"low": 2, "mean": 2, "high": 2}
    assert expected["to_pay"]["calls"]["mean"] == 6 + 1


def test_held_out_tasks_are_not_curated(tmp_path, capsys):
    words = ("curator=dynamic_cheatsheet", "benchmark.split={test: 0.75}", "loop.max_attempts=1")
    _, expected = estimated(capsys, tmp_path, *words)
    figures, models = run([*STREAM, f"run_root={tmp_path}", *words])
    assert expected["roles"]["curator"]["calls"]["mean"] == figures.usage["curator"].calls == 4
    assert models.paid == expected["to_pay"]["calls"]["mean"]


def test_an_estimate_says_that_the_curators_calls_are_missing(tmp_path, capsys):
    never = ("curator=awm", "model.without=0", "model.with_rule=0", "model.with_wrong=0")
    text, expected = estimated(capsys, tmp_path, *never)
    assert "curator" not in expected["roles"]
    assert "the figures lack the curator's calls: it made none in the probe of 3 tasks" in text
    frozen, _ = estimated(capsys, tmp_path, "curator=awm", "memory.shared.items.frozen=true")
    assert "curator" not in frozen


def test_cells_that_learn_share_calls_of_the_probe_alone(tmp_path, capsys):
    alone = [estimated(capsys, tmp_path / name, f"curator={name}")[1] for name in ("none", "ace", "awm")]
    text, every = estimated(capsys, tmp_path / "sweep", "-m", "curator=none,ace,awm")
    assert "3 cells, 36 tasks" in text
    for name, role in (("apart", "total"), ("to_pay", "to_pay")):
        assert every[name]["calls"]["mean"] == pytest.approx(sum(each[role]["calls"]["mean"] for each in alone))
    assert every["total"]["calls"]["mean"] < every["apart"]["calls"]["mean"]
    assert every["roles"]["curator"] == alone[1]["roles"]["curator"] | {
        field: {end: sum(each["roles"]["curator"][field][end] for each in alone[1:]) for end in ("low", "mean", "high")}
        for field in ("calls", "prompt_tokens", "completion_tokens", "tokens", "cost")
    }
