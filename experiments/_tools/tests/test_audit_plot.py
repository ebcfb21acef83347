"""The figure of an audit: what a log says, what its programs do, and what was printed."""

from experiments._tools.audit_plot import METHOD, logged_against_executed
from reflexion_lab.audit.audit import Audit, Verdict
from reflexion_lab.audit.audit_report import PublishedResult
from reflexion_lab.audit.leaks import Leaks
from reflexion_lab.audit.samples import Sample


def verdict(number, logged, passed):
    sample = Sample(id=str(number), task_id="t", entry_point="f", program="x", tests=(), logged=logged)
    return Verdict(sample=sample, passed=passed, outcome="pass" if passed else "fail")


def test_the_figure_shows_log_programs_and_paper_and_says_how():
    from matplotlib.figure import Figure

    verdicts = [verdict(n, logged=n < 9, passed=n < 8) for n in range(10)]
    audit = Audit(name="log.jsonl.gz", verdicts=tuple(verdicts), leaks=Leaks(), seconds=1.0)
    ax = Figure().add_subplot()
    logged_against_executed({"a": PublishedResult("A", 91.0), "b": PublishedResult("B")}, {"a": audit, "b": audit}, ax)
    names = {(line.get_label(), round(float(line.get_xdata()[0]), 3)) for line in ax.lines}
    assert names == {("re-executed", 0.8), ("its log", 0.9), ("paper", 0.91)}
    assert [label.get_text() for label in ax.get_yticklabels()] == ["A\nn = 10", "B\nn = 10"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["re-executed", "its log", "paper"]
    assert METHOD in [text.get_text() for text in ax.texts]


def test_a_figure_without_logs_is_empty_and_no_error():
    from matplotlib.figure import Figure

    assert len(logged_against_executed({}, {}, Figure().add_subplot()).lines) == 0
