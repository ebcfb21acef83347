#!/usr/bin/env bash
# Seven minutes on two idle cores, thirteen on busy ones, half of them for programs that do not end. Needs the recorded
# runs in ../shared/data, or where REFLEXION_LAB_DATA says. `--draw cases.csv` draws other cases to read, at problems
# that labels.csv lacks.
set -euo pipefail
data="${REFLEXION_LAB_DATA:-../shared/data}/transcripts"
python -m experiments._tools.failures --labels experiments/failures_classified/labels.csv --out experiments/failures_classified \
    "$data"/*.jsonl.gz
python -m experiments.failures_classified.analysis
