"""Golden runs: small runs of every part, whose attempts, prompts, verdicts and summaries must not change unnoticed.

    python tests/golden/golden.py            # carry them out, compare; the first differences of each are printed
    python tests/golden/golden.py --write    # a wanted change: store what they are now, in a commit that names it
    python tests/golden/golden.py helix sweep  # some of them

The runs go through public names and files alone, so that no move of a module touches this one.
"""

import contextlib
import csv
import functools
import io
import json
import lzma
import math
import os
import re
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
STORED = HERE / "golden.json.xz"
STUDENT = (
    "model=scripted", "model._target_=student.Student", "model.path=programs.json", "model.slots=4",
)  # fmt: skip
SMALL = (
    "tracker=none", "quiet=true", "run_root=runs", "benchmark.limit=4", "sandbox.servers=2", "workers=2",
)  # fmt: skip
WIDE = "recall.max_tokens=4000"
LEARNT = ("memory.shared.round_size=2", "memory.shared.shown={wisdom:2,mistakes:2,insights:2}", "benchmark.limit=8")
RAW = ("curator=raw_trajectories", "memory.shared.items.salt=golden")
"""With ids that no new config key changes."""
RUNS: dict[str, tuple[str, ...]] = {
    "helix": ("preset=helix", *LEARNT),
    "bot": ("preset=bot",),
    "openagents": ("preset=openagents", "store.place=store"),
    "jido": ("preset=jido", "actor@actor.generator=single_shot"),
    "ralph": ("preset=ralph",),
    "self_tests": ("feedback_source=self_tests", "suite_writer=chat"),
    "no_feedback": ("feedback_source=none",),
    "oracle": ("experiment=oracle", "loop.max_attempts=4"),
    "omega_0": ("recall.omega=0", "experiment=retry", "temperature=0.8"),
    "omega_all": ("recall.omega=all", WIDE, "loop.max_attempts=5", "prompts=terse"),
    "omega_dynamic": ("recall.omega=dynamic", "reflector=rules", "loop.max_attempts=4"),
    "repair_tree": ("policy=repair_tree", "policy.programs=3", "policy.repairs=2", "temperature=0.8"),
    "tree_search": ("policy=tree_search", "policy.children=2", "loop.max_attempts=6", "temperature=0.8"),
    "omega_adaptive": ("recall.omega=adaptive", "store=sqlite", "store.place=store.sqlite", *LEARNT),
    "omega_by_complexity": ("recall.omega=by_complexity", "benchmark=humaneval", "model=simulated"),
    "omega_by_verification": ("recall.omega=by_verification_type", "evaluator=combined", "evaluator.type_tool=mypy"),
    "similar": ("recall=similar", "recall.min_score=0", "memory.shared.round_size=2", "retriever=tfidf", WIDE),
    "bm25": ("recall=window_then_similar", "recall.min_score=0", "retriever=bm25", "memory.shared.round_size=2"),
    "embedding": ("recall=window_then_similar", "recall.min_score=0", "retriever=embedding", "benchmark.limit=6",
                  "memory.shared.round_size=3"),
    "hybrid": ("recall=similar", "recall.min_score=0", "retriever=hybrid", "memory.shared.round_size=2"),
    "random": ("recall=similar", "recall.min_score=0", "retriever=random", "memory.shared.round_size=2"),
    "recency": ("recall=window_then_similar", "retriever=recency", "recall.min_score=0", "memory.shared.round_size=2"),
    "chain_of_thought": ("actor=chain_of_thought", "reflector=feedback_only"),
    "react": ("actor=react", "reflector=keywords"),
    "trajectory": ("actor=react", "evaluator=trajectory"),
    "tests_that_drafts_agree_with": ("feedback_source=self_tests", "suite_writer=chat", "suite_writer.agreement=2"),
    "continuation": ("actor=continuation", "reflector=generic", "suite_writer=continuation",
                     "feedback_source=self_tests"),
    "chain_of_thought_continuation": ("actor=chain_of_thought_continuation", "reflector=length_matched"),
    "react_continuation": ("actor=react_continuation", "prompts=paper_style"),
    "critique_revise": (
        "actor=critique_revise",
        "actor@actor.generator=single_shot",
        "critic=merged",
        "reviser=targeted",
    ),
    "critique_by_lint": ("actor=critique_revise", "critic=lint", "reviser=llm"),
    "candidates": ("actor=candidates", "actor@actor.actor=single_shot", "actor.rule=vote"),
    "warming": ("experiment=warming", "actor@actor.make_actor=single_shot", "actor=warming"),
    "escalation": ("experiment=escalation", "actor=escalation", "actor@actor.make_actor=single_shot",
                   "model@roles.strong=scripted", "roles.strong._target_=student.Student",
                   "roles.strong.path=programs.json"),
    "plateau": ("stop=[plateau,diminishing_returns]", "loop.max_attempts=6", "loop.stuck_after=null"),
    "budget": ("stop=[budget]", "stop.budget.tokens=900", "loop.max_attempts=6"),
    "words_asked_again": ("quality.policy=retry", "loop.max_attempts=4"),
    "lint": ("evaluator=lint", "reflector=none", "quality.policy=reject"),
    "curator_stream": (*RAW, "memory.shared.round_size=1", "benchmark.limit=8"),
    "curator_rounds": (*RAW, "memory.shared.round_size=4", "benchmark.limit=8", "curator.k=1"),
    "simulated": ("model=simulated", "model.first=0.3", "benchmark.limit=12", "loop.extra_attempts=1"),
    "reflections_on_success": ("loop.reflect_on_success=true", "memory.show_session=true", "store=jsonl",
                               "store.place=store", "memory.reflection_files=reflections"),
}  # fmt: skip
"""Overrides by name; `STUDENT` and `SMALL` stand before each."""
STREAM = ("memory.shared.round_size=2", "benchmark.limit=6", "memory.shared.items.salt=golden")
CURATORS = (
    "wisdom", "expel", "awm", "dynamic_cheatsheet", "memento", "a_mem", "reasoning_bank", "ace", "raw_trajectories",
    "full_history", "filler",
)  # fmt: skip
RUNS |= {f"curator_{name}": (f"curator={name}", *STREAM) for name in CURATORS} | {
    "curator_synthesis": ("curator=dynamic_cheatsheet", "curator.variant=retrieval_synthesis", *STREAM),
    "two_passes": ("benchmark.passes=2", "recall=window_then_similar", "recall.min_score=0", *LEARNT, WIDE,
                   "benchmark.limit=3"),
}  # fmt: skip
PRESETS = ("helix", "bot", "openagents", "jido", "ralph")
COMPARED = ("words_and_their_controls", "oracle_words", "reflexion_against_retry")
"""Experiments whose committed cases are compared."""

FORGOTTEN = {
    "seconds", "cpu_seconds", "duration", "created_at", "timestamp", "last_used_at", "ended_at", "cached",
    "torn", "set_aside", "run_id", "session_id", "cluster", "recalled_insights", "retrieved",
}  # fmt: skip
"""Keys whose values differ from machine to machine, or from one time to the next; and metadata of tasks and prompts."""
FILES = ("attempts", "results", "grades", "written_tests", "suite_verdicts")
RUN_ID = re.compile(r"\b20\d{6}-\d{6}-\d{6}-[\w.-]+?-s\d+(?:-\d+)?\b")


def carry_out(names: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
    """Name and canonical form of every golden run, or of those named."""
    for name in [*RUNS, *SPECIAL]:
        if not names or name in names:
            yield name, _alone(SPECIAL[name] if name in SPECIAL else functools.partial(_run, RUNS[name]))


def differences(before: Any, after: Any, at: str = "") -> Iterator[str]:
    """Where two canonical forms differ, a line each."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from differences(before.get(key), after.get(key), f"{at}.{key}" if at else str(key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, f"{at}[{number}]")
    elif isinstance(before, float) and isinstance(after, int | float):
        if not math.isclose(before, after, rel_tol=1e-12, abs_tol=1e-12):
            yield f"{at}: got {after!r}, expected {before!r}"
    elif before != after:
        yield f"{at}: got {str(after)[:300]!r}, expected {str(before)[:300]!r}"


def stored() -> dict[str, Any]:
    """The canonical forms that are committed."""
    forms: dict[str, Any] = json.loads(lzma.decompress(STORED.read_bytes()))
    return forms


def store(forms: dict[str, Any]) -> None:
    """Commit these from now on; runs that are not among them stay."""
    text = json.dumps((stored() if STORED.exists() else {}) | forms, sort_keys=True, ensure_ascii=False)
    STORED.write_bytes(lzma.compress(text.encode("utf-8", "surrogatepass"), preset=9))


@functools.cache
def _programs() -> str:
    """The student's programs by the name of their function, as JSON."""
    import reflexion_lab as rl
    from reflexion_lab.runner.config.parts import load_benchmark
    from reflexion_lab.runner.config.record import RunConfig

    tasks = load_benchmark(RunConfig.of(rl.compose("benchmark=basics", "benchmark.load.n=30", "benchmark.load.seed=0")))
    return json.dumps({task.entry_point: task.canonical_program for task in tasks})


@contextlib.contextmanager
def _in_a_folder() -> Iterator[Path]:
    """An empty working folder with the student's programs."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="golden-") as name:
        os.chdir(name)
        try:
            Path("programs.json").write_text(_programs())
            yield Path(name)
        finally:
            os.chdir(before)


def _alone(work: Callable[[], Any]) -> Any:
    with _in_a_folder(), contextlib.redirect_stdout(io.StringIO()):
        return work()


def _run(overrides: Sequence[str]) -> dict[str, Any]:
    import reflexion_lab as rl

    names = {part.partition("=")[0] for part in overrides}
    first = () if "model" in names else STUDENT
    actor = () if "actor" in names or any(name.startswith("actor@") for name in names) else ("actor=single_shot",)
    return form(rl.run(*SMALL, *first, *actor, *overrides).path)


def _sweep() -> list[dict[str, Any]]:
    import reflexion_lab as rl

    grid = ["recall.omega=0,2", "experiment=reflexion,reflexion_shuffled", "seed=0,1"]
    return [form(path) for path in rl.sweep([*STUDENT, *SMALL, "actor=single_shot", *grid], quiet=True).runs]


def _resumed() -> dict[str, Any]:
    """A run that was cut in the middle of a line, as by a kill, and finished by another process's command."""
    import reflexion_lab as rl

    folder = Path(rl.run(*STUDENT, *SMALL, "actor=single_shot", "benchmark.limit=6").path)
    whole = form(folder)
    _cut(folder)
    again = form(rl.run(*STUDENT, *SMALL, "actor=single_shot", "benchmark.limit=6", f"resume={folder}").path)
    again["as the whole run"] = [line for line in differences(whole, again) if not line.startswith("summary")]
    return again


def _cut(folder: Path) -> None:
    """Leave the first half of the attempts, the last of them torn, as a kill does."""
    lines = (folder / "attempts.jsonl").read_text().splitlines(keepends=True)
    for path in folder.iterdir():
        if path.is_file() and path.name not in ("manifest.json", "attempts.jsonl", ".lock"):
            path.unlink()
    (folder / "attempts.jsonl").write_text("".join(lines[: len(lines) // 2]) + lines[len(lines) // 2][:200])


def _replayed() -> dict[str, Any]:
    """A run, its bundle, and what `replay` and `verify` say of them."""
    import reflexion_lab as rl
    from reflexion_lab.cli.main import main

    run = rl.run(*SMALL, "model=simulated", "actor=single_shot", "model.first=0.4")
    codes = {}
    for command in (["bundle", str(run.path), "-o", "run.zip"], ["replay", "run.zip"], ["verify", str(run.path)]):
        codes[command[0]] = main(command)
    return {"run": form(run.path), "exit codes": codes}


def _twice(preset: str) -> list[dict[str, Any]]:
    """A preset's run and a second one, of which the first five tasks are those of the first, on the same store."""
    place = ("store=jsonl", "store.place=store") if preset != "ralph" else ()
    known = (f"preset={preset}", *place, "memory.shared.same_task=true", "memory.shared.round_size=2")
    actor = ("actor@actor.generator=single_shot",) if preset == "jido" else ()
    return [_run((*known, *actor, f"benchmark.limit={n}")) for n in (4, 6)]


def _resumed_with_memory() -> dict[str, Any]:
    """A run of the helix preset whose second half of attempts is lost, finished."""
    import reflexion_lab as rl

    words = (*STUDENT, *SMALL, "actor=single_shot", *RUNS["helix"], "store=none")
    folder = Path(rl.run(*words).path)
    _cut(folder)
    return form(rl.run(*words, f"resume={folder}").path)


def _grid() -> list[Path]:
    """Folders of a small sweep over two arms and two seeds."""
    import reflexion_lab as rl

    words = (*SMALL, "model=simulated", "actor=single_shot", "benchmark.limit=6", "model.first=0.4", "temperature=0.8")
    return rl.sweep([*words, "experiment=reflexion,retry", "seed=0,1"], quiet=True).runs


def _mended() -> list[dict[str, Any]]:
    """A sweep, carried out again without one of its runs."""
    (lost, *_) = _grid()
    shutil.rmtree(lost)
    return [form(path) for path in _grid()]


def _compared() -> dict[str, Any]:
    """What `compare`, a report and MLflow say of a small sweep."""
    from mlflow.tracking import MlflowClient

    runs = sorted(map(str, _grid()))
    tables = _tables(runs, "report")
    _says(["report", *runs, "--out", "written"])
    tables["cases.csv"] = _rows(Path("written/cases.csv"))
    _says(["track", *runs, "--arms", "--uri", "sqlite:///mlflow.db"])
    client = MlflowClient("sqlite:///mlflow.db")
    tracked = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    metrics = [
        {name: value for name, value in run.data.metrics.items() if "second" not in name and "wall" not in name}
        for run in sorted(tracked, key=lambda run: run.info.run_name)
    ]
    return {**tables, "mlflow": bare(metrics)}


def _tables(runs: Sequence[str], folder: str) -> dict[str, Any]:
    """The last line of `compare --json`, and the rows of its table."""
    Path(folder).mkdir()
    compared = _says(["compare", *runs, "--json", "--csv", f"{folder}/table.csv"]).splitlines()[-1]
    return {"json": bare(json.loads(compared)), "table.csv": _rows(Path(folder) / "table.csv")}


def _rows(path: Path) -> list[Any]:
    """A CSV as a list of records, sorted; numbers are numbers."""
    rows = bare(list(csv.DictReader(io.StringIO(path.read_text()))))
    return sorted(({key: _number(value) for key, value in row.items()} for row in rows), key=repr)


def _number(text: str) -> Any:
    return float(text) if re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", text) else text


def _cases() -> dict[str, Any]:
    """The committed cases of some experiments, compared."""
    experiments = HERE.parents[1] / "experiments"
    return {name: _tables([str(experiments / name / "cases.csv.gz")], name) for name in COMPARED}


def _says(words: Sequence[str]) -> str:
    """What a command prints."""
    from reflexion_lab.cli.main import main

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main(list(words)) == 0, words
    return printed.getvalue()


SPECIAL: dict[str, Callable[[], Any]] = {
    "sweep": _sweep, "resumed": _resumed, "replayed": _replayed, "resumed_with_memory": _resumed_with_memory,
    "mended": _mended, "compared": _compared, "cases": _cases,
    **{f"{preset}_twice": functools.partial(_twice, preset) for preset in PRESETS},
}  # fmt: skip
"""What takes more than one run, by name."""


def form(folder: Path | str) -> dict[str, Any]:
    """A run without ids, times and marks of the cache: records by task, calls of the models, and the summary."""
    folder = Path(folder)
    records = {name: _lines(folder / f"{name}.jsonl") for name in FILES}
    tasks: dict[str, Any] = {}
    for name, lines in records.items():
        for line in lines:
            number = str(line.get("number", line.get("attempt", "")))
            tasks.setdefault(line["task_id"], {}).setdefault(name, {})[number] = line  # of a loop begun again, the last
    updates = _lines(folder / "operations.jsonl")
    return bare({
        "tasks": dict(sorted(tasks.items())),
        **({"operations": updates} if updates else {}),
        "calls": _calls(folder.parent / "calls.sqlite"),
        "summary": json.loads((folder / "summary.json").read_bytes()),
    })  # fmt: skip


def _lines(path: Path) -> list[dict[str, Any]]:
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith(b"}")]  # a line that a kill cut short is none


def _calls(path: Path) -> list[Any]:
    """Every request that was made of a model, and the reply, sorted."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT fingerprint, request, completion FROM calls").fetchall()
    calls = [{"model": row[0], "request": json.loads(row[1]), "reply": json.loads(row[2])} for row in rows]
    return sorted(calls, key=lambda call: json.dumps(call, sort_keys=True))


def bare(node: Any) -> Any:
    """Plain values without what differs from one time to the next."""
    if isinstance(node, dict):
        return {key: bare(value) for key, value in node.items() if key not in FORGOTTEN}
    if isinstance(node, list):
        return [bare(value) for value in node if not (isinstance(value, dict) and value.get("metric") in FORGOTTEN)]
    return RUN_ID.sub("RUN", node).replace(str(Path.cwd()), "FOLDER") if isinstance(node, str) else node


def main(arguments: Sequence[str]) -> int:
    names = [word for word in arguments if word != "--write"]
    if unknown := set(names) - set(RUNS) - set(SPECIAL):
        raise SystemExit(
            f"golden runs: got {', '.join(sorted(unknown))}, expected some of {', '.join([*RUNS, *SPECIAL])}"
        )
    sys.path.insert(0, str(HERE))
    forms, expected, n = {}, stored() if STORED.exists() else {}, 0
    for name, now in carry_out(names):
        forms[name] = now
        lines = list(differences(expected.get(name), now))
        n += bool(lines)
        print(f"{name}: {f'{len(lines)} differences' if lines else 'agrees'}")
        print("".join(f"  {line}\n" for line in lines[:5]), end="")
    if "--write" in arguments:
        store(forms)
        print(f"{len(forms)} runs stored in {STORED.name}, {n} of them changed")
        return 0
    return int(n > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
