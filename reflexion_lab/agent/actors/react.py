"""ReAct actor (Yao et al., arXiv 2210.03629): thought, action, observation, until the program is submitted."""

from __future__ import annotations

from itertools import cycle
from typing import Annotated, NamedTuple

from msgspec import Meta
from msgspec.structs import replace

from reflexion_lab.agent.actors.tools import Observation, ToolCall, run_tests, use
from reflexion_lab.agent.actors.transcript import DROPPED, Reply, Turn, layouts, read
from reflexion_lab.limits import Repeats, validated
from reflexion_lab.protocols import Model, Sandbox
from reflexion_lab.records import WITHHELD, Completion, Message, Recollection, Sampling, Step, Task, Trajectory, Usage
from reflexion_lab.text.prompts.render import Prompts, Style, known_examples, max_prompt_tokens
from reflexion_lab.text.replies.extract import extract
from reflexion_lab.text.shorten import estimated

STOP = "\nObservation"
"""Stop text, after which the model would invent an observation."""
PER_MESSAGE = 8
"""Tokens that a chat template adds to a message."""
ENDED = {
    "refusal": "the model refused",
    "content_filter": "the provider's filter cut the reply out",
    "context_overflow": "the prompt is longer than the model's context",
    "refused": "the server refused the prompt",
    "wrong_model": "another model than the one asked for answered",
}
REPEATS = 3
"""Number of equal consecutive actions after which the actor counts as stuck."""


class ReAct:
    """Thinks, acts and observes in at most `max_steps` turns, with the tools of `actors/tools.py`.

    The action `finish` submits its program or the newest draft. Without `finish`, or if that program is incomplete or
    is part of the thought, the draft that passes most visible tests is submitted; on a tie, a complete draft that came
    with an action, then the newer one. `style`: `chat` sends turns as messages, `continuation` as one document that
    ends in `Thought N:`. `max_steps`: largest number of replies, 1 or more. `max_observation`: largest length of an
    observation in characters, 80 or more.
    """

    kinds = ("function",)

    @validated
    def __init__(
        self,
        model: Model,
        sandbox: Sandbox,
        sampling: Sampling,
        prompts: Prompts | None = None,
        style: Style = "chat",
        max_steps: Repeats = 6,
        max_observation: Annotated[int, Meta(ge=80)] = 600,
    ) -> None:
        self.model = model
        self.sandbox = sandbox
        self.sampling = replace(sampling, stop=tuple(dict.fromkeys((*(sampling.stop or ()), STOP))))
        self.prompts = prompts or Prompts()
        self.style = style
        self.max_steps = max_steps
        self.max_observation = max_observation

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        return _Work(self, task, recollection).trajectory()


class Draft(NamedTuple):
    """A program that defines the task's function."""

    program: str = ""
    rule: str = "none"
    turn: int = 0
    """The turn that wrote it, 1-based; 0 if there is no draft."""
    is_meant: bool = False
    """Whether it is complete and came with an action; a thought may reject the code in it."""


class _Work:
    """The state of one `act`: turns and drafts so far."""

    def __init__(self, actor: ReAct, task: Task, recollection: Recollection) -> None:
        self.actor = actor
        self.task = task
        whole = max_prompt_tokens(actor.model, actor.sampling)
        self.limit = None if whole is None else int(whole / recollection.token_ratio)
        # A quarter is reserved for turns, since all prompts of the transcript contain the same recalled items.
        for_head = None if self.limit is None else self.limit - self.limit // 4
        name = "react" if actor.style == "chat" else "continue_react"
        about = {"prompt": task.prompt, "max_steps": actor.max_steps}
        fitted = actor.prompts.fit(name, for_head, recollection, form=known_examples()[0], **about)
        self.head, self.left_out, _ = fitted
        self.turns: list[Turn] = []
        self.steps: list[Step] = []
        self.completions: list[Completion] = []
        self.calls: list[tuple[str, ...]] = []
        self.drafts = [Draft()]
        self.passed: dict[str, int] = {}
        """Number of visible tests passed, by program."""

    def trajectory(self) -> Trajectory:
        ended = ""
        while not ended:
            ended = self.turn()
        newest = self.drafts[-1]
        submitted = newest if ended == "finish" and newest.is_meant else self.best()
        last = self.completions[-1]
        return Trajectory(
            solution=submitted.program,
            strategy="react",
            messages=self.steps[0].messages,
            left_out=self.left_out,
            reply=last.text,
            rationale="\n".join(step.thought for step in self.steps if step.thought) or last.reasoning,
            extraction=submitted.rule,
            model=last.model,
            finish_reason=last.finish_reason,
            usage=sum((reply.usage for reply in self.completions), Usage()),
            cached=all(reply.cached for reply in self.completions),
            steps=tuple(self.steps),
            ended=ended,
            status={"finish": "complete", "max_steps": "unfinished"}.get(ended, "stuck"),
        )

    def turn(self) -> str:
        """Take one turn; return the stop reason, or ""."""
        messages = self.messages()
        completion = self.actor.model.complete(messages, sampling=self.actor.sampling)
        withheld = completion.finish_reason if completion.finish_reason in WITHHELD else ""
        reply = read("" if withheld else completion.text)
        draft = self.draft_of(reply)
        if withheld:
            observation = Observation("", ENDED[withheld])
        else:
            newest = self.drafts[-1].program
            self.calls.append((reply.action, reply.code, newest if reply.action else reply.thought))
            call = ToolCall(reply.action, reply.code, draft.program, newest)
            observation = use(self.actor.sandbox, self.task, call, self.actor.max_observation)
            if reply.action == "run_tests" and not observation.error:
                self.passed[newest] = observation.passed
        self.completions.append(completion)
        self.turns.append(Turn(len(self.turns) + 1, reply, observation.text))
        step = Step(
            thought=reply.thought,
            action=reply.action,
            observation=observation.text,
            error=observation.error,
            program=draft.program,
            messages=messages,
            reply=completion.text,
            usage=completion.usage,
            seconds=observation.seconds,
        )
        self.steps.append(step)
        if withheld or (reply.action == "finish" and not observation.error):
            return withheld or "finish"
        if self.calls[-REPEATS:] == [self.calls[-1]] * REPEATS:
            return "repeated"
        return "max_steps" if len(self.steps) == self.actor.max_steps else ""

    def draft_of(self, reply: Reply) -> Draft:
        """The draft in a reply, or an empty draft.

        Code for run_tests and finish may be a body or invalid; other code must define the function. Code in a thought
        counts only in a reply without an action.
        """
        program, rule = extract(reply.attached if reply.action else reply.attached or reply.thought, self.task)
        words = set(rule.split("+"))
        known = {"function"} | ({"body", "stub", "unparsed"} if reply.action in ("run_tests", "finish") else set())
        if known.isdisjoint(words):
            return Draft()
        is_meant = bool(reply.action) and not reply.is_quoted and words.isdisjoint(("stub", "unparsed"))
        self.drafts.append(Draft(program, rule, len(self.turns) + 1, is_meant))
        return self.drafts[-1]

    def best(self) -> Draft:
        """The draft that passes most visible tests; untested drafts are tested first."""
        seconds = 0.0
        for draft in self.drafts[1:]:
            if draft.program not in self.passed:
                observation = run_tests(self.actor.sandbox, self.task, draft.program, self.actor.max_observation)
                self.passed[draft.program] = observation.passed
                seconds += observation.seconds
        self.steps[-1] = replace(self.steps[-1], seconds=self.steps[-1].seconds + seconds)
        return max(self.drafts, key=lambda draft: (self.passed.get(draft.program, 0), draft.is_meant, draft.turn))

    def messages(self) -> tuple[Message, ...]:
        """The prompt of the next turn: the first of `layouts` within the model's context, else the last one."""
        messages: tuple[Message, ...] = ()
        for levels in layouts(len(self.turns), self.drafts[-1].turn - 1):
            messages = self.laid_out(levels)
            size = sum(estimated(message.content) + PER_MESSAGE for message in messages)
            if self.limit is None or size <= self.limit:
                break
        return messages

    def laid_out(self, levels: tuple[int, ...]) -> tuple[Message, ...]:
        included = [(turn, level) for turn, level in zip(self.turns, levels, strict=True) if level != DROPPED]
        dropped = len(levels) - len(included)
        head = self.head + (f"\n\n({dropped} of your earlier turns are left out.)" if dropped else "")
        if self.actor.style == "chat":
            turns = [text for turn, level in included for text in (turn.spoken(level), turn.observed(level))]
            roles = cycle(("user", "assistant"))
            return tuple(Message(role=next(roles), content=text) for text in (head, *turns))
        past = [f"{turn.spoken(level)}\n{turn.observed(level)}\n" for turn, level in included]
        return (Message(role="assistant", content="\n".join((head + "\n", *past, f"Thought {len(levels) + 1}:"))),)
