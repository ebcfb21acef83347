"""The keyword rules of two earlier systems, to stand beside the lab's own.

A reconstruction of what they do, not their code: which substrings each class looks for is told by their documents and
their public sources. Both lower the case of the whole error text and take the first class of which a key occurs
anywhere in it: "Traceback" holds "race", and `<module>` holds "module". Keys that another key of the same class makes
idle are left out.
"""

from __future__ import annotations

Keys = dict[str, tuple[str, ...]]
"""By class, in the order in which they are tried; where a key holds ` & `, all of its parts have to occur."""

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
"""Of the debate system, which was written for Go."""

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
"""Of the coding agent, which was written for TypeScript: six kinds that matter here, and two of its tools."""

SYSTEMS: dict[str, Keys] = {"ten keywords": TEN_CLASSES, "six keywords": SIX_CLASSES}
_ALIKE = {"build": "syntax", "tool": "unknown", "runtime": "unknown"}


def classify_by(keys: Keys, text: str) -> str:
    """The class of an error text, one of the lab's; `build` counts as `syntax`, `tool` and `runtime` as `unknown`."""
    kind = first_kind(keys, text)
    return _ALIKE.get(kind, kind)


def first_kind(keys: Keys, text: str) -> str:
    """The same in the system's own words."""
    lower = text.lower()
    for kind, alternatives in keys.items():
        if any(all(part in lower for part in key.split(" & ")) for key in alternatives):
            return kind
    return "unknown"
