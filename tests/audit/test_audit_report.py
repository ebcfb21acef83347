"""Sheets: the same numbers everywhere, and nothing of a stranger's text taken for markup."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from reflexion_lab.audit.audit import Audit
from reflexion_lab.audit.audit_report import PublishedResult, against_paper, disagreements, overview, show
from reflexion_lab.audit.causes import CAUSES
from reflexion_lab.audit.leaks import Leaks
from reflexion_lab.audit.samples import Sample
from reflexion_lab.audit.verdicts import Verdict

EVIL = "<b>[red]\x1b[31m\u202e</b>"


def verdict(number, logged, passed, **fields):
    sample = Sample(
        id=f"{number}{fields.pop('name', '')}", task_id="t", entry_point="f", program="x", tests=(), logged=logged
    )
    outcome = fields.pop("outcome", "pass" if passed else "fail")
    return Verdict(sample=sample, passed=passed, outcome=outcome, **fields)


@pytest.fixture
def audit_of_ten():
    verdicts = [verdict(n, logged=n < 9, passed=n < 8) for n in range(10)]
    return Audit(name="log.jsonl.gz", verdicts=tuple(verdicts), leaks=Leaks(), seconds=1.0)


def printed(audits):
    console = Console(width=100, record=True, file=io.StringIO())
    show(audits, console, details=True)
    return console.export_text()


def test_a_row_holds_logged_and_re_executed_with_the_interval(audit_of_ten):
    assert overview([audit_of_ten]).rows == (("log", "10", "9/10", "8/10", "80.0", "[0.0, 100.0]", "9/10", "0.615"),)
    paper = against_paper({"k": PublishedResult("A method", 91.0)}, {"k": audit_of_ten})
    assert paper.rows == (("A method", "91.0", "9/10", "90.0", "8/10", "80.0", "[0.0, 100.0]"),)
    agreeing = Audit(name="log", verdicts=(verdict(0, logged=True, passed=True),), leaks=Leaks(), seconds=1.0)
    assert (agreeing.kappa, overview([agreeing]).rows[0][-1]) == (None, "—")
    assert against_paper({"k": PublishedResult("A method")}, {"k": audit_of_ten}).rows[0][1] == "—"


def test_every_disagreement_and_finding_is_printed(audit_of_ten):
    text = printed([audit_of_ten])
    assert "1 of 10 logged verdicts differ" in text
    assert "8: logged pass, re-executed fail" in text
    assert disagreements(audit_of_ten).rows == (("8", "pass", "fail", "fail", "unknown"),)


def test_checks_in_process_are_counted_and_harness_errors_are_loud_and_no_verdicts(audit_of_ten):
    forgeable = verdict(0, logged=True, passed=True, checks=3, checks_in_process=1)
    text = printed([Audit(name="log", verdicts=(forgeable,), leaks=Leaks(), seconds=1.0)])
    assert "1 of 3 checks in process: forgeable" in text
    assert "in process" not in printed([audit_of_ten])
    broken = verdict(0, logged=True, passed=False, outcome="harness_error", detail="no fork")
    spoilt = Audit(name="log", verdicts=(broken,), leaks=Leaks(), seconds=1.0)
    text = printed([spoilt])
    assert "HARNESS ERRORS: 1 samples have no verdict; the first is 0: no fork; run `reflexion-lab doctor`" in text
    assert "0/0" in text


def test_the_guide_lists_every_cause_in_the_words_of_the_screen():
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "audit.md").read_text()
    assert re.findall(r"^\| `(\w+)` \| (.*?) \|", guide, re.MULTILINE) == list(CAUSES.items())


def test_a_strangers_text_is_no_markup():
    evil = verdict(0, logged=True, passed=False, name=EVIL, detail=EVIL)
    audit = Audit(name=EVIL, verdicts=(evil,), leaks=Leaks(missing=(EVIL,), unstored=(EVIL,)), seconds=1.0)
    text = printed([audit])
    assert "[red]\\x1b[31m\\u202e" in text
    assert "\x1b" not in text
