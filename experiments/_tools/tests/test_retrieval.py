"""Probe sets: who asks, what is in the pool, and what of it is relevant; and recorded loops as episodes."""

import csv
import gzip
import io
import json

import pytest
from rich.console import Console

from experiments._tools import retrieval as command
from experiments._tools.contestants import NAMES, contestants
from experiments._tools.probes import VIEWS, documents, known, probes, queries
from experiments._tools.recollected import Recollected, recollect
from experiments._tools.retrieval_cases import read_cases
from experiments._tools.retrieval_report import (
    METHOD,
    as_rows,
    contents,
    draw,
    gained,
    ndcg_sheet,
    reached,
    save,
    show,
    speeds,
)
from experiments._tools.retrievers_compared import compare
from reflexion_lab.audit.transcripts import Feedback
from reflexion_lab.memory.retrieval.texts import query
from reflexion_lab.protocols import Hit
from reflexion_lab.records import Task
from reflexion_lab.runner.config.compose import compose
from tests import builders

FILES = ("agentevals_reflexion_humaneval", "cray_deepseek_humaneval", "noah_ucs_humaneval_gpt4", "noah_mbpp_gpt4")


def episode(task, model, category, number=1, prompt="", code="", words="", error=""):
    return builders.episode(
        number,
        agent_id=model,
        task_id=task,
        task_description=prompt or f"def {task}(x): about {task}",
        code=code,
        failure_analysis=error or f"{category} error",
        reflection=builders.reflection(category=category, text=words),
        metadata={"entry_point": task},
    )


EPISODES = (
    episode("add", "gpt", "assertion"),
    episode("add", "gpt", "assertion", number=2),
    episode("add", "deep", "syntax"),
    episode("cut", "gpt", "syntax"),
    episode("cut", "deep", "assertion"),
    episode("own", "gpt", "timeout"),
)


class Overlap:
    """The tiny Jaccard that stands for a retriever here."""

    def __init__(self):
        self.bags = []

    def add(self, texts):
        self.bags += [set(text.split()) for text in texts]

    def forget(self, before):
        raise NotImplementedError

    def rank(self, query, k):
        words = set(query.split())
        scores = [len(words & bag) / len(words | bag) for bag in self.bags]
        return sorted((Hit(n, s) for n, s in enumerate(scores) if s), key=lambda hit: (-hit.score, -hit.number))[:k]


class Backwards(Overlap):
    """Finds the same, the worst first."""

    def rank(self, query, k):
        return super().rank(query, len(self.bags))[::-1][:k]


def probe_of(name):
    probe = next(probe for probe in probes(EPISODES) if probe.name == name)
    return probe, {
        question.number: (set(question.relevant), set(range(6)) - set(question.excluded))
        for question in probe.questions
    }


def test_same_task_is_relevant_only_among_other_models():
    probe, questions = probe_of("same task")
    assert questions == {
        0: ({2}, {2, 4}),
        1: ({2}, {2, 4}),
        2: ({0, 1}, {0, 1, 3, 5}),
        3: ({4}, {2, 4}),
        4: ({3}, {0, 1, 3, 5}),
    }
    assert probe.alone == 1  # nobody else met `own`
    assert probe.chance == pytest.approx((1 / 2 + 1 / 2 + 2 / 4 + 1 / 2 + 1 / 4) / 5)


def test_same_class_is_relevant_only_in_other_tasks_and_nothing_to_itself():
    probe, questions = probe_of("same class")
    assert questions == {
        0: ({4}, {3, 4, 5}),
        1: ({4}, {3, 4, 5}),
        2: ({3}, {3, 4, 5}),
        3: ({2}, {0, 1, 2, 5}),
        4: ({0, 1}, {0, 1, 2, 5}),
    }
    assert probe.alone == 1
    probe, questions = probe_of("rare class")  # those of the most common class are not rare
    assert set(questions) == {2, 3}
    assert "assertion" in probe.asks
    for question in (question for probe in probes(EPISODES) for question in probe.questions):
        assert question.number in question.excluded and not question.excluded & question.relevant


def test_the_labs_own_texts_are_those_of_its_memory():
    record = episode("add", "gpt", "type", prompt="def add(x): ...", code="def add(x): return 1", error="TypeError")
    task = Task(task_id="add", prompt=record.task_description, entry_point="add")
    for match in ("task", "task_error", "task_code"):
        assert queries([record], match) == documents([record], match) == [query(task, [record], match)], match


def test_programs_are_compared_without_docstring_and_name():
    code = 'def add_up(x):\n    """Add up the numbers."""\n    return add_up_all(x) + add_up(x)'
    [text] = documents([episode("add_up", "gpt", "type", prompt="Say hello", code=code, error="TypeError")], "program")
    assert text.startswith("TypeError\ndef f(x):")
    assert "hello" not in text
    assert "numbers" not in text
    assert "add_up_all(x) + f(x)" in text


def test_words_compare_the_prompt_with_the_reflection():
    record = episode("add_up", "gpt", "type", prompt="def add_up(x): sum", code="secret", words="`add_up` forgot zero")
    assert (queries([record], "words"), documents([record], "words")) == (["def f(x): sum"], ["`f` forgot zero"])


def test_an_unknown_text_is_named():
    for ask in (lambda: known(["task", "prose"]), lambda: documents(EPISODES, "prose")):
        with pytest.raises(ValueError, match="match: got 'prose', expected one of task, task_error"):
            ask()


@pytest.fixture(scope="module")
def compared():
    return compare(EPISODES, {"jaccard": Overlap, "backwards": Backwards}, ("task", "task_error"), k=2, quiet=True)


def test_a_better_ranking_scores_higher_in_every_view(compared):
    good, bad = (compared.cell("same task", "task", name) for name in ("jaccard", "backwards"))
    assert good.quality.ndcg.value == 1.0
    assert compared.minus(good, bad).value == pytest.approx(good.quality.ndcg.value - bad.quality.ndcg.value)
    assert compared.minus(good, bad).value > 0
    # Episode 1 shares every word with 0, and both are of the asking model: 2 comes first all the same.
    answers = compared.cell("same task", "task", "jaccard").answers
    assert [answer.reciprocal_rank for answer in answers] == [1.0] * 5
    sizes = {probe.name: len(probe.questions) for probe in compared.probes}
    assert len(compared.cells) == 3 * 2 * 2
    assert all(cell.quality.queries == len(cell.answers) == sizes[cell.probe] for cell in compared.cells)
    assert {(speed.retriever, speed.match) for speed in compared.speeds} == {
        (name, view) for name in ("jaccard", "backwards") for view in ("task", "task_error")
    }


def test_each_timed_query_includes_the_cost_of_a_new_text():
    paid = []
    compare(EPISODES, {"jaccard": Overlap, "free": Overlap}, ("task",), unseen={"jaccard": paid.append}, quiet=True)
    assert paid
    assert set(paid) <= set(queries(EPISODES, "task"))


@pytest.mark.parametrize(
    ("episodes", "retrievers", "views", "k", "message"),
    [
        ((), {"a": Overlap}, ("task",), 5, "episodes: got none"),
        (EPISODES, {}, ("task",), 5, "retrievers: got none"),
        (EPISODES, {"a": Overlap}, (), 5, "views: got none"),
        (EPISODES, {"a": Overlap}, ("task",), 0, "k: got 0"),
        (EPISODES, {"a": Overlap}, ("prose",), 5, "match: got 'prose'"),
    ],
)
def test_what_cannot_be_compared_is_refused(episodes, retrievers, views, k, message):
    with pytest.raises(ValueError, match=message):
        compare(episodes, retrievers, views, k=k, quiet=True)


def test_sheets_hold_the_numbers_of_the_cells(compared):
    sheet = ndcg_sheet(compared, "same task")
    assert sheet.columns == ("retriever", "task", "task_error")
    assert [row[0] for row in sheet.rows] == ["jaccard", "backwards"]
    assert sheet.rows[0][1] == "100.0\n[0, 100]"  # two tasks say nothing
    assert "5 queries on 2 tasks, 1 left out" in sheet.caption
    gains = gained(compared, "same task", over="retriever").rows
    assert gains[0][1:] == ("", "")
    assert gains[1][1].startswith("-")
    assert gained(compared, "same task", over="match").rows[0][1] == ""
    assert reached(compared, "same task").rows[0][1] == "100 %"
    assert [row[0] for row in speeds(compared).rows] == ["jaccard", "backwards"]
    with pytest.raises(ValueError, match="over: got 'task'"):
        gained(compared, "same task", over="task")


def test_a_narrow_terminal_hides_no_figure_and_no_name(compared):
    texts = []
    for width in (20, 200):
        out = io.StringIO()
        show(Recollected(sources=(), episodes=EPISODES, unshown=0), compared, Console(file=out, width=width))
        texts.append(out.getvalue().partition("same task")[2])
    assert "backwards" in texts[0]
    assert texts[0] == texts[1]


def test_a_probe_without_queries_is_reported():
    alone = Recollected(sources=("log",), episodes=EPISODES[:1], unshown=2)
    compared = compare(alone.episodes, {"jaccard": Overlap}, ("task",), quiet=True)
    console = Console(width=100, record=True, file=io.StringIO())
    show(alone, compared, console)
    text = console.export_text()
    assert "same task: no query has a relevant document in its pool" in text
    assert "Left out: 2 reflections" in text
    assert compared.cells == ()


def test_table_and_figure_are_reproducible(compared, tmp_path):
    from matplotlib.figure import Figure

    table, picture = save(compared, ["log.jsonl"], tmp_path)
    rows = list(csv.DictReader(table.open()))
    assert len(rows) == len(compared.cells)
    first, cell = rows[0], compared.cells[0]
    assert float(first["ndcg"]) == round(cell.quality.ndcg.value, 4)
    assert float(first["hit_low"]) == round(cell.quality.hit.low, 4)
    assert (int(first["queries"]), int(first["left_out"])) == (5, 1)
    before = picture.read_bytes()
    save(compared, ["log.jsonl"], tmp_path)
    assert picture.read_bytes() == before
    panels = draw(compared, ["log.jsonl"], Figure()).axes
    assert [ax.get_title(loc="left") for ax in panels] == [
        "same task: 5 queries on 2 tasks",
        "same class: 5 queries on 2 tasks",
        "rare class: 2 queries on 2 tasks",
    ]
    items = [text.get_text() for text in panels[0].texts if text.get_gid() == "caption"]
    assert items == [f"6 documents from log.jsonl; seed 0.\n{METHOD}"]


def test_contestants_are_the_labs_retrievers_as_configured():
    for name, make in contestants([name for name in NAMES if name not in ("embedding", "hybrid")]).making.items():
        retriever, node = make(), compose(f"retriever={name}").retriever
        assert node._target_ == f"{type(retriever).__module__}.{type(retriever).__name__}"
    with pytest.raises(ValueError, match="retriever: got 'google', expected one of jaccard"):
        contestants(["google"])


def row(problem, model, attempts):
    test = f"def check(candidate):\n    assert candidate(2) == 4\n\ncheck({problem})\n"
    prompt = f'def {problem}(x):\n    """Work on {problem}."""\n'
    fields = {"prompt": prompt, "test": test, "entry_point": problem, "problem": problem}
    return {**fields, "run": f"{model}/1", "model": model, "attempts": attempts}


def attempt(code, words="it is wrong", feedback="Tests failed:\nassert twice(2) == 4 # output: 2\nand more"):
    return {"code": code, "feedback": feedback, "reflection": words}


@pytest.fixture
def transcripts(tmp_path):
    empty = {"code": "", "feedback": ""}
    computed = {"recomputed_failed": ["assert thrice(2) == 6"]}
    rows = [
        row("twice", "gpt", [attempt("def twice(x):\n    return x"), attempt("def twice(x):\n    return y"), empty]),
        row("twice", "deep", [attempt("def twice(x):\n    return None")]),
        row("thrice", "deep", [attempt("def thrice(x):\n    return z", feedback=computed)]),
        row("right", "deep", [attempt("def right(x):\n    return 4", feedback="Tests failed:\nassert right(2) == 4")]),
        row("silent", "deep", [attempt("def silent(x):\n    return 4", feedback="")]),
    ]
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    return path


def test_recorded_failures_become_episodes_of_the_memory(transcripts):
    read = recollect([transcripts], workers=1)
    assert (read.sources, read.unshown) == (("log.jsonl.gz",), 2)  # one that passes again, one without an assert
    first, second, other, thrice = read.episodes
    assert [episode.category for episode in read.episodes] == ["assertion", "syntax", "assertion", "syntax"]
    assert (first.agent_id, first.task_id, first.attempt_number, second.attempt_number) == ("gpt", "twice", 1, 2)
    assert first.failure_analysis == "fail expected , got"
    assert second.failure_analysis == "NameError name is not defined"
    assert "assert twice(2) == 4" in first.test_results
    assert first.reflection.text == "it is wrong"
    assert first.metadata["entry_point"] == "twice"
    assert not any(episode.passed for episode in read.episodes)
    assert len({episode.episode_id for episode in read.episodes}) == 4
    assert (other.agent_id, thrice.task_id) == ("deep", "thrice")
    assert contents(read).rows[-1] == ("all", "2 assertion, 2 syntax", "4", "2")


def test_a_limit_reads_only_the_first_rows(transcripts):
    assert {episode.agent_id for episode in recollect([transcripts], limit=1, workers=1).episodes} == {"gpt"}
    with pytest.raises(ValueError, match="no reflection in the first 0 rows"):
        recollect([transcripts], limit=0)


def test_a_file_without_reflections_is_named(tmp_path):
    path = tmp_path / "bare.jsonl"
    path.write_text(json.dumps(row("twice", "gpt", [{"code": "x", "feedback": ""}])))
    with pytest.raises(ValueError, match=r"bare\.jsonl: got no reflection, expected transcripts"):
        recollect([path])
    path.write_text('{"attempts": 3}')
    with pytest.raises(ValueError, match=r"bare\.jsonl, line 1, field attempts: got 3, expected a list"):
        recollect([path])


def test_failed_tests_are_read_in_every_form():
    headings = "Tested passed:\nassert f(0)\n\nTests failed:\nassert f(1) == '#' # output: 2\nassert f(2)"
    lists = {"recomputed_failed": ["assert f(1)"], "recomputed_passed": ["assert f(2)"]}
    for feedback, failing in (
        (headings, ("assert f(1) == '#'", "assert f(2)")),
        ("Tests failed:\nself.assertEqual(f(1), 2) # output: 3", ("self.assertEqual(f(1), 2)",)),
        (lists, ("assert f(1)",)),
        *((nothing, ()) for nothing in ({"recomputed_failed": None}, [], None)),
    ):
        assert Feedback.of(feedback).failing == failing, feedback


def test_the_command_prints_probes_and_writes_its_files(transcripts, tmp_path, capsys):
    wanted = ["--retriever", "jaccard", "random", "--match", "task", "task_error", "--out", str(tmp_path / "out")]
    options = command.parser().parse_args([str(transcripts), *wanted, "--json"])
    assert command.retrieval(options) == 0
    output = capsys.readouterr().out
    report = json.loads(output.splitlines()[-1])
    assert (report["documents"], report["tasks"], report["unshown"]) == (4, 2, 2)
    assert {(cell["retriever"], cell["match"]) for cell in report["cells"]} == {
        (name, match) for name in ("jaccard", "random") for match in ("task", "task_error")
    }
    assert "same task: 100 × nDCG@5" in output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "cases.csv.gz",
        "documents.csv",
        "settings.json",
        "speeds.csv",
    ]
    evidence = read_cases(tmp_path / "out")
    assert list(as_rows(evidence.comparison)) == report["cells"]
    assert evidence.settings.unshown == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent.jsonl", "--match", "prose"], "match: got 'prose'"),
        (["absent.jsonl"], "absent.jsonl: got no file, expected transcripts"),
        (["."], "no file, expected transcripts"),
        (["log.jsonl.gz", "--out", "log.jsonl.gz"], "--out: got 'log.jsonl.gz' \\(File exists\\), expected a folder"),
        (["log.jsonl.gz", "--out", "log.jsonl.gz/deeper"], r"\(Not a directory\), expected a folder"),
    ],
)
def test_a_wrong_argument_fails_before_any_execution(transcripts, monkeypatch, arguments, message):
    monkeypatch.chdir(transcripts.parent)
    monkeypatch.setattr("experiments._tools.recollected.recollect", lambda *_, **__: pytest.fail("it ran"))
    options = command.parser().parse_args(arguments)
    with pytest.raises(ValueError, match=message):
        command.retrieval(options)


def test_counts_are_at_least_one(capsys):
    for wrong in (["--k", "0"], ["--limit", "0"], ["--limit", "-3"], ["--limit", "x"]):
        with pytest.raises(SystemExit):
            command.parser().parse_args(["log.jsonl", *wrong])
        assert f"argument {wrong[0]}: " in capsys.readouterr().err


def test_in_recorded_runs_a_task_is_retrieved_by_its_text(recorded_runs):
    paths = [recorded_runs / "transcripts" / f"{name}.jsonl.gz" for name in FILES]
    read = recollect(paths, limit=60)
    assert len(read.episodes) > 150
    compared = compare(read.episodes, contestants(["jaccard", "random"]).making, VIEWS[:1], quiet=True)
    good, chance = (compared.cell("same task", "task", name).quality for name in ("jaccard", "random"))
    assert good.ndcg.value > 0.95
    assert chance.ndcg.value < 0.2
    assert good.ndcg.low > chance.ndcg.high  # seven tasks have a wide interval even where all are found
