"""Answers a checker's calls in the candidate's process (see `checker.py`). Standard library only.

A message from the checker is a pickled `(function, args, kwargs)`, or the answer to a callback. A reply is JSON: `{"v":
value}` as `plain` encodes it; `{"e": exception}`; or `{"c": [number, args, kwargs]}`, a call of one of the test's own
functions or iterators; each with `"m"`, the mutable values that the call changed. Both processes number the mutable
values in the arguments alike (`mutable`), so that a reply can name them. Whatever this process sends, the checker reads
plain data: the program can only give another answer.
"""

import _pickle
import functools
import io
import os
import sys
import threading
import types
from _json import encode_basestring_ascii as quoted
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

if "." in __name__:
    from reflexion_lab.tasks.sandbox import plain
    from reflexion_lab.tasks.sandbox.child import CALLS, define, describe
else:  # a file without a package inside the sandbox
    import plain  # type: ignore[import-not-found,no-redef]
    from child import CALLS, define, describe  # type: ignore[import-not-found,no-redef]

LAST = 100
"""Number of the newest objects of the test that a call may change although it does not lead to them."""
LONGEST = 1 << 26
"""Maximum bytes of a message."""
TESTS = "tests"
"""Name of the module in which checks run."""
LISTED = 20
"""Maximum classes of an object's inheritance that are sent."""
IDENTITY = (object.__eq__, type.__eq__)
"""Equality by identity."""
GENERATED = "__create_fn__.<locals>.__eq__"
"""Qualified name of an `__eq__` that `dataclass` generated."""
DICTIONARIES = (dict, OrderedDict, defaultdict, Counter)
SCALARS = {int, str, float, bool, type(None), bytes, complex}
MUTABLE = (list, set, bytearray, deque, *DICTIONARIES)
COPIES: dict[Any, Any] = {bytearray: bytes, deque: list, **dict.fromkeys(DICTIONARIES, dict)}
"""Types of the shallow copies of mutable values, if another than their own."""
EXACT = (types.FunctionType, types.GeneratorType, types.CoroutineType)
"""Types that a checker tells apart."""
BINARY = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "matmul", "lshift", "rshift", "and", "or",
    "xor",
)  # fmt: skip
OTHERS = (
    "call", "await", "iter", "next", "aiter", "anext", "enter", "exit", "aenter", "aexit", "hash", "repr", "str",
    "format", "len", "bool", "reversed", "getitem", "setitem", "delitem", "lt", "le", "gt", "ge", "int", "float",
    "complex", "index", "floor", "ceil", "trunc", "abs", "round", "neg", "pos", "invert",
)  # fmt: skip
METHODS = [f"__{name}__" for name in (*OTHERS, *(f"{side}{name}" for side in ("", "r", "i") for name in BINARY))]
"""Methods that make an operation possible if a class has them."""


class Lost(BaseException):
    """The process at the other end is gone."""


def send(message: bytes) -> None:
    """Write a message with its length.

    Raises
    ------
    Lost
        The other process is gone.
    """
    data = memoryview(len(message).to_bytes(4, "little") + message)
    try:
        while data:
            data = data[os.write(CALLS, data) :]
    except OSError as problem:
        raise Lost from problem


RECEIVED = bytearray()
"""Bytes read so far of the next message."""


def receive() -> bytes:
    """Read a message. Raises Lost at the end of the connection, or for a message that is too long."""
    length = 4
    while True:
        if length == 4 and len(RECEIVED) >= 4:
            length += int.from_bytes(RECEIVED[:4], "little")
            if not 4 < length <= LONGEST:
                raise Lost
        if len(RECEIVED) >= length > 4:
            break
        try:
            part = os.read(CALLS, 1 << 16)
        except OSError as problem:
            raise Lost from problem
        if not part:
            raise Lost
        RECEIVED.extend(part)
    message = bytes(RECEIVED[4:length])
    del RECEIVED[:length]
    return message


class Handles(dict[int, tuple[int, Any]]):
    """Objects that stay in this process: by address, the number of each. `plain.encode` takes it as its memo."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.of_tests: dict[int, int] = {}
        """Numbers of objects of the test's classes, by address."""
        self.shared: dict[int, int] = {}
        """Numbers of mutable values in the arguments of the call, by address."""
        self.methods: dict[type, str] = {}

    def number(self, value: Any) -> int:
        if id(value) not in self:
            self[id(value)] = (len(self.objects), value)
            self.objects.append(value)
        return self[id(value)][0]

    def handle(self, value: Any) -> str:
        """Number, name of the class, numbers of its classes, how it compares, and its methods, for `checker.Proxy`."""
        kind: Any = type(value)
        if kind is Callback:
            return f'{{"K":{value.number}}}'
        if id(value) in self.of_tests:
            return f'{{"T":{self.of_tests[id(value)]}}}'
        if kind is type and issubclass(value, BaseException):
            return f'{{"x":{self.ancestors(value)}}}'
        if issubclass(kind, BaseException):
            return f'{{"X":{self.exception(value)}}}'
        return f'{{"h":{self.object(value, kind)}}}'

    def object(self, value: Any, kind: Any) -> str:
        classes = ",".join(str(self.number(base)) for base in kind.__mro__[:LISTED] if base.__module__ != "builtins")
        if kind not in self.methods:
            has = {name for base in kind.__mro__[::-1] for name, method in vars(base).items() if method is not None}
            without = {name for name in METHODS if getattr(kind, name, None) is None}
            exact = [kind.__name__] if kind in EXACT else []
            self.methods[kind] = " ".join([*exact, *(name for name in METHODS if name in has - without)])
        equality = self.equality(value, kind)
        return f'[{self.number(value)},{quoted(kind.__name__)},[{classes}],"{equality}","{self.methods[kind]}"]'

    @staticmethod
    def equality(value: Any, kind: Any) -> str:
        """How it compares: by identity, as a plain copy, by the fields of a dataclass, or by the program's method."""
        if kind in plain.BASES:
            return "large"
        if base := plain.base_of(kind):
            return base.__name__
        if isinstance(getattr(value, "data", None), list | dict) and {"UserList", "UserDict"} & {
            base.__name__ for base in kind.__mro__[1:]
        }:
            return type(value.data).__name__
        return "is" if kind.__eq__ in IDENTITY else "fields" if fields(value) is not None else "own"

    def part(self, value: Any, base: str) -> str:
        """A value of a subclass of a built-in type: the object, and the plain value."""
        return f'{{"w":[{self.object(value, type(value))},{base}]}}'

    def ancestors(self, kind: type) -> str:
        """Number, module and name of an exception's class and of those that it inherits from."""
        classes = kind.__mro__[:LISTED]
        return f"[{','.join(f'[{self.number(c)},{quoted(c.__module__)},{quoted(c.__name__)}]' for c in classes)}]"

    def exception(self, problem: BaseException) -> str:
        """Classes, arguments and attributes of the exception, and how it is reported."""
        outcome, name, message, line = describe(problem)
        outcome = "error" if outcome == "fail" else outcome
        report = f"[{quoted(outcome)},{quoted(name)},{quoted(message)},{line}]"
        public = {name: value for name, value in vars(problem).items() if name[:1] != "_"}
        args = (*problem.args, problem.filename) if isinstance(problem, OSError) and problem.filename else problem.args
        return f"[{self.ancestors(type(problem))},{plain.encode(args, self)},{plain.encode(public, self)},{report}]"


class Callback:
    """A function or iterator of the test, called in the checker."""

    def __init__(self, calls: "Calls", number: int, names: list[tuple[str, str]]) -> None:
        self._calls, self.number = calls, number
        vars(self).update(names)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._calls.ask(self.number, args, kwargs)

    def __iter__(self) -> "Callback":
        return self

    def __next__(self) -> Any:
        return self()


class Calls:
    """Answers calls of the program's names."""

    def __init__(self) -> None:
        self.namespace: dict[str, Any] = {}
        self.handles = Handles()
        self.classes: dict[str, type] = {}
        self.callbacks: dict[int, Callback] = {}
        self.asking = threading.RLock()
        self.depth = 0
        """Number of calls that have not ended."""
        self.resolved = set[int]()
        """Addresses of this process's own objects that were arguments."""
        self.values: list[Any] = []
        self.before: list[Any] = []
        """Mutable values in the arguments of the call, and their states when they were sent last."""
        self.others: dict[int, Any] = {}
        """The same of the newest other objects of the test, by number."""
        self.rebuilt_objects: list[Any] = []
        """Objects of the test's classes, by number."""
        calls = self

        class Reader(_pickle.Unpickler):
            def persistent_load(self, key: tuple[str, Any]) -> Any:
                kind, name = key
                if kind == "object":
                    calls.resolved.add(id(calls.handles.objects[name]))
                    return calls.handles.objects[name]
                if kind == "rebuilt":
                    return calls.rebuilt
                return calls.callback(*name) if kind == "callback" else calls.named(name)

            def find_class(self, module: str, name: str) -> Any:
                if module == __name__:
                    return globals()[name]
                return calls.class_of_tests(name) if module == TESTS else super().find_class(module, name)

        self.reader = Reader

    def callback(self, number: int, names: list[tuple[str, str]]) -> Callback:
        return self.callbacks.setdefault(number, Callback(self, number, names))

    def named(self, name: str) -> Any:
        """The program's object of this name."""
        if name not in self.namespace:
            raise NameError(f"name {name!r} is not defined")
        return self.namespace[name]

    def class_of_tests(self, name: str, methods: Any = ()) -> type:
        """The program's class of the same name as a class of the tests, else one with the test's methods."""
        kind = self.namespace.get(name)
        if isinstance(kind, type) and kind.__dictoffset__:
            return kind
        kind = self.classes.setdefault(name, type(name, (), {}))
        for method, function in methods:
            setattr(kind, method, _method_of(function))
        return kind

    def rebuilt(self, kind: str, number: int, methods: Any) -> Any:
        """The object of a test's class with this number; new ones come in order."""
        if number == len(self.rebuilt_objects):
            value: Any = object.__new__(self.class_of_tests(kind, methods))
            self.rebuilt_objects.append(value)
            self.handles.of_tests[id(value)] = number
        return self.rebuilt_objects[number]

    def serve(self) -> None:
        """Answer calls until the checker is gone."""
        send(b'{"v":null}')
        try:
            while True:
                self.answer(receive())
        except Lost:
            return

    def answer(self, message: bytes) -> None:
        """Make the call and send its reply. Raises Lost."""
        outer = self.handles.shared, self.values, self.before, self.others
        self.handles.shared, self.values, self.before, self.others = {}, [], [], {}
        self.depth += 1
        try:
            try:
                function, args, kwargs = self.reader(io.BytesIO(message)).load()
                if function is not same:
                    self.number_arguments([*args, *kwargs.values()])
                reply = f'"v":{self.encode(function(*args, **kwargs))}'
            except Lost:
                raise
            except BaseException as problem:
                reply = f'"e":{self.handles.exception(problem)}'
            reply = f"{{{reply},{self.changed()}}}"
        finally:
            self.handles.shared, self.values, self.before, self.others = outer
            self.depth -= 1
        with self.asking:  # another thread may be waiting for an answer
            send(reply.encode())

    def number_arguments(self, roots: list[Any]) -> None:
        """Number the mutable values in the arguments; remember their states and those of the newest other objects."""
        self.values = mutable(roots, lambda value: id(value) in self.handles.of_tests, self.resolved)
        self.handles.shared = {id(value): n for n, value in enumerate(self.values)}
        self.before = [snapshot(value) for value in self.values]
        last = range(max(0, len(self.rebuilt_objects) - LAST), len(self.rebuilt_objects))
        others = {n: self.rebuilt_objects[n] for n in last}
        self.others = {n: snapshot(value) for n, value in others.items() if id(value) not in self.handles.shared}

    def changed(self) -> str:
        """Mutable values that changed since they were sent last, with their states; of other objects the attributes."""
        after = [snapshot(value) for value in self.values]
        changed = [
            (n, state if type(self.values[n]) in MUTABLE else differing(self.before[n], state))
            for n, state in enumerate(after)
            if not is_same(self.before[n], state)
        ]
        others = {n: snapshot(self.rebuilt_objects[n]) for n in self.others}
        moved = [(n, attributes) for n, state in others.items() if (attributes := differing(self.others[n], state))]
        self.before, self.others = after, others
        return f'"m":{self.listed(changed)},"t":{self.listed(moved)}'

    def listed(self, states: list[tuple[int, Any]]) -> str:
        return f"[{','.join(f'[{number},{self.encode(state)}]' for number, state in states)}]"

    def encode(self, value: Any) -> str:
        return plain.encode(value, self.handles)

    def ask(self, number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the test's function; answers the calls that it makes in turn."""
        with self.asking:
            if not self.depth:
                raise RuntimeError("the test's function can be called only while the test calls the program")
            called = f'"c":[{number},{self.encode(args)},{self.encode(kwargs)}]'
            send(f"{{{called},{self.changed()}}}".encode())
            while True:
                message = receive()
                loaded = self.reader(io.BytesIO(message)).load()
                if len(loaded) == 3:
                    self.answer(message)
                    continue
                value, problem = loaded
                if problem is not None:
                    raise problem
                return value


@functools.cache
def exception_of_tests(name: str, base: type) -> type:
    """A class like an exception of the test."""
    return type(name, (base,), {"__module__": TESTS})


def fields(value: Any) -> dict[str, Any] | None:
    """Fields that the `__eq__` of a dataclass compares; None for an object without a generated `__eq__`."""
    base = next(base for base in type(value).__mro__ if "__eq__" in vars(base))
    if getattr(getattr(vars(base)["__eq__"], "__code__", None), "co_qualname", "") != GENERATED:
        return None
    try:
        every: Any = vars(base)["__dataclass_fields__"].values()
        return {field.name: getattr(value, field.name) for field in every if field.compare and _is_field(field)}
    except Exception:  # a field without a value, or a candidate's property that raises
        return None


def _is_field(field: Any) -> bool:
    """Whether `field` is neither a `ClassVar` nor an `InitVar`."""
    return bool(field._field_type.name == "_FIELD")


def _method_of(function: Callback) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    return method


def mutable(roots: list[Any], is_of_tests: Any, skipped: Any = ()) -> list[Any]:
    """Mutable values in `roots`, containers and objects of the test's classes, each once, in the order of any copy."""
    values, seen, waiting = [], set(skipped), roots[::-1]
    while waiting:
        value = waiting.pop()
        kind = type(value)
        is_object = kind not in SCALARS and is_of_tests(value)
        if not (is_object or kind in MUTABLE or kind is tuple) or id(value) in seen:
            continue
        seen.add(id(value))
        if is_object:
            inside = [*vars(value).values()]
        elif kind in DICTIONARIES:
            inside = [*value, *value.values()]
        else:
            inside = [] if kind in (set, bytearray) else [*value]
        waiting += inside[::-1]
        if kind is not tuple:
            values.append(value)
    return values


def snapshot(value: Any) -> Any:
    """A shallow copy of a mutable value: of an object, its attributes."""
    kind = type(value)
    return COPIES.get(kind, kind)(value) if kind in MUTABLE else dict(vars(value))


def is_same(before: Any, after: Any) -> bool:
    """Whether two snapshots hold the same objects in the same order."""
    if isinstance(before, dict):
        before, after = [part for item in before.items() for part in item], [p for item in after.items() for p in item]
    if isinstance(before, bytes | set):
        return bool(before == after)
    return len(before) == len(after) and all(a is b for a, b in zip(before, after, strict=True))


def differing(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Attributes that are new or other objects."""
    return {name: value for name, value in after.items() if name not in before or before[name] is not value}


def same(value: Any) -> Any:
    """`value`, to read it."""
    return value


def exact(value: Any) -> Any:
    """A plain copy of an object of a subclass of a built-in container."""
    return plain.exact(value) if plain.base_of(type(value)) else value.data


def seed(*args: Any, **kwargs: Any) -> None:
    """Seed the program's random numbers."""
    import random

    random.seed(*args, **kwargs)


def is_base(kind: type, other: type) -> bool:
    """Whether `other` inherits from `kind`."""
    return issubclass(other, kind)


RUNNERS: list[Any] = []


def run_coroutine(awaitable: Any) -> Any:
    """Run a coroutine to its end, in one event loop for all."""
    import asyncio

    async def main() -> Any:
        return await awaitable

    RUNNERS[:] = RUNNERS or [asyncio.Runner()]
    return RUNNERS[0].run(main())


def serve(request: dict[str, Any]) -> None:
    """Execute the program, then answer calls of its names until the checker ends."""
    calls = Calls()
    try:
        define(request)
        calls.namespace = sys.modules["candidate"].__dict__
    except BaseException as problem:
        send(f'{{"e":{calls.handles.exception(problem)}}}'.encode())
        return
    calls.serve()
