"""The keyword rules of two earlier systems, for comparison with the lab's own.

A reconstruction from their documents and public sources, not their code. Both convert the whole error text to lower
case and return the first class with a key in it: "Traceback" contains "race", and `<module>` contains "module". Keys
that contain another key of their class are left out.
"""

from __future__ import annotations

Keys = dict[str, tuple[str, ...]]
"""Keys by class, in the order of the search; of a key with ` & `, all parts must occur."""

TEN_CLASSES: Keys = {
    "syntax": ("cannot find", "compile", "syntax", "undeclared", "undefined", "unexpected"),
    "assertion": ("assert", "expected", "got", "mismatch", "not equal", "test fail"),
    "timeout": ("deadline", "timed out", "timeout"),
    "null": ("nil dereference", "nil pointer", "null pointer", "segmentation fault"),
    "index": ("array index", "index out of range", "out of bounds", "slice bounds"),
    "permission": ("denied", "forbidden", "permission", "unauthorized"),
    "import": ("dependency", "import", "module", "package"),
    "type": ("cast", "conversion", "incompatible", "type"),
    "concurrency": ("concurrent", "deadlock", "goroutine", "race"),
    "memory": ("allocation", "memory", "oom"),
}
"""Rules of the debate system, written for Go."""

SIX_CLASSES: Keys = {
    "type": ("not assignable & type", "ts2 & type"),
    "import": ("cannot find module", "import", "ts2307"),
    "syntax": ("parsing", "syntax", "unexpected token"),
    "timeout": ("timed out", "timeout"),
    "assertion": ("fail & test", "expect & fail", "expect & tobe", "expect & toequal"),
    "build": ("build", "bundle", "compile"),
    "tool": ("command failed", "tool"),
    "runtime": ("error:", "exception", "runtime"),
}
"""Rules of the coding agent, written for TypeScript: six classes of errors, and two of its tools."""

SYSTEMS: dict[str, Keys] = {"ten keywords": TEN_CLASSES, "six keywords": SIX_CLASSES}
_ALIKE = {"build": "syntax", "tool": "unknown", "runtime": "unknown"}


def classify_by(keys: Keys, text: str) -> str:
    """The class of an error text, one of the lab's; `build` counts as `syntax`, `tool` and `runtime` as `unknown`."""
    kind = first_kind(keys, text)
    return _ALIKE.get(kind, kind)


def first_kind(keys: Keys, text: str) -> str:
    """The class in the system's own terms."""
    lower = text.lower()
    for kind, alternatives in keys.items():
        if any(all(part in lower for part in key.split(" & ")) for key in alternatives):
            return kind
    return "unknown"
