"""Limits of parameters, declared in annotations and checked by one function, for configs and Python alike.

In: `max_steps: Positive = 6` of a constructor. Out: ConfigError, `ReAct.max_steps: got 0, expected 1 or more`.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from reflexion_lab.errors import ConfigError

P = ParamSpec("P")
T = TypeVar("T")

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Repeats = Annotated[int, Meta(ge=1, le=1000)]
"""Attempts, replies or programs of one task, which memory holds until the task ends."""
Again = Annotated[int, Meta(ge=0, le=1000)]
"""As `Repeats`, or none."""
Parallel = Annotated[int, Meta(ge=1, le=1000)]
"""Threads, processes or requests at once."""
Tasks = Annotated[int, Meta(ge=1, le=100_000)]
"""Tasks of one run, which memory holds: 3 KB each."""
Share = Annotated[float, Meta(ge=0, le=1)]
PositiveShare = Annotated[float, Meta(gt=0, le=1)]
NotNegative = Annotated[float, Meta(ge=0)]
Above0 = Annotated[float, Meta(gt=0)]
PerMillion = Annotated[Sequence[float], Meta(min_length=2, max_length=3)]
"""Price per million prompt tokens, completion tokens and, if different, cached prompt tokens."""

NOUNS = {int: "an int", float: "a number", str: "a text", bool: "true or false", type(None): "null"}
LATER = {"Sequence": Sequence, "Mapping": Mapping, "Path": Path}
"""Names that modules may import for type checking only."""


def validated(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator: check the arguments of a constructor or function against its annotations before each call.

    The decorated function raises ConfigError: an argument has the wrong type, is out of its limits, or not finite.
    """
    names = list(inspect.signature(function).parameters)
    owner = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        check(function, {**dict(zip(names, args, strict=False)), **kwargs}, owner)
        return function(*args, **kwargs)

    return call


def check(factory: Callable[..., Any], values: Mapping[str, Any], key: str) -> None:
    """Check values against the annotated parameters of a class or function; parameters of other types are skipped.

    Raises ConfigError: a value has the wrong type, is out of its limits, or not finite. `key`: prefix of names in
    messages: a dotted config key, or the name of the callable.
    """
    kinds = _kinds(getattr(factory, "__func__", factory))  # a cached method would keep its object, such as all tasks
    for name, value in values.items():
        if (kind := kinds.get(name)) is None:
            continue
        plain = str(value) if isinstance(value, Path) else value.tolist() if hasattr(value, "tolist") else value
        try:
            msgspec.convert(plain, kind)
        except msgspec.ValidationError:
            raise ConfigError(f"{key}.{name}" if key else name, repr(value), expected(kind, plain)) from None
        except TypeError:  # a union that msgspec cannot tell apart
            continue
        if isinstance(plain, float) and not math.isfinite(plain):
            raise ConfigError(f"{key}.{name}" if key else name, value, "a finite number")


def check_fields(record: Any) -> None:
    """Check the fields of a struct against their annotations. Raises ConfigError as `check`."""
    kind = type(record)
    check(kind, {name: getattr(record, name) for name in kind.__struct_fields__}, kind.__name__)


def expected(kind: Any, value: Any = None) -> str:
    """Values that an annotation allows, in words; without the type's noun if `value` already has the type."""
    options = [option for option in _options(kind) if option is not type(None)]
    texts = [_expected(option, value if len(options) == 1 else None) for option in options]
    return ", or ".join([*texts, "null"] if len(options) < len(_options(kind)) else texts)


def expected_at(kind: Any, path: Sequence[str], value: Any) -> str:
    """As `expected`, for the value at `path` within a struct; "" for unsupported types."""
    option: Any = next((option for option in _options(kind) if option is not type(None)), Any)
    if is_struct := hasattr(option, "__struct_fields__"):
        fields = {field.encode_name: field.type for field in msgspec.structs.fields(option)}
        if path and path[0] in fields:
            return expected_at(fields[path[0]], path[1:], value)
    plain = _plain(kind)
    is_section = is_struct or get_origin(option) is dict
    return expected(plain, value) if plain is not Any else "a section of keys" if is_section else ""


def _expected(kind: Any, value: Any) -> str:
    bare, limits = (kind.__origin__, kind.__metadata__) if get_origin(kind) is Annotated else (kind, ())
    if get_origin(bare) is Literal:
        return f"one of {', '.join(map(str, get_args(bare)))}"
    bounds = next((limit for limit in limits if isinstance(limit, Meta)), Meta())
    if get_origin(bare) is list:
        item = get_args(bare)[0]
        each = "" if item is Any else f", each {expected(item)}"
        return (_between(bounds.min_length, bounds.max_length) or "a list") + each
    if get_origin(bare) is dict:
        return f"a mapping, each value {expected(get_args(bare)[1])}"
    noun, span = NOUNS[bare], _between(bounds.ge, bounds.le) or _above(bounds)
    is_such = isinstance(value, (int, float) if bare is float else bare) and not isinstance(value, bool)
    if not span or (is_such and isinstance(value, int | float) and not math.isnan(value)):
        return span or noun
    return f"{noun} {span}" if span.startswith("above") else f"{noun} of {span}"


def _between(least: float | None, most: float | None) -> str:
    if least is None:
        return ""
    return f"{least} or more" if most is None else f"{least} to {most}"


def _above(bounds: Meta) -> str:
    if bounds.gt is None:
        return ""
    return f"above {bounds.gt}" if bounds.le is None else f"above {bounds.gt}, at most {bounds.le}"


@functools.cache
def _kinds(factory: Callable[..., Any]) -> Mapping[str, Any]:
    """Types to check against, by parameter; parameters that hold parts are left out."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return {}
    init = getattr(factory, "__init__", None)
    owner = init if inspect.isclass(factory) and inspect.isfunction(init) else factory
    names = vars(sys.modules.get(getattr(owner, "__module__", ""), types))
    kinds = {}
    for parameter in parameters:
        holder = type("", (), {"__annotations__": {"value": parameter.annotation}})
        try:
            annotation = get_type_hints(holder, names, LATER, include_extras=True)["value"]
        except (NameError, TypeError, AttributeError, SyntaxError):  # a part's type, imported for type checking only
            continue
        if parameter.kind is not parameter.VAR_KEYWORD and (kind := _plain(annotation)) is not Any:
            kinds[parameter.name] = kind
    return kinds


def _plain(annotation: Any) -> Any:
    """The annotation in terms of config values; Any for annotations of parts."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation in list(NOUNS) or origin is Literal:
        return annotation
    if origin is Annotated:
        is_list = get_origin(inner[0]) in (list, Sequence)
        kind = list[Any] if (bare := _plain(inner[0])) is Any and is_list else bare
        return kind if kind is Any else Annotated[(kind, *inner[1:])]
    kinds = [_plain(part) for part in inner if part is not ...]
    is_mixed = origin is tuple and ... not in inner and len(set(inner)) > 1
    if not kinds or Any in kinds or is_mixed:
        return str if annotation is Path else Any
    if origin in (Union, types.UnionType):
        return Union[tuple(kinds)]  # noqa: UP007
    if origin in (list, Sequence, tuple):
        return list[kinds[0]]  # type: ignore[valid-type]
    return dict[str, kinds[1]] if origin in (dict, Mapping) else Any  # type: ignore[valid-type]


def _options(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
