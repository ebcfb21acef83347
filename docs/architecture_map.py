"""The map of packages in README.md, their drawing and table in docs/architecture.md: from layers, imports, docstrings.

python docs/architecture_map.py --write
"""

from __future__ import annotations

import ast
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
DRAWING = ROOT / "docs" / "images" / "architecture.svg"
README = ROOT / "README.md"
BEGIN, END = "<!-- packages -->\n", "<!-- /packages -->\n"
Arrows = set[tuple[str, str]]


def packages() -> list[str]:
    """Names of packages and of the modules beside them, the top one first: each may import those below it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return [layer for layer in contracts[0]["layers"] if layer != "__main__"]


def purpose(package: str) -> str:
    """The first paragraph of a package's docstring."""
    folder = ROOT / "reflexion_lab" / package
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n\n")[0].replace("\n", " ")


def subpackages(package: str) -> list[str]:
    return sorted(path.parent.name for path in (ROOT / "reflexion_lab" / package).glob("*/__init__.py"))


def table() -> str:
    rows = [
        f"| `{name}` | {purpose(name)} | {' '.join(f'`{subpackage}`' for subpackage in subpackages(name))} |"
        for name in packages()
    ]
    return "\n".join(["| package | what it does | subpackages |", "|---|---|---|", *rows, ""])


def outline() -> str:
    """A line per package, the top one first: its name and the first sentence of its docstring."""
    lines = (f"| `{name}` | {purpose(name).partition('. ')[0].removesuffix('.')} |" for name in packages())
    return "\n".join(["| package | what it does |", "|---|---|", *lines, ""])


def updated(page: str, text: str) -> str:
    """`page` with `text` between its two marks."""
    return re.sub(f"(?<={BEGIN}).*?(?={END})", lambda _: text, page, flags=re.DOTALL)


def imports() -> Arrows:
    """Pairs of packages of which the first imports the second."""
    import grimp

    graph = grimp.build_graph("reflexion_lab", cache_dir=None)
    names, pairs = packages(), set()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            pairs.add(tuple(f"{path}.".split(".")[1] for path in (module, imported)))
    return {(upper, lower) for upper, lower in pairs if upper != lower and upper in names and lower in names}


def reduced(arrows: Arrows) -> Arrows:
    """The arrows that follow from no others (transitive reduction)."""

    def below(package: str) -> set[str]:
        direct = {lower for upper, lower in arrows if upper == package}
        return direct.union(*map(below, direct))

    implied = {(upper, lowest) for upper, middle in arrows for lowest in below(middle)}
    return arrows - implied


def rows(names: Sequence[str], arrows: Arrows) -> list[list[str]]:
    """The packages from top to bottom, each one row below the lowest of those that import it.

    An arrow over several rows passes through an empty place in each, named like `loop>protocols`.
    """
    depth: dict[str, int] = {}
    for name in names:
        depth[name] = max((depth[upper] + 1 for upper, lower in arrows if lower == name), default=0)
    placed: list[list[str]] = [[name for name in names if depth[name] == row] for row in range(max(depth.values()) + 1)]
    for upper, lower in sorted(arrows):
        for row in range(depth[upper] + 1, depth[lower]):
            placed[row].append(f"{upper}>{lower}")
    return placed


WIDTH, GAP, SLOT, TOP = 960, 16, 30, 34
"""Of the drawing, between boxes, of an empty place, and between rows, in pixels."""
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #37474f } .name { font: 600 14px ui-monospace, monospace; fill: #102027 }
.parts { font: 11px ui-monospace, monospace; fill: #00796b } rect { fill: #f4f7f8; stroke: #90a4ae }
path { fill: none; stroke: #78909c; stroke-width: 1.4 } marker path { fill: #78909c; stroke: none }
@media (prefers-color-scheme: dark) { rect { fill: #263238; stroke: #607d8b } text { fill: #cfd8dc }
.name { fill: #fff } .parts { fill: #4db6ac } }"""


def drawing() -> str:
    """The packages as an SVG: a box each, above those that it imports."""
    arrows = reduced(imports())
    boxes: dict[str, tuple[float, float, float, float]] = {}
    texts: dict[str, list[str]] = {}
    y = 2.0
    for row in rows(packages(), arrows):
        real = [name for name in row if ">" not in name]
        wide = (WIDTH - 4 - GAP * (len(row) - 1) - SLOT * (len(row) - len(real))) / len(real)
        for name in real:
            texts[name] = textwrap.wrap(purpose(name).replace("`", ""), int(wide / 6.8))
        height = 34 + 15 * max(len(texts[name]) for name in real) + 15 * any(map(subpackages, real))
        x = 2.0
        for name in row:
            width = wide if name in real else SLOT
            boxes[name] = x, y, width, height
            x += width + GAP
        y += height + TOP
    parts = [_box(name, boxes[name], lines) for name, lines in texts.items()]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - TOP + 2:.0f}" role="img" '
        f'aria-label="Packages of reflexion_lab and their imports"><style>{STYLE}</style>\n'
        '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0 8 4 0 8z"/></marker>\n{_lines(arrows, boxes)}\n{"".join(parts)}</svg>\n'
    )


def _box(name: str, box: tuple[float, float, float, float], lines: Iterable[str]) -> str:
    x, y, width, height = box
    words = "".join(
        f'<text x="{x + 12:.0f}" y="{y + 38 + 15 * n:.0f}">{escape(text)}</text>' for n, text in enumerate(lines)
    )
    parts = " · ".join(subpackages(name))
    inner = f'<text class="parts" x="{x + 12:.0f}" y="{y + height - 10:.0f}">{parts}</text>' if parts else ""
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="6"/>'
        f'<text class="name" x="{x + 12:.0f}" y="{y + 20:.0f}">{name}</text>{words}{inner}\n'
    )


def _lines(arrows: Arrows, boxes: Mapping[str, tuple[float, float, float, float]]) -> str:
    """A line per arrow; those of one box start and end side by side, in the order of their other ends."""
    segments = []
    for upper, lower in sorted(arrows):
        via = [name for name in boxes if name == f"{upper}>{lower}"]
        segments += list(zip([upper, *via], [*via, lower], strict=True))

    def middle(name: str) -> float:
        return boxes[name][0] + boxes[name][2] / 2

    def at(name: str, other: str, side: int) -> float:
        ends = sorted((pair[1 - side] for pair in segments if pair[side] == name), key=middle)
        return boxes[name][0] + boxes[name][2] * (ends.index(other) + 1) / (len(ends) + 1)

    paths = []
    for upper, lower in segments:
        start, end = at(upper, lower, 0), at(lower, upper, 1)
        _, y, _, height = boxes[upper]
        through = f"M{start:.0f} {y:.0f}V{y + height:.0f}" if ">" in upper else f"M{start:.0f} {y + height:.0f}"
        bottom = boxes[lower][1]
        bend = (y + height + bottom) / 2
        curve = f"C{start:.0f} {bend:.0f} {end:.0f} {bend:.0f} {end:.0f} {bottom:.0f}"
        tip = "" if ">" in lower else ' marker-end="url(#tip)"'
        paths.append(f'<path d="{through}{curve}"{tip}/>')
    return "\n".join(paths)


if __name__ == "__main__":
    if "--write" in sys.argv:
        README.write_text(updated(README.read_text(), outline()))
        PAGE.write_text(updated(PAGE.read_text(), table()))
        DRAWING.write_text(drawing())
    else:
        print(table(), end="")
