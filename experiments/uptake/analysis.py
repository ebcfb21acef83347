"""Table and README of this experiment, from `cases.csv` alone; `--check` names what differs."""

from collections.abc import Mapping
from pathlib import Path

from experiments._tools.evidence import Row, read_rows
from experiments._tools.recompute import README, TABLE, csv_text, main, readme
from experiments._tools.uptake import read, table
from reflexion_lab.analysis.report.cells import interval, p_value


def compute(folder: Path) -> Mapping[str, str]:
    rows = table(read(folder / "cases.csv"))
    by_prompt = {(row["style"], row["prompt"]): row for row in reversed(rows)}

    def uptake(style: str, prompt: str) -> str:
        row = by_prompt[style, prompt]
        return f"{100 * row['uptake']:.1f} % [{100 * row['low']:.1f}, {100 * row['high']:.1f}]"

    def split(style: str, prompt: str) -> str:
        return f"{by_prompt[style, prompt]['won']} : {by_prompt[style, prompt]['lost']}"

    values = {
        "rows": rows,
        "of": lambda *key: by_prompt[key],
        "uptake": uptake,
        "split": split,
        "asked": "program, checks, words above",
        "free": next(row for row in rows if not row["grammar"]),
        "p_value": p_value,
    }
    return {TABLE: csv_text(rows), README: readme(folder, **values)}


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    rows = {(row["prompt"], row["grammar"]): row for row in read_rows(folder / TABLE) if row["style"] == "continuation"}
    without, with_program = rows["default", "True"], rows["program, checks, words above", "True"]
    shares = [
        f"{100 * float(row['uptake']):.1f} % {interval(float(row['low']), float(row['high']))}"
        for row in (without, with_program)
    ]
    text = (
        f"the one without the failed program: {shares[0]}, against {shares[1]} with it; this is the ceiling for words"
    )
    return Row(text, f"{without['n']} retries")


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute))
