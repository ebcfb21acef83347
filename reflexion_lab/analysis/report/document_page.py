"""A report as one HTML file that needs no other: figures stand in it as data, and nothing in it runs."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from reflexion_lab.analysis.report.sheets import Document

MEDIA = {".svg": "image/svg+xml", ".png": "image/png"}


def page(document: Document) -> str:
    """Every text is escaped on its way in; a figure is an image, in which no script runs."""
    template = escaping(Path(__file__).parent).get_template("document.html.jinja")
    return str(template.render(document=document, source=_source))


def escaping(folder: Path, **options: Any) -> Any:
    """The templates of HTML in `folder`: every value is escaped on its way in, and one that is missing is an error.

    Args:
        options: of Jinja's environment, which is returned.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(folder)
    rules: dict[str, Any] = dict.fromkeys(("trim_blocks", "lstrip_blocks", "autoescape"), True)
    return Environment(loader=loader, undefined=StrictUndefined, **rules, **options)


def _source(path: Path) -> str:
    """The file itself, as an address."""
    return f"data:{MEDIA[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"
