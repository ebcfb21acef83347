"""Table, README and figure of this experiment, from `cases.csv` and `reflections.csv`; `--check` names what differs."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments._tools.evidence import Row
from experiments._tools.parsing_cases import read_cases
from experiments._tools.parsing_report import WORD, as_rows, save
from experiments._tools.recompute import README, TABLE, amount, csv_text, main, percent, readme
from experiments._tools.replies import Parsing, Reply

NO_LABELS = "the reply lacks ROOT_CAUSE, WHAT_WENT_WRONG, WHAT_TO_CHANGE, CONFIDENCE"


def compute(folder: Path) -> Mapping[str, str]:
    parsing = read_cases(folder)
    rows = list(as_rows(parsing))
    return {TABLE: csv_text(rows), README: readme(folder, **_shares(rows), **_counts(parsing))}


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    parsing = read_cases(folder)
    shares = _shares(list(as_rows(parsing)))["all"]
    unexplained = _counts(parsing)["unexplained"]
    others = "each of the others is explained" if not unexplained else f"{unexplained} of the others are unexplained"
    share, low, high = (percent(shares[f"agree_{name}"]) for name in ("share", "low", "high"))
    return Row(
        f"{share} % [{low}, {high}] of verdicts equal the logged ones; {others}", f"{amount(shares['n'])} completions"
    )


def draw(folder: Path) -> Sequence[Path]:
    return [path for path in save(read_cases(folder), folder) if path.name != TABLE]


def _shares(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The rows of the table that the README shows."""
    *models, everything = [row for row in rows if (row["part"], row["by"]) == ("completions", "model")]
    *reflections, all_reflections = [row for row in rows if row["part"] == "reflections"]
    reflections.sort(key=lambda row: -row["n"])
    rules = {row["name"]: row["n"] for row in rows if row["by"] == "rule"}
    return {
        "models": models,
        "all": everything,
        "reflections": all_reflections,
        "by_model": ", ".join(f"{row['name']} {row['n']}" for row in reflections),
        "name": lambda row: row["name"].rpartition("/")[2].removesuffix("-hf"),
        "rules": {
            "fenced": sum(n for name, n in rules.items() if name in ("fence+function", "fence+function+usage")),
            "fenced_usage": rules["fence+function+usage"],
            "bare": rules["function"] + rules["function+usage"],
            "joined": sum(n for name, n in rules.items() if "joined" in name),
            "body": rules["body"],
            "unparsed": rules["unparsed"],
            "stub": rules["stub"],
        },
    }


def _counts(parsing: Parsing) -> dict[str, Any]:
    words, replies = parsing.words, parsing.replies
    differ = [reply for reply in replies if reply.differs]
    return {
        "words": words,
        "replies": replies,
        "amount": amount,
        "crashes": sum(bool(crash) for crash in [case.crash for case in words] + [case.crash for case in replies]),
        "differ": len(differ),
        "unexplained": sum(reply.cause in ("unexplained", "harness") for reply in differ),
        "alone": Counter("extracted" if reply.passed else "logged" for reply in differ),
        "as_lenient": sum(reply.lenient == reply.logged for reply in replies),
        "executed": parsing.executed,
        "causes": list(_causes(differ, sum(reply.definitions > 1 for reply in replies))),
        "of_cause": lambda cause: [reply for reply in differ if reply.cause == cause],
        "unusable_failed": sum(not reply.usable and not reply.logged for reply in replies),
        "unparsed": sum(not case.parsed for case in words),
        "without_labels": sum(case.problem == NO_LABELS for case in words),
        "kept": sum(case.kept for case in words),
        "timeouts": sum(reply.verdict is not None and reply.verdict.outcome == "timeout" for reply in replies),
        "distinct": len({reply.text for reply in replies}),
        "worst": max(Counter(reply.task_id for reply in differ).values()),
    }


def _causes(differ: Sequence[Reply], several: int) -> Iterator[tuple[str, str, int, int, str]]:
    """By cause and logged verdict, the most frequent first; `several` replies define their function more than once."""
    counts = Counter((reply.cause, reply.logged) for reply in differ)
    gained, lost = counts["last definition", False], counts["last definition", True]
    invented = sum((reply.cause, reply.task_id) == ("own asserts", "HumanEval/64") for reply in differ)
    remarks = {
        ("own asserts", False): f"{invented} are HumanEval/64: the model invented an example with a wrong count (it "
        "claims that `quickly` has two vowels); 3 of them also fail at the empty string, where **they** are wrong. One "
        "fails an example of the prompt that is itself wrong (47). One (10) is **wrong**, as its own assert shows: "
        "HumanEval's tests let it pass.",
        ("imports", True): "`math`, imported in neither reply nor task. An example above the task, in the few-shot "
        "prompt of these models, imports it.",
        ("helper", False): "`is_prime` is in a separate block; the log kept only the block of the function.",
        ("last definition", False): 'Two versions, "if you want the sequence to start with 1": the log has the first, '
        "the last is correct.",
        ("time", False): "Passes alone, with up to 10 s of CPU; logs were made with 5 s.",
        ("last definition", True): 'A second, "safer" version without `eval`, which is wrong. Of '
        f"{several} replies with several versions, the rule gains {gained} and loses {lost}.",
    }
    for (cause, logged), n in counts.most_common():
        own = {reply.task_id for reply in differ if (reply.cause, reply.logged) == (cause, logged)}
        yield cause, WORD[logged], n, len(own), remarks.get((cause, logged), "not inspected")


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=draw))
