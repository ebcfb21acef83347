"""SQL stores: versions, other programs' databases, damage, read-only places, a server that dies."""

import os
import signal
import sqlite3
import subprocess
import sys
import traceback
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from own_server import own_server
from sqlalchemy.pool import NullPool

import reflexion_lab
from reflexion_lab.errors import StoreError
from reflexion_lab.records import Episode, Search
from reflexion_lab.storage.sql import Sql
from reflexion_lab.storage.sql import _narrowed as narrowed

PASSWORD = "planted-0123456789"


def ids(store):
    return [record.episode_id for record in store.read(Episode)]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path, schema):
    is_file = request.param == "sqlite"
    return f"sqlite:///{tmp_path}/kept.sqlite" if is_file else schema().replace("postgresql:", "postgresql+psycopg:")


@pytest.fixture
def path(tmp_path, episode):
    with closing(Sql(tmp_path / "kept.sqlite")) as store:
        store.append([episode(f"e{n}") for n in range(200)])
    return tmp_path / "kept.sqlite"


def execute(url, *statements):
    engine = sqlalchemy.create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        return [connection.execute(sqlalchemy.text(statement)) for statement in statements]


def test_tables_of_another_program_are_refused_and_left_alone(url):
    execute(url, "CREATE TABLE wisdom (cookie TEXT)")
    with pytest.raises(StoreError, match=r"program"):
        Sql(url)
    assert execute(url, "SELECT count(cookie) FROM wisdom")
    engine = sqlalchemy.create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        assert sqlalchemy.inspect(connection).get_table_names() == ["wisdom"]


@pytest.mark.parametrize(
    ("search", "index"),
    [
        (Search(task_id="t7"), "episodes_by_task"), (Search(session_id="s7"), "episodes_by_session"),
        (Search(agent_id="a7"), "episodes_by_agent"), (Search(categories=("c7",)), "episodes_by_category"),
    ],
)  # fmt: skip
def test_a_search_by_one_field_reads_an_index(url, episode, search, index):
    with closing(Sql(url)) as store:
        store.append([episode(f"e{n}", task_id=f"t{n}", session_id=f"s{n}", agent_id=f"a{n}") for n in range(2000)])
        json = url.startswith("postgresql")
        execute(url, "ANALYZE")
        engine = store._database._opened()
        statement = narrowed(search).compile(engine, compile_kwargs={"literal_binds": True})
        explain = "EXPLAIN" if json else "EXPLAIN QUERY PLAN"
        with engine.connect() as connection:
            plan = str(connection.exec_driver_sql(f"{explain} {statement}").all())
    assert index in plan


def test_a_body_that_does_not_read_is_named(url, episode):
    with closing(Sql(url)) as store:
        store.append([episode("e1")])
        execute(url, 'UPDATE episodes SET body = \'{"episode_id": "e1"}\'')
        with pytest.raises(StoreError, match=r"required field.*another version"):
            ids(store)


def test_no_password_is_in_an_error():
    urls = (
        f"postgresql://user:{PASSWORD}@127.0.0.1:1/database",
        f"postgresql://user@127.0.0.1:1/database?password={PASSWORD}",
        f"postgresql://user:{PASSWORD}@127.0.0.1:port/database",
        f"mysql://user:{PASSWORD}@localhost/database",
        f"postgresql:/user:{PASSWORD}@localhost",
    )
    for url in urls:
        with pytest.raises((StoreError, ValueError)) as caught:
            Sql(url)
        assert PASSWORD not in "".join(traceback.format_exception(caught.value))


def test_a_missing_driver_or_server_is_an_error_with_advice(monkeypatch):
    with pytest.raises(StoreError, match=r"postgresql://user:\*\*\*@127\.0\.0\.1:1/db: .*is the server up"):
        Sql("postgresql://user:secret@127.0.0.1:1/db")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"pip install 'reflexion_lab\[postgresql\]'"):
        Sql("postgresql://user@127.0.0.1:1/db")


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "mysql://host/db", "postgresql+nosuch://h/d", "://"]
)
def test_an_url_of_no_store_is_refused(url):
    with pytest.raises((ValueError, StoreError), match=r"store\.place|cannot be opened"):
        Sql(url)


def test_appended_records_survive_a_crash_of_the_server(episode):
    with own_server() as server, closing(Sql(server.url)) as store:
        store.append([episode("before")])
        server.stop("immediate")
        store._database.patience = 0.0
        with pytest.raises(StoreError, match=r"is the server up"):
            store.append([episode("during")])
        server.start()
        store._database.patience = 60.0
        store.append([episode("after")])
        assert ids(store) == ["before", "after"]


def test_a_read_only_postgresql_is_an_error(schema, episode):
    url = schema()
    with closing(Sql(url)) as store:
        store.append([episode("kept")])
    with closing(Sql(f"{url}%20-cdefault_transaction_read_only%3Don")) as store:
        with pytest.raises(StoreError, match=r"read-only transaction.*name a writable place"):
            store.append([episode("no")])
        assert ids(store) == ["kept"]


def test_json_queries_work_on_the_bodies(schema, episode):
    url = schema()
    with closing(Sql(url)) as store, psycopg.connect(url) as connection:
        store.append([episode("e1", metadata={"outcome": "fail"}), episode("e2")])
        rows = connection.execute('SELECT id FROM episodes WHERE body @> \'{"metadata": {"outcome": "fail"}}\'')
        assert rows.fetchall() == [("e1",)]


def test_a_sqlite_file_is_in_wal_mode_and_a_person_can_query_it(path):
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        query = "SELECT count(*) FROM episodes WHERE json_extract(body, '$.task_id') = 't'"
        assert connection.execute(query).fetchone() == (200,)


def test_a_file_of_another_program_is_refused_and_left_alone(tmp_path):
    theirs, text = tmp_path / "theirs.sqlite", tmp_path / "text.sqlite"
    with closing(sqlite3.connect(theirs)) as connection:
        connection.executescript("CREATE TABLE schema_version (version INTEGER); CREATE TABLE t (x)")
    text.write_text("not a database " * 100)
    for path, message in (
        (theirs, r"file of another program"),
        (text, r"not a database.*restore a backup, or move it away"),
    ):
        before = path.read_bytes()
        with pytest.raises(StoreError, match=message):
            Sql(path)
        assert path.read_bytes() == before


@pytest.mark.parametrize("part", ["half", "pages"])
def test_a_damaged_sqlite_file_is_an_error(path, part):
    whole = path.read_bytes()
    noise = bytes((n * 37 + 11) % 251 for n in range(len(whole) - 8192))
    path.write_bytes(whole[: len(whole) // 2] if part == "half" else whole[:8192] + noise)
    with pytest.raises(StoreError, match=r"malformed.*restore a backup"), closing(Sql(path)) as store:
        ids(store)


def test_a_read_only_sqlite_file_is_an_error(path, episode):
    with closing(Sql(f"sqlite:///file:{path}?mode=ro&uri=true")) as store:
        with pytest.raises(StoreError, match=r"readonly database.*name a writable place"):
            store.append([episode("no")])
        assert len(ids(store)) == 200


@pytest.mark.parametrize("place", ["/proc/self/kept.sqlite", "/proc/kept/kept.sqlite"])
def test_a_sqlite_file_that_cannot_be_created_is_an_error(place):
    with pytest.raises(StoreError, match=r"cannot be opened"):
        Sql(f"sqlite:///{place}")


def test_a_path_with_signs_of_urls_is_a_path(tmp_path, episode):
    path = tmp_path / "50% ? a#b=c&d.sqlite"
    with closing(Sql(path)) as store:
        store.append([episode("e")])
    assert path.is_file() and len(list(tmp_path.glob("*.sqlite"))) == 1


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGKILL])
def test_an_own_server_does_not_outlive_the_process_that_started_it(sign):
    script = """
import sys
from own_server import own_server
with own_server() as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""
    folders = (Path(reflexion_lab.__file__).parents[1], Path(__file__).parents[1] / "shared")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        url = owner.stdout.readline().strip()
        with psycopg.connect(url) as connection:
            owner.send_signal(sign)
            # It answers after these seconds only where the server stays.
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT pg_sleep(300)")
