"""The lab in real kernels: inside a running event loop, interrupted, reloaded, and without widgets."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 240
"""For anything at all, on a machine with much else to do."""
RULES = [
    {"when": "ROOT_CAUSE", "reply": "ROOT_CAUSE: a slip\nWHAT_WENT_WRONG: x\nWHAT_TO_CHANGE: y\nCONFIDENCE: 0.5\n"},
    {"when": "", "reply": "    return None\n"},
]
BEGIN = """
import asyncio, hashlib, msgspec
import reflexion_lab as rl
from reflexion_lab.analysis.summary import canonical_form
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.runner.folder.folder import folders
asyncio.get_running_loop()
made, complete = [], ScriptedModel.complete
def counted(self, *args, **kwargs):
    made.append(1)
    return complete(self, *args, **kwargs)
ScriptedModel.complete = counted
common = {"model": "scripted", "model.path": "rules.json", "benchmark.limit": 8, "loop.max_attempts": 2}
common |= {"tracker": "none", "model.seconds": 0.15, "loop.stuck_after": None, "workers": 2, "sandbox.servers": 1}
def told(*runs):
    forms = [msgspec.json.encode(canonical_form(Log.read(folder))) for folder in folders(*runs)]
    return [hashlib.sha256(form).hexdigest() for form in forms]
"""


class Kernel:
    """A kernel of its own in a folder of its own."""

    def __init__(self, folder, package=ROOT, **variables):
        from jupyter_client.manager import KernelManager  # every process that collects would import it

        (folder / "rules.json").write_text(json.dumps(RULES))
        paths = [str(package), *filter(None, [os.environ.get("PYTHONPATH")])]
        home = {"IPYTHONDIR": str(folder / "ipython"), "PYTHONPATH": os.pathsep.join(paths), "TQDM_MININTERVAL": "0"}
        self.manager = KernelManager()
        self.manager.start_kernel(cwd=str(folder), env={**os.environ, **home, **variables})
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=SECONDS)

    def send(self, code):
        return self.client.execute(code)

    def reply(self, sent):
        """The reply to a cell that was sent, and all that it put out."""
        messages = []
        while True:
            message = self.client.get_iopub_msg(timeout=SECONDS)
            if message["parent_header"].get("msg_id") != sent:
                continue
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
            messages.append(message)
        while (reply := self.client.get_shell_msg(timeout=SECONDS))["parent_header"].get("msg_id") != sent:
            pass
        return reply["content"], messages

    def run(self, code):
        """What a cell says: its streams, its result by type."""
        reply, messages = self.reply(self.send(code))
        assert reply["status"] == "ok", "\n".join(reply.get("traceback", []))
        text = "".join(message["content"]["text"] for message in messages if message["msg_type"] == "stream")
        data = {}
        for message in messages:
            if message["msg_type"] in ("execute_result", "display_data"):
                data |= message["content"]["data"]
        return text, data

    def interrupt_when(self, code, is_time):
        sent = self.send(code)
        deadline = time.monotonic() + SECONDS
        while not is_time():
            assert time.monotonic() < deadline, "it never came so far"
            time.sleep(0.01)
        self.manager.interrupt_kernel()
        reply, _ = self.reply(sent)
        assert (reply["status"], reply.get("ename")) == ("error", "KeyboardInterrupt"), reply

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(tmp_path):
    kernels = []

    def start(**options):
        kernels.append(Kernel(tmp_path, **options))
        return kernels[-1]

    yield start
    for each in kernels:
        each.close()


def lines(folder, pattern):
    return sum(path.read_bytes().count(b"\n") for path in folder.glob(pattern))


@pytest.mark.slow
def test_an_interrupted_run_resumes_in_the_same_kernel(kernel, tmp_path):
    k = kernel()
    k.run(BEGIN)
    whole, _ = k.run("print(told(rl.run(common, 'run_root=whole', quiet=True)), len(made))")
    k.run("made.clear()")
    k.interrupt_when("rl.run(common, 'run_root=cut')", lambda: lines(tmp_path, "cut/*/attempts.jsonl") >= 3)
    (folder,) = (path for path in (tmp_path / "cut").iterdir() if path.is_dir())
    assert 3 <= lines(tmp_path, "cut/*/attempts.jsonl") < 16
    resumed, _ = k.run(f"print(told(rl.run(common, 'run_root=cut', 'resume={folder}', quiet=True)), len(made))")
    assert resumed == whole


@pytest.mark.slow
@pytest.mark.soak
def test_an_interrupted_sweep_goes_on_with_the_same_call(kernel, tmp_path):
    k = kernel()
    k.run(BEGIN)
    k.run("grid = common | {'seed': [0, 1]}")
    whole, _ = k.run("print(told(rl.sweep(grid | {'run_root': 'whole'}, quiet=True)), len(made))")
    k.run("made.clear()")
    k.interrupt_when("rl.sweep(grid | {'run_root': 'cut'})", lambda: lines(tmp_path, "cut/2*/attempts.jsonl") >= 19)
    _, display = k.run("made_before = rl.sweep(grid | {'run_root': 'cut'}, quiet=True)\nmade_before")
    assert "2 cells: 1 kept, 1 done" in "".join(display["text/html"])
    text, _ = k.run("print(told(made_before), len(made))")
    assert text == whole


@pytest.mark.slow
@pytest.mark.soak
def test_autoreload_leaves_what_was_made_before_usable(kernel, tmp_path):
    """A whole module is executed again; objects of its old classes still show themselves, and compare with new ones."""
    for part in ("reflexion_lab", "conf"):
        shutil.copytree(ROOT / part, tmp_path / "copy" / part, ignore=shutil.ignore_patterns("__pycache__"))
    k = kernel(package=tmp_path / "copy")
    k.run("%load_ext autoreload\n%autoreload 2")
    k.run(BEGIN)
    k.run("common |= {'model.seconds': 0, 'benchmark.limit': 3, 'run_root': 'r'}")
    k.run("old = rl.run(common, 'arm=old', quiet=True); table = rl.runs('r'); sweep = rl.sweep(common, quiet=True)")
    k.run("both = rl.compare(old, old); look = rl.explore(old); seen = old.attempts(old.task_ids[0])")
    for name in (
        "records/attempt", "records/__init__", "runner/folder/folder", "analysis/report/sheets", "notebook/run",
        "notebook/compare", "notebook/explore",
    ):  # fmt: skip
        path = tmp_path / "copy" / "reflexion_lab" / f"{name}.py"
        path.write_text(f"{path.read_text()}\nRELOADED = True\n")
        os.utime(path, (time.time() + 10,) * 2)
    k.run("new = rl.run(common, 'arm=new', quiet=True)")
    output, _ = k.run(
        "import reflexion_lab.records, reflexion_lab.analysis.report.sheets\nprint(reflexion_lab.records.RELOADED)"
    )
    assert output == "True\n"
    for name, part in {
        "old": "pass@1", "table": "1 run", "sweep": "1 cell", "both": "pass@1", "look": "3 tasks",
    }.items():  # fmt: skip
        _, display = k.run(name)
        assert part in "".join(display.get("text/html", display["text/plain"])), name
    _, display = k.run("rl.compare(old, new)")
    assert "Difference to old" in "".join(display["text/html"])
    k.run("rl.view(seen); rl.load(old, new).attempts")


@pytest.mark.slow
def test_without_ipywidgets_progress_and_explorer_are_text(kernel):
    k = kernel()
    k.run("import sys; sys.modules['ipywidgets'] = None")
    k.run(BEGIN)
    text, _ = k.run("made = rl.run(common, 'model.seconds=0.05', 'run_root=r'); None")
    assert "task" in text and "Traceback" not in text
    assert "Warning" not in text
    text, display = k.run("rl.explore(made)")
    assert "pip install 'reflexion_lab[notebooks]'" in "".join(display["text/plain"])
    assert "8 tasks" in "".join(display["text/html"])


@pytest.mark.slow
def test_plain_ipython_shows_text(tmp_path):
    (tmp_path / "rules.json").write_text(json.dumps(RULES))
    code = f"{BEGIN.replace('asyncio.get_running_loop()', '')}\ncommon |= {{'model.seconds': 0}}\n"
    code += (
        "run = rl.run(common, quiet=True)\nfor one in (run, rl.runs(), rl.compare(run), rl.explore(run)): display(one)"
    )
    home = {"IPYTHONDIR": str(tmp_path / "ipython"), "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, "-m", "IPython", "--no-banner", "--colors=nocolor", "-c", code]
    process = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **home}, capture_output=True, text=True, timeout=SECONDS, check=True
    )
    for part in ("pass@1 0.0 % [", "1 run", "Repairs and feedback errors", "8 not solved", "✗✗"):
        assert part in process.stdout, process.stdout
    assert " object at 0x" not in process.stdout and "<div" not in process.stdout
