"""Calibration: planted values are recovered, a model that copies what it reads can use words, one that does not cannot;
no call is paid twice."""

import json
from itertools import count
from pathlib import Path

import pytest
from msgspec.structs import replace

import reflexion_lab as rl
from reflexion_lab.agent.models.simulated import SimulatedModel
from reflexion_lab.analysis.stats.intervals import Estimate, Rate
from reflexion_lab.cli import main as cli
from reflexion_lab.errors import ConfigError
from reflexion_lab.studies.calibrate import CHECKS, VARIANTS, WORDS, answer, calibrate, plan

FIRST, REPAIR = 0.4, 0.3


class Own(SimulatedModel):
    def __init__(self, tasks, **skill):
        super().__init__(tasks, **skill)
        self.fingerprint += f":{type(self).__name__}"  # replies of its own in the cache


class Copying(Own):
    """Right at a retry if its prompt holds the solution, and never else; its replies are never the same again."""

    draws = count()

    def chance(self, task, prompt):
        if "attempt" not in prompt.lower():
            return super().chance(task, prompt)
        return float(prompt.count(task.canonical_solution.strip()) > prompt.count("# wrong draft"))

    def complete(self, messages, *, sampling, sample=0):
        completion = super().complete(messages, sampling=sampling, sample=sample)
        return replace(completion, text=completion.text.replace("```python\n", f"```python\n# {next(self.draws)}\n", 1))


class Deaf(Own):
    """Never right at a retry, and at first attempts only where examples stand before the task."""

    def chance(self, task, prompt):
        return float("attempt" not in prompt.lower() and prompt.count("```python") < 2)


@pytest.fixture(scope="module")
def overrides(tmp_path_factory):
    path = tmp_path_factory.mktemp("calibrations")
    return [
        *("model=simulated", "actor=single_shot", f"model.first={FIRST}", f"model.repair={REPAIR}"),
        *(f"run_root={path / 'runs'}", f"cache.path={path / 'calls.sqlite'}"),
    ]


@pytest.fixture(scope="module")
def figures(overrides):
    """Of eight tasks."""
    return calibrate(plan(overrides, tasks=8)[0], quiet=True)


def test_planted_rates_lie_within_the_intervals(overrides):
    figures = calibrate(plan([*overrides, "benchmark.load.n=138"], tasks=138)[0], quiet=True)
    values = {name: figure.value for name, figure in figures.figures.items()}
    assert values["first attempt"].low < FIRST < values["first attempt"].high
    for name in (CHECKS, WORDS, *VARIANTS):  # this model repairs as often whatever it reads
        assert values[f"retries, {name}"].low < REPAIR < values[f"retries, {name}"].high, name
    best = max((values[f"retries, {name}"] for name in VARIANTS), key=lambda rate: rate.share)
    assert figures.answer.startswith("undecided" if best.high > 0.5 else "this model cannot")
    assert (values["determinism"].k, values["determinism"].n) == (8, 8)
    assert {values[f"replies, {name}"].k for name in ("empty", "cut off", "no program")} == {0}
    assert values["reflections, read"].share == 1
    assert figures.warnings == ()


def test_a_model_that_copies_what_it_reads_can_use_words(overrides):
    figures = calibrate(plan([*overrides, f"model._target_={__name__}.Copying"], tasks=40)[0], quiet=True)
    assert figures.answer.startswith("this model can use words"), figures
    values = {name: figure.value for name, figure in figures.figures.items()}
    assert max(values[f"retries, {name}"].share for name in VARIANTS) > 0.8
    assert values[f"retries, {CHECKS}"].k == values["determinism"].k == 0
    assert values["room (most harm)"].value == 0 < values["ceiling (most help)"].low


@pytest.mark.parametrize(
    ("k", "n", "low", "most", "expected"),
    [
        (8, 28, 0.1, 0.6, "this model can use words: the quoted solution repairs 8 of 28"),
        (8, 28, -0.1, 0.6, "undecided"),  # no gain over attempt 1
        (3, 28, -0.1, 0.4, "this model cannot use words: choose another"),
        (0, 3, -0.1, 0.6, "undecided"),
        (0, 0, -0.1, 1.0, "undecided"),
    ],
)
def test_the_answer_follows_from_the_quoted_solution(k, n, low, most, expected):
    gain = Estimate(value=0.3, low=low, high=0.5)
    assert answer(gain, Rate.of(k, n), Rate.of(0, n), most).startswith(expected)


@pytest.mark.parametrize("wording", ["default", "paper_style"])
def test_first_attempts_of_other_prompts_are_no_use_of_words(overrides, wording):
    """The prompts of `paper_style` hold examples, which the quoted cells lack: their first attempts differ."""
    small = [*overrides, f"model._target_={__name__}.Deaf", f"prompts={wording}"]
    result = calibrate(plan(small, tasks=40)[0], quiet=True)
    assert not result.answer.startswith("this model can use words"), result


def test_the_command_prints_one_screen_and_writes_a_page(overrides, capsys):
    command = ["calibrate", *overrides, "--tasks", "8", "--json"]
    assert cli.main(command) == 0
    out = capsys.readouterr().out
    *screen, page, figures = out.strip().split("\n")[1:]
    assert len(screen) + 1 <= 15
    assert max(map(len, screen)) <= 80
    figures = json.loads(figures)
    html = Path(page.removeprefix("page: ")).read_text()
    assert f"{figures['figures']['first attempt']['value']['k']} of 8" in html
    assert all(f"retries, {name}" in html for name in VARIANTS)
    bound, calls = int(out.split()[1]), int(figures["design"].split()[-2])
    assert 0 < calls <= bound
    assert cli.main(command) == 0
    assert json.loads(capsys.readouterr().out.strip().split("\n")[-1]) == figures  # nothing was paid again


@pytest.mark.parametrize(
    "word", ["experiment=retry", "loop.max_attempts=3", "reflector=llm", "+arm=x", "cache.mode=off"]
)
def test_keys_of_its_cells_are_refused(overrides, word):
    with pytest.raises(ConfigError, match="calibrate sets it"):
        plan([*overrides, word])


def test_a_notebook_reads_the_same_and_shows_the_answer_first(overrides, figures):
    again = rl.calibrate(*overrides, tasks=8, quiet=True)
    assert again == figures
    assert repr(again).index("this model") < repr(again).index("first attempt")
