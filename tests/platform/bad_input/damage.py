"""What may stand where a file is expected, and how it comes there."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

Content = bytes | str | dict[str, object] | Callable[[Path], object]

ODD: dict[str, Content] = {
    "absent": lambda path: None, "a folder": Path.mkdir, "a FIFO": os.mkfifo,
    "a loop": lambda path: path.symlink_to(path.name), "dangling": lambda path: path.symlink_to("no-such-place"),
    "a device": lambda path: path.symlink_to("/dev/zero"),
}  # fmt: skip
"""What no text can be read from; nobody may wait for it."""


def put(path: Path, content: Content) -> None:
    """Nothing but this stands at `path` then. A mapping: what is there, with other fields in the object, or in that of
    the first line of a log; `...` leaves one out.
    """
    if isinstance(content, dict):
        text = path.read_text()
        head, rest = (text, "") if path.suffix == ".json" else text.split("\n", 1)
        fields = json.loads(head) | content
        content = json.dumps({key: value for key, value in fields.items() if value is not ...}) + "\n" + rest
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if callable(content):
        content(path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
