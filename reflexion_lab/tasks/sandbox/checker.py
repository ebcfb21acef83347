"""A checker's process inside the sandbox: runs checks from where it calls the candidate's. Standard library only.

The test's code and the benchmark's helpers run here, where the candidate never does. `candidate`, and every other name
that only the program defines, is a `Proxy` whose calls go to the candidate's process (`calls.py`). Rules:

- Arguments are copies. Lists, dictionaries, sets, deques and objects of the test's classes that a call changes are
  changed here, too; an argument that comes back is the same object.
- Values come back as plain data, built here, and compare as in Python: no `__eq__` of the program takes part. Those of
  a subclass, as named tuples, compare as their built-in base.
- An object of the program's own class stays in its process. Its attributes, methods, items, iteration, text and truth
  are read from there. It equals no plain value; another object of the program equals it if both are the same, or if a
  dataclass' compared fields are equal here, or else if the program's class says so.
- Such an object never sees what it is compared with: order against a value of the test is refused, `in` compares its
  items here, and what arithmetic with a value of the test results in is not turned into a number. A conversion to a
  number is made once an object.
- Exceptions have the same built-in class here; a class of the program's own becomes one of that name.
- An iterator stays in its process and is read item by item; the test's functions and iterators stay here.
- A moment comes with its offset instead of its time zone.
- Names that a program imports from the standard library are imported here.

Request: `nonce, entry_point, setup, checks` (code, or the source of a check that does not compile), their `sources`,
`names` that they read, and `imports`, statements.
"""

import _pickle
import ast
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
import uuid
from collections import deque
from collections.abc import Callable, Iterator
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

EXPLAINED = 3
"""Maximum number of failing checks with expected and actual values."""
ENDINGS = {SystemExit: "early_exit", MemoryError: "memory"}
"""Outcome of a check by the program's exception; that of others is `error`."""
MARGIN = 40
"""Levels of calls that a message may need."""
NUMBERS = (int, float, complex, operator.index)
"""Conversions that are made once an object, so that it is one number."""
DEEPEST = 50_000
"""Recursion limit while arguments are pickled, as long chains of objects."""
LIBRARY = (
    "builtins", "abc", "array", "bisect", "calendar", "cmath", "collections", "copy", "datetime", "decimal",
    "fractions", "functools", "heapq", "itertools", "json", "json.decoder", "math", "numbers", "operator", "pathlib",
    "random", "re", "statistics", "string", "typing", "uuid",
)  # fmt: skip
"""Modules that a checker imports where the program does, and whose exceptions it knows: values of their classes are
rebuilt here. The classes of others, as `types`, stay with the program."""


UNBOUND = object()


class Proxy:
    """An object that stays in the candidate's process."""

    def __init__(self, program: "Program", number: int, kind: str, classes: list[int], equality: str) -> None:
        own = {"program": program, "number": number, "kind": kind, "classes": classes, "equality": equality}
        self.__dict__["_own"] = types.SimpleNamespace(**own, numbers={}, has_seen=False)

    def __getattr__(self, name: str) -> Any:
        return _ask(self, getattr, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _ask(self, setattr, name, value)

    def __delattr__(self, name: str) -> None:
        _ask(self, delattr, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._own.program.call(self, args, kwargs)

    def __eq__(self, other: object) -> bool:
        return _equal(self, other)

    def __hash__(self) -> int:
        return hash(self._own.number) if self._own.equality == "is" else int(_ask(self, hash))

    def __iter__(self) -> Iterator[Any]:
        iterator = _ask(self, iter)
        while True:
            try:
                item = _ask(iterator, next) if isinstance(iterator, Proxy) else next(iterator)
            except StopIteration:
                return
            yield item

    def __contains__(self, item: Any) -> bool:
        return any(item is other or item == other for other in self)

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, Proxy) and self._own.number in value._own.classes

    def __enter__(self) -> Any:
        return _ask(self, operator.methodcaller("__enter__"))

    def __exit__(self, kind: type | None, problem: BaseException | None, _: object) -> Any:
        return _ask(self, operator.methodcaller("__exit__", kind, problem, None))

    def __copy__(self) -> Any:
        return _ask(self, copy.copy)

    def __deepcopy__(self, _: object) -> Any:
        return _ask(self, copy.deepcopy)

    def __dir__(self) -> list[str]:
        return list(_ask(self, dir))

    @property
    def __class__(self) -> Any:
        base = self._own.equality
        return getattr(builtins, base) if base in ("list", "dict", "set") else Proxy

    @__class__.setter
    def __class__(self, kind: type) -> None:
        raise TypeError("the class of an object of the program cannot be changed")


class Coroutine(Proxy):
    """A coroutine, which runs to its end in the candidate's process when it is awaited."""

    def send(self, _: object) -> Any:
        raise StopIteration(self._own.program.call(calls.run_coroutine, (self,), {}))

    def __next__(self) -> Any:
        return self.send(None)

    def throw(self, *problem: Any) -> Any:
        raise problem[0]

    def close(self) -> None:
        """Nothing to close here."""

    def __await__(self) -> "Coroutine":
        return self


def _ask(proxy: Proxy, function: Callable[..., Any], *args: Any) -> Any:
    return proxy._own.program.call(function, (proxy, *args), {})


def _equal(left: Proxy, right: object) -> bool:
    mine = left._own
    if mine.equality == "large":
        raise TypeError(f"a {mine.kind} of the program is too large to be compared")
    if isinstance(right, Proxy):
        if mine.number == right._own.number:
            return True
        if "is" in (mine.equality, right._own.equality):
            return False
        if mine.equality == right._own.equality == "fields":
            same = mine.classes[:1] == right._own.classes[:1]
            return bool(same and _ask(left, calls.fields) == _ask(right, calls.fields))
    if mine.equality in ("list", "dict", "set"):
        return bool(_ask(left, calls.exact) == right)
    return isinstance(right, Proxy) and bool(_ask(left, operator.eq, right))


def _arithmetic(function: Callable[..., Any], name: str, swapped: bool = False) -> Callable[..., Any]:
    def apply(self: Proxy, *others: Any) -> Any:
        operands = (others[0], self) if swapped else (self, *others)
        result = self._own.program.call(function, operands, {})
        if not all(isinstance(other, Proxy) for other in others):
            if not isinstance(result, Proxy) or result._own.number == self._own.number:
                raise _refused(self, name, others[0])
            result._own.has_seen = True
        return result

    return apply


def _order(function: Callable[..., Any], name: str) -> Callable[[Proxy, Any], Any]:
    def compare(self: Proxy, other: Any) -> Any:
        if not isinstance(other, Proxy):
            raise _refused(self, name, other)
        return _ask(self, function, other)

    return compare


def _conversion(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def convert(self: Proxy, *args: Any) -> Any:
        if self._own.has_seen:
            raise _refused(self, name, None)
        if function not in NUMBERS:
            return _ask(self, function, *args)
        if function not in self._own.numbers:
            self._own.numbers[function] = _ask(self, function)
        return self._own.numbers[function]

    return convert


def _refused(proxy: Proxy, name: str, other: object) -> TypeError:
    kinds = f"an object of the program's class {proxy._own.kind} and a value of the test, {type(other).__name__}"
    return TypeError(f"{name} is not asked of {kinds}: it would see the value")


def _define_operations() -> None:
    for name in "add sub mul truediv floordiv mod pow matmul lshift rshift and_ or_ xor".split():  # noqa: SIM905
        function, plain_name = getattr(operator, name), name.strip("_")
        setattr(Proxy, f"__{plain_name}__", _arithmetic(function, plain_name))
        setattr(Proxy, f"__r{plain_name}__", _arithmetic(function, plain_name, swapped=True))
    for name in ("lt", "le", "gt", "ge"):
        setattr(Proxy, f"__{name}__", _order(getattr(operator, name), name))
    for function in (
        bool, int, float, complex, str, repr, format, operator.index, math.floor, math.ceil, math.trunc, abs, round,
        operator.neg, operator.pos, operator.invert,
    ):  # fmt: skip
        setattr(Proxy, f"__{function.__name__}__", _conversion(function, function.__name__))
    for function in (len, next, reversed, operator.getitem, operator.setitem, operator.delitem):
        setattr(Proxy, f"__{function.__name__}__", lambda self, *args, of=function: _ask(self, of, *args))


_define_operations()


class Part:
    """Mixin of a plain value of the program's own subclass, as a named tuple: other attributes are the program's."""

    proxy: Proxy

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["proxy"], name)


class Name(str):
    """A name of the program, in a message."""


class Program:
    """The program in the candidate's process."""

    def __init__(self, entry_point: str) -> None:
        self.entry_point = entry_point
        self.is_lost = False
        self.lock = threading.RLock()
        self.proxies: dict[int, Proxy] = {}
        self.callbacks, self.objects = Numbers(), Numbers()
        """Functions and iterators of the test, and objects of its classes, that were arguments."""
        self.exceptions: dict[int, type[BaseException]] = {}

    def named(self, name: str) -> Any:
        """The program's object of this name. Raises NameError."""
        return self.call(calls.same, (Name(name),), {})

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call `function` in the candidate's process. Raises as it does, or `calls.Lost`."""
        descend(MARGIN)
        values = calls.mutable([args, kwargs], is_of_tests)
        with self.lock:
            self.write((function, args, kwargs))
            while "c" in (reply := self.read()):
                self.write(self.called_back(*reply["c"]))
            return self.result(reply, values)

    def write(self, message: Any) -> None:
        buffer, limit = io.BytesIO(), sys.getrecursionlimit()
        try:
            if threading.current_thread() is threading.main_thread():  # others have a small stack
                sys.setrecursionlimit(max(limit, DEEPEST))
            Writer(self, buffer).dump(message)
        except (_pickle.PicklingError, AttributeError) as problem:
            raise TypeError(f"the program cannot be called with this value: {problem}") from None
        finally:
            sys.setrecursionlimit(limit)
        try:
            calls.send(buffer.getvalue())
        except calls.Lost:
            self.is_lost = True
            raise

    def read(self) -> Any:
        try:
            return json.loads(calls.receive())
        except (calls.Lost, ValueError):
            self.is_lost = True
            raise calls.Lost from None

    def result(self, reply: Any, values: list[Any]) -> Any:
        """The value of a reply; `values` are the mutable arguments, which the call may have changed."""
        if "e" in reply:
            raise self.exception(*reply["e"])
        for number, after in [(number, self.decode(after, values)) for number, after in reply.get("m", ())]:
            update(values[number], after)
        return self.decode(reply["v"], values)

    def decode(self, encoded: Any, values: list[Any] | tuple[()] = ()) -> Any:
        decoder = Decoder()
        decoder.readers |= {
            "h": lambda inner: self.proxy(*inner),
            "w": lambda inner: self.part(inner[0], decoder._decode(inner[1])),
            "x": self.exception_class,
            "X": lambda inner: self.exception(*inner),
            "T": self.objects.values.__getitem__,
            "L": values.__getitem__,
            "re": lambda inner: re.compile(*decoder._decode(inner)),
            "uuid": lambda inner: uuid.UUID(int=decoder._decode(inner)),
        }
        return decoder.decode(encoded)[0]

    def called_back(self, number: int, args: Any, kwargs: Any) -> tuple[Any, BaseException | None]:
        """Value and exception of a function or iterator of the test."""
        target = self.callbacks.values[number]
        try:
            if not callable(target):
                return next(target), None
            return target(*self.decode(args), **self.decode(kwargs)), None
        except calls.Lost:
            raise
        except BaseException as problem:
            return None, problem.with_traceback(None)

    def proxy(self, number: int, kind: str, classes: list[int], equality: str, what: str) -> Proxy:
        if number not in self.proxies:
            of = Coroutine if what == "coroutine" else Proxy
            self.proxies[number] = of(self, number, str(kind)[:200], classes, equality)
        return self.proxies[number]

    def part(self, number: int, value: Any) -> Any:
        """The plain value; its other attributes are those of the object `number`."""
        kind = type(value)
        part: Any = kind.__new__(type(kind.__name__, (Part, kind), {}), value)
        part.proxy = self.proxy(number, kind.__name__, [], "own", "")
        return part

    def exception_class(self, ancestors: list[list[Any]]) -> type[BaseException]:
        """The same class here, else one of its name that inherits from the nearest class that is here."""
        (number, module, name), *rest = ancestors
        kind = getattr(sys.modules.get(module), name, None) if module in LIBRARY else None
        if isinstance(kind, type) and issubclass(kind, BaseException):
            return kind
        if number not in self.exceptions:
            base = self.exception_class(rest) if rest else Exception
            self.exceptions[number] = type(str(name)[:200], (base,), {})
        return self.exceptions[number]

    def exception(self, ancestors: Any, args: Any, attributes: Any, report: list[Any]) -> BaseException:
        kind, arguments = self.exception_class(ancestors), self.decode(args)
        try:
            problem = kind(*arguments)
        except Exception:  # a constructor with other parameters
            problem = kind.__new__(kind)
            problem.args = tuple(arguments)
        _, name, message, line = report
        outcome = next((outcome for of, outcome in ENDINGS.items() if isinstance(problem, of)), "error")
        vars(problem).update(self.decode(attributes))
        vars(problem)["_report"] = [outcome, str(name), str(message), int(line)]
        return problem


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
        if issubclass(kind, Proxy):
            return "object", value._own.number
        if issubclass(kind, Part):
            return "object", value.proxy._own.number
        if kind is Name:
            return "name", str(value)
        is_iterator = hasattr(kind, "__next__") and not isinstance(value, io.IOBase)
        is_own = kind in (types.FunctionType, types.MethodType) and value.__module__ == calls.TESTS
        if value is calls.Calls.rebuilt:
            return "rebuilt", ""
        return ("callback", self.program.callbacks.of(value)) if is_iterator or is_own else None

    def reducer_override(self, value: Any) -> Any:
        if not is_of_tests(value):
            return NotImplemented
        return calls.Calls.rebuilt, (type(value).__qualname__, self.program.objects.of(value)), vars(value)


def is_of_tests(value: Any) -> bool:
    """Whether it is an object of a class that the test or its setup defines."""
    kind = type(value)
    is_object = kind.__module__ == calls.TESTS and kind is not type and not issubclass(kind, BaseException)
    return is_object and isinstance(getattr(value, "__dict__", None), dict)


class Numbers:
    """Numbers of objects, in the order in which they are first met."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._by_address: dict[int, int] = {}

    def of(self, value: Any) -> int:
        number = self._by_address.setdefault(id(value), len(self.values))
        self.values[number:] = self.values[number:] or [value]
        return number


def update(value: Any, after: Any) -> None:
    """Change a mutable argument to what it became."""
    if isinstance(value, list | bytearray):
        value[:] = after
        return
    state = value if isinstance(value, dict | set | deque) else vars(value)
    state.clear()
    (state.extend if isinstance(state, deque) else state.update)(after)


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
    failed, names = [], dict.fromkeys(request["names"], UNBOUND)
    for index, check in enumerate(checks):
        bind(program, tests, names)
        outcome, fields = run_check(check, tests)
        if program.is_lost:
            return
        send(index, fields)
        if outcome == "fail":
            failed.append(index)
    for index in failed[:EXPLAINED]:
        if (sides := explain(request["sources"][index], tests)) and not program.is_lost:
            send(index, row(*sides))


def prepared(program: Program, request: dict[str, Any]) -> dict[str, Any]:
    """The namespace of the checks. Raises as the program or the setup does."""
    program.result(program.read(), [])
    module = sys.modules[calls.TESTS] = types.ModuleType(calls.TESTS)
    for private in ("lockdown", "seccomp", "child", "plain", "checker", "comparison"):  # `calls` is pickled by name
        sys.modules.pop(private, None)
    tests = module.__dict__
    for statement in request["imports"]:
        exec(statement, tests)
    if setup := request["setup"]:
        exec(setup if isinstance(setup, types.CodeType) else compile(setup, "<setup>", "exec"), tests)
    return tests


def bind(program: Program, tests: dict[str, Any], names: dict[str, Any]) -> None:
    """Set the names that only the program defines; those of plain values anew, which it may have changed."""
    for name, value in names.items():
        if (name in tests and tests[name] is not value) or isinstance(value, Proxy | type):
            continue
        try:
            tests[name] = names[name] = program.named(program.entry_point if name == "candidate" else name)
        except NameError:
            continue
        except calls.Lost:
            return


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


def explain(source: str, tests: dict[str, Any]) -> list[str]:
    """Expected and actual value of a check that ends in `assert actual == expected`, evaluated again; else []."""
    try:
        tree: Any = compile(source, "<check>", "exec", ast.PyCF_ONLY_AST)
        last = tree.body[-1]
        if not (isinstance(last, ast.Assert) and isinstance(last.test, ast.Compare) and len(last.test.ops) == 1):
            return []
        if not isinstance(last.test.ops[0], ast.Eq):
            return []
        sides = (last.test.comparators[0], last.test.left)
        return [repr(eval(compile(ast.Expression(side), "<check>", "eval"), tests))[:200] for side in sides]
    except BaseException:
        return []
