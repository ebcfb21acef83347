"""Prompts: the Jinja templates in this folder, rendered to fit a model's context, and the calls that send them.

The first line of a template declares its variables: `{# Uses: prompt, memory #}`.
"""

from __future__ import annotations

import hashlib
import io
import re
import threading
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import msgspec
from msgspec.structs import replace

from reflexion_lab.errors import ConfigError
from reflexion_lab.limits import Count, validated
from reflexion_lab.protocols import Model
from reflexion_lab.records import (
    RECALLED,
    WITHHELD,
    Completion,
    Episode,
    Message,
    Recollection,
    Record,
    Sampling,
    Task,
    Trajectory,
)
from reflexion_lab.text.filler import filler_in_layout
from reflexion_lab.text.replies.answers import extract_answer
from reflexion_lab.text.replies.extract import Extraction, Reader, extract
from reflexion_lab.text.replies.syntax import Parser
from reflexion_lab.text.shorten import cut, estimated, filled, line, percent

if TYPE_CHECKING:
    from jinja2 import Environment


_OF_EPISODE = ("code", "test_results")
_LISTS = ("lessons", "action_items")
_LEAST_NEEDED_FIRST = (
    *_OF_EPISODE, *_LISTS,
    "key_insight", "what_worked", "what_went_wrong", "root_cause", "what_to_change", "quoted_code",
)  # fmt: skip
TOLERANCE = 16
"""Tolerance in characters of the search for the longest excerpt."""
MIN_CHARS = 40
"""Length in characters below which a shortened text is dropped."""


def excerpt(text: str, chars: int) -> str:
    """`text`, or about `chars` characters of it: whole lines of both ends, and a comment in place of the others."""
    if len(text) <= chars:
        return text
    lines = text.splitlines()
    ends: tuple[list[str], list[str]] = ([], [])
    while lines and chars >= 0:
        from_end = sum(map(len, ends[1])) < sum(map(len, ends[0]))
        line = lines.pop(-1 if from_end else 0)
        chars -= len(line) + 1
        if chars >= 0:
            ends[from_end].append(line)
        else:
            lines.append(line)
    return "\n".join([*ends[0], f"# ({len(lines)} lines are left out here)", *reversed(ends[1])])


def longest(text: str, fits: Callable[[str], bool], shorter: Callable[[str, int], str] = excerpt) -> str:
    """`text` if it `fits`, else approximately the longest result of `shorter` that fits, or ""."""
    if fits(text):
        return text
    best, low, high = "", 0, len(text)
    while high - low > TOLERANCE:
        middle = (low + high) // 2
        candidate = shorter(text, middle)
        if fits(candidate):
            best, low = candidate, middle
        else:
            high = middle
    return best


def program(episode: Episode, chars: int) -> str:
    """Excerpt of an episode's program, without the docstrings of its task."""
    code = without_docstrings(episode.code, episode.task_description)
    return excerpt(code.strip("\n") if code.strip() else "", chars)


def without_docstrings(code: str, task: str) -> str:
    """`code` without the docstrings that `task` contains too."""
    if '"' not in code and "'" not in code:
        return code
    known, lines = " ".join(task.split()), io.StringIO(code).readlines()
    for token in reversed(list(_docstrings(code))):
        text = token.string.lstrip("rRbBuU").strip("\"'")
        if " ".join(text.split()) in known:
            del lines[token.start[0] - 1 : token.end[0]]
    return "".join(lines)


def _docstrings(code: str) -> Iterator[tokenize.TokenInfo]:
    """Docstrings of the module, its functions and classes, up to the first syntax error."""
    before, line, opened = tokenize.INDENT, "", "module"
    with suppress(tokenize.TokenError, SyntaxError):
        for token, after in pairwise(tokenize.generate_tokens(io.StringIO(code).readline)):
            if token.type in (tokenize.NL, tokenize.COMMENT):
                continue
            begins = before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
            if token.type == tokenize.STRING and before == tokenize.INDENT and after.type == tokenize.NEWLINE:
                if opened in ("module", "def", "class", "async"):
                    yield token
            elif begins and token.type == tokenize.NAME:
                line = token.string
            elif token.type == tokenize.NEWLINE:
                opened, line = line, ""
            before = token.type


def shortened(episode: Episode, fits: Callable[[Episode], bool]) -> Episode | None:
    """`episode` shortened until it `fits`: first program, then test results, then reflection; None if none is left."""
    if fits(episode):
        return episode
    episode = replace(episode, code=program(episode, len(episode.code)))
    for part in _LEAST_NEEDED_FIRST:
        if text := _longest_part(episode, part, fits):
            return _with_part(episode, part, text)
        episode = _with_part(episode, part, excerpt(episode.code, 0) if part == "code" else "")
    return None


def _longest_part(episode: Episode, part: str, fits: Callable[[Episode], bool]) -> str:
    value = getattr(episode if part in _OF_EPISODE else episode.reflection, part, "")
    whole, shorter = "\n".join(value) if part in _LISTS else str(value), excerpt if part == "code" else cut
    text = longest(whole, lambda text: fits(_with_part(episode, part, text)), shorter)
    return text if part == "code" or len(text) >= min(MIN_CHARS, len(whole)) else ""


def _with_part(episode: Episode, name: str, text: str) -> Episode:
    if name in _OF_EPISODE:
        return replace(episode, **{name: text})
    part = tuple(text.splitlines()) if name in _LISTS else text
    return replace(episode, reflection=replace(episode.reflection, **{name: part})) if episode.reflection else episode


def _change(episode: Episode) -> str:
    return episode.reflection.what_to_change if episode.reflection else ""


def _hint(episode: Episode, fits: Callable[[str], bool]) -> str:
    """One line on an attempt that failed, with what to change, else what its tests gave, as long as it `fits`."""
    label, whole = ("What to change: ", _change(episode)) if _change(episode) else ("", episode.test_results)
    head, whole = f"Attempt {episode.attempt_number} failed.", line(whole, 300)
    text = longest(whole, lambda text: fits(f"{head} {label}{text}"), cut)
    if episode.verdict != "failed" or not text or len(text) < min(MIN_CHARS, len(whole)):
        return ""
    return f"{head} {label}{text}"


_LOADING = threading.RLock()
FOLDER = Path(__file__).parent
SUFFIX = ".md.jinja"
Variant = Literal["default", "terse", "paper_style"]
VARIANTS = get_args(Variant)
TestResults = Literal["shown", "hidden", "filler"]
FailedProgram = Literal["user", "assistant"]
PROGRAM_CHARS = 1500
"""Length to which prompts of chats cut a program."""


class Example(Record, frozen=True, kw_only=True):
    """A few-shot example: a task of the lab with a wrong program, a reflection and the right program."""

    prompt: str
    wrong: str
    """A program that fails."""
    evidence: str
    """Description of the failing check."""
    thought: str
    """How to solve the task, in one sentence."""
    root_cause: str
    what_went_wrong: str
    what_to_change: str
    confidence: float
    right: str
    """A program that passes."""


class Fitted(NamedTuple):
    """A rendered prompt, the ids of the recalled items that did not fit, and its parts that are the model's turns."""

    text: str
    left_out: tuple[str, ...]
    own_turns: tuple[str, ...] = ()
    """In the order of the text."""


class Prompts:
    """The templates of one variant, with few-shot examples.

    `variant`: one of `VARIANTS`. Without a file `NAME.VARIANT.md.jinja`, the default template is used, also for
    includes. `examples`: number of few-shot examples, in templates that have them. `test_results`: of the recalled
    attempts, for actors; `filler`: nouns of the same length and layout. `failed_program`: role of the message with a
    program of this task that failed, in prompts of chats: part of the user's, or a message of the assistant.
    `instructions`: by template, such as `solve`, in the place of its longest passage of words alone.
    """

    @validated
    def __init__(
        self,
        variant: Variant = "default",
        examples: Count = 0,
        test_results: TestResults = "shown",
        failed_program: FailedProgram = "user",
        instructions: Mapping[str, str] | None = None,
    ) -> None:
        if examples > len(known_examples()):
            raise ConfigError("prompts.examples", examples, f"0 to {len(known_examples())}")
        self.variant = variant
        self.test_results = test_results
        self.failed_program = failed_program
        self.examples = known_examples()[:examples]
        self._own = tuple(sorted((instructions or {}).items()))
        for name, text in self._own:
            if not is_instruction(text) or not _instruction(_source(name + SUFFIX, variant) or ""):
                expected = "words without {{, {%, {# or ${, for a template with an instruction, such as solve"
                raise ConfigError(f"prompts.instructions.{name}", repr(text), expected)

    def instruction(self, name: str) -> str:
        """The instruction of a template; "" if it has none."""
        return dict(self._own).get(name) or _instruction(_source(name + SUFFIX, self.variant) or "")

    def of_kind(self, name: str, task: Task) -> str:
        """The template `name` for tasks of this kind: `NAME_KIND` if there is one."""
        own = f"{name}_{task.kind}"
        return name if task.kind == "function" or _source(own + SUFFIX, self.variant) is None else own

    def render(self, name: str, **variables: object) -> str:
        """The prompt `name`. Raises jinja2.UndefinedError if a declared variable is missing."""
        template = _environment(self.variant, self._own).get_template(name + SUFFIX)
        variables = {"examples": self.examples} | variables
        if missing := declared(name, self.variant) - variables.keys():
            from jinja2 import UndefinedError

            raise UndefinedError(f"the prompt {name} ({self.variant}) lacks {', '.join(sorted(missing))}")
        return template.render(variables).strip("\n")

    def fit(self, name: str, max_tokens: int | None, memory: Recollection, **variables: object) -> Fitted:
        """The prompt `name` with as much of `memory` and the examples as fits into `max_tokens`; None: everything.

        Items that do not fit are skipped. They are added in this order: the newest episode of the task, shortened if
        necessary, or one line of what to change if no more fits; older ones; those of other tasks, nearest first; the
        curator's items; wisdom; mistakes; insights; the session; examples.
        If the prompt is too long without any of them, the model has to reject it.
        """
        memory = self._with_results(memory)
        render = partial(self.render, name, **variables)
        whole = render(memory=memory)
        if max_tokens is None or estimated(whole) <= max_tokens:
            return Fitted(whole, (), self._own_turns(memory))
        bare = replace(memory, **dict.fromkeys(RECALLED, ()), session="")

        def has_room(memory: Recollection) -> bool:
            return estimated(render(memory=memory, examples=())) <= max_tokens

        # If the bare task does not fit, no episode will.
        if memory.own and has_room(bare):
            last = memory.own[-1]
            newest = shortened(last, lambda episode: has_room(replace(bare, own=(episode,))))
            if newest is None or _change(newest) != _change(last):
                bare = replace(bare, hint=_hint(last, lambda text: has_room(replace(bare, hint=text))))
            newest = None if bare.hint else newest or last
            memory = replace(memory, own=(*memory.own[:-1], *filter(None, [newest])))
        parts = [(kind, n) for kind in RECALLED for n in range(len(getattr(memory, kind)))[:: RECALLED[kind]]]
        parts += [("session", 0), *(("examples", n) for n in range(len(self.examples)))]

        def with_parts(numbers: Sequence[int]) -> dict[str, Any]:
            kept = {parts[number] for number in numbers}
            fields: dict[str, Any] = {
                kind: tuple(each for n, each in enumerate(getattr(memory, kind)) if (kind, n) in kept)
                for kind in RECALLED
            }
            fields["session"] = memory.session if ("session", 0) in kept else ""
            examples = tuple(example for n, example in enumerate(self.examples) if ("examples", n) in kept)
            return {"memory": replace(bare, **fields), "examples": examples}

        sizes = [estimated(memory.items[n].text.strip()) if kind == "items" else 0 for kind, n in parts]
        packed = with_parts(filled(sizes, max_tokens, lambda numbers: estimated(render(**with_parts(numbers)))))
        left_out = tuple(sorted(memory.ids - packed["memory"].ids))
        return Fitted(render(**packed), left_out, self._own_turns(packed["memory"]))

    def _with_results(self, memory: Recollection) -> Recollection:
        """What was recalled, with its test results, and the session that quotes them, as the prompts show them."""
        if self.test_results == "shown":
            return memory
        put = filler_in_layout if self.test_results == "filler" else lambda _: ""
        own, others = (tuple(replace(each, test_results=put(each.test_results)) for each in episodes)
                       for episodes in (memory.own, memory.others))  # fmt: skip
        return replace(memory, own=own, others=others, session=put(memory.session))

    def _own_turns(self, memory: Recollection) -> tuple[str, ...]:
        """The failed programs of the task as prompts of chats show them, where they are messages of the assistant."""
        failed = [each for each in memory.own if not each.passed and each.code.strip()]
        return tuple(fenced(program(each, PROGRAM_CHARS)) for each in failed if self.failed_program == "assistant")


@cache
def _bytes(path: Path) -> bytes:
    """A file, read once by a process, so that digests are of what prompts are made of."""
    return path.read_bytes()


@cache
def digests() -> dict[str, str]:
    """SHA-256 of each prompt template and of the examples, by name, shortened to 16 hex digits."""
    files = [*sorted(FOLDER.glob(f"*{SUFFIX}")), FOLDER / "examples.json"]
    return {file.name.removesuffix(SUFFIX): hashlib.sha256(_bytes(file)).hexdigest()[:16] for file in files}


@cache
def known_examples() -> tuple[Example, ...]:
    """The lab's few-shot examples; none is a task of a benchmark."""
    return msgspec.json.decode(_bytes(FOLDER / "examples.json"), type=tuple[Example, ...])


@cache
def declared(name: str, variant: str = "default") -> frozenset[str]:
    """The declared variables of a template and its includes."""
    line = re.match(r"\{# Uses: (?P<names>[\w, ]*) #\}\n", _source(name + SUFFIX, variant) or "")
    return frozenset(line["names"].split(", ")) if line else frozenset()


@lru_cache(maxsize=64)
def _environment(variant: str, instructions: tuple[tuple[str, str], ...] = ()) -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined, Template

    class Templates(Environment):
        def get_template(self, *which: Any, **options: Any) -> Template:
            with _LOADING:  # workers begin with the same templates; one compiles them
                return super().get_template(*which, **options)

        def make_globals(self, d: Any) -> Any:
            return self.globals  # instead of a chain with `d`, which is always None; Python reads chains slowly

    def source(file: str) -> str | None:
        text, own = _source(file, variant), dict(instructions).get(file.removesuffix(SUFFIX))
        return text.replace(_instruction(text), own, 1) if text and own else text

    # No autoescape: prompts are plain text, not HTML.
    loader = FunctionLoader(source)
    environment = Templates(loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= FILTERS
    return environment


def _instruction(source: str) -> str:
    """The longest passage without Jinja; "" if it depends on a condition, or begins or ends within a line."""
    parts = re.split(r"(\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\})", source, flags=re.DOTALL)
    n = max(range(0, len(parts), 2), key=lambda n: len(parts[n].strip()))
    begins, ends = n == 0 or parts[n].startswith("\n"), n == len(parts) - 1 or parts[n].endswith("\n")
    blocks = re.findall(r"\{%-? *(end)?(?:if|for)\b", "".join(parts[:n]))
    return parts[n].strip() if begins and ends and blocks.count("") == blocks.count("end") else ""


def is_instruction(text: str) -> bool:
    """Whether it has words, and no mark that Jinja or a config would read."""
    return bool(text.strip()) and not re.search(r"\{[{%#]|[}%#]\}|\$\{", text)


def _source(file: str, variant: str) -> str | None:
    """The template `file` in `variant`, else in `default`, else None."""
    own = FOLDER / f"{file.removesuffix(SUFFIX)}.{variant}{SUFFIX}"
    path = own if own.is_file() else FOLDER / file
    return _bytes(path).decode() if path.is_file() else None


_FENCES = re.compile(r"`{3}|^[ \t]*~{3}", re.MULTILINE)


def fenced(text: str, language: str = "python") -> str:
    """`text` in a code block; the fence is longer than any fence in it."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def quoted(text: str, before: str = "") -> str:
    """`text`; if it contains a fence, in a code block of its own after `before`."""
    return before + fenced(text, "text") if _FENCES.search(text) else text


def commented(text: str, chars: int, width: int = 160) -> str:
    """At most `chars` characters of `text` as Python comments, each line cut to `width`."""
    return "\n".join(f"# {cut(row, width)}".rstrip() for row in cut(text, chars).splitlines())


def sentences(texts: Iterable[str], chars: int) -> str:
    """Non-empty `texts` on one line, each cut to `chars` characters and ended by a full stop."""
    lines = (line(text, chars) for text in texts)
    return " ".join(text if text[-1] in ".!?…" else f"{text}." for text in lines if text)


FILTERS = {filter.__name__: filter for filter in (cut, line, fenced, quoted, commented, sentences, percent, program)}
Style = Literal["chat", "continuation"]
OVERHEAD = 64
"""Tokens that a server may add: roles, a system message of its own."""


def max_prompt_tokens(model: Model, sampling: Sampling) -> int | None:
    """Most prompt tokens that leave room for the reply, half the context for one without limit; None: unknown."""
    reply = model.context // 2 if sampling.max_tokens is None else sampling.max_tokens
    return max(model.context - reply - OVERHEAD, 0) if model.context else None


def fits(text: str, model: Model, sampling: Sampling) -> bool:
    """Whether the prompt `text` leaves room for the reply, by the estimate of its tokens."""
    limit = max_prompt_tokens(model, sampling)
    return limit is None or estimated(text) <= limit


def without_prompt(program: str, task: Task) -> str:
    """`program` without the task's prompt, with which continuations begin: a prompt need not contain it twice."""
    return program.removeprefix(task.prompt.rstrip())


class Answer(NamedTuple):
    """A call, its reply, and the program in the reply."""

    messages: tuple[Message, ...]
    left_out: tuple[str, ...]
    completion: Completion
    extraction: Extraction

    def trajectory(self, strategy: str, rationale: str = "") -> Trajectory:
        """The trajectory of an actor with a single call."""
        completion = self.completion
        return Trajectory(
            solution=self.extraction.program,
            strategy=strategy,
            messages=self.messages,
            left_out=self.left_out,
            reply=completion.text,
            rationale=rationale or completion.reasoning,
            extraction=self.extraction.rule,
            model=completion.model,
            finish_reason=completion.finish_reason,
            usage=completion.usage,
            cached=completion.cached,
        )


class PromptedModel:
    """Renders templates with as much recalled memory as fits, and calls `model`.

    `style`: `chat` sends a user message and extracts the program from the reply. `continuation` uses the template
    `continue_NAME`, which ends in the task's prompt or in the beginning of the function's body; the program is this
    text followed by the reply.
    """

    @validated
    def __init__(self, model: Model, sampling: Sampling, prompts: Prompts | None = None, style: Style = "chat") -> None:
        self.model = model
        self.sampling = sampling
        self.prompts = prompts or Prompts()
        self.style = style

    def __call__(self, name: str, task: Task, memory: Recollection, **variables: object) -> Answer:
        """Call the model with the template `name`.

        If the model rejects the prompt as too long, or for an unknown reason, it is called once more with less memory:
        in proportion to the model's token count, or half if it gives none. Exceptions of the model pass through.
        """
        name = self.prompts.of_kind(name if self.style == "chat" else f"continue_{name}", task)
        about = {"prompt": task.prompt, "kind": task.kind, "passages": task.data.get("passages", ()), **variables}
        limit = max_prompt_tokens(self.model, self.sampling)
        fitted = self.prompts.fit(name, limit if limit is None else int(limit / memory.token_ratio), memory, **about)
        messages, completion = self._put(fitted)
        if completion.finish_reason in ("context_overflow", "refused"):
            # The estimate was too low, or the server's context is smaller than the configured one.
            sent, counted, spent = estimated(fitted.text), completion.refused_tokens, completion.usage
            smaller = limit * sent // counted if limit and counted > limit else sent // 2
            less = self.prompts.fit(name, smaller, memory, **about)
            if less.text != fitted.text:
                fitted, (messages, completion) = less, self._put(less)
                completion = replace(completion, usage=spent + completion.usage)
        reply, chats = completion.text, self.style == "chat"
        if completion.finish_reason in WITHHELD:
            return Answer(messages, fitted.left_out, completion, Extraction("", "none"))
        broke_off = completion.finish_reason == "length"
        if task.kind == "answer":
            return Answer(messages, fitted.left_out, completion, extract_answer(reply, task, broke_off))
        extraction = extract(reply, task) if chats else continued(fitted.text, reply, task, broke_off)
        return Answer(messages, fitted.left_out, completion, extraction)

    def _put(self, prompt: Fitted) -> tuple[tuple[Message, ...], Completion]:
        beginning = Message(role="assistant", content=prompt.text)
        messages = turns(prompt) if self.style == "chat" else (beginning,)
        return messages, self.model.complete(messages, sampling=self.sampling)


def turns(prompt: Fitted) -> tuple[Message, ...]:
    """The prompt as messages of a chat: its `own_turns` are the assistant's, what stands around them the user's.

    A part that nothing follows stays with the user, since a model continues a last message of the assistant.
    """
    text, later = prompt.text, list[Message]()
    for part in reversed(prompt.own_turns):
        before, _, after = text.rpartition(part)
        is_sure = prompt.text.count(part) == prompt.own_turns.count(part)  # the task may hold the same program
        if is_sure and before.strip() and after.strip():
            later += [Message(role="user", content=after.strip("\n")), Message(role="assistant", content=part)]
            text = before.rstrip("\n")
    return (Message(role="user", content=text), *reversed(later))


def continued(prompt: str, reply: str, task: Task, broke_off: bool = False) -> Extraction:
    """The prompt, the beginning of the body in `prompt`, and the reply; if truncated, cut back until it parses."""
    head = task.prompt.rstrip()
    _, match, beginning = prompt.rpartition(head.lstrip("\n")) if head else ("", "", "")
    program = f"{head}{beginning if match else ''}{reply.rstrip()}\n"
    if not reply.strip():
        return Extraction("", "none")
    if broke_off and (prefix := Reader(task, Parser()).cut_back(program)):
        return Extraction(f"{prefix}\n", "continuation+truncated")
    return Extraction(program, "continuation")
