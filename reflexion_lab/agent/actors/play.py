"""Actor that plays in an environment: thought, action, observation (ReAct, Yao et al., arXiv 2210.03629, section 4)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from msgspec import Meta
from msgspec.structs import replace

from reflexion_lab.errors import HarnessError
from reflexion_lab.limits import validated
from reflexion_lab.protocols import Environment, Model
from reflexion_lab.records import (
    WITHHELD,
    Completion,
    Message,
    Observation,
    Recollection,
    Sampling,
    Step,
    Task,
    Trajectory,
    Usage,
)
from reflexion_lab.tasks.environments.replay import FAILED, Guarded
from reflexion_lab.text.prompts.render import Prompts, max_prompt_tokens
from reflexion_lab.text.replies.extract import without_thoughts, without_tokens
from reflexion_lab.text.shorten import cut, estimated

ACTION = re.compile(r"^[ \t*_#>-]*action(?:[ \t]+\d+)?[*_ \t]*:[*_ \t]*(\S.*)$", re.IGNORECASE | re.MULTILINE)
INLINE = re.compile(r"(?:\b(?:Action|ACTION)|(?<=[.!?] )action)[ ]?:[*_ \t]*(\S.*)$", re.MULTILINE)
"""An action behind its thought, on one line."""
THOUGHT = re.compile(r"^[\s*_#>-]*thought(?:[ \t]+\d+)?[*_ \t]*:[*_ \t]*", re.IGNORECASE)
OBSERVATION = re.compile(r"^[ \t*_#>-]*observation(?:[ \t]+\d+)?[*_ \t]*:", re.IGNORECASE | re.MULTILINE)
"""Where a reply invents what the environment shows."""
CALL = re.compile(r"^[ \t>`*-]*[A-Za-z]+\[[^\n]*\][ \t.`*]*$", re.MULTILINE)
"""An action with a value, alone on a line."""
INVENTED = re.compile(r"\s[*_]{0,3}(?:Observation|OBSERVATION)(?: \d+)?[*_]{0,3}:.*")
"""An observation that a reply invents behind its action, on the same line."""
ACTION_CHARS = 1000
REPEATS = 3
"""The same action with the same observation so many times ends a play, as in the paper of Reflexion."""
PER_MESSAGE = 8
"""Tokens that a chat template adds to a message."""
NOTHING = "Nothing happened: the reply has no line `Action:` with an action."


class Play:
    """Plays a task of an environment in at most `environment.max_steps` turns, with a chat model.

    The solution is the actions that were taken, one a line; of a question, the answer with which the play ended.
    `max_observation`: largest length of an observation in characters, 80 or more. `constrained`: where the environment
    lists its actions, send a grammar that permits no other, for models that support grammars. The oldest turns
    that exceed the model's context are left out, with up to a quarter of the others. An environment that fails once
    begins again there.
    """

    kinds = ("actions", "answer")

    @validated
    def __init__(
        self,
        model: Model,
        environment: Environment,
        sampling: Sampling,
        prompts: Prompts | None = None,
        max_observation: Annotated[int, Meta(ge=80)] = 1000,
        constrained: bool = True,
    ) -> None:
        self.model = model
        self.environment = environment
        self.sampling = sampling
        self.prompts = prompts or Prompts()
        self.max_observation = max_observation
        self.constrained = constrained

    def act(self, task: Task, recollection: Recollection) -> Trajectory:
        work = _Work(self, task, recollection)
        try:
            return work.trajectory()
        finally:
            work.close()


class Turn(NamedTuple):
    """One turn, as later prompts have it."""

    reply: str
    observation: str


class _Work:
    """The state of one `act`."""

    def __init__(self, actor: Play, task: Task, recollection: Recollection) -> None:
        self.actor, self.task = actor, task
        whole = max_prompt_tokens(actor.model, actor.sampling)
        self.limit = None if whole is None else int(whole / recollection.token_ratio)
        for_head = None if self.limit is None else self.limit - self.limit // 3  # the rest is for turns
        about = {"prompt": task.prompt, "kind": task.kind, "max_steps": actor.environment.max_steps}
        about["help"] = actor.environment.help
        template = actor.prompts.of_kind("play", task)
        self.head, self.left_out, _ = actor.prompts.fit(template, for_head, recollection, **about)
        self.session: Guarded | None = None
        self.problem = ""
        self.observation = Observation(text="")
        self.actions: list[str] = []
        self.turns: list[Turn] = []
        self.n_dropped = 0
        self.steps: list[Step] = []
        self.completions: list[Completion] = []

    def close(self) -> None:
        if self.session:
            self.session.close()

    def trajectory(self) -> Trajectory:
        ended = "" if self.begin() or self.begin() else "world_failed"
        while not ended:
            ended = self.turn()
        last = self.completions[-1] if self.completions else None
        solution, extraction = "\n".join(self.actions), "play"
        if self.task.kind == "answer":
            solution, extraction = self.observation.answer, "finish" if self.observation.answer else "none"
        return Trajectory(
            solution=solution + f"{FAILED}{self.problem}" * (ended == "world_failed"),
            strategy="play",
            messages=self.steps[0].messages if self.steps else (),
            left_out=self.left_out,
            reply=last.text if last else "",
            rationale="\n".join(step.thought for step in self.steps if step.thought),
            extraction=extraction,
            model=last.model if last else "",
            finish_reason=last.finish_reason if last else "stop",
            usage=sum((reply.usage for reply in self.completions), Usage()),
            cached=all(reply.cached for reply in self.completions),
            steps=tuple(self.steps),
            ended=ended,
            status={"over": "complete", "max_steps": "unfinished"}.get(ended, "stuck"),
        )

    def begin(self) -> bool:
        """Start a session, and take the actions so far; whether the environment did it."""
        self.close()
        try:
            self.session = Guarded(self.actor.environment, self.task)
            for action in self.actions:
                self.session.act(action)
        except HarnessError as problem:
            self.problem = " ".join(str(problem).split())
            return False
        self.observation = self.session.observation
        return True

    def turn(self) -> str:
        """Take one turn; return why the play ended, or ""."""
        messages = self.messages()
        sampling = self.actor.sampling
        if self.actor.constrained and self.observation.actions:
            sampling = replace(sampling, grammar=grammar(self.observation.actions))
        completion = self.actor.model.complete(messages, sampling=sampling)
        self.completions.append(completion)
        withheld = completion.finish_reason if completion.finish_reason in WITHHELD else ""
        thought, action = ("", "") if withheld else read(completion.text, self.observation.actions)
        is_alive = self.take(action) if action else True
        text = cut(self.observation.text, self.actor.max_observation) if action else NOTHING
        self.turns.append(Turn(f"Thought: {thought}\nAction: {action}", text))
        self.steps.append(
            Step(
                thought=thought,
                action=action,
                observation=text if is_alive else "",
                error=withheld or ("" if is_alive else "the environment failed") or NOTHING * (not action),
                messages=messages,
                reply=completion.text,
                usage=completion.usage,
            )
        )
        if withheld or not is_alive:
            return withheld or "world_failed"
        if self.observation.is_over:
            return "over"
        newest = [(step.action, step.observation) for step in self.steps[-REPEATS:]]
        if len(newest) == REPEATS and newest == newest[:1] * REPEATS:
            return "repeated"
        return "max_steps" if len(self.steps) == self.actor.environment.max_steps else ""

    def take(self, action: str) -> bool:
        """Take an action, in a session that is begun again if the environment fails; whether it gave an observation."""
        for is_last in (False, True):
            try:
                if self.session:
                    self.observation = self.session.act(action)
                    break
            except HarnessError as problem:
                self.problem = " ".join(str(problem).split())
                if is_last or not self.begin():
                    return False
        self.actions.append(action)
        return True

    def messages(self) -> tuple[Message, ...]:
        """The prompt of the next turn, without the oldest turns where it would exceed the model's context."""
        for n_dropped in range(len(self.turns) + 1):
            messages = self.laid_out(n_dropped)
            size = sum(estimated(message.content) + PER_MESSAGE for message in messages)
            if self.limit is None or size <= self.limit:
                break
        if not n_dropped <= self.n_dropped <= (n_dropped + len(self.turns)) // 2:
            # a quarter of the others, too, so that prompts begin alike, which servers keep
            self.n_dropped = n_dropped + (len(self.turns) - n_dropped) // 4 * bool(n_dropped)
        return self.laid_out(self.n_dropped)

    def laid_out(self, n_dropped: int) -> tuple[Message, ...]:
        head = self.head + f"\n\n({n_dropped} of your earlier turns are left out.)" * bool(n_dropped)
        admissible = "; ".join(self.observation.actions)
        choices = f"\n\nAdmissible actions: {admissible}" if admissible else ""
        if not self.turns:
            seen = self.observation.text
            head += f"\n\nObservation: {seen}" * (seen.strip() not in self.task.prompt)
            return (Message(role="user", content=head + choices),)
        messages = [Message(role="user", content=head)]
        for turn in self.turns[n_dropped:]:
            messages.append(Message(role="assistant", content=turn.reply))
            messages.append(Message(role="user", content=f"Observation: {turn.observation}"))
        return (*messages[:-1], replace(messages[-1], content=messages[-1].content + choices))


def read(reply: str, actions: Sequence[str]) -> tuple[str, str]:
    """Thought and action of a reply, the action on one line, "" without one. Never raises.

    The first line `Action:` counts; text after it rests on an invented observation. Without such a line, an admissible
    action alone on a line does, or one as `Search[words]` where none is listed.
    """
    text = without_tokens(without_thoughts(reply)[0])
    admissible = {_key(action): action for action in actions}
    if labelled := ACTION.search(text) or INLINE.search(text):
        thought, action = text[: labelled.start()], INVENTED.sub("", labelled[1])
    else:
        text = text[: invented.start()] if (invented := OBSERVATION.search(text)) else text
        lines = text.splitlines()
        is_bare = [_key(line) in admissible if actions else CALL.match(line) for line in lines]
        bare = next((n for n, is_action in enumerate(is_bare) if is_action), len(lines))
        thought, action = "\n".join(lines[:bare]), "".join(lines[bare : bare + 1])
    words = THOUGHT.sub("", thought.strip())
    action = admissible.get(_key(action), " ".join(action.strip("`*_#\"' \t").split()))
    return " ".join(words.split())[:1000], cut(action, ACTION_CHARS, "")


def _key(action: str) -> str:
    return " ".join(action.casefold().strip("`*_\"'>.!- \t").split())


def grammar(actions: Sequence[str]) -> str:
    """GBNF of a turn with one of `actions`, after a thought in ASCII."""
    quoted = (re.sub(r'(["\\])', r"\\\1", action) for action in actions)
    choices = " | ".join(f'"{action}"' for action in quoted)
    return f'root ::= "Thought: " [ -~]{{1,200}} "\\nAction: " ({choices})\n'


def transcript(trajectory: Trajectory) -> str:
    """What a play did and saw, an action and its observation a turn; "" if it has no turns."""
    return "\n".join(f"> {step.action or '(no action)'}\n{step.observation}" for step in trajectory.steps)
