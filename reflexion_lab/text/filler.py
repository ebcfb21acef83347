"""Random nouns in place of a text, as a control for its length and layout."""

from __future__ import annotations

import random
import re

from reflexion_lab.text.shorten import estimated

_LISTED = """
acre amber apple autumn bakery barn basket beach bell birch bird blanket boat bread breeze bridge brook butter candle
canoe carpet castle cedar chalk cherry chimney clay cliff clover coast copper coral cottage cradle creek curtain
daisy dawn desert dew dolphin dune eagle east elm ember evening falcon fern ferry fiddle field flute fog forest fox
garden ginger glacier goose grape gravel hammock harbour hazel hedge heron hill honey horizon island ivory ivy jasmine
kettle lake lantern lavender lemon lilac lily linen maple marble meadow mint mist moon morning moss mountain nest oak
oat ocean olive orchard otter owl paddle painter palm parsley peach pear pebble pine plum pond poppy porch potter quilt
rain raven reed river robin rose saddle saffron sail salmon sand seal shore silk silver snow sparrow spoon spring
stone summer swan tea thistle thunder tide trout tulip valley velvet village violin walnut water wave wheat willow wind
winter wool yarn
"""
WORDS = tuple(_LISTED.split())
"""Nouns unrelated to programs."""
PIECES = (*WORDS, *(f"{word}," for word in WORDS))
SIZES = {piece: estimated(piece) for piece in PIECES}
CUT = 320
"""Length to which templates cut the texts of a reflection."""
LAYOUT = re.compile(r"(\n|^- |  # )", re.MULTILINE)
"""Line breaks and marks of a list of failing checks."""


def filler_of(text: str, rng: random.Random) -> str:
    """Random `WORDS` with as many tokens as `text`, also within any prefix that a template may cut."""
    total, used, filler = estimated(text), 0, ""
    line = " ".join(text.split())[:CUT]
    while used < total:
        fitting = [piece for piece in PIECES if used + SIZES[piece] <= total - piece.endswith(",")]
        if len(filler) < len(line):
            by_then = {size: estimated(line[: len(filler) + size]) for size in {len(piece) for piece in fitting}}
            gaps = {piece: abs(used + SIZES[piece] - by_then[len(piece)]) for piece in fitting}
            least = min(gaps.values())
            fitting = [piece for piece in fitting if gaps[piece] == least]
        piece = rng.choice(fitting)
        filler += f" {piece}" if filler else piece.capitalize()
        used += SIZES[piece]
    return filler


def filler_in_layout(text: str) -> str:
    """Filler with the lines and list marks of `text`, each piece as long as there; equal texts have equal filler."""
    rng = random.Random(text)
    pieces = LAYOUT.split(text)
    return "".join(piece if LAYOUT.fullmatch(piece) else filler_of(piece, rng) for piece in pieces)
