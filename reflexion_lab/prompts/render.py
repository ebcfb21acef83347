"""Prompts are reviewed text: Jinja templates beside this file, with declared variables and a digest each."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment, Template

FOLDER = Path(__file__).parent
SUFFIX = ".md.jinja"


def render(name: str, **variables: object) -> str:
    """The prompt `name` with its variables filled in. A variable that is missing is an error, never a blank."""
    return _template(name).render(**variables).strip("\n")


def digests() -> dict[str, str]:
    """SHA-256 of every prompt template, by name, shortened to 16 hex digits."""
    files = sorted(FOLDER.glob(f"*{SUFFIX}"))
    return {file.name.removesuffix(SUFFIX): hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in files}


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(FOLDER)
    # Prompts are plain text for a model, not HTML: escaping would change what it reads.
    return Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


@cache
def _template(name: str) -> Template:
    return _environment().get_template(name + SUFFIX)
