"""Planted secrets, a server that says them back, and a search that finds them in any guise."""

import base64
import gzip
import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from model_server import ModelServer, completion

SECRETS = {
    "OPENAI_API_KEY": "pl-Zq7xOPENAIw3/k9+Vb", "GATEWAY": "pl-Hb2mGATEWAYt8/r4+Nd",
    "PGPASSWORD": "pl-Mx5cPGPASSz1/q6+Lf", "DATABASE_URL": "postgresql://lab:pl-Jr8vDATABASEu2+Ys@127.0.0.1:1/nothing",
    "MLFLOW_TRACKING_URI": "http://lab:pl-Tg4nMLFLOWe7+Ko@127.0.0.1:1",
    "AWS_SECRET_ACCESS_KEY": "pl-Wd9bAWSKEYi5/c3+Xa", "HF_TOKEN": "hf_Pf6sHFTOKENo8h2jUvQmRtYwZx0123456789",
}  # fmt: skip
IN_A_FILE = "pl-Ce3kKEYFILEg6/v1+Bn"
PIECES = tuple(re.search("[A-Z][a-z][0-9][a-z][A-Z]+[a-z][0-9]", text)[0] for text in (*SECRETS.values(), IN_A_FILE))
"""Of each its middle, so that no cut hides the rest."""


def guises(piece: str) -> Iterator[bytes]:
    """`piece` plain, in hex, reversed, and in base64 at each of its three places."""
    yield piece.encode()
    yield piece.encode().hex().encode()
    yield piece[::-1].encode()
    for before in range(3):
        # What depends on the neighbours is cut off at both ends.
        yield base64.b64encode(b"x" * before + piece.encode())[(0, 2, 3)[before] + 1 : -4]


GUISES = {guise: piece for piece in PIECES for guise in guises(piece)}


def found_in(content: bytes) -> set[str]:
    """Which secrets `content` holds; breaks of lines, and backslashes before them, hide nothing."""
    together = re.sub(rb"\\[nr]|[\s\"'\\]+", b"", content)
    return {piece for guise, piece in GUISES.items() if guise in content or guise in together}


def unpacked(content: bytes) -> Iterator[bytes]:
    """The bytes of a file, and of what is packed in them."""
    yield content
    if content.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            yield from (archive.read(name) for name in archive.namelist())
    if content.startswith(b"\x1f\x8b"):
        yield gzip.decompress(content)
    # Pages hold their histories so.
    yield from (
        gzip.decompress(base64.b64decode(packed)) for packed in re.findall(rb"H4sI[A-Za-z0-9+/=]{40,}", content)
    )


def scan(folder: Path) -> tuple[int, dict[str, set[str]]]:
    """How many files below `folder` were read, and by name which secrets they hold, their names included."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    held = {}
    for path in files:
        secrets = set[str]().union(*map(found_in, unpacked(path.read_bytes()))) | found_in(str(path).encode())
        if secrets:
            held[str(path.relative_to(folder))] = secrets
    return len(files), held


def respond(body: Mapping[str, str], headers: Mapping[str, str]) -> tuple[int, object]:
    """Says back every header, in a place that depends on the model: `said` in the reply, `named` in its own name,
    `refused` in a refusal, `400` and such in an error of that status, `garbage` in what is no chat completion.
    """
    model, heard = body["model"], " ".join(headers.values())
    if model.isdigit():
        error = {"message": f"Incorrect API key provided: {heard}", "type": heard, "code": None}
        return int(model), {"error": error}
    if model == "garbage":
        return 200, heard
    named, ended = heard if model == "named" else model, heard if model == "ended" else "stop"
    if model == "refused":
        return 200, completion(None, (11, 7), named, ended, refusal=heard)
    text = f"I was sent {heard}.\n```python\n# {heard}\ndef f(x):\n    return {heard!r}\n```\nROOT_CAUSE: {heard}\n"
    return 200, completion(text, (11, 7), named, ended)


class Planted(NamedTuple):
    """What is hidden, and how it is looked for."""

    environment: Mapping[str, str]
    in_a_file: Path
    """A file outside of all that is searched."""

    @property
    def pieces(self) -> tuple[str, ...]:
        return PIECES

    def found_in(self, content: bytes) -> set[str]:
        return found_in(content)

    def scan(self, folder: Path) -> tuple[int, dict[str, set[str]]]:
        return scan(folder)


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    path = tmp_path_factory.mktemp("keys") / "key"
    path.write_text(f"{IN_A_FILE}\n")
    path.chmod(0o600)
    return Planted(SECRETS, path)


@pytest.fixture(scope="module")
def echo() -> Iterator[ModelServer]:
    with ModelServer(respond) as server:
        yield server
