"""Marks of replies that say nothing, of missing token counts, and of prompts that the server may have cut."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from reflexion_lab.records import Completion, Message, Sampling
from reflexion_lab.text.replies.extract import without_thoughts
from reflexion_lab.text.shorten import estimated


def is_counted(completion: Completion) -> bool:
    """Whether the server counted the prompt, and the reply if it has a text."""
    usage, words = completion.usage, completion.text or completion.reasoning
    return bool(usage.prompt_tokens and (usage.completion_tokens or not words))


def marked(completion: Completion, messages: Sequence[Message], sampling: Sampling) -> Completion:
    """`completion` with the marks of its one call in `usage`, which depend on call and reply alone."""
    usage = completion.usage
    if usage.replies != 1:
        return completion
    is_empty = not without_thoughts(completion.text)[0].strip()
    is_cut = completion.finish_reason == "length" or (is_empty and usage.completion_tokens >= sampling.longest)
    # The estimate counts bytes of other scripts, of which a token has several.
    estimate = sum(min(estimated(message.content), len(message.content)) for message in messages)
    marks = {
        "empty_replies": int(is_empty and not is_cut),
        "cut_replies": int(is_cut),
        "uncounted_replies": int(not is_counted(completion)),
        "prompt_estimate": estimate if 0 < 2 * usage.prompt_tokens < estimate else 0,
    }
    return replace(completion, usage=replace(usage, **marks))
