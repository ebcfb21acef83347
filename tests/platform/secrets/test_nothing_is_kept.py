"""Everything that a lab does with keys in its environment, against a server that says back what it is sent; then a
search of every byte that it wrote or printed."""

import io
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import reflexion_lab as rl
from reflexion_lab.agent.models.openai import OpenAIModel
from reflexion_lab.cli import main as cli
from reflexion_lab.errors import ModelError
from reflexion_lab.records import Message, Sampling
from reflexion_lab.runner.config.messages import full_traceback
from reflexion_lab.tasks.evaluators import tools
from reflexion_lab.tasks.sandbox.sandbox import Limits, Sandbox

NAMED_OTHERWISE = {"GATEWAY", "DATABASE_URL", "MLFLOW_TRACKING_URI"}
"""Variables whose names do not say that they hold a secret: git gets them, as it gets all of its user's."""
HELLO = [Message(role="user", content="hello")]


class Done(NamedTuple):
    """What a day in the lab left behind."""

    folder: Path
    printed: str
    codes: dict[str, int]
    """Exit codes by what was done."""


def command(*arguments: str) -> tuple[int, str]:
    """Exit code and all that was printed, at the highest verbosity that there is."""
    out = io.StringIO()
    handler, before = logging.StreamHandler(out), warnings.showwarning
    loggers = [logging.getLogger(name) for name in ("openai", "httpx", "httpcore", "mlflow", "sqlalchemy")]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    try:
        with redirect_stdout(out), redirect_stderr(out):
            try:
                code = cli.main(list(arguments))
            except SystemExit as end:
                code = int(str(end.code))
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
            logger.setLevel(logging.NOTSET)
        warnings.showwarning = before
    return code, out.getvalue()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, echo: Any, planted: Any) -> Iterator[Done]:
    """Runs that end and runs that fail, a sweep, and every command that shows, packs or exports them."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "tmp").mkdir()
    patch = pytest.MonkeyPatch()
    for name, value in planted.environment.items():
        patch.setenv(name, value)
    patch.setenv("NO_PROXY", "127.0.0.1")
    patch.setenv("OPENAI_LOG", "debug")
    patch.setenv("TMPDIR", str(folder / "tmp"))
    patch.setattr(tempfile, "tempdir", None)
    patch.chdir(folder)
    served = ["model=openai", f"model.base_url={echo.url}", "model.retries=0", "actor=single_shot", "benchmark.limit=1"]
    served += ["loop.max_attempts=2", "cache.executions=null", "store=sqlite", "model.answers_as=['x']"]
    tracked = ["tracker.uri=sqlite:///runs/mlflow.db"]
    codes, printed = {}, ""

    def do(name: str, *arguments: str) -> None:
        nonlocal printed
        codes[name], output = command(*arguments)
        printed += output

    do("a run", "run", *served, "model.model=said", *tracked)
    (run,) = Path("runs").glob("2*")
    served.append("tracker=none")
    do("a key of its own name", "run", *served, "model.model=said", "model.api_key_env=GATEWAY", "arm=gateway")
    in_a_file = f"model.api_key_file={planted.in_a_file}"
    database = f"store.place={planted.environment['DATABASE_URL']}"
    do("a key in a file", "run", *served, "model.model=said", in_a_file, "arm=file")
    do("a key that is refused", "run", *served, "model.model=401", "arm=refused", "hydra.verbose=true")
    do("a sweep", "run", "-m", *served, "model.model=400,500,garbage,named,refused,ended", "arm=swept")
    do("a database that is not there", "run", *served, "model.model=said", database)
    runs = [str(run), *map(str, Path("runs").glob("2*-gateway-*"))]
    do("show", "show", str(run))
    do("report of one", "report", "--html", str(run))
    do("report", "report", "--out", "report", *runs)
    do("compare", "compare", *runs)
    do("export", "memory", "export", "--store", "runs/memory.sqlite", "memory.json")
    do("bundle", "bundle", str(run))
    yield Done(folder, printed, codes)
    patch.undo()


@pytest.mark.slow
def test_what_was_to_work_worked(finished: Done) -> None:
    failed = {"a key that is refused", "a sweep", "a database that is not there"}
    assert {name for name, code in finished.codes.items() if code} == failed, finished.printed
    assert len(list(finished.folder.glob("runs/sweeps/*/cell-*.log"))) == 4


@pytest.mark.slow
def test_what_the_server_said_back_is_in_no_file_and_was_not_printed(finished: Done, planted: Any) -> None:
    attempts = [path.read_text() for path in finished.folder.glob("runs/2*/attempts.jsonl")]
    assert sum("I was sent" in text and "Bearer [key]" in text for text in attempts) >= 3
    assert finished.printed.count("[key]") >= 3
    count, held = planted.scan(finished.folder)
    assert count > 40
    assert held == {}
    assert len(finished.printed) > 5000
    assert planted.found_in(finished.printed.encode(errors="backslashreplace")) == set()


@pytest.mark.parametrize(("override", "field"), [
    ("+model.api_key=pl-Zq7xOPENAIw3", "model.api_key: unknown key; expected one of"),
    ("model.extra_body={headers: {Authorization: Bearer pl-Zq7xOPENAIw3}}", "body.headers.Authorization: got a key"),
    ("model.base_url='http://me:pl-Zq7xOPENAIw3@127.0.0.1:1/v1'", "model.base_url: got a key, or an address with one"),
    ("model.base_url='http://127.0.0.1:1/v1?a=b&api_key=pl-Zq7xOPENAIw3'", "model.base_url: got a key"),
    *((f"model.base_url='http://127.0.0.1:1/v1?{name}=pl-Zq7xOPENAIw3'", "OPENAI_BASE_URL")
      for name in ("code", "apikey", "x-functions-key", "jwt")),
    ("model.api_key=pl-Zq7xOPENAIw3", "model.api_key: unknown key"),
    ("-m model.nothing_api_key=pl-Zq7xOPENAIw3,other", "nothing_api_key"),
])  # fmt: skip
@pytest.mark.slow
def test_a_key_in_the_config_is_refused_and_not_repeated(tmp_path, monkeypatch, planted, override, field):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "other-0123456789")
    flags, override = override[: 2 * override.startswith("-m")].split(), override.removeprefix("-m ")
    code, output = command("run", *flags, "model=openai", "model.model=m", "actor=single_shot", override)
    assert code == 2
    assert field in output
    assert planted.found_in(output.encode()) == set()
    assert planted.scan(tmp_path)[1] == {}


def test_no_keys_in_representations_or_launcher_messages(planted, monkeypatch, echo):
    import cloudpickle

    for name, value in planted.environment.items():
        monkeypatch.setenv(name, value)
    model = OpenAIModel("said", echo.url, api_key_file=str(planted.in_a_file), retries=0)
    cfg = rl.compose("model=openai", "model.model=said", f"model.base_url={echo.url}", "actor=single_shot")
    output = [repr(model), str(vars(model)), repr(cfg), cloudpickle.dumps((cli.main, cfg)), model.fingerprint]
    with pytest.raises(ModelError) as caught:
        OpenAIModel("500", echo.url, retries=0).complete(HELLO, sampling=Sampling())
    output += [full_traceback(caught.value), repr(caught.value), repr(caught.value.__context__)]
    model.close()
    assert planted.found_in(b" ".join(text if isinstance(text, bytes) else text.encode() for text in output)) == set()


def test_errors_show_no_keys_of_any_cause(planted, monkeypatch):
    for name, value in planted.environment.items():
        monkeypatch.setenv(name, value)
    try:
        try:
            raise KeyError(planted.environment["PGPASSWORD"])
        except KeyError as inner:
            words = f"at {planted.environment['DATABASE_URL']} with {planted.environment['HF_TOKEN']}"
            raise RuntimeError(words) from inner
    except RuntimeError as problem:
        problem.add_note(f"model.api_key={planted.environment['GATEWAY']}")
        output = full_traceback(problem)
    assert planted.found_in(output.encode()) == set()
    assert "[PGPASSWORD]" in output
    assert "postgresql://127.0.0.1:1/nothing" in output


def test_processes_that_the_lab_starts_get_no_secret(planted, checkout, monkeypatch, tmp_path):
    for name, value in planted.environment.items():
        monkeypatch.setenv(name, value)
    for name in ("git", "ruff"):
        reply = "" if name == "git" else "[]"
        (tmp_path / name).write_text(f"#!/bin/sh\nenv >> {tmp_path}/seen\necho '{reply}'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(tools, "located", lambda tool: str(tmp_path / tool))
    checkout("status")
    assert tools.ask("ruff", "x = 1\n") == []
    environment = (tmp_path / "seen").read_text()
    assert environment.count("PATH=") >= 2
    assert {name for name in planted.environment if f"{name}=" in environment} <= NAMED_OTHERWISE


def test_a_candidate_finds_no_secret_of_the_lab_anywhere(planted, monkeypatch):
    for name, value in planted.environment.items():
        monkeypatch.setenv(name, value)
    own = Path.home() / ".pgpass"
    program = f"""
import os
def tried(path):
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20)
    except (OSError, ValueError):
        return b""
def f(x):
    parent = os.getppid()
    places = [{str(planted.in_a_file)!r}, {str(own)!r}, "/proc/self/environ", f"/proc/{{parent}}/environ"]
    places += [f"/proc/{{n}}/{{what}}" for n in range(1, 400) for what in ("environ", "cmdline")]
    places += [f"/proc/{{parent}}/{{what}}" for what in ("maps", "mem", "cwd/key", "root/etc/passwd")]
    seen = " ".join(os.environ.values()).encode() + b"".join(map(tried, places))
    for descriptor in range(64):
        try:
            seen += os.pread(descriptor, 1 << 20, 0)
        except OSError:
            continue
    return sorted(p for p in {[piece[::-1] for piece in planted.pieces]!r} if p[::-1].encode() in seen)
"""
    with Sandbox(Limits(wall_seconds=60, cpu_seconds=5), servers=1) as lab:
        (check,) = lab.run(program, "f", ["assert f(1) == []"]).checks
    assert (check.outcome, check.message) == ("pass", "")
