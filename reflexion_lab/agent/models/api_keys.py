"""API keys from the environment or a file; read at every call and removed from all messages."""

from __future__ import annotations

import os
import stat
import warnings
from pathlib import Path

from reflexion_lab.errors import Unanswered
from reflexion_lab.io.secrets import PLACEHOLDER, SHORTEST


class ApiKey:
    """The key in the file at `path` if one is named, else in the environment variable `variable`. Thread-safe.

    A changed key is used from the next call on. `is_needed`: the variable must be set. A named file must contain a key.
    `is_own`: the server is on this machine, where placeholders are usual, and no warning says what follows from one.
    """

    def __init__(self, variable: str, path: str | None, is_needed: bool, is_own: bool = False) -> None:
        self.place = f"the file {path}" if path else f"the environment variable {variable}"
        self._variable = variable
        self._path = Path(path).expanduser() if path else None
        self._is_needed, self._is_own = is_needed, is_own
        self._seen: set[str] = set()

    def read(self) -> str:
        """The key; "" if there is none.

        Raises Unanswered: a needed key is missing, others can read its file, or no header allows its characters.
        """
        key = self._from_file(self._path) if self._path else os.environ.get(self._variable, "")
        key = key.strip()
        if not key and (self._is_needed or self._path):
            raise _refused(f"{self._named} {'is empty' if self._path else 'is not set'}; put the API key into it")
        if not (key.isascii() and key.isprintable()):
            raise _refused(f"{self._named} holds characters that no key has; set it again")
        if PLACEHOLDER.fullmatch(key) and key not in self._seen and not self._is_own:
            warnings.warn(
                f"{self._named} holds a key of fewer than {SHORTEST} characters, or a plain word or number of fewer "
                "than 16. It is taken for a placeholder, as local servers need one, and is not hidden where a server "
                "repeats it",
                stacklevel=2,
            )
        if key:
            self._seen.add(key)
        return key

    def hidden(self, text: str) -> str:
        """`text` with the keys read so far replaced by "[key]", except placeholders, which are common words."""
        for key in sorted(self._seen, key=len, reverse=True):
            if not PLACEHOLDER.fullmatch(key):
                text = text.replace(key, "[key]")
        return text

    @property
    def _named(self) -> str:
        return self.place[0].upper() + self.place[1:]

    def _from_file(self, path: Path) -> str:
        try:
            mode = path.stat().st_mode
            if not stat.S_ISREG(mode):
                raise _refused(f"model.api_key_file: got {path}, expected a regular file that holds the key alone")
            if mode & 0o077:
                access = f"{path} that others may read or write (mode {mode & 0o777:03o})"
                raise _refused(f"model.api_key_file: got {access}, expected its owner alone; chmod 600 {path}")
            return path.read_text(errors="replace")
        except OSError as problem:
            raise _refused(f"model.api_key_file: {path} cannot be read ({problem.strerror})") from None


def _refused(message: str) -> Unanswered:
    return Unanswered(message, "key_refused", is_lasting=True)
