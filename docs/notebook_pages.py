"""A hook of mkdocs: one page per notebook, with the outputs that are committed in it; nothing is executed."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
OUTPUTS: dict[str, list[str]] = {}
"""HTML of outputs by page. It is put in after Markdown, which would change it."""
COLOURS = re.compile(r"\x1b\[[\d;]*m|\r")
OUTSIDE = re.compile(r"\[([^]]+)]\(\.\./([^)]+)\)")
"""A link from a notebook to a file that is no page."""


def on_files(files: Any, config: Any, **_: Any) -> Any:
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        name = f"notebooks/{path.stem}.md"
        files.append(File.generated(config, name, content=markdown(path, OUTPUTS.setdefault(name, []))))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links to notebooks, which work in the repository, lead to their pages."""
    return re.sub(r"\(\.\./\.\./(notebooks/\w+)\.ipynb\)", r"(../\1.md)", markdown)


def on_page_content(html: str, page: Any, **_: Any) -> str:
    outputs = OUTPUTS.get(page.file.src_uri, [])
    return re.sub(r'(<div class="nb-output">)(\d+)', lambda match: match[1] + outputs[int(match[2])], html)


def markdown(path: Path, outputs: list[str]) -> str:
    """A notebook as Markdown with a numbered place for each output, whose HTML is added to `outputs`."""
    outputs.clear()
    parts = []
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(OUTSIDE.sub(r"\1 (`\2`)", source))
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            parts.append(f'<div class="nb-output">{len(outputs)}</div>')
            outputs.append(shown(output))
    parts.insert(1, f"`notebooks/{path.name}` with its stored outputs; `make lab` opens it.")
    return "\n\n".join(parts) + "\n"


def shown(output: dict[str, Any]) -> str:
    """An output as HTML, in the richest form that needs no script."""
    data = output.get("data", {})
    if html := "".join(data.get("text/html", "")):
        return re.sub(r"<style scoped>.*?</style>", "", html, flags=re.DOTALL)
    text = escape(COLOURS.sub("", "".join(data.get("text/plain", output.get("text", "")))))
    if image := "".join(data.get("image/png", "")).strip():
        return f'<img alt="{text}" src="data:image/png;base64,{image}">'
    return f"<pre>{text}</pre>"
