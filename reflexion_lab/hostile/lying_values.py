"""Programs whose wrong value lies about itself."""

from __future__ import annotations

from reflexion_lab.hostile.attack import Attack

LIES = """
class Liar({base}):
    def __eq__(self, other):
        return True
    def __ne__(self, other):
        return False
    def __hash__(self):
        return hash(2)
    __lt__ = __le__ = __gt__ = __ge__ = __eq__
    __sub__ = __rsub__ = __abs__ = lambda self, *others: Liar()
def f(x):
    return {value}
"""
NEVER = ("fail", "error")


def lie(base: str, value: str, check: str) -> Attack:
    """A value whose every comparison is true."""
    return Attack(
        name=f"always equal: {base or 'object'} as {value}",
        tries="__eq__ that is always true",
        program=LIES.format(base=base, value=value),
        checks=(check,),
        expected=NEVER,
    )


def value(name: str, program: str, expected: tuple[str, ...] = NEVER, check: str = "assert f(1) == 2") -> Attack:
    """A value that is not the expected one, and hard to look at."""
    return Attack(
        name=f"returns {name}", tries="to trip the comparison", program=program, expected=expected, checks=(check,)
    )


BROKEN = ("fail", "error", "memory", "early_exit")
ATTACKS = (
    lie("", "Liar()", "assert f(1) == 2"),
    lie("", "[Liar()]", "assert f(1) == [2]"),
    lie("", "{'a': Liar()}", "assert f(1) == {'a': 2}"),
    lie("int", "Liar(5)", "assert f(1) == 2"),
    lie("float", "Liar(5)", "assert abs(f(1) - 2.0) < 1e-6"),
    lie("str", "Liar('no')", "assert f(1) == 'two'"),
    lie("list", "Liar([3])", "assert f(1) == [1, 2]"),
    lie("dict", "Liar(a=3)", "assert f(1) == {'a': 2}"),
    lie("tuple", "Liar((3,))", "assert f(1) == (1, 2)"),
    lie("int", "{Liar(5)}", "assert f(1) == {2}"),
    value(
        "an object that prints as the literal",
        "class Liar:\n    def __repr__(self):\n        return '2'\ndef f(x):\n    return Liar()",
    ),
    value(
        "an object that lies about its class",
        "class Liar:\n    __class__ = int\n    def __index__(self):\n        return 2\n    __int__ = __index__\n"
        "def f(x):\n    return Liar()",
    ),
    value(
        "an object that unpickles as the literal",
        "class Liar:\n    def __reduce__(self):\n        return int, ('2',)\ndef f(x):\n    return Liar()",
    ),
    value(
        "a list that iterates as another",
        "class Liar(list):\n    def __iter__(self):\n        return iter([1, 2])\n    def __len__(self):\n"
        "        return 2\n"
        "    def __getitem__(self, i):\n        return [1, 2][i]\ndef f(x):\n    return Liar([9])",
        check="assert f(1) == [1, 2]",
    ),
    value("a generator", "def f(x):\n    yield 2"),
    value("itself", "def f(x):\n    return f"),
    value("not a number", "def f(x):\n    return float('nan')"),
    value(
        "a list that holds itself",
        "def f(x):\n    a = [1]\n    a.append(a)\n    return a",
        BROKEN,
        "assert f(1) == [1, [1]]",
    ),
    value(
        "a list nested 100,000 deep",
        "def f(x):\n    a = []\n    for _ in range(100_000):\n        a = [a]\n    return a",
        BROKEN,
    ),
    value(
        "a small value that unfolds to millions",
        "def f(x):\n    a = [2]\n    for _ in range(18):\n        a = [a, a]\n    return a",
        (*BROKEN, "timeout"),
        "assert f(1) == [2, [2]]",
    ),
    value("a string of 10 MB", "def f(x):\n    return 'x' * 10_000_000", BROKEN),
    value("an integer of 300,000 digits", "def f(x):\n    return 1 << 1_000_000", BROKEN),
    value("half a surrogate pair", "def f(x):\n    return '\\ud800'", check="assert f(1) == '?'"),
    value("bytes for text", "def f(x):\n    return b'two'", check="assert f(1) == 'two'"),
    value(
        "a set whose hashes collide",
        "def f(x):\n    return {i * (2**61 - 1) for i in range(3000)}",
        (*BROKEN, "timeout"),
        "assert f(1) == {2}",
    ),
    value("an unfinished coroutine", "async def f(x):\n    return 2"),
)
