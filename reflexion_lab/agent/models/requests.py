"""Requests: the SDK's client, what it retries, and the outcomes of failures."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator
from typing import Any

from reflexion_lab.agent.models.answers import is_out_of_credit, read, turned_down
from reflexion_lab.agent.models.pace import Pace
from reflexion_lab.errors import ModelError

LONGEST_WAIT = 120
"""Seconds: a longer Retry-After ends the retries."""
NO_COMPLETION = "the reply is no chat completion"
SHOWN = 100_000
"""Bytes of an unreadable answer that are searched for keys before 500 characters of it are shown."""


def connect(base_url: str | None, retries: int, timeout: float, deadline: float, pace: Pace) -> Any:
    """A client of the SDK, rate-limited by `pace`, retries included; each call brings its own key. It waits for
    `timeout` seconds of silence, and for `deadline` seconds from an answer's head to its end.

    Every request has its own connection: on a reused one, an answer that a server sends twice would be taken for the
    answer to the next request.

    Raises
    ------
    ModelError
        The SDK is not installed.
    """
    try:
        import openai
    except ImportError as error:
        raise ModelError("This model needs the package openai: pip install 'reflexion_lab[openai]'") from error
    hooks = {"request": [lambda request: pace.wait()], "response": [lambda response: _look(response, deadline)]}
    http = openai.DefaultHttpxClient(event_hooks=hooks, headers={"Connection": "close"})
    return openai.OpenAI(api_key="none", base_url=base_url, timeout=timeout, max_retries=retries, http_client=http)


def _look(response: Any, deadline: float) -> None:
    """Makes the SDK retry after an unreadable answer, and not where the next answer would be the same."""
    library = importlib.import_module(type(response).__module__.partition(".")[0])  # that of this SDK's version
    whole = response.stream
    response.stream = _ending(library, whole, deadline)
    response.read()
    response.stream = whole
    is_settled = turned_down(response.content) is not None
    if response.is_error and (is_settled or is_out_of_credit(response.content)):
        response.headers["x-should-retry"] = "false"
    if not response.is_success or is_settled:
        return
    try:
        read(response.content)
    except ValueError as error:
        excerpt = response.content[:SHOWN].decode(errors="replace")
        raise library.RemoteProtocolError(f"{NO_COMPLETION}, {error}: {excerpt}", request=response.request) from None


def _ending(library: Any, stream: Any, deadline: float) -> Any:
    """`stream` with a time-out after `deadline` seconds: some servers send a space now and then, for ever."""

    class Ending(library.SyncByteStream):  # type: ignore[misc]
        def __iter__(self) -> Iterator[bytes]:
            start = time.monotonic()
            for piece in stream:
                if time.monotonic() - start > deadline:
                    raise library.ReadTimeout(f"the answer had not ended {deadline:g} s after its head")
                yield piece

        def close(self) -> None:
            stream.close()

    return Ending()


def outcome_of(problem: Exception) -> str:
    """One of `errors.UNANSWERED`; "" where the request is to blame."""
    import openai

    status = getattr(problem, "status_code", 0)
    if isinstance(problem, openai.APITimeoutError) or status == 408:
        return "timeout"
    if isinstance(problem, openai.APIConnectionError):
        return "malformed" if str(problem.__cause__).startswith(NO_COMPLETION) else "connection"
    names = {401: "key_refused", 402: "rate_limited", 403: "key_refused", 409: "server_error", 429: "rate_limited"}
    return "server_error" if status >= 500 else names.get(status, "")


def retries_before(problem: Any) -> int:
    """Requests before the one that failed with `problem`."""
    request = getattr(problem, "request", None)
    return int(request.headers.get("x-stainless-retry-count", 0)) if request is not None else 0
