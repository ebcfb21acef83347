"""PostgreSQL: URLs, connections, and what its errors mean."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from reflexion_lab.errors import ConfigError
from reflexion_lab.io.secrets import without_logins

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine

VARIABLE = "REFLEXION_LAB_DATABASE"
"""Of the environment: the URL that storage=postgres uses."""
EXPECTED = "postgresql://user:password@host:5432/database"
LOCK = 0x52464C4D
"""The advisory lock under which a database is laid out."""
ALIVE = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
"""A machine that vanishes closes no connection: after a minute of silence a connection counts as lost."""
ADVICE = (
    (("full", "no space", "disk i/o", "extend file"), "free some space and try again"),
    (("readonly", "read-only", "permission", "unable to open"), "name a place that you may write to"),
    (("not a database", "malformed"), "restore a copy, or move it away to begin a new one"),
    (("locked",), "another process holds it; try again when that one has ended"),
    (("connect", "refused", "terminated", "closed"), "is the server up, and are host, user and password right?"),
    (("already exists", "no such column", "does not exist"), "name a database of its own; another program's is there"),
)


def is_url(place: object) -> bool:
    """Whether `place` is meant as a URL, not as a path."""
    return "://" in str(place)


def read(url: str, key: str, expected: str = EXPECTED) -> URL:
    """Raises ConfigError, which names the config's `key` and does not repeat `url`: it may hold a password."""
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parts = make_url(url)
    except (ArgumentError, ValueError):
        raise ConfigError(f"{key}: the URL cannot be read", expected=expected) from None
    return parts.set(drivername="postgresql+psycopg") if parts.drivername == "postgresql" else parts


def without_password(parts: URL) -> str:
    """The place for messages: without a password, wherever it stands in the URL."""
    return parts.set(drivername="postgresql", query={}).render_as_string(hide_password=True)


def with_login(url: str) -> str:
    """A URL from a manifest, which holds no log-in, with that of the environment's URL, where both name one place."""
    known = os.environ.get(VARIABLE, "")
    return known if known and without_logins(known) == url else url


def engine(parts: URL, connect_args: Mapping[str, object] | None = None, **options: object) -> Engine:
    """An engine whose connections notice when the server's machine is gone."""
    from sqlalchemy import create_engine

    alive = {name: value for name, value in ALIVE.items() if name not in parts.query}
    return create_engine(parts, connect_args={**alive, **(connect_args or {})}, **options)


def reason_and_advice(error: BaseException) -> tuple[str, str]:
    """The reason of a database's error on one line, and what to do about it."""
    from sqlalchemy.exc import DBAPIError

    inner = error.orig if isinstance(error, DBAPIError) and error.orig else error
    reason = " ".join(str(inner).split())[:300]
    if isinstance(inner, ImportError):
        return reason, "pip install 'reflexion_lab[postgresql]'"
    folded = reason.casefold()
    return reason, next(
        (advice for signs, advice in ADVICE if any(sign in folded for sign in signs)), "see what is there"
    )
