"""A report as one HTML file that needs no other: figures stand in it as data, and nothing in it runs."""

from __future__ import annotations

import base64
from pathlib import Path

from reflexion_lab.reports.sheets import Document

MEDIA = {".svg": "image/svg+xml", ".png": "image/png"}


def page(document: Document) -> str:
    """Every text is escaped on its way in; a figure is an image, in which no script runs."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=True,
    )
    return environment.get_template("page.html.jinja").render(document=document, source=_source)


def _source(path: Path) -> str:
    """The file itself, as an address."""
    return f"data:{MEDIA[path.suffix]};base64,{base64.b64encode(path.read_bytes()).decode()}"
