"""Notebooks are executed, offline, as they stand; their committed outputs are what a reader sees first."""

import ast
import html
import importlib
import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SAID = {
    "02_reflections_llm_and_rules": [
        "written by the model", "Control instead of a reflection", "Clover breeze pond paddle plum, orchard",
        "no_credit | It blames no line, decision or name of the program. | ⚑ | | ⚑ | ⚑ | ⚑ | ⚑ |",
        "return None.strip() | AttributeError | null | ✓ null | ✗ import | ✗ unknown",
        "Right: lab 11, ten keywords 5, six keywords 1, of 11.", "shuffled: control:shuffled", "llm_json: llm",
        "stated: 8 forecasts, mean confidence 0.00, came true 0",
        "simulated: honest | 300 | 0.48 | 145 | 0.187 | 0.250 | 0.045",
    ],
    "07_wisdom": [
        " of 12 solved\nwith wisdom: ",
        "My program is not valid Python, or it uses a name that is defined nowhere.",
        "# Causes of failure that have come back:\n# - The logic of my program computes something other",
        "the runs differ in: arm, loop, memory, store",
        "jaccard | 2 | 2 | 18 | 18",
        "a book of 4",
    ],
}  # fmt: skip
"""What the committed outputs of notebooks with a real model must say."""

STAND_IN = {
    "02_reflections_llm_and_rules": (
        "model=scripted model.path=02_script.json actor=continuation",
        [
            "The function returns None, since its body does nothing yet",
            "Right: lab 11, ten keywords 5, six keywords 1, of 11.",
            "llm | 12 | 12 | 0 of 12 | 0 of 12",
            "this run: stated | 12 | 0.90 | 0 | 0.810 | 0.810 | 0.000",
        ],
    ),
    "07_wisdom": (
        "model=simulated actor=single_shot model.first=0",
        [
            "Causes of failure that have come back:\n- My program applies an operation to a value",
            "wisdom entries read at least once: 100.0 %",
            "jaccard | 0 | 0 | 18 | 18",
            "random | 18 | 18 | 18 | 18",
        ],
    ),
}
"""Models in the place of a real one, and what these notebooks say with them."""
RECORDED = {"01_audit_published_logs", "03_retrieval_compared"}
"""Notebooks that read the recorded runs."""
EACH_TIME = ("00", "05", "07", "08", "09", "10")
"""Notebooks that `make test-slow` executes; `make soak` executes the others, too."""
TAGS = re.compile(r"<style.*?</style>|<[^>]+>", re.DOTALL)
TABLE = re.compile(r"<table.*?</table>", re.DOTALL)
VOLATILE = re.compile(
    r"\b\d{8}-\d{6}(?:-\d{1,6})?\b"  # the start of a run, in its name, cut where it is unique
    r"|\b(?=\d*[a-f])(?=[a-f]*\d)[0-9a-f]{8,64}\b"  # a digest
    r"|(?<![\w.])\d[\d.,]*(?= (?:s|ms|kB)\b)"  # times, sizes of archives
    r"|(?<=Figure size )\d+x\d+"  # fonts
)
"""What two executions may print differently."""
BAR = re.compile(r" *\d+%\|.*\| \d+/\d+ \[.*\] *$")  # of progress, which only a slow machine draws
EXECUTED = [
    pytest.param(path, id=path.stem, marks=[] if path.stem.startswith(EACH_TIME) else pytest.mark.soak)
    for path in NOTEBOOKS
]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture
def home(tmp_path, monkeypatch):
    """Nothing is read from this user's settings, and nothing is left there."""
    for name in ("HOME", "TMPDIR", "IPYTHONDIR", "MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / "jupyter" / name))
    monkeypatch.delenv("JUPYTER_PATH", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture(scope="session")
def nbformat():
    """The package. Imported where it is used: a second of every process that collects would go into it."""
    return importlib.import_module("nbformat")


@pytest.fixture
def notebook(nbformat, path):
    """The notebook of `path` as it is committed."""
    return nbformat.read(path, as_version=4)


def execute(notebook, folder):
    """Run every cell in a kernel of its own; a failure names the cell and the line."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=1800, kernel_name="python3", resources=resources, coalesce_streams=True)
    try:
        client.execute()
    except CellExecutionError as error:
        where = re.search(r"Cell In\[(\d+)\], line (\d+)", re.sub(r"\x1b\[[\d;]*m", "", error.traceback))
        cell, line = where.groups() if where else ("?", "?")
        pytest.fail(f"In [{cell}], line {line}: {error.ename}: {error.evalue}", pytrace=False)
    return notebook


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook):
    """Everything that the cells put out, as text."""
    items = [output for cell in code_cells(notebook) for output in cell.outputs]
    streams = [output.text for output in items if output.output_type == "stream" and output.name == "stdout"]
    texts = [text for output in items for text in output.get("data", {}).values() if isinstance(text, str)]
    return "\n".join(streams + texts)


def missing(notebook, sentences):
    """Those which no output holds; spaces in a row count as one, since tables are padded."""
    text = re.sub(" +", " ", outputs(notebook).replace("&#39;", "'"))
    return [sentence for sentence in sentences if re.sub(" +", " ", sentence) not in text]


def untimed(table):
    """A table in HTML without its last column, if that has seconds."""
    return re.sub(r"<td[^>]*>[^<]*</td></tr>", "</tr>", table[0]) if ">seconds</th></tr>" in table[0] else table[0]


def visible(notebook):
    """What a reader sees below each cell, a line each of its prints and cells of tables."""
    seen = {}
    for number, cell in enumerate(code_cells(notebook), 1):
        for output in cell.outputs:
            data = output.get("data", {})
            text = html.unescape(TAGS.sub("\n", TABLE.sub(untimed, data.get("text/html", ""))))
            text = text or data.get("text/plain") or output.get("text", "")
            lines = VOLATILE.sub("…", re.sub(r"\x1b\[[\d;]*[mA-K]", "", text)).splitlines()
            lines = [" ".join(line.split()) for line in lines if line.strip() and not BAR.match(line)]
            if lines:
                seen.setdefault(f"In [{number}]", []).extend(lines)
    return seen


@pytest.mark.parametrize("path", EXECUTED)
@pytest.mark.slow
def test_a_notebook_shows_what_is_committed(notebook, path, home, monkeypatch, request):
    assert missing(notebook, SAID.get(path.stem, [])) == []
    if path.stem in RECORDED:
        monkeypatch.setenv("REFLEXION_LAB_DATA", str(request.getfixturevalue("recorded_runs").resolve()))
    if path.stem in STAND_IN:
        model, expected = STAND_IN[path.stem]
        monkeypatch.setenv("REFLEXION_LAB_MODEL", model)
        assert missing(execute(notebook, path.parent), expected) == []
    else:
        committed = visible(notebook)
        assert visible(execute(notebook, path.parent)) == committed


def test_a_changed_word_or_number_of_a_committed_output_is_seen_and_a_time_is_not(nbformat):
    notebook = nbformat.read(ROOT / "notebooks" / "09_from_sweep_to_paper.ipynb", as_version=4)
    committed = visible(notebook)
    stored = nbformat.writes(notebook)
    changes = {
        ">73.3 [55.6, 85.8]<": ">73.4 [55.6, 85.8]<",
        "model calls: ": "calls of the model: ",
        "of simulated studies detect 20 points": "of simulated studies detect 21 points",
    }
    for before, after in changes.items():
        assert before in stored
        assert visible(nbformat.reads(stored.replace(before, after), as_version=4)) != committed
    later = re.sub(r"\b2\d{7}-\d{6}-\d{6}\b", "20300101-000000-000000", stored)
    later = re.sub(r"(>seconds</th></tr></thead><tbody>.*?)<td([^>]*)>\d+</td></tr>", r"\1<td\2>99</td></tr>", later)
    assert later != stored
    assert visible(nbformat.reads(later, as_version=4)) == committed
    bars = "\r  0%|          | 0/3 [00:00<?, ?task/s]\r 33%|███▎      | 1/3 [00:00<00:00,  4.22task/s]\r"
    streams = (nbformat.v4.new_output("stream", name="stderr", text=text) for text in (bars, f"{bars}warning: cut"))
    for stream, is_seen in zip(streams, (False, True), strict=True):
        code_cells(notebook)[2].outputs.append(stream)
        assert (visible(notebook) != committed) is is_seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("01_audit_published_logs", "0 of 6 logs found: set REFLEXION_LAB_DATA, or name logs of your own"),
        ("03_retrieval_compared", "0 of 3 files found: set REFLEXION_LAB_DATA, or name files of your own"),
    ],
)
def test_a_notebook_without_its_data_says_so(nbformat, name, message, home, monkeypatch, tmp_path):
    monkeypatch.setenv("REFLEXION_LAB_DATA", str(tmp_path))
    path = ROOT / "notebooks" / f"{name}.ipynb"
    executed = execute(nbformat.read(path, as_version=4), path.parent)
    assert missing(executed, [message]) == []


def test_committed_outputs_are_whole_and_free_of_this_machine(nbformat, notebook, path):
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [output for cell in cells for output in cell.outputs if output.output_type == "error"]
    assert not [output for cell in cells for output in cell.outputs if output.get("name") == "stderr"]
    assert cells[-1].outputs
    assert re.findall(r"/(?:home|root|work|tmp|usr|opt|mnt|private|Users)/\S*", path.read_text()) == []
    assert (notebook.metadata.kernelspec.name, notebook.metadata.language_info) == ("python3", {"name": "python"})


def test_cells_are_short_define_nothing_and_follow_a_sentence(notebook):
    from IPython.core.inputtransformer2 import TransformerManager

    cells = notebook.cells
    assert cells[0].cell_type == "markdown"
    assert cells[0].source.startswith("# ")
    for before, cell in pairwise(cells):
        if cell.cell_type == "code":
            defined = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
            code = TransformerManager().transform_cell(cell.source)  # what a cell writes to a file is text to it
            assert not [node for node in ast.walk(ast.parse(code)) if isinstance(node, defined)], cell.source
            assert len(cell.source.splitlines()) <= 15, cell.source
            assert before.cell_type == "markdown", cell.source
            assert before.source.rstrip()[-1] in ".:?!", before.source


def test_parameters_stand_in_the_first_code_cell(notebook):
    first = ast.parse(code_cells(notebook)[0].source).body
    names = [target.id for node in first if isinstance(node, ast.Assign) for target in node.targets]
    assert all(isinstance(node, ast.Assign | ast.Import | ast.ImportFrom) for node in first)
    assert names
    assert all(name.isupper() for name in names)


def test_a_failure_names_its_cell_and_line_in_the_interpreter_that_tests_it(nbformat, tmp_path, home):
    v4 = nbformat.v4
    asking = v4.new_code_cell("import sys; print(sys.prefix)\nx = 0")
    broken = v4.new_notebook(cells=[asking, v4.new_markdown_cell("And then:"), v4.new_code_cell("y = x\n1 / y")])
    with pytest.raises(pytest.fail.Exception, match=r"In \[2\], line 2: ZeroDivisionError: division by zero"):
        execute(broken, tmp_path)
    assert outputs(broken).strip() == sys.prefix


def test_there_is_a_notebook_to_run():
    assert {path.stem for path in NOTEBOOKS} > set(SAID)
