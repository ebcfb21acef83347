"""A hook of mkdocs: fills the page on configuration from conf/, so that it cannot fall behind."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

CONF = Path(__file__).parents[1] / "conf"
GROUPS = "<!-- groups -->"
WHOLE = "<!-- config.yaml -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    return markdown.replace(GROUPS, tables()).replace(WHOLE, whole())


def tables() -> str:
    """One heading per group, one row per choice."""
    return "\n".join(_table(group) for group in sorted({path.parent for path in CONF.glob("*/**/*.yaml")}))


def whole() -> str:
    return f"```yaml\n{(CONF / 'config.yaml').read_text()}```\n"


def description(path: Path) -> str:
    """The sentence at the head of a config file; "" where it has none."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith("# @package")]
    comments = []
    for line in lines:
        if not line.startswith("#"):
            break
        comments.append(line.removeprefix("#").strip())
    words = " ".join(comments)
    return re.sub(r"^reflexion-lab run [^A-Z]*(?=[A-Z])", "", words).replace("|", "\\|").replace("<", "&lt;")


def _table(group: Path) -> str:
    name = group.relative_to(CONF).as_posix()
    default = _defaults().get(name, "")
    rows = [
        f"| `{path.stem}`{' (default)' if path.stem == default else ''} | {description(path)} |"
        for path in sorted(group.glob("*.yaml"))
    ]
    return "\n".join([f"### `{name}`", "", f"| `{name}=` | what it is |", "|---|---|", *rows, ""])


def _defaults() -> dict[str, str]:
    return dict(re.findall(r"^  - (\w+): (\w+)", (CONF / "config.yaml").read_text(), re.MULTILINE))
