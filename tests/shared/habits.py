"""Servers of the chat protocol that refuse a parameter, each in its own words: `HABITS[name](body)` is the status and
the body of the refusal, or None for a request that the server takes. `served` makes a server's `respond` of it.
"""

import json
from pathlib import Path

import yaml
from model_server import completion, wrong_answer

KNOWN = yaml.safe_load((Path(__file__).parents[1] / "agent/models/refusals.yaml").read_text(encoding="utf-8"))
"""What servers say, by kind."""
FORMS = KNOWN["forms"]


def body_of(form, text):
    """The body of an error that says `text`, in one of the `FORMS`."""
    quoted = json.dumps(json.dumps({"error": {"code": 400, "message": text}}))
    if FORMS[form] == "SAYS":
        return text.encode()
    return json.dumps(FORMS[form]).replace('"QUOTED"', quoted).replace('"SAYS"', json.dumps(text)).encode()


def openai(message, param, code="unsupported_parameter"):
    return 400, {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}


def o_series(body):
    """OpenAI's reasoning models: `max_completion_tokens`, the default temperature alone, no `stop`, no `top_p`."""
    if "max_tokens" in body:
        text = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        return openai(text, "max_tokens")
    if body.get("temperature", 1) != 1:
        text = f"Unsupported value: 'temperature' does not support {body['temperature']} with this model."
        return openai(f"{text} Only the default (1) value is supported.", "temperature", "unsupported_value")
    refused = next((name for name in ("stop", "top_p") if name in body), None)
    return refused and openai(f"Unsupported parameter: '{refused}' is not supported with this model.", refused)


def forbidding(*names):
    """Servers with a closed list of fields, such as Mistral's: every other one is named, without its message."""

    def respond(body):
        extra = [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs are not permitted"}
                 for name in names if name in body]  # fmt: skip
        return (422, {"object": "error", "message": {"detail": extra}}) if extra else None

    return respond


def tgi(body):
    """Hugging Face's server: `top_p` below 1, a temperature above 0."""
    if body.get("top_p", 0.5) >= 1:
        return 422, {"error": "Input validation error: `top_p` must be > 0.0 and < 1.0", "error_type": "validation"}
    if body.get("temperature") == 0:
        return 422, {
            "error": "Input validation error: `temperature` must be strictly positive",
            "error_type": "validation",
        }
    return None


def either(body):
    """Anthropic's newer models: a temperature or `top_p`."""
    text = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
    both = {"temperature", "top_p"} <= body.keys()
    return (400, {"type": "error", "error": {"type": "invalid_request_error", "message": text}}) if both else None


HABITS = {
    "o_series": o_series, "mistral": forbidding("seed"), "closed": forbidding("seed", "stop", "top_p"), "tgi": tgi,
    "either": either,
}  # fmt: skip


def served(habit, bodies, answer=wrong_answer, thoughts=0):
    """A server's `respond` with a habit; `bodies` receives each request and whether it was refused. Each reply has so
    many tokens of hidden reasoning first, and is empty if they reach its limit.
    """

    def respond(body, headers):
        refusal = habit(body)
        bodies.append((body, bool(refusal)))
        text = answer("\n".join(message["content"] for message in body["messages"]))
        is_cut = thoughts >= body.get("max_completion_tokens", body.get("max_tokens", thoughts + 1))
        finish = {"text": "", "finish_reason": "length"} if is_cut else {"text": text}
        return refusal or (200, completion(**finish, tokens=(10, thoughts + 5), model=body["model"]))

    return respond
