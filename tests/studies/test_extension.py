"""Adding a part touches nothing else: an actor is a class and a YAML file, a figure is a function in a file."""

import csv
import textwrap

import pytest

from reflexion_lab.analysis.figures import drawing
from reflexion_lab.cli.main import main

RUN = ("model=simulated", "benchmark=basics", "benchmark.limit=2", "tracker=none", "quiet=true")
ACTOR = """
    from reflexion_lab.records import Trajectory

    class FixedProgram:
        def __init__(self, model, program: str) -> None:
            self.program = program

        def act(self, task, recollection):
            return Trajectory(solution=self.program, strategy="fixed_program")
"""
GROUP = """
    _target_: fixed_program.FixedProgram
    _partial_: true
    program: "def anything(): ..."
"""
FIGURE = """
    from reflexion_lab.analysis.figures.drawing import Drawing, facts, figure

    @figure(95)
    def attempts_per_arm(arms):
        rows = [(arm.label, arm.longest) for arm in arms]

        def panel(ax):
            ax.bar(*zip(*rows))
            return ax

        return Drawing("attempts_per_arm", "Attempts", [panel], ("arm", "attempts"), rows, facts(arms))
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A folder with the reader's own actor and figure, from which commands are given."""
    (tmp_path / "fixed_program.py").write_text(textwrap.dedent(ACTOR))
    (tmp_path / "attempts_per_arm.py").write_text(textwrap.dedent(FIGURE))
    (tmp_path / "conf" / "actor").mkdir(parents=True)
    (tmp_path / "conf" / "actor" / "fixed_program.yaml").write_text(textwrap.dedent(GROUP))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_an_actor_is_one_class_and_one_yaml_file(project, capsys):
    search = f"hydra.searchpath=[file://{project}/conf]"
    assert main(["run", search, "actor=fixed_program", "actor.program='def f(): return 1'", *RUN]) == 0
    (run,) = (project / "runs").glob("2*")
    assert '"solution":"def f(): return 1"' in (run / "attempts.jsonl").read_text()
    assert '"strategy":"fixed_program"' in (run / "attempts.jsonl").read_text()


@pytest.mark.slow
def test_a_figure_is_one_function_in_a_file(project, monkeypatch):
    monkeypatch.setattr(drawing, "REGISTRY", dict(drawing.REGISTRY))
    for arm in ("simple", "feedback_only"):
        assert main(["run", f"experiment={arm}", "actor=single_shot", *RUN]) == 0
    __import__("attempts_per_arm")
    assert main(["report", "--out", "paper", *map(str, (project / "runs").glob("2*"))]) == 0
    assert (project / "paper" / "attempts_per_arm.png").is_file()
    rows = list(csv.reader((project / "paper" / "attempts_per_arm.csv").open()))
    assert rows[0] == ["arm", "attempts"]
    assert dict(rows[1:]).keys() == {"simple", "feedback_only"}
