"""Adding a part touches nothing else: a part is a class and a YAML file, a figure is a function in a file."""

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
RETRIEVER = """
    from reflexion_lab.protocols import Hit

    class Oldest:
        def __init__(self) -> None:
            self.n = 0

        def add(self, documents):
            self.n += len(documents)

        def forget(self, before): ...

        def rank(self, query, k):
            return [Hit(number, 1.0) for number in range(self.n)][:k]
"""
REFLECTOR = """
    from reflexion_lab.agent.reflectors.rules import Rules

    class Wrapped:
        def __init__(self):
            self.rules = Rules()

        def __getattr__(self, name):  # `reflect`, which the class itself lacks
            return getattr(self.rules, name)
"""
CURATOR = """
    from reflexion_lab.records import Batch, Curation, Operation, Selection

    class Names:
        def select(self, items, task):
            return Selection(items=items[-1:])

        def due(self, finished):
            return [Batch(finished=(each,)) for each in finished]

        def curate(self, items, batch):
            task = batch.finished[0].task
            return Curation(operations=(Operation(kind="add", text=task.entry_point, sources=(task.loop_id,)),))
"""
PARTS = {
    "actor": (ACTOR, "fixed_program.FixedProgram", "_partial_: true\nprogram: 'def f(): return 1'"),
    "retriever": (RETRIEVER, "oldest.Oldest", ""),
    "reflector": (REFLECTOR, "wrapped.Wrapped", ""),
    "curator": (CURATOR, "names.Names", ""),
}
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
    """A folder with the reader's own parts and figure, from which commands are given."""
    (tmp_path / "attempts_per_arm.py").write_text(textwrap.dedent(FIGURE))
    for group, (source, target, values) in PARTS.items():
        name = target.partition(".")[0]
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
        (tmp_path / "conf" / group).mkdir(parents=True)
        (tmp_path / "conf" / group / f"{name}.yaml").write_text(f"_target_: {target}\n{values}\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "trace"),
    [
        ("actor=fixed_program", '"solution":"def f(): return 1","strategy":"fixed_program"'),
        ("retriever=oldest recall=similar recall.min_score=0 memory.shared.round_size=1", '"retriever":"Oldest"'),
        ("reflector=wrapped model.first=0 loop.max_attempts=2", '"source":"rules:'),
        ("curator=names memory.shared.round_size=1", '"recalled_items":["item-'),
    ],
)
def test_a_part_is_one_class_and_one_yaml_file(project, words, trace):
    assert main(["run", f"hydra.searchpath=[file://{project}/conf]", *words.split(), *RUN]) == 0
    (run,) = (project / "runs").glob("2*")
    assert trace in (run / "attempts.jsonl").read_text()


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
