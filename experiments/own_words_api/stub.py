"""A stand-in for a hosted chat model of OpenAI's protocol: rehearses the study without a key. Its results mean nothing.

    python -m experiments.own_words_api.stub          # prints its address and serves until interrupted
    OPENAI_BASE_URL=ADDRESS OPENAI_API_KEY=rehearsal reflexion-lab study run FILE

It knows the solutions of HumanEval. A reply depends on the request alone: two first programs in three are right, and a
retry is right more often after words that say what to change. As the hosted model does, it fences programs, counts
tokens, refuses `json_schema`, asks at times to come again (429, Retry-After), and at times refuses or says nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import threading
from collections import Counter
from collections.abc import Sequence
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from reflexion_lab.records import Task
from reflexion_lab.tasks.benchmarks.humaneval import humaneval
from reflexion_lab.tasks.benchmarks.mutants import mutants
from reflexion_lab.text.filler import WORDS
from reflexion_lab.text.prompts.render import without_docstrings

MODELS = ("gpt-3.5-turbo-0125", "gpt-4o-mini", "gpt-4o")
FIRST = (1.3, 0.7)
"""Beta parameters of the probability over tasks that a first program is right; mean 0.65."""
REPAIR = {"none": 0.2, "vague": 0.2, "filler": 0.2, "own": 0.35, "other": 0.5, "quoted": 0.9}
"""Mean probability that a retry is right, by the words that it reads; half of it comes from the task."""
HELPFUL = 0.5
"""Share of its reflections that say what to change."""
BUSY, REFUSES, EMPTY = 0.02, 0.004, 0.006
WAIT = 0.05
"""Seconds in Retry-After."""
MUTANTS = 12
BLOCK = re.compile(r"^(`{3,})(?:python)?\n(.*?)\n\1$", re.MULTILINE | re.DOTALL)
STATEMENT = re.compile(r"^(?:Cause|Error|Change|Action|Insight|[A-Z][a-z ]+): (.+)$", re.MULTILINE)
OWN = "handle the values of the failing check before the general case"
VAGUE = "read the task again with more care and write the function anew"
DETAILS = (
    "the loop compares with the wrong bound",
    "the accumulator starts from the wrong value",
    "an early return skips the rest of the list",
    "the condition is tested before the value is converted",
    "the last element is never reached",
    "the comparison ignores the case that the docstring names",
    "the index is advanced twice in one branch",
)
PROSE = ("Here is the completed function:\n\n", "Sure! Here is the function:\n\n", "", "", "")
NO_SCHEMA = {
    "message": "Invalid parameter: 'response_format' of type 'json_schema' is not supported with this model.",
    "type": "invalid_request_error", "param": "response_format", "code": None,
}  # fmt: skip
RATE_LIMIT = {"message": "Rate limit reached", "type": "requests", "param": None, "code": "rate_limit_exceeded"}


class Student:
    """The model behind the server. Thread-safe."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = {task.prompt.strip(): task for task in tasks}
        self._drafts = cache(self._drafted)

    def reply(self, prompt: str, draw: random.Random) -> str:
        """A reflection, or a fenced program. Raises LookupError: the prompt has no task of HumanEval."""
        if "ROOT_CAUSE" in prompt:
            return _reflection(draw)
        blocks = [match[2].strip() for match in BLOCK.finditer(prompt)]
        task = next((self._tasks[block] for block in blocks if block in self._tasks), None)
        if task is None:
            raise LookupError(prompt[:200])
        is_right = draw.random() < self.chance(task, prompt)
        whole = task.canonical_program
        program = without_docstrings(whole, task.prompt) if draw.random() < 0.5 else whole
        if not is_right:
            program = draw.choice(self._drafts(task.loop_id, whole))
        return f"{draw.choice(PROSE)}```python\n{program.strip()}\n```"

    def chance(self, task: Task, prompt: str) -> float:
        """Probability that the next program is right."""
        skill = random.Random(f"own_words_api:{task.loop_id}").betavariate(*FIRST)
        after = prompt.partition("\nAttempt ")[2]
        if not after:
            return skill
        mean = REPAIR[kind_of_words(after, task)]
        return min(mean * (0.5 + skill / (FIRST[0] / sum(FIRST)) / 2), 0.98)

    @staticmethod
    def _drafted(loop_id: str, program: str) -> list[str]:
        """Wrong drafts: the program with one mistake."""
        first = program.count("\n", 0, program.rfind('"""')) + 1
        drafts = [mutant.program for mutant in mutants(program, first, MUTANTS, random.Random(loop_id))]
        return drafts or ["def unfinished():\n    pass"]


def kind_of_words(after: str, task: Task) -> str:
    """Kind of the newest words in the part of a prompt that follows the first mention of an attempt."""
    newest = after.rpartition("\nAttempt ")[2]
    if "must be exactly this" in newest:
        return "quoted"
    text = " ".join(STATEMENT.findall(newest))
    if not text:
        return "none"
    if OWN in text:
        return "own"
    if VAGUE in text:
        return "vague"
    words = re.findall(r"[a-z]+", text.casefold())
    return "filler" if sum(word in WORDS for word in words) > len(words) / 2 else "other"


def _reflection(draw: random.Random) -> str:
    cause, symptom = draw.sample(DETAILS, 2)
    change = OWN if draw.random() < HELPFUL else VAGUE
    return (
        f"ROOT_CAUSE: My mistake is that {cause}.\nWHAT_WENT_WRONG: The check failed because {symptom}.\n"
        f"WHAT_TO_CHANGE: In my function I will {change}.\nCONFIDENCE: {draw.choice((0.7, 0.8, 0.9))}"
    )


class Stub(ThreadingHTTPServer):
    """The server, on a port of the loopback; use as a context manager. `requests`: answered ones by digest."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, port: int = 0, tasks: Sequence[Task] | None = None) -> None:
        self.student = Student(tasks or humaneval().tasks)
        self.requests, self.busy, self._lock = Counter[str](), 0, threading.Lock()
        self._sent = Counter[str]()
        super().__init__(("127.0.0.1", port), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"

    def answer(self, raw: bytes) -> tuple[int, dict[str, Any], dict[str, str]]:
        """Status, body and further headers."""
        body, digest = json.loads(raw), hashlib.sha256(raw).hexdigest()
        if body.get("response_format", {}).get("type") == "json_schema":
            return 400, {"error": NO_SCHEMA}, {}
        with self._lock:
            self._sent[digest] += 1
            nth = self._sent[digest]
        if random.Random(f"{digest}:{nth}").random() < BUSY:
            with self._lock:
                self.busy += 1
            return 429, {"error": RATE_LIMIT}, {"Retry-After": str(WAIT)}
        with self._lock:
            self.requests[digest] += 1
        return 200, self._completion(body, random.Random(digest)), {}

    def _completion(self, body: dict[str, Any], draw: random.Random) -> dict[str, Any]:
        prompt = "\n\n".join(message["content"] for message in body["messages"])
        text, luck = self.student.reply(prompt, draw), draw.random()
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if luck < REFUSES:
            message |= {"content": None, "refusal": "I'm sorry, but I can't assist with that request."}
        elif luck < REFUSES + EMPTY:
            message["content"] = ""
        longest = body.get("max_tokens") or body.get("max_completion_tokens") or 4096
        count, end = tokens(message["content"] or message["refusal"] or ""), "stop"
        if count > longest:
            message["content"], count, end = text[: 4 * longest], longest, "length"
        prompted = sum(tokens(part["content"]) + 4 for part in body["messages"]) + 3
        return {
            "id": "chatcmpl-rehearsal", "object": "chat.completion", "model": body["model"],
            "system_fingerprint": "fp_rehearsal",
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": end}],
            "usage": {"prompt_tokens": prompted, "completion_tokens": count, "total_tokens": prompted + count},
        }  # fmt: skip

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


def tokens(text: str) -> int:
    """About as many tokens as a tokenizer of code counts."""
    return -(-len(text) // 4)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Stub

    def do_GET(self) -> None:
        rows = [{"id": name, "object": "model", "created": 0, "owned_by": "system"} for name in MODELS]
        self._send(200, {"object": "list", "data": rows}, {})

    def do_POST(self) -> None:
        self._send(*self.server.answer(self.rfile.read(int(self.headers["Content-Length"]))))

    def _send(self, status: int, body: dict[str, Any], headers: dict[str, str]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:  # the client has gone
            self.close_connection = True

    def log_message(self, *parts: object) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m experiments.own_words_api.stub", description=__doc__)
    parser.add_argument("--port", type=int, default=8010)
    with Stub(parser.parse_args().port) as stub:
        print(f"OPENAI_BASE_URL={stub.url}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
