"""A checker's process inside the sandbox: runs checks from where it calls the candidate's. Standard library only.

The test's code and the benchmark's helpers run here, where the candidate never does. `candidate`, and every other name
that only the program defines, is a `Proxy` whose calls go to the candidate's process (`calls.py`). Rules:

- Arguments are copies. Lists, dictionaries, sets, deques and attributes of the test's objects in them that a call
  changes are changed here, too, as are attributes that it sets of the last 100 objects; one that comes back is the same
  object. Methods of the test's objects run here; what they change of the object does not reach the program.
- Values come back as plain data, built here, and compare as in Python: no `__eq__` of the program takes part. Those of
  a subclass, as named tuples, compare as their built-in base.
- An object of the program's own class stays in its process. Its attributes, methods, items, iteration, text and truth
  are read from there; it has the operations that its class has. It equals no plain value; another object of the program
  equals it if both are the same, or if a dataclass' compared fields are equal here, or else if the program's class says
  so.
- Such an object never sees what it is compared with: order against a value of the test is refused, `in` compares its
  items here, and after arithmetic with a value of the test neither it nor the result is turned into a number, text or
  truth. A conversion to a number is made once an object. Lists, dictionaries and sets of a subclass do both as their
  base does, here.
- `StopIteration` that a function of the program raises becomes `RuntimeError`, as in a generator: it would end an
  iteration of the test.
- Exceptions have the same built-in class here; a class of the program's own becomes one of that name.
- An iterator stays in its process and is read item by item; the test's functions and iterators stay here.
- A moment comes with its offset instead of its time zone.
- `random.seed` seeds both processes.
- Names that neither the setup nor a check defines are the program's, as they are when they are read; those that it
  imports from the standard library are imported here.

Request: `nonce, entry_point, setup, checks` (code, or the source of a check that does not compile), `imports`,
statements, and whether they `draw` random numbers.
"""

import _pickle
import builtins
import copy
import io
import json
import math
import operator
import re
import sys
import threading
import types
from collections import deque
from collections.abc import Callable, Generator
from time import perf_counter as clock
from typing import Any

if "." in __name__:
    from reflexion_lab.tasks.sandbox import calls
    from reflexion_lab.tasks.sandbox.child import describe, row, sender
    from reflexion_lab.tasks.sandbox.comparison import Decoder
else:  # files without a package inside the sandbox
    import calls  # type: ignore[import-not-found,no-redef]
    from child import describe, row, sender  # type: ignore[import-not-found,no-redef]
    from comparison import Decoder  # type: ignore[import-not-found,no-redef]

SIDES = ("$actual", "$expected")
"""Names under which a check keeps both sides of its last comparison (`apart.py`)."""
EXPLAINED = 3
"""Maximum number of failing checks with expected and actual values."""
ENDINGS = {SystemExit: "early_exit", MemoryError: "memory"}
"""Outcome of a check by the program's exception; that of others is `error`."""
DEEP = 50_000
"""Levels of calls for a message with linked objects."""
PLAIN = {int, str, float, bool, type(None), list, tuple, dict, set, frozenset, bytes, complex}
MARGIN = 40
"""Levels of calls that a message may need."""
CONTAINERS = ("list", "dict", "set")
"""Built-in types whose subclasses stay with the program, and compare as they do."""
NAMES = ("__name__", "__qualname__", "__doc__")
"""Attributes of a function that `functools.wraps` copies."""
VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
LIBRARY = (
    "builtins", "abc", "array", "bisect", "calendar", "cmath", "collections", "copy", "datetime", "decimal",
    "fractions", "functools", "heapq", "itertools", "json", "json.decoder", "math", "numbers", "operator", "pathlib",
    "random", "re", "statistics", "string", "typing", "uuid",
)  # fmt: skip
"""Modules that a checker imports where the program does, and whose exceptions it knows: values of their classes are
rebuilt here. The classes of others, as `types`, stay with the program."""


class Proxy:
    """An object that stays in the candidate's process. `Program.proxy` adds the operations that its class has."""

    __slots__ = ("__weakref__", "_own")

    def __init__(self, program: "Program", number: int, kind: str, classes: list[int], equality: str) -> None:
        own = {"program": program, "number": number, "kind": kind, "classes": classes, "equality": equality}
        object.__setattr__(self, "_own", types.SimpleNamespace(**own, imitated=None, numbers={}, has_seen=False))

    def __getattr__(self, name: str) -> Any:
        return _ask(self, getattr, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _ask(self, setattr, name, value)

    def __delattr__(self, name: str) -> None:
        _ask(self, delattr, name)

    def __eq__(self, other: object) -> bool:
        return _equal(self, other)

    def __hash__(self) -> int:
        return hash(self._own.number) if self._own.equality == "is" else int(_ask(self, hash))

    def __instancecheck__(self, value: object) -> bool:
        proxy = value.proxy if isinstance(value, Part) else value
        return isinstance(proxy, Proxy) and self._own.number in proxy._own.classes

    def __subclasscheck__(self, kind: object) -> bool:
        return bool(_ask(self, calls.is_base, kind))

    def __copy__(self) -> Any:
        return _ask(self, copy.copy)

    def __deepcopy__(self, _: object) -> Any:
        return _ask(self, copy.deepcopy)

    def __dir__(self) -> list[str]:
        return list(_ask(self, dir))

    @property
    def __class__(self) -> Any:
        own = self._own
        return getattr(builtins, own.equality) if own.equality in CONTAINERS else own.imitated or type(self)

    @__class__.setter
    def __class__(self, kind: type) -> None:
        raise TypeError("the class of an object of the program cannot be changed")


def _ask(proxy: Proxy, function: Callable[..., Any], *args: Any) -> Any:
    return proxy._own.program.call(function, (proxy, *args), {})


def _equal(left: Proxy, right: object) -> bool:
    mine = left._own
    if mine.equality == "large":
        raise mine.program.refusal(f"a {mine.kind} of the program is too large to be compared")
    if isinstance(right, Proxy):
        if mine.number == right._own.number:
            return True
        if "is" in (mine.equality, right._own.equality):
            return False
        if mine.equality == right._own.equality == "fields":
            same = mine.classes[:1] == right._own.classes[:1]
            return bool(same and _ask(left, calls.fields) == _ask(right, calls.fields))
    if mine.equality in CONTAINERS:
        return bool(_ask(left, calls.exact) == right)
    return isinstance(right, Proxy) and bool(_ask(left, operator.eq, right))


def _arithmetic(function: Callable[..., Any], name: str, swapped: bool = False) -> Callable[..., Any]:
    def apply(self: Proxy, *others: Any) -> Any:
        seen = not all(isinstance(other, Proxy | Part) for other in others)
        if seen and self._own.equality in (CONTAINERS if name[:3] != "__i" else ("set",)):
            plain = _ask(self, calls.exact)
            return function(others[0], plain) if swapped else function(plain, *others)
        result = self._own.program.call(function, (others[0], self) if swapped else (self, *others), {})
        if seen:
            self._own.has_seen = True
            if not isinstance(result, Proxy) or (result is self and name[:3] != "__i"):
                raise _refused(self, name, others[0])
            result._own.has_seen = True
        return result

    return apply


def _order(function: Callable[..., Any], name: str) -> Callable[[Proxy, Any], Any]:
    def compare(self: Proxy, other: Any) -> Any:
        if isinstance(other, Proxy | Part):
            return _ask(self, function, other)
        if self._own.equality in CONTAINERS:
            return function(_ask(self, calls.exact), other)
        raise _refused(self, name, other)

    return compare


def _conversion(function: Callable[..., Any], name: str, once: bool = True) -> Callable[..., Any]:
    def convert(self: Proxy, *args: Any) -> Any:
        own = self._own
        if own.has_seen:
            if own.equality in CONTAINERS:
                return function(_ask(self, calls.exact), *args)
            raise _refused(self, name, None)
        if not once:
            return _ask(self, function, *args)
        if (function, args) not in own.numbers:
            own.numbers[function, args] = _ask(self, function, *args)
        return own.numbers[function, args]

    return convert


def _method(name: str) -> Callable[..., Any]:
    return lambda self, *args: _ask(self, operator.methodcaller(name, *args))


def _refused(proxy: Proxy, name: str, other: object) -> TypeError:
    kinds = f"an object of the program's class {proxy._own.kind} and a value of the test, {type(other).__name__}"
    program: Program = proxy._own.program
    return program.refusal(f"{name} is not asked of {kinds}: it would see the value")


def _exit(self: Proxy, kind: type | None, problem: BaseException | None, _: object) -> Any:
    return _ask(self, operator.methodcaller("__exit__", kind, problem, None))


def _async_exit(self: Proxy, kind: type | None, problem: BaseException | None, _: object) -> Any:
    return _ask(self, operator.methodcaller("__aexit__", kind, problem, None))


def _run(self: Proxy) -> Any:
    return self._own.program.call(calls.run_coroutine, (self,), {})


def _await(self: Proxy) -> Generator[Any, None, Any]:
    yield from ()
    return _run(self)


def _send(self: Proxy, _: object) -> Any:
    raise StopIteration(_run(self))


def _throw(_: Proxy, *problem: Any) -> Any:
    raise problem[0]


COROUTINE: dict[str, Callable[..., Any]] = {"send": _send, "throw": _throw, "close": lambda _: None}
"""A coroutine runs to its end in the candidate's process when it is awaited."""
KINDS = {"function": types.FunctionType, "generator": types.GeneratorType}
"""Classes that such objects have for `isinstance`."""


def _operations() -> dict[str, Callable[..., Any]]:
    """Operations of an object of the program, by the name of the method that its class needs."""
    table: dict[str, Callable[..., Any]] = {
        "__call__": lambda self, *args, **kwargs: self._own.program.call(self, args, kwargs),
        "__exit__": _exit, "__aexit__": _async_exit, "__await__": _await,
    }  # fmt: skip
    for name in "add sub mul truediv floordiv mod pow matmul lshift rshift and_ or_ xor".split():  # noqa: SIM905
        function, bare = getattr(operator, name), name.strip("_")
        table[f"__{bare}__"] = _arithmetic(function, bare)
        table[f"__r{bare}__"] = _arithmetic(function, bare, swapped=True)
        table[f"__i{bare}__"] = _arithmetic(getattr(operator, f"i{bare}"), f"__i{bare}__")
    table |= {"__divmod__": _arithmetic(divmod, "divmod"), "__rdivmod__": _arithmetic(divmod, "divmod", swapped=True)}
    for name in ("lt", "le", "gt", "ge"):
        table[f"__{name}__"] = _order(getattr(operator, name), name)
    for function in (
        int, float, complex, operator.index, math.floor, math.ceil, math.trunc, abs, round, operator.neg, operator.pos,
        operator.invert,
    ):  # fmt: skip
        table[f"__{function.__name__}__"] = _conversion(function, function.__name__)
    for function in (repr, str, format, len, bool):
        table[f"__{function.__name__}__"] = _conversion(function, function.__name__, once=False)
    for function in (iter, next, reversed, operator.getitem, operator.setitem, operator.delitem):
        table[f"__{function.__name__}__"] = lambda self, *args, of=function: _ask(self, of, *args)
    return table | {name: _method(name) for name in ("__enter__", "__aenter__", "__aiter__", "__anext__")}


OPERATIONS = _operations()


class Part:
    """Mixin of a plain value of the program's own subclass, as a named tuple: its text, its other attributes and
    arithmetic with another object of the program are the program's.
    """

    proxy: Proxy

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["proxy"], name)

    def __repr__(self) -> str:
        return str(_ask(self.proxy, repr))

    def __str__(self) -> str:
        return str(_ask(self.proxy, str))

    def __format__(self, how: str) -> str:
        return str(_ask(self.proxy, format, how))


def _part_arithmetic(name: str) -> Callable[..., Any]:
    function, method = getattr(operator, name), f"__{name.strip('_')}__"

    def apply(self: Any, other: Any) -> Any:
        if isinstance(other, Proxy | Part):
            return _ask(self.proxy, function, other)
        base = getattr(super(Part, self), method, None)
        return base(other) if base else NotImplemented

    return apply


for _name in ("add", "sub", "mul", "truediv", "and_", "or_", "xor"):
    setattr(Part, f"__{_name.strip('_')}__", _part_arithmetic(_name))


class Name(str):
    """A name of the program, in a message."""


class Program:
    """The program in the candidate's process."""

    def __init__(self, entry_point: str) -> None:
        self.entry_point = entry_point
        self.is_lost = False
        self.refused = ""
        """Refused request of the present check: the check has no verdict, even if it catches the error."""
        self.functions = set[int]()
        """Numbers of what the test has read by name."""
        self.kinds: dict[tuple[str, str], type[Proxy]] = {}
        self.lock = threading.RLock()
        self.proxies: dict[int, Proxy] = {}
        self.callbacks = Numbered()
        """Functions and iterators of the test that were arguments, by number."""
        self.objects = Numbered()
        """Objects of the test's classes that were arguments, by number."""
        self.exceptions: dict[int, type[BaseException]] = {}
        self.sent: dict[str, type[BaseException]] = {}
        """The test's exceptions that were arguments or ended a function of the test, by name."""

    def named(self, name: str) -> Any:
        """The program's object of this name. Raises NameError."""
        value = self.call(calls.same, (Name(name),), {})
        if isinstance(value, Proxy):
            self.functions.add(value._own.number)
        return value

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call `function` in the candidate's process. Raises as it does, or `calls.Lost`."""
        descend(MARGIN)
        with self.lock:
            self.write((function, args, kwargs))
            roots = [*args, *kwargs.values()] if function is not calls.same else []
            values = calls.mutable(roots, lambda value: id(value) in self.objects.numbers)
            while "c" in (reply := self.read()):
                self.update(reply, values)
                self.write(self.called_back(reply["c"], values))
            try:
                return self.result(reply, values)
            except StopIteration as problem:
                is_method = isinstance(function, Proxy) and function._own.number not in self.functions
                if function is next or is_method:
                    raise
                raise RuntimeError("the program raised StopIteration") from problem

    def write(self, message: Any) -> None:
        try:
            buffer = self.pickled(message)
        except (_pickle.PicklingError, AttributeError, TypeError) as problem:
            raise self.refusal(f"the program cannot be called with this value: {problem}") from None
        try:
            calls.send(buffer.getvalue())
        except calls.Lost:
            self.is_lost = True
            raise

    def pickled(self, message: Any) -> io.BytesIO:
        buffer, limit, count = io.BytesIO(), sys.getrecursionlimit(), len(self.objects)
        try:
            try:
                Writer(self, buffer).dump(message)
            except RecursionError:  # a long chain of objects; threads have small stacks
                if threading.current_thread() is not threading.main_thread():
                    raise
                sys.setrecursionlimit(max(limit, DEEP))
                buffer = io.BytesIO()
                Writer(self, buffer).dump(message)
        except BaseException:
            self.objects.cut(count)  # the other process has not seen the others
            raise
        finally:
            sys.setrecursionlimit(limit)
        return buffer

    def refusal(self, why: str) -> TypeError:
        self.refused = why
        return TypeError(why)

    def read(self) -> Any:
        try:
            return json.loads(calls.receive())
        except (calls.Lost, ValueError):
            self.is_lost = True
            raise calls.Lost from None

    def result(self, reply: Any, values: list[Any]) -> Any:
        """The value of a reply; `values` are the mutable values in the arguments. Raises the program's exception."""
        self.update(reply, values)
        if "e" in reply:
            raise self.exception(reply["e"], values)
        return self.decode(reply["v"], values)

    def update(self, reply: Any, values: list[Any]) -> None:
        """Change what the call changed."""
        for number, after in [(number, self.decode(after, values)) for number, after in reply.get("m", ())]:
            value = values[number]
            if isinstance(value, list | bytearray):
                value[:] = after
                continue
            if not isinstance(value, dict | set | deque):
                vars(value).update(after)
                continue
            value.clear()
            (value.extend if isinstance(value, deque) else value.update)(after)
        for number, attributes in reply.get("t", ()):
            vars(self.objects[number]).update(self.decode(attributes, values))

    def decode(self, encoded: Any, values: list[Any] | tuple[()] = ()) -> Any:
        if not isinstance(encoded, list | dict):
            return encoded
        decoder = Decoder()
        decoder.readers |= {
            "h": lambda inner: self.proxy(*inner),
            "w": lambda inner: self.part(inner[0], decoder._decode(inner[1])),
            "x": self.exception_class,
            "X": lambda inner: self.exception(inner, values),
            "T": self.objects.__getitem__,
            "L": values.__getitem__,
            "K": self.callbacks.__getitem__,
            "re": lambda inner: re.compile(*decoder._decode(inner)),
            "uuid": lambda inner: _uuid(decoder._decode(inner)),
        }
        return decoder.decode(encoded)[0]

    def called_back(self, called: Any, values: list[Any]) -> tuple[Any, BaseException | None]:
        """Value and exception of a function or iterator of the test."""
        number, args, kwargs = called
        target = self.callbacks[number]
        try:
            if not callable(target):
                return next(target), None
            return target(*self.decode(args, values), **self.decode(kwargs, values)), None
        except calls.Lost:
            raise
        except BaseException as problem:
            return None, problem.with_traceback(None)

    def proxy(self, number: int, kind: str, classes: list[int], equality: str, methods: str) -> Proxy:
        if number not in self.proxies:
            of = self.kind(str(kind)[:200], str(methods))
            self.proxies[number] = of(self, number, str(kind)[:200], classes, str(equality))
            self.proxies[number]._own.imitated = KINDS.get(str(methods).partition(" ")[0])
        return self.proxies[number]

    def kind(self, name: str, methods: str) -> type[Proxy]:
        """A class with these methods."""
        if (name, methods) not in self.kinds:
            words = methods.split()
            own: dict[str, Any] = {word: OPERATIONS[word] for word in words if word in OPERATIONS}
            own |= COROUTINE if words[:1] == ["coroutine"] else {}
            own |= {} if "__hash__" in words else {"__hash__": None}
            own |= {"__slots__": (), "__doc__": property(lambda self: _ask(self, getattr, "__doc__"))}
            self.kinds[name, methods] = type(name, (Proxy,), own)
        return self.kinds[name, methods]

    def part(self, handle: list[Any], value: Any) -> Any:
        """The plain value; its other attributes are those of the object."""
        kind = type(value)
        part: Any = kind.__new__(type(kind.__name__, (Part, kind), {}), value)
        part.proxy = self.proxy(*handle)
        return part

    def exception_class(self, ancestors: list[list[Any]]) -> type[BaseException]:
        """The same class here, else one of its name that inherits from the nearest class that is here."""
        (number, module, name), *rest = ancestors
        if module == calls.TESTS and name in self.sent:
            return self.sent[name]
        kind = getattr(sys.modules.get(module), name, None) if module in LIBRARY else None
        if isinstance(kind, type) and issubclass(kind, BaseException):
            return kind
        if number not in self.exceptions:
            base = self.exception_class(rest) if rest else Exception
            self.exceptions[number] = type(str(name)[:200], (base,), {})
        return self.exceptions[number]

    def exception(self, encoded: Any, values: list[Any] | tuple[()]) -> BaseException:
        ancestors, args, attributes, report = encoded
        kind, arguments = self.exception_class(ancestors), self.decode(args, values)
        try:
            problem = kind(*arguments)
        except Exception:  # a constructor with other parameters
            problem = kind.__new__(kind)
            problem.args = tuple(arguments)
        _, name, message, line = report
        outcome = next((outcome for of, outcome in ENDINGS.items() if isinstance(problem, of)), "error")
        vars(problem).update(self.decode(attributes, values))
        vars(problem)["_report"] = [outcome, str(name), str(message), int(line)]
        return problem


def _uuid(number: int) -> Any:
    import uuid  # slow, and rarely needed

    return uuid.UUID(int=number)


def descend(levels: int) -> None:
    """Raise RecursionError here, if at all, and not in the middle of a message."""
    if levels:
        descend(levels - 1)


class Writer(_pickle.Pickler):
    """Pickles a message to the candidate's process, which gets nothing of this one but copies of the arguments."""

    def __init__(self, program: Program, file: io.BytesIO) -> None:
        super().__init__(file, 4)
        self.program = program

    def persistent_id(self, value: Any) -> tuple[str, Any] | None:
        kind = type(value)
        if kind in PLAIN:
            return None
        if issubclass(kind, Proxy | Part):
            return "object", (value if issubclass(kind, Proxy) else value.proxy)._own.number
        if kind is Name:
            return "name", str(value)
        is_iterator = hasattr(kind, "__next__") and not isinstance(value, io.IOBase)
        module = getattr(value, "__module__", "") if callable(value) and not isinstance(value, type) else ""
        is_own = module == calls.TESTS or kind.__module__ == "unittest.mock"
        if kind is types.BuiltinMethodType and isinstance(value.__self__, calls.MUTABLE):  # as `results.append`
            is_own = True
        if value is calls.Calls.rebuilt:
            return "rebuilt", ""
        if is_iterator or is_own:
            names = [(name, text) for name in NAMES if isinstance(text := getattr(value, name, None), str)]
            return "callback", (self.program.callbacks.number(value), names)
        return None

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind in VIEWS:
            return iter, (list(value),)
        if isinstance(value, BaseException):
            return NotImplemented
        if isinstance(value, type) and issubclass(value, BaseException) and value.__module__ == calls.TESTS:
            self.program.sent[value.__qualname__] = value
            base = next(base for base in value.__mro__ if base.__module__ == "builtins")
            return calls.exception_of_tests, (value.__qualname__, base)
        if not is_of_tests(value):
            return NotImplemented
        number, methods = self.program.objects.number(value), tuple(methods_of(kind).items())
        return calls.Calls.rebuilt, (kind.__qualname__, number, methods), vars(value)


def methods_of(kind: type) -> dict[str, Any]:
    """Methods of a class of the test, which run in this process."""
    bases = [base for base in kind.__mro__[::-1] if base.__module__ == calls.TESTS]
    every = {name: method for base in bases for name, method in vars(base).items()}
    is_own = (
        name for name in every if isinstance(every[name], types.FunctionType) and name not in ("__init__", "__new__")
    )
    return {name: every[name] for name in is_own}


class Numbered(list[Any]):
    """Objects by number, each once."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: dict[Any, int] = {}

    def number(self, value: Any) -> int:
        """The number of this object, which is added. A bound method is a new object each time it is read."""
        bound = isinstance(value, types.MethodType | types.BuiltinMethodType)
        number = self.numbers.setdefault((id(value.__self__), value.__name__) if bound else id(value), len(self))
        if number == len(self):
            self.append(value)
        return number

    def cut(self, count: int) -> None:
        """Keep the first `count`."""
        del self[count:]
        self.numbers = {key: number for key, number in self.numbers.items() if number < count}


def is_of_tests(value: Any) -> bool:
    """Whether it is an object of a class that the test or its setup defines."""
    kind = type(value)
    is_object = kind.__module__ == calls.TESTS and not issubclass(kind, BaseException | type)
    return is_object and isinstance(getattr(value, "__dict__", None), dict)


class Names(dict[str, Any]):
    """Built-in names, and the program's for all others: a check reads them after its own and those of the setup."""

    def __init__(self, program: Program) -> None:
        super().__init__(vars(builtins))
        self.pop(program.entry_point, None)
        self.program = program

    def __missing__(self, name: str) -> Any:
        is_entry = name in ("candidate", self.program.entry_point)
        value = self.program.named(self.program.entry_point if is_entry else name)
        if is_entry:  # once, since a loop reads it each time
            self[name] = value
        return value


def run_checks(request: dict[str, Any]) -> None:
    """Run and report every check, in one namespace with the setup; ends with the program."""
    send, checks = sender(request["nonce"]), request["checks"]
    program = Program(request["entry_point"])
    try:
        tests = prepared(program, request)
    except calls.Lost:
        return
    except BaseException as problem:
        for index in range(len(checks)):
            send(index, row(*reported(problem), 0.0))
        return
    failed = []
    for index, check in enumerate(checks):
        for name in SIDES:
            tests.pop(name, None)
        program.refused = ""
        outcome, fields = run_check(check, tests)
        if program.is_lost:
            return
        if outcome == "pass" and program.refused:
            outcome, fields = "error", row("error", "TypeError", program.refused, 0, 0.0)
        send(index, fields)
        if outcome == "fail" and all(name in tests for name in SIDES):
            failed.append((index, tests[SIDES[1]], tests[SIDES[0]]))
    for index, expected, actual in failed[:EXPLAINED]:
        if (sides := [shown(expected), shown(actual)]) and not program.is_lost:
            send(index, row(*sides))


def prepared(program: Program, request: dict[str, Any]) -> dict[str, Any]:
    """The namespace of the checks. Raises as the program or the setup does."""
    program.result(program.read(), [])
    module = sys.modules[calls.TESTS] = types.ModuleType(calls.TESTS)
    for private in ("lockdown", "seccomp", "child", "plain", "checker", "comparison"):  # `calls` is pickled by name
        sys.modules.pop(private, None)
    tests = module.__dict__
    tests["__builtins__"] = Names(program)
    if request["draws"]:
        seed_both(program)
    for statement in request["imports"]:
        exec(statement, tests)
    if setup := request["setup"]:
        exec(setup if isinstance(setup, types.CodeType) else compile(setup, "<setup>", "exec"), tests)
    return tests


def seed_both(program: Program) -> None:
    """Make `random.seed` of the test seed the program's numbers, too."""
    import random

    seed = random.seed

    def seeds(*args: Any, **kwargs: Any) -> None:
        seed(*args, **kwargs)
        program.call(calls.seed, args, kwargs)

    random.seed = seeds


def run_check(check: Any, tests: dict[str, Any]) -> tuple[str, str]:
    """Run one check; returns its outcome and its row."""
    start, fields = clock(), ["pass", "", "", 0]
    try:
        exec(compile(check, "<check>", "exec") if isinstance(check, str) else check, tests)
    except BaseException as problem:
        fields = reported(problem)
    return str(fields[0]), row(*fields, round(clock() - start, 6))


def reported(problem: BaseException) -> list[Any]:
    """Outcome, exception type, message and line: of the program's exception as its process reports it."""
    return vars(problem).get("_report") or describe(problem)


def shown(value: Any) -> str:
    """`repr`, truncated; "" if it raises."""
    try:
        return repr(value)[:200]
    except BaseException:
        return ""
