"""The minimum honest table in the terminal, as CSV, Markdown, HTML and LaTeX, with arms that have hostile names."""

import re
import shutil
import subprocess
import warnings as warnings_
from html.parser import HTMLParser
from io import StringIO

import pytest
from rich.console import Console

from reflexion_lab.analysis.comparison import compare
from reflexion_lab.analysis.comparison.grouping import arms
from reflexion_lab.analysis.figures.drawing import facts
from reflexion_lab.analysis.report.cells import amount, estimate, p_value
from reflexion_lab.analysis.report.comparison import exclusions, sheets, warnings
from reflexion_lab.analysis.report.documents import escaped as markdown_escaped
from reflexion_lab.analysis.report.documents import save_report, write_table
from reflexion_lab.analysis.report.latex import escaped as latex_escaped
from reflexion_lab.analysis.report.sheets import Sheet, as_table, paragraphs
from reflexion_lab.analysis.stats.intervals import Estimate
from reflexion_lab.io.terminal_text import plain
from reflexion_lab.records import Usage
from tests.analysis.conftest import BASE, WORDS, lines_of, run_writer

HOSTILE = '<script>alert(1)</script>|`x`\\input{a}_%$#&~^{}"\n[link](javascript:x)\u202e\x1b[31m'


def three(run):
    """Three arms at two seeds, one of them an upper bound, and one that nobody should trust by its name."""
    kinds = (("feedback_only", BASE, "visible"), (HOSTILE, WORDS, "visible"), ("oracle", BASE, "oracle"))
    return arms([run(arm, verdicts, s, feedback_source=source) for arm, verdicts, source in kinds for s in (7, 8)])


@pytest.fixture
def three_arms(run):
    return three(run)


@pytest.fixture(scope="module")
def report(runs_written_in, tmp_path_factory):
    """A report on them, to be read: to draw it takes seconds."""
    place, folder = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("report")
    all_arms = three(run_writer(runs_written_in(place), place))
    save_report(folder, compare(all_arms), all_arms)
    return folder


def printed(comparison, width=100):
    text = StringIO()
    console = Console(file=text, width=width)
    for sheet in sheets(comparison):
        console.print(as_table(sheet))
    return text.getvalue()


def cells(sheet, arm):
    """By column, the cells of an arm's first row."""
    row = next(row for row in sheet.rows if row[0] == arm)
    return {" ".join(column.split()): cell for column, cell in zip(sheet.columns, row, strict=True)}


def test_the_table_says_all_that_an_honest_one_has_to(three_arms):
    results, differences, changes, loops, costs, prices, left_out, runs = sheets(compare(three_arms))
    arm = plain(HOSTILE)
    assert cells(results, arm)["feedback source"] == "visible"
    assert cells(results, arm)["tasks x seeds"] == "4 x 2"
    assert cells(results, arm)["attempt 1 [95 %]"].startswith("50.0 [")
    assert cells(results, arm)["final [95 %]"].startswith("75.0 [")
    assert cells(results, arm)["mean over attempts"] == "62.5"
    result = cells(differences, arm)
    assert result["difference [95 %]"].startswith("+25.0 [")
    assert (result["wins: losses"], result["p"], result["p, Holm"]) == ("2:0", "0.50", "1")
    assert result["verdict"] == "undecided"
    result = cells(changes, arm)
    assert [result[f"{name} [95 %]"].split()[0] for name in ("wrong to right", "right to wrong")] == ["50.0", "25.0"]
    assert (result["unchanged [95 %]"].split()[0], result["gain, points [95 %]"].split()[0]) == ("25.0", "+25.0")
    assert result["n"] == "8"
    result = cells(loops, arm)
    assert (result["repaired"], result["damaged"]) == ("100.0 (4/4)", "50.0 (2/4)")
    assert (result["FP"], result["FN"]) == ("33.3 (2/6)", "25.0 (2/8)")
    result = cells(left_out, arm)
    assert (result["logged of expected"], result["attempts"]) == ("8 of 8", "14")
    assert [result[name] for name in ("no program", "timed out", "harness errors")] == ["0.0 (0)"] * 3
    result = cells(prices, arm)
    assert (result["unit"], result["price, arm : baseline"]) == ("completion\ntokens", "12 :\n12,\n1.0x")
    assert result["solved, arm"].endswith("(4/4)")
    result = cells(costs, arm)
    assert (result["calls"], result["tokens"], result["tokens per case"]) == ("20", "322", "40.2")
    assert result["tokens per solved case"] == "53.7"
    assert cells(runs, arm)["study"] == "exploratory"


def test_methods_and_upper_bounds_are_named_wherever_they_stand(three_arms):
    comparison = compare(three_arms)
    results, differences, *_ = sheets(comparison)
    method = "toy, n = 4 tasks, seeds 7, 8, feedback source: visible, oracle; 95 %: adjusted t over tasks"
    assert method in results.caption
    assert "exploratory: none of these comparisons was registered" in differences.caption
    assert cells(results, "oracle")["final [95 %]"].startswith("UPPER BOUND 50.0")
    assert "UPPER BOUND" in results.title
    assert [row[-1].split("\n")[0] for row in differences.rows if row[0] == "oracle"] == ["UPPER BOUND"] * 3
    assert any("UPPER BOUND, not pass@1" in line for line in warnings(comparison))
    text = printed(comparison)
    assert "\x1b[31m" not in text
    assert "\u202e" not in text


def test_a_lone_upper_bound_has_no_pass_at_1_in_the_csv(run, tmp_path):
    comparison = compare(arms([run("=1+1", BASE, feedback_source="oracle")]))
    lines = lines_of(write_table(tmp_path / "t.csv", comparison))
    assert ("'=1+1", "upper_bound", "") in lines and not [key for key in lines if "pass_at_1" in key[1]]  # no formula
    assert len(sheets(comparison)) == 6


def test_spending_that_nobody_recorded_is_left_empty_and_said(run, respent, tmp_path):
    first = {name: history[:1] for name, history in WORDS.items()}
    runs = [run("feedback_only", BASE, s) for s in (7, 8)]
    runs += [run("silent", attempts=respent(first, Usage(calls=1)), seed=s) for s in (7, 8)]
    comparison = compare(arms(runs))
    _, differences, _, _, costs, *_ = sheets(comparison)
    assert [cells(costs, "silent")[name] for name in ("calls", "tokens", "tokens per case")] == ["8", "-", "-"]
    assert [row[2] for row in differences.rows][1:] == ["tokens unknown"] * 2
    uncounted = arms([*runs[:2], *(run("free", attempts=respent(first, Usage()), seed=s) for s in (7, 8))])
    assert sheets(compare(uncounted, unit="calls"))[1].rows[-1][1:3] == ("equal\ncalls", "calls unknown")
    assert any(line.startswith("NOT MATCHED: silent") for line in warnings(comparison))
    lines = lines_of(write_table(tmp_path / "t.csv", comparison))
    assert lines["silent", "calls", ""]["value"] == "8"
    assert not [key for key in lines if key[0] == "silent" and "tokens" in key[1]]
    assert lines["silent", "pass_at_1", "equal_tokens"]["verdict"] == "tokens of silent unknown"


def test_a_difference_of_one_seed_is_marked(run):
    comparison = compare(arms([run("feedback_only", BASE), run("words", WORDS)]))
    verdicts = [row[-1] for row in sheets(comparison)[1].rows]
    assert [text.split("\n")[:2] for text in verdicts] == [["undecided", "one seed"]] * 3
    assert any(line.startswith("ONE SEED") for line in warnings(comparison))


def test_cases_without_a_partner_are_counted_and_named(run):
    runs = [run("feedback_only", BASE, s) for s in (1, 2, 3)] + [run("words", WORDS, s) for s in (1, 2)]
    comparison = compare(arms(runs))
    expected = "words against feedback_only: 4 cases that feedback_only alone has: 4 at seed 3 (a, b, c, d)"
    assert list(exclusions(comparison)) == [expected]
    assert expected in sheets(comparison)[-2].caption


@pytest.mark.parametrize(
    ("own", "is_again"),
    [
        ({"arm": "again", "loop": {"first_draw": 1000}}, True),
        ({"arm": "again", "loop": {"first_draw": 1}}, False),  # most of its draws are those of the baseline
        ({"arm": "again", "loop": {"first_draw": 0}}, False),
        ({"arm": "again"}, False),
        ({"arm": "again", "loop": {"first_draw": 1000}, "temperature": 1}, False),
    ],
)
def test_the_baseline_with_other_draws_is_the_noise_of_the_comparison(run, own, is_again):
    runs = [run("feedback_only", BASE, s) for s in (1, 2)] + [run("again", WORDS, s, config=own) for s in (1, 2)]
    comparison = compare(arms(runs))
    lines = [line for line in warnings(comparison) if line.startswith("NOISE")]
    measured = estimate(comparison.rows[1].differences["equal_attempts"], signed=True)
    expected = f"NOISE: A/A {measured} points: again is the baseline with other draws; an effect inside it may be, too"
    assert lines == [expected] * is_again


def test_an_a_a_arm_takes_no_level_from_the_others(run):
    runs = [run(arm, table, s) for arm, table in (("feedback_only", BASE), ("words", WORDS)) for s in (1, 2)]
    again = [run("again", BASE, s, config={"arm": "again", "loop": {"first_draw": 1000}}) for s in (1, 2)]
    alone, beside = (compare(arms(group)).rows for group in (runs, runs + again))
    p_values = [row.differences["as_run"].p_holm for row in (*alone, *beside) if row.arm == "words"]
    assert p_values[0] == p_values[1] < 1 or p_values == [1, 1]
    assert next(row for row in beside if row.arm == "again").differences["as_run"].p_holm is not None


def test_different_models_and_currencies_are_allowed_and_loud(run):
    runs = [run("feedback_only", BASE, model_fingerprint="small"), run("words", WORDS, model_fingerprint="large")]
    comparison = compare(arms(runs))
    assert "DIFFERENT MODELS: small in feedback_only; large in words" in list(warnings(comparison))
    assert [row[-1] for row in sheets(comparison)[-1].rows] == ["small", "large"]
    prices = {"feedback_only": "1/2 USD per million", "words": "1/2 EUR per million"}
    paid = compare(arms([run(arm, BASE, prices={"actor": price}) for arm, price in prices.items()]))
    loud = "DIFFERENT CURRENCIES: costs are in EUR, USD, and do not compare"
    assert loud not in list(warnings(comparison))
    assert loud in list(warnings(paid))


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.texts, self.addresses = set(), [], []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data):
        self.texts.append(data)


def test_the_page_needs_no_other_file_and_runs_nothing(report):
    tags = Tags()
    tags.feed((report / "report.html").read_text())
    assert "script" not in tags.tags
    assert tags.addresses
    assert all(address.startswith("data:image/") for address in tags.addresses)
    assert any("<script>alert(1)</script>" in text for text in tags.texts)
    assert "\u202e" not in "".join(tags.texts)


def test_markdown_rows_have_one_cell_per_column_for_any_name(report):
    text = (report / "report.md").read_text()
    tables = [part.splitlines() for part in text.split("\n\n") if part.startswith("|")]
    answers = [line for line in text.splitlines() if " (n = " in line]
    assert [line.count("points (") for line in answers] == [0, 3, 3]
    assert all(re.match(r".+: (pass\\@1|UPPER BOUND) [\d.]+ .* % \(n = \d\)[.;]", line) for line in answers)
    assert len(tables) == 9
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1
    assert "<script" not in text
    assert not re.search(r"(?<!\\)\[link\]", text)


@pytest.mark.parametrize(
    ("text", "expected"), [("a|b", r"a\|b"), ("<b>", "&lt;b&gt;"), ("a_b*", r"a\_b\*"), ("a\nb", "a b")]
)
def test_markdown_shows_what_it_would_obey(text, expected):
    assert markdown_escaped(text) == expected


def test_latex_sets_what_it_would_obey():
    text = latex_escaped(HOSTILE)
    assert "\\input" not in text
    assert text.isascii()
    left = text.replace(r"\textbackslash{}", "")
    left = re.sub(r"\\text[a-z]+\{\}|\\[{}$&#%_]", "", left).replace("{-}", "").replace(r"{\char34}", "")
    assert not set(left) & set('\\{}$&#%_^~<>|"`')
    assert latex_escaped("日") == "[U+65E5]"


def test_figures_of_an_earlier_report_go_and_other_files_stay(run, tmp_path):
    both = arms(
        [run(arm, verdicts, s) for arm, verdicts in (("feedback_only", BASE), ("words", WORDS)) for s in (7, 8)]
    )
    made = save_report(tmp_path, compare(both), both, "pdf")
    drawn = {path for path in tmp_path.iterdir() if path.is_file()}
    assert {path for path in made if path.parent == tmp_path} == drawn
    assert "data:image/png" in (tmp_path / "report.html").read_text()
    (tmp_path / "own.png").touch()
    (tmp_path / "own.csv").touch()
    alone = both[:1]
    save_report(tmp_path, compare(alone), alone, "svg")
    converted = [path.with_suffix(".pdf") for path in tmp_path.glob("*.svg")]
    for path in converted:
        path.touch()
    written = save_report(tmp_path, compare(alone), alone, "svg")
    assert converted and all(path.is_file() for path in converted), "a user converts them for LaTeX"
    for path in converted:
        path.unlink()
    left = {path for path in tmp_path.iterdir() if path.is_file()}
    assert left == {path for path in written if path.parent == tmp_path} | {tmp_path / "own.png", tmp_path / "own.csv"}
    assert {path.suffix for path in drawn - left} == {".png", ".pdf", ".csv"}


def test_latex_tables_have_as_many_cells_as_columns(report):
    tables = sorted((report / "tables").iterdir())
    assert len(tables) == 9
    head = r"arm & budget & difference [95 \%] & p, Holm & verdict \\"
    assert head in (report / "tables" / "differences.tex").read_text(), "what fits into a column of text"
    for path in tables:
        comments, table = re.fullmatch(r"((?:%[^\n]*\n)+)(.*\n)", path.read_text(), re.DOTALL).groups()
        assert r"\caption{" in comments
        sides, body = re.fullmatch(
            r"\\begin\{tabular\}\{([lr]+(?:p\{36mm\})?)\}\n(.*?)\\end\{tabular\}\n", table, re.DOTALL
        ).groups()
        lines = [line for line in body.splitlines() if line.endswith(r"\\")]
        assert lines
        assert {len(re.findall(r"(?<!\\)&", line)) + 1 for line in lines} == {len(re.sub("{.*", "", sides))}


@pytest.mark.slow
def test_a_paper_that_inputs_the_tables_compiles(run, tmp_path):
    if not shutil.which("pdflatex"):
        text = "no pdflatex, so no LaTeX was compiled: apt-get install texlive-latex-base texlive-latex-recommended"
        warnings_.warn(text, stacklevel=1)
        pytest.skip(text)
    all_arms = three(run)
    written = save_report(tmp_path, compare(all_arms), all_arms, "pdf", are_captioned=False)
    inputs = [rf"\begin{{table}}\input{{tables/{path.name}}}\end{{table}}" for path in written if path.suffix == ".tex"]
    pictures = [rf"\includegraphics[width=3in]{{{path.name}}}" for path in written if path.suffix == ".pdf"]
    assert inputs and pictures
    body = "\n".join([*inputs, *pictures])
    packages = r"\usepackage{booktabs,graphicx}"
    (tmp_path / "paper.tex").write_text(rf"\documentclass{{article}}{packages}\begin{{document}}{body}\end{{document}}")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-3000:]


def test_the_csv_holds_the_numbers_of_the_comparison(report):
    lines = lines_of(report / "table.csv")
    expected = {"pass_at_1_first": 0.5, "pass_at_1": 0.75, "seeds": 2, "calls": 20, "tokens": 322, "repair": 1}
    words = next(arm for arm, *key in lines if key == ["pass_at_1", "as_run"])
    assert {metric: float(lines[words, metric, ""]["value"]) for metric in expected} == expected
    difference = {"value": "0.25", "won": "2", "lost": "0", "n": "8", "p": "0.5", "detected": "False"}
    assert lines[words, "pass_at_1", "as_run"].items() >= (difference | {"exploratory": "True"}).items()
    assert not [key for key in lines if key[1] == "hidden_base_passed"]  # no run has base tests
    pictures = [path for path in report.iterdir() if path.suffix == ".png"]
    assert pictures
    assert all(path.with_suffix(".csv").is_file() for path in pictures)


def test_a_report_on_one_run_has_its_headline_and_its_curve(run, tmp_path):
    alone = arms([run("simple", BASE)])
    written = save_report(tmp_path, compare(alone), alone)
    text = (tmp_path / "report.md").read_text()
    assert text.splitlines()[2] == "simple: pass\\@1 50.0 \\[15.0, 85.0\\] % (n = 4)."
    assert "Difference" not in text
    assert any(path.name.startswith("curves") for path in written)


def test_numbers_are_said_with_the_digits_that_matter():
    assert [amount(value) for value in (0, 7, 12345.6, 40.25, 0.00123)] == ["0", "7", "12,346", "40.2", "0.00123"]
    assert [p_value(p) for p in (1.0, 0.5, 0.0049, 0.00001)] == ["1", "0.50", "0.0049", "<.0001"]
    assert [p_value(p) for p in (0.0449, 0.0551, 0.012)] == ["0.045", "0.055", "0.012"]
    assert [p_value(p) for p in (0.0525, 0.0489, 0.0496, 0.04997, 0.050004)] == [
        "0.0525", "0.0489", "0.0496", "0.04997", "0.050004",
    ]  # fmt: skip
    assert estimate(Estimate(value=0.0, low=-0.0001, high=0.125), signed=True) == "0.0 [0.0, +12.5]"


def test_tasks_that_each_seed_draws_for_itself_are_told_as_cases(write_run):
    verdicts = [{"a": [(1.0, True)], "b": [(0.0, False)]}, {"b": [(1.0, True)], "c": [(0.0, False)]}]
    runs = [write_run(outcomes, name=f"run{seed}", seed=seed) for seed, outcomes in enumerate(verdicts)]
    all_arms = arms(runs)
    results = next(iter(sheets(compare(all_arms))))
    assert cells(results, all_arms[0].label)["tasks x seeds"] == "4 cases,\n3 tasks"
    assert "4 cases of 3 tasks x 2 seeds (0, 1)" in facts(all_arms)


EVIL = "<b>[red]\x1b[31m\u202e</b>"


def test_text_terminal_and_notebook_hold_the_same_cells():
    sheet = Sheet(title="T", columns=("arm", "pass@1\n[95 %]"), rows=(("a", "7"), ("long", "12.5")), caption="C")
    assert repr(sheet) == "T\narm  | pass@1 [95 %]\na    |             7\nlong |          12.5\nC"
    rows = [re.findall("<t[dh][^>]*>(.*?)</t[dh]>", row, re.S) for row in sheet._repr_html_().split("<tr")[1:]]
    assert rows == [list(sheet.columns), *map(list, sheet.rows)]
    table = as_table(sheet)
    assert table.row_count == 2
    assert [str(column.header) for column in table.columns] == list(sheet.columns)


def test_a_strangers_text_is_shown_and_not_obeyed():
    sheet = Sheet(title=EVIL, columns=(EVIL,), rows=((EVIL,),), caption=EVIL)
    console = Console(file=StringIO(), width=100, record=True)
    console.print(as_table(sheet))
    for text in (repr(sheet), console.export_text()):
        assert "[red]\\x1b[31m\\u202e" in text
        assert "\x1b" not in text
    for html in (sheet._repr_html_(), paragraphs([EVIL]), paragraphs([EVIL], loud=True)):
        assert "<b>" not in html
        assert "&lt;b&gt;[red]\\x1b[31m\\u202e&lt;/b&gt;" in html
