"""Runs whose storage is PostgreSQL: the figures are those from files, and nothing paid is lost when the server goes."""

import itertools
import json
import threading
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.summary import figures
from reflexion_lab.cli import main as cli
from reflexion_lab.io.secrets import without_keys, without_logins
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.grid import cell_digest
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.studies.replay.packing import pack
from reflexion_lab.studies.replay.replay import replay
from tests.builders import canonical_bytes

PASSWORD = "planted-0123456789"
REFLECTION = "ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: return one\nCONFIDENCE: 0.5\n"
SCRIPT = [
    {"when": "^My Python program failed", "scope": "conversation", "reply": REFLECTION},
    {"when": "return one", "scope": "conversation", "reply": "\n    return 1\n"},
    {"when": "", "reply": "\n    return None\n"},
]


@pytest.fixture
def url(schema):
    """A new, empty place, whose URL holds a password."""
    return schema().replace("postgres@", f"postgres:{PASSWORD}@")


@pytest.fixture
def words(tmp_path, url, monkeypatch):
    """The overrides of a small run whose folders come below a name."""
    monkeypatch.setenv("REFLEXION_LAB_DATABASE", url)
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    model = ["model=scripted", f"model.path={tmp_path / 'script.json'}", "tracker=none", "quiet=true", "workers=2"]

    def of(name, *more):
        return [*model, "benchmark.limit=4", "loop.max_attempts=2", f"run_root={tmp_path / name}", *more]

    return of


def the_run(folder):
    (manifest,) = folder.glob("*/manifest.json")
    return RunFolder.existing(manifest.parent)


def found_out(folder):
    log = Log.read(folder)
    return canonical_bytes(log), figures(log)


def rows(url, table):
    with psycopg.connect(url) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()


@pytest.mark.slow
def test_results_do_not_depend_on_storage_and_no_password_leaks(words, tmp_path, url, capfd):
    assert cli.main(["run", *words("files")]) == 0
    assert cli.main(["run", *words("shared", "storage=postgres", "caps.calls=100")]) == 0
    local, shared = the_run(tmp_path / "files"), the_run(tmp_path / "shared")
    assert found_out(local) == found_out(shared)
    assert local.manifest.config_digest == shared.manifest.config_digest
    names = {path.name for path in (tmp_path / "shared").iterdir() if path.is_file()}
    assert names == {"executions.sqlite"}
    calls = rows(url, "calls")
    assert len(calls) == rows(url, "spending")[0][1] > 4
    assert cli.main(["run", *words("again", "storage=postgres", "cache.mode=replay-only")]) == 0
    assert found_out(the_run(tmp_path / "again")) == found_out(local)
    assert rows(url, "calls") == calls
    assert cli.main(["run", *words("none", "storage=postgres", "cache.mode=replay-only", "seed=1")]) == 2
    text = "".join(capfd.readouterr())
    assert "holds no reply to draw 0" in text and PASSWORD not in text
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert written and not [path for path in written if PASSWORD.encode() in path.read_bytes()]


@pytest.mark.slow
@pytest.mark.soak
def test_a_bundle_of_a_run_with_shared_calls_replays(words, tmp_path, url):
    assert cli.main(["run", *words("runs", "storage=postgres")]) == 0
    run = the_run(tmp_path / "runs")
    assert "://" in run.manifest.config["cache"]["path"] and "@" not in run.manifest.config["cache"]["path"]
    for number, calls in enumerate((None, url)):
        packed = pack(run, tmp_path / f"{number}.zip", calls)
        assert packed.verification.holds and packed.calls == len(rows(url, "calls"))
    assert replay(tmp_path / "0.zip").verification.holds


def test_the_storage_is_no_part_of_what_is_measured_but_a_store_is(monkeypatch, url):
    monkeypatch.setenv("REFLEXION_LAB_DATABASE", url)
    digests = [cell_digest(compose(*words)) for words in ([], ["storage=postgres"], ["storage.scratch=/elsewhere"])]
    assert len(set(digests)) == 1
    with_store = [cell_digest(compose("storage=postgres", "store=postgresql", *more)) for more in ([], ["quiet=true"])]
    assert len(set(with_store)) == 1 and with_store[0] != digests[0]
    monkeypatch.setenv("REFLEXION_LAB_DATABASE", url.replace(PASSWORD, "another"))
    assert cell_digest(compose("storage=postgres", "store=postgresql")) == with_store[0]


def test_records_go_to_the_configured_database(words, tmp_path, url, capsys):
    assert cli.main(["run", *words("runs", "storage=postgres", "store=postgresql")]) == 0
    assert len(rows(url, "episodes")) == sum(map(len, the_run(tmp_path / "runs").attempts.values())) > 4
    assert cli.main(["memory", "show", "--store", url]) == 0
    assert cli.main(["wisdom", "list", "--store", url]) == 0
    assert PASSWORD not in "".join(capsys.readouterr())


@pytest.mark.parametrize("sign", "#?/:")
def test_no_sign_lets_a_password_out_that_sqlalchemy_takes_for_one(sign):
    url = f"postgresql://user:pl{sign}anted@host/database"
    assert make_url(url).password == f"pl{sign}anted"
    assert without_logins(url) == "postgresql://host/database"
    assert "anted" not in without_keys(f"it is at {url}, or not")


def test_a_missing_or_wrong_url_is_an_error_with_a_hint_and_makes_no_file(words, monkeypatch, capsys, tmp_path):
    monkeypatch.delenv("REFLEXION_LAB_DATABASE")
    assert cli.main(["run", *words("runs", "storage=postgres")]) == 2
    output = capsys.readouterr().err
    assert output.startswith("error: storage.url: the environment variable REFLEXION_LAB_DATABASE is not set\n  export")
    assert output.count("\n") == 2
    monkeypatch.setenv("REFLEXION_LAB_DATABASE", "hunter2hunter2")
    assert cli.main(["run", *words("runs", "storage=postgres")]) == 2
    output = capsys.readouterr().err
    assert output == "error: storage.url: got no URL of PostgreSQL, expected postgresql://host:5432/database\n"
    assert not (tmp_path / "runs").exists() and not Path("hunter2hunter2").exists()


# A server that goes away in the midst of a run


@pytest.fixture
def undisturbed(words, tmp_path):
    """What the run finds out when nothing happens, and how many calls that takes."""

    def carried_out(*more):
        lab = assemble(compose(*words("files", *more)))
        lab.runner.run()
        lab.close()
        return found_out(the_run(tmp_path / "files")), lab.models.paid

    return carried_out


@pytest.fixture
def disturbed(monkeypatch):
    """`disturb` happens once the model has answered so many calls, before anybody knows; returns a count of calls."""

    def prepared(lab, number, disturb):
        model = lab.model._model._model
        calls, whole = itertools.count(1), model.complete

        def complete(*args, **kwargs):
            answer = whole(*args, **kwargs)
            if next(calls) == number:
                disturb()
            return answer

        monkeypatch.setattr(model, "complete", complete)
        return calls

    return prepared


@pytest.mark.slow
def test_a_run_goes_on_when_the_server_restarts(words, tmp_path, url, server, undisturbed, disturbed):
    def restart():
        server.stop("immediate")
        starting.start()

    starting = threading.Thread(target=server.start)
    lab = assemble(compose(*words("runs", "storage=postgres")))
    outcome = disturbed(lab, 5, restart)
    lab.runner.run()
    lab.close()
    starting.join()
    paid = next(outcome) - 1
    expected, calls = undisturbed()
    assert found_out(the_run(tmp_path / "runs")) == expected
    assert paid == len(rows(url, "calls")) == calls
    assert rows(url, "spending")[0][1] == calls
