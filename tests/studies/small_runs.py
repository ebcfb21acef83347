"""Small runs of a scripted model, and a server of chat completions."""

import json
import threading
from contextlib import closing, contextmanager

from model_server import ModelServer, completion

from reflexion_lab.records import Item
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.storage.place import opened

REFLECTION = "ROOT_CAUSE: a\nWHAT_WENT_WRONG: b\nWHAT_TO_CHANGE: {0}\nCONFIDENCE: 0.5\n"
NEVER_PASSES = [
    {"when": "ROOT_CAUSE", "reply": REFLECTION.format("c")},
    {"when": "What to change", "scope": "conversation", "reply": "\n    return 0\n"},
    {"when": "", "scope": "conversation", "reply": "\n    return None\n"},
]


def script(folder, rules=NEVER_PASSES):
    """The file of a scripted model's rules, below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "script.json").write_text(json.dumps(rules))
    return folder / "script.json"


def run_lab(cfg, before=lambda lab: None):
    """Run the experiment of `cfg`, without summary and tracker, and close its lab, which `before` gets first."""
    with closing(assemble(cfg)) as lab:
        before(lab)
        lab.runner.run()
    return lab


def stored_items(place):
    """The ids of the items of the store at `place` that have not been removed."""
    with closing(opened(place)) as store:
        return {item.item_id for item in store.read(Item) if item.text}


@contextmanager
def chat_server(reply):
    """A server with its `requests`. `reply`: from a request to the fields of its completion, `text` among them."""
    counting = threading.Lock()

    def respond(request, _):
        with counting:
            server.requests.append(request)
            fields = reply(request)
        return 200, completion(fields.pop("text"), (9, 9), request["model"]) | fields

    with ModelServer(respond) as server:
        server.requests = []
        yield server
