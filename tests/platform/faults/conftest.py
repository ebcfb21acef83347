"""A fault server, and runs against it."""

import functools
import time
from pathlib import Path

import fault_server
import pytest

from reflexion_lab.agent.models.simulated import SimulatedModel
from reflexion_lab.analysis.summary import Log, summary
from reflexion_lab.cli.main import main
from reflexion_lab.errors import Unanswered
from reflexion_lab.records import Message, Sampling
from reflexion_lab.runner.config import parts
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.run import carry_out
from reflexion_lab.tasks.benchmarks.basics import basics

KEY = "sk-planted-0123456789abcdef"


@pytest.fixture(scope="session")
def faults():
    """The module of the fault server."""
    return fault_server


@pytest.fixture(scope="session")
def student():
    """One who learns from feedback, and says the same to the same request."""
    known = SimulatedModel(basics(seed=0, n=40), first=0.5, spread=0.0, repair=0.4)

    def replies(body):
        messages = [Message(role=part["role"], content=part["content"]) for part in body["messages"]]
        return known.complete(messages, sampling=Sampling(seed=body["seed"])).text

    return replies


@pytest.fixture
def command_line(tmp_path, monkeypatch, capsys):
    """Runs a command in an empty folder, of four small tasks where it has a server: exit code, and what it prints on
    each stream, as one line.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def called(server, command, *words):
        own = [
            "model=openai/m", f"model.base_url={server.url}", "actor=single_shot", "benchmark.load.n=4", "workers=1",
            "loop.max_attempts=2", "tracker=none", "sandbox.servers=1",
        ] if server else []  # fmt: skip
        capsys.readouterr()
        code = main([command, *own, *words])
        printed = capsys.readouterr()
        return code, " ".join(printed.out.split()), " ".join(printed.err.split())

    return called


@pytest.fixture(scope="session", autouse=True)
def environment():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        patch.setenv("OPENAI_API_KEY", KEY)
        patch.delenv("OPENAI_BASE_URL", raising=False)
        yield


class Clock:
    """The client's `time`. Sleeps between two requests are noted; all but the first few that a test wants are short."""

    def __init__(self):
        self.waits, self.real = [], 0

    def __getattr__(self, name):
        return getattr(time, name)

    def sleep(self, seconds):
        self.waits.append(seconds)
        time.sleep(seconds if len(self.waits) <= self.real else min(seconds, 0.01))


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("reflexion_lab.agent.models.openai.time", clock)
    return clock


@pytest.fixture(autouse=True)
def no_model_of_before(environment):
    parts._model.cache_clear()  # a port may come again, and another server behind it


@pytest.fixture(scope="session")
def executions(tmp_path_factory):
    """What programs did, for all runs: these tests are about the server."""
    return tmp_path_factory.mktemp("executions") / "executions.sqlite"


def _config(server, root, executions, *overrides):
    return compose(
        "model=openai", "model.model=student", f"model.base_url={server.url}", "model.price_per_million=[1,2]",
        "actor=single_shot",
        "benchmark.load.n=4", "benchmark.load.seed=0", "workers=3", "tracker=none", "quiet=true",
        f"run_root={root}", "cache.path=${run_root}/${arm}.sqlite", f"cache.executions={executions}",
        "sandbox.servers=1", *overrides,
    )  # fmt: skip


def _run(cfg):
    """The run's folder, and what stopped it."""
    problem = None
    try:
        carry_out(cfg)
    except Exception as caught:
        problem = caught
    folders = list(Path(cfg.run_root).glob(f"*-{cfg.arm}-basics-s0"))
    if not folders:  # it did not even begin
        raise problem
    (folder,) = folders
    return RunFolder(folder), problem


@pytest.fixture
def run(tmp_path, executions):
    """Carries a run of four tasks out, to its end or until something stops it. Its figures are not drawn."""

    def once(server, *overrides):
        return _run(_config(server, tmp_path / "runs", executions, "sweep_id=drawn-together", *overrides))

    return once


@pytest.fixture
def run_alone(tmp_path, executions):
    """The same, with all that is drawn and said."""
    return lambda server, *overrides: _run(_config(server, tmp_path / "runs", executions, *overrides))


@pytest.fixture
def finished(run):
    """Carries a run out, and resumes it as long as something stops it: its folder."""

    def resumed(server, *overrides):
        folder, problem = run(server, *overrides)
        for _ in range(50):
            if problem is None:
                return folder
            assert isinstance(problem, Unanswered), problem
            folder, problem = run(server, *overrides, f"resume={folder.path}")
        raise problem

    return resumed


@pytest.fixture(scope="session")
def unbroken(student, executions, tmp_path_factory, measured):
    """What a run measures against a server that never fails."""

    @functools.cache
    def whole(*overrides):
        with fault_server.FaultServer(student) as server:
            cfg = _config(server, tmp_path_factory.mktemp("unbroken"), executions, "sweep_id=unbroken", *overrides)
            folder, problem = _run(cfg)
        assert problem is None
        return measured(folder)

    return whole


@pytest.fixture(scope="session")
def measured():
    """All that a run measures, without times and without how often it had to ask."""

    def measures(folder):
        log = Log.read(folder).by_task
        figures = summary(log)
        loops = {
            task_id: [
                (
                    attempt.trajectory.solution,
                    attempt.trajectory.finish_reason,
                    attempt.evaluation.outcome,
                    attempt.evaluation.reward,
                    attempt.reflection and attempt.reflection.root_cause,
                    attempt.stop_reason,
                    len(attempt.recalled),
                    [name.replace(folder.path.name, "RUN") for name in attempt.recalled_wisdom],
                    {role: usage.tokens for role, usage in attempt.usage.items()},
                    log.grades[task_id, attempt.number].outcome,
                )
                for attempt in attempts
            ]
            for task_id, attempts in log.attempts.items()
        }
        curve = [(point.attempt, point.solved) for point in log.points]
        return loops, figures.pass_at_1, curve, figures.stop_reasons, figures.withheld

    return measures
