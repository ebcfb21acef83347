"""A PostgreSQL for the tests of a module, and empty places in it."""

import itertools

import psycopg
import pytest

from reflexion_lab.stores.own_server import own_server


@pytest.fixture(scope="module")
def server():
    with own_server() as running:
        yield running


@pytest.fixture
def schema(server, tmp_path):
    """Makes the URL of a new, empty schema."""
    numbers = itertools.count()

    def made():
        name = f"s{abs(hash(tmp_path))}_{next(numbers)}"
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{server.url}&options=-csearch_path%3D{name}"

    return made
