"""The doctor's table and totals, on made-up verdicts; the true ones are in tests/tasks/sandbox."""

import re
from pathlib import Path

import pytest

from reflexion_lab.cli.doctor import AttackRun, findings, print_summary, print_table, print_threats, standing
from reflexion_lab.cli.main import main
from reflexion_lab.tasks.sandbox.attacks import HOME, QUICK, Attack, Verdict, read
from reflexion_lab.tasks.sandbox.threats import THREATS

LAYERS = ("fork-server", "rlimits", "landlock-abi7", "seccomp")
NAMES = ["exits with success", "rewrites [red]everything[/red] that it finds in the memory of its judge"]


def verdict(number, outcome, right, **fields):
    attack = Attack(name=NAMES[number], program="", tries="", family=("early exits", "kernel")[number], **fields)
    return Verdict(attack=attack, outcome=outcome, right=right, detail="why")


@pytest.fixture
def attack_run():
    return AttackRun(
        [
            verdict(0, "early_exit", True, expected=("early_exit",)),
            verdict(1, "pass", False, expected=("fail", "error", "early_exit", "memory"), needs=("seccomp",)),
        ],
        LAYERS,
        harness_deaths=0,
        orphans=(),
        files_outside=(),
    )


def test_every_attack_has_a_line_below_its_family_and_a_wrong_verdict_is_named(attack_run, capsys):
    print_table(attack_run)
    assert capsys.readouterr().out.splitlines() == [
        "early exits", "  right exits with success: early_exit, expected early_exit",
        "kernel", f"  WRONG {NAMES[1]}: pass, expected fail | error | early_exit | memory",
    ]  # fmt: skip
    result = findings([True], attack_run)
    assert (result.hostile_total, result.hostile_right, result.hostile_passed, result.sound) == (2, 1, 1, False)
    print_summary(result, attack_run)
    assert f"WRONG: {NAMES[1]}: pass (why)" in capsys.readouterr().out


def test_a_pass_is_open_without_the_layer_and_wrong_with_it(attack_run):
    _, passed = attack_run.verdicts
    assert standing(passed, LAYERS) == "WRONG"
    assert standing(passed, LAYERS[:3]) == "open"


def test_a_missing_layer_counts_for_no_total_and_is_said_plainly(attack_run, capsys):
    lacking = attack_run._replace(layers=LAYERS[:3])
    result = findings([True], lacking)
    assert (result.hostile_total, result.sound) == (1, True)
    print_summary(result, lacking)
    out = capsys.readouterr().out
    assert "not active here: seccomp: a program may start processes" in out
    assert "run model-written code only on a machine that you can afford to lose" in out


def test_a_threat_is_open_without_a_layer_and_not_stopped_by_a_wrong_verdict(attack_run, capsys):
    print_threats(attack_run)
    lines = dict(line.rsplit("  ", 1) for line in capsys.readouterr().out.splitlines())
    states = {name.strip(): state.strip() for name, state in lines.items()}
    assert states["the network is reached"] == "NOT STOPPED: 1 hostile programs judged wrong"
    assert states["a forged verdict"] == "stopped"
    print_threats(attack_run._replace(layers=LAYERS[:3]))
    assert f"{'the network is reached':<46} open: no seccomp\n" in capsys.readouterr().out


def test_the_page_on_safety_has_the_same_table():
    page = (Path(__file__).parents[2] / "docs" / "safety.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]*) \| ([^|]+) \| [^|]+ \|$", page, re.MULTILINE)
    table = {
        name: (layers.strip(), [word for word in tests.split(", ") if "/" not in word]) for name, layers, tests in rows
    }
    assert {name: (", ".join(t.layers), list(t.families)) for name, t in THREATS.items()}.items() <= table.items()
    families = {path.stem.replace("_", " ") for path in (Path(__file__).parents[1] / "attacks").glob("*.toml")}
    assert families == {family for threat in THREATS.values() for family in threat.families}


def test_attacks_are_read_from_a_file_or_a_folder(tmp_path):
    (tmp_path / "late_exits.toml").write_text(
        "[pieces]\nbusy = 'import os;'\n[[attack]]\nname = 'reads'\ntries = 'to'\nbegins = ['busy']\n"
        "program = 'os.listdir({HOME})'\nexpected = ['error']\n"
    )
    (attack,) = read(tmp_path)
    assert (attack,) == read(tmp_path / "late_exits.toml")
    assert attack.family == "late exits"
    assert attack.program == f"import os;os.listdir({HOME!r})"
    assert attack.checks == ("assert f(1) == 2",)
    assert all(quick.family for quick in read(QUICK))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "got no attack, expected"), ("[[attack", "Expected"), ("[[attack]]\nname = 'a'", "missing required field"),
        ("[[attack]]\nname = 'a'\nprogram = ''\ntries = ''\nexpected = []\ncolour = 'red'", "unknown field `colour`"),
        ("[[attack]]\nname = 'a'\nprogram = ''\ntries = ''\nexpected = []\nbegins = ['b']", "'b' is not in [pieces]"),
    ],
)  # fmt: skip
def test_a_file_of_attacks_that_is_none_is_refused_in_one_line(tmp_path, capsys, text, message):
    (tmp_path / "mine.toml").write_text(text)
    assert main(["doctor", "--hostile", str(tmp_path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert str(tmp_path) in line


def test_the_doctor_runs_the_attacks_of_a_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("reflexion_lab.tasks.benchmarks.humaneval.humaneval", list)
    (tmp_path / "mine.toml").write_text(
        "[[attack]]\nname = 'ends'\ntries = ''\nprogram = 'raise SystemExit'\nexpected = ['early_exit']\n"
    )
    assert main(["doctor", "--hostile", str(tmp_path)]) == 0
    assert "hostile programs judged right: 1 of 1" in capsys.readouterr().out
