"""Table, figure and README of this experiment, from `cases.csv.gz` alone; `--check` names what differs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from experiments._tools import studies
from experiments._tools.evidence import Row
from experiments._tools.recompute import main, percent, points, share
from experiments.oracle_words.ceiling import Ceiling, ceilings
from experiments.reflexion_against_retry.analysis import repeated
from reflexion_lab.analysis.comparison.lines import compared


def compute(folder: Path) -> Mapping[str, str]:
    study = studies.read(folder)
    verdicts = {arm.label: arm.verdicts() for arm in study.arms}
    own = {
        name: compared(verdicts["reflexion"], verdicts[name], clusters=study.arms[0].clusters)
        for name in ("length_matched", "reflexion_shuffled")
    }
    base = study.row("feedback_only")
    values = {"own": own, "ceilings": beside_quoted(folder), "retries": base.final.value - base.first.value}
    values["with_room"] = repeated(folder)
    return studies.page(folder, study, **values)


def beside_quoted(folder: Path) -> tuple[Ceiling, ...]:
    """Effects of these words beside that of the quoted solution, on the same tasks and first attempts."""
    arms = {arm.label: arm for arm in studies.read(folder).arms}
    quoted = [arm for arm in studies.read(folder.parent / "oracle_words").arms if arm.label == "quoted"]
    return ceilings([*arms.values(), *quoted], arms["feedback_only"])


def answer(folder: Path) -> Row:
    """The answer in `experiments/README.md`."""
    study = studies.read(folder)
    own, base = study.row("reflexion"), study.row("feedback_only")
    difference = own.differences["equal_attempts"]
    others = "; ".join(
        f"{name} {points(study.row(arm).differences['equal_attempts'])}"
        for name, arm in (("filler", "length_matched"), ("words on another task", "reflexion_shuffled"))
    )
    (part,) = (row.share for row in beside_quoted(folder) if row.arm == "reflexion" and row.share)
    text = (
        f"not detected; at temperature 0 no room for harm (failing checks alone add "
        f"{percent(base.final.value - base.first.value)} points): own words "
        f"{share(own.final)}, failing checks alone {share(base.final)}, "
        f"{points(difference)} points, {points(part)} % of what the quoted solution adds; {others}; "
        f"with room, at 0.3, {points(repeated(folder))} ([registered](own_words_with_room/README.md))"
    )
    return Row(text, str(difference.n))


if __name__ == "__main__":
    raise SystemExit(main(__file__, compute, draw=studies.draw))
