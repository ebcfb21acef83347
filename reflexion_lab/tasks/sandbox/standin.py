"""Checks that cannot be split run in a trusted child, with a stand-in for the program. Standard library only.

The trusted child has the test's code and the benchmark's helpers, and never the program (`check`); the program's own
child answers its calls (`serve`). Rules:

- Arguments are pickled copies, of the standard library's classes only. Lists, dictionaries, sets, deques and bytearrays
  in them that a call changes are changed in the trusted child, too; one that comes back is the same object.
- Values come back as plain data (`plain.py`), so no `__eq__` of the program takes part; those of a subclass of a
  built-in type arrive as that type. Any other object stays with the program: it is equal only to itself, has no
  attributes, and may be an argument again; a check that calls it is marked, to run beside the program instead.
  Iterators are read item by item.
- Exceptions have the same built-in class; a class of the program's own becomes one of that name. `StopIteration`
  becomes `RuntimeError`, as in a generator: it would end an iteration of the test.
- Checks that are split or run beside the program are answered as in `child.py`, in their order.

A message to the program is a pickled tuple; a reply is JSON: `{"v": value}` or `{"e": exception}`, with `"m"`, the
arguments that changed; or `{"r": rows}`. The program can send any reply: that is only another answer.
"""

import _pickle
import _thread
import builtins
import io
import json
import os
import sys
import types
from _json import encode_basestring_ascii as quoted
from collections import Counter, OrderedDict, defaultdict, deque
from contextlib import suppress
from typing import Any

if "." in __name__:
    from reflexion_lab.tasks.sandbox import plain
    from reflexion_lab.tasks.sandbox.child import CALLED, CALLS, define, describe, results, row, run, sender
    from reflexion_lab.tasks.sandbox.comparison import Decoder, Opaque
else:  # files without a package inside the sandbox
    import plain  # type: ignore[import-not-found,no-redef]
    from child import CALLED, CALLS, define, describe, results, row, run, sender  # type: ignore[import-not-found,no-redef]
    from comparison import Decoder, Opaque  # type: ignore[import-not-found,no-redef]

LONGEST = 1 << 26
"""Maximum bytes of a message."""
TESTS = "tests"
"""Name of the module in which checks run."""
DICTIONARIES = (dict, OrderedDict, defaultdict, Counter)
MUTABLE = (list, set, deque, bytearray, *DICTIONARIES)
EXCEPTIONS = ("builtins", "json.decoder", "decimal", "re", "statistics", "binascii", "struct", "zlib")
"""Modules whose exceptions arrive with their own class."""


class Lost(BaseException):
    """The process at the other end is gone."""


def send(message: bytes) -> None:
    """Write a message with its length. Raises Lost."""
    data = memoryview(len(message).to_bytes(4, "little") + message)
    try:
        while data:
            data = data[os.write(CALLS, data) :]
    except OSError as problem:
        raise Lost from problem


def receive() -> bytes:
    """Read a message. Raises Lost at the end of the connection, or for a message that is too long."""
    length = int.from_bytes(_read(4), "little")
    if not 0 < length <= LONGEST:
        raise Lost
    return _read(length)


def _read(count: int) -> bytes:
    parts = []
    while count:
        try:
            part = os.read(CALLS, min(count, 1 << 16))
        except OSError as problem:
            raise Lost from problem
        if not part:
            raise Lost
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def mutable(roots: Any) -> list[Any]:
    """Mutable containers in `roots`, each once, in the order of any copy."""
    values, seen, waiting = [], set(), [*roots][::-1]
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if not (kind in MUTABLE or kind is tuple) or id(value) in seen:
            continue
        seen.add(id(value))
        if kind is not tuple:
            values.append(value)
        if kind not in (set, bytearray):
            inside = [*value, *value.values()] if kind in DICTIONARIES else [*value]
            waiting += inside[::-1]
    return values


def snapshot(value: Any) -> list[Any]:
    """Content of a mutable container."""
    return [part for pair in value.items() for part in pair] if isinstance(value, dict) else [*value]


class Kept:
    """Objects that stay in the program's process, by number. `plain.encode` takes it."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.shared: dict[int, int] = {}
        """Numbers of the mutable containers in the arguments of the call, by address."""

    def handle(self, value: Any, shown: str) -> str:
        self.objects.append(value)
        return f'{{"{"y" if hasattr(type(value), "__next__") else "h"}":[{len(self.objects) - 1},{shown}]}}'

    def exception(self, problem: BaseException) -> str:
        """Module ("" if it has no such class) and name of its classes, arguments, and how it is reported."""
        outcome, name, message, line = describe(problem)
        names = [(c.__module__, c.__name__, c) for c in type(problem).__mro__[:20]]
        genuine = [(m if getattr(sys.modules.get(m), name, None) is c else "", name) for m, name, c in names]
        classes = [f"[{quoted(module)},{quoted(name)}]" for module, name in genuine]
        report = f"[{quoted('error' if outcome == 'fail' else outcome)},{quoted(name)},{quoted(message)},{line}]"
        return f"[[{','.join(classes)}],{plain.encode(problem.args, self)},{report}]"

    def called(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The reply to a call: value or exception, and the containers in the arguments that it changed."""
        values = mutable([*args, *kwargs.values()])
        before = [snapshot(value) for value in values]
        self.shared = {id(value): number for number, value in enumerate(values)}
        try:
            reply = f'"v":{plain.encode(function(*args, **kwargs), self)}'
        except BaseException as problem:
            reply = f'"e":{self.exception(problem)}'
        changed = []
        for number, (old, value) in enumerate(zip(before, values, strict=True)):
            new = snapshot(value)
            if len(old) != len(new) or any(a is not b for a, b in zip(old, new, strict=True)):
                items = dict(value) if isinstance(value, dict) else new
                changed.append(f"[{number},{plain.encode(items, self)}]")
        return f'{{{reply},"m":[{",".join(changed)}]}}'


def serve(request: dict[str, Any]) -> None:
    """Execute the program, then answer the trusted child until that ends."""
    kept = Kept()

    class Reader(_pickle.Unpickler):
        def persistent_load(self, number: int) -> Any:
            return kept.objects[number]

    try:
        try:
            tests = define(request)
        except BaseException as problem:
            send(f'{{"e":{kept.exception(problem)}}}'.encode())
            return
        send(b'{"v":null}')
        while True:
            try:
                kind, subject, *rest = Reader(io.BytesIO(receive())).load()
                if kind == "check":
                    reply = f'{{"r":[{",".join(f"[{r}]" for r in results(request["checks"][subject], tests))}]}}'
                elif kind == "next":
                    reply = kept.called(next, (kept.objects[subject],), {})
                else:
                    reply = kept.called(tests["candidate"], subject, *rest)
            except Exception as problem:  # an argument that cannot be read here
                reply = f'{{"e":{kept.exception(problem)}}}'
            send(reply.encode())
    except Lost:
        return


class Object(Opaque):
    """An object that stays in the program's process."""

    def __init__(self, program: "Program", number: int, *shown: Any) -> None:
        super().__init__(*shown)
        self.program, self.number = program, int(number)

    def __call__(self, *_: Any, **__: Any) -> Any:
        self.program.is_called = True
        raise TypeError(f"'{self.kind}' object is not callable")

    def __deepcopy__(self, memo: object = None) -> "Object":
        return self

    __copy__ = __deepcopy__


class Flags(int):
    """A member of the program's `IntFlag`: the set of its bits."""

    def __iter__(self) -> Any:
        return (Flags(1 << n) for n in range(self.bit_length()) if self >> n & 1)

    def __len__(self) -> int:
        return self.bit_count()


class Iterator(Object):
    """An iterator of the program, read item by item."""

    def __iter__(self) -> "Iterator":
        return self

    def __next__(self) -> Any:
        return self.program.ask(("next", self.number))


class Writer(_pickle.Pickler):
    """Pickles arguments; refuses what the program's process does not have."""

    def persistent_id(self, value: Any) -> int | None:
        return value.number if type(value) in (Object, Iterator) else None

    def reducer_override(self, value: Any) -> Any:
        if TESTS in (getattr(value, "__module__", ""), type(value).__module__) or isinstance(value, Opaque):
            raise _pickle.PicklingError(f"a {type(value).__name__} of the test")
        if type(value) is Flags:
            return int, (+value,)
        if type(value) in plain.VIEWS:  # a result of the program
            return getattr(dict, type(value).__name__.partition("_")[2]), (dict(value.mapping),)
        return NotImplemented


class Program:
    """The program in its process."""

    def __init__(self) -> None:
        self.is_lost = self.is_called = False
        self.refused = ""
        """Refused argument of the present check: the check has no verdict, even if it catches the error."""
        self.lock = _thread.allocate_lock()

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return self.ask(("call", args, kwargs), mutable([*args, *kwargs.values()]))

    def ask(self, message: tuple[Any, ...], values: list[Any] | tuple[()] = ()) -> Any:
        """The value of a reply; changes what the call changed of `values`. Raises the program's exception, or Lost."""
        buffer = io.BytesIO()
        try:
            Writer(buffer, 4).dump(message)
        except (_pickle.PicklingError, AttributeError, TypeError, RecursionError) as problem:
            self.refused = f"the program cannot be called with this value: {problem}"
            raise TypeError(self.refused) from None
        with self.lock:
            reply = self.exchange(buffer.getvalue())
        if "r" in reply:
            return reply["r"]
        decoder = Decoder()
        decoder.readers |= {
            "h": lambda inner: Object(self, *inner),
            "y": lambda inner: Iterator(self, *inner),
            "L": values.__getitem__,
            "w": lambda inner: Flags(inner, 16),
        }
        for number, after in reply.get("m", ()):
            value, [content] = values[number], decoder.decode(after)
            value.clear()
            (value.update if isinstance(value, dict | set) else value.extend)(content)
        if "e" in reply:
            raised = self.exception(reply["e"], decoder)
            if isinstance(raised, StopIteration) and message[0] != "next":
                raise RuntimeError("the program raised StopIteration") from raised
            raise raised
        return decoder.decode(reply["v"])[0]

    def exchange(self, message: bytes | None) -> Any:
        try:
            if message:
                send(message)
            reply = json.loads(receive())
            return reply if isinstance(reply, dict) else {}
        except (Lost, ValueError, RecursionError):
            self.is_lost = True
            raise Lost from None

    @staticmethod
    def exception(encoded: Any, decoder: Decoder) -> BaseException:
        classes, args, report = encoded
        kind: Any = Exception
        for module, name in classes:
            kind = getattr(sys.modules.get(module), name, None) if module in EXCEPTIONS else None
            if isinstance(kind, type) and issubclass(kind, BaseException):
                break
        else:
            kind = Exception
        if (name := str(classes[0][1])[:200]) != kind.__name__:
            kind = type(name, (kind,), {})
        [arguments] = decoder.decode(args)
        try:
            problem: BaseException = kind(*arguments)
        except Exception:  # a constructor with other parameters
            problem = kind.__new__(kind)
            problem.args = tuple(arguments)
        _, name, message, line = report
        if str(problem)[:500] != message and kind.__module__ == __name__:  # a class with a text of its own
            kind.__str__ = lambda _: str(message)
        outcome = describe(problem)[0]
        vars(problem)["$report"] = ["error" if outcome == "fail" else outcome, str(name), str(message), int(line)]
        return problem


def check(request: dict[str, Any]) -> None:
    """Run and report every check, in one namespace with the setup; ends with the program.

    Request: `nonce, entry_point, setup`, and `checks`: code, or the source of one that does not compile; None for a
    check that the program's child has, and a tuple of its imports for one that is split.
    """
    report, program, checks = sender(request["nonce"]), Program(), request["checks"]
    try:
        tests, setup_calls = _prepared(program, request), program.is_called
    except Lost:
        return
    except BaseException as problem:
        fields = vars(problem).get("$report") or describe(problem)
        for index, code in enumerate(checks):
            is_marked = program.is_called and isinstance(code, str | types.CodeType)
            report(index, row(CALLED if is_marked else fields[0], *fields[1:], 0.0))
        return
    for index, code in enumerate(checks):
        for line in _rows(program, index, code, tests, setup_calls):
            report(index, line)
        if program.is_lost:
            return


def _prepared(program: Program, request: dict[str, Any]) -> dict[str, Any]:
    """The namespace of the checks. Raises as the program or the setup does."""
    if problem := program.exchange(None).get("e"):
        raise program.exception(problem, Decoder())
    module = sys.modules[TESTS] = types.ModuleType(TESTS)
    for private in ("lockdown", "seccomp", "child", "plain", "standin", "comparison"):
        sys.modules.pop(private, None)
    tests = module.__dict__
    tests["__builtins__"] = {**vars(builtins), "candidate": program.call, request["entry_point"]: program.call}
    if setup := request["setup"]:
        exec(setup if isinstance(setup, types.CodeType) else compile(setup, "<setup>", "exec"), tests)
    return tests


def _rows(program: Program, index: int, code: Any, tests: dict[str, Any], setup_calls: bool) -> list[str]:
    """Rows of a check; none if the program is gone, or if its child sent none that are valid."""
    program.refused, program.is_called = "", setup_calls
    if isinstance(code, str | types.CodeType):
        rows = list(run(code, tests))
        refused = program.refused and rows[0].startswith('"pass"')
        if program.is_called or refused:
            rows = [row(CALLED if program.is_called else "error", "TypeError", program.refused, 0, 0.0)]
        return [] if program.is_lost else rows
    with suppress(Exception):  # for later checks; the check itself reports an error
        exec(code[0] if code and code[0] else "", tests)
    try:
        return [json.dumps(fields)[1:-1] for fields in program.ask(("check", index))]
    except (Lost, Exception):
        program.is_lost = True
        return []
