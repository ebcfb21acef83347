#!/usr/bin/env bash
# Half an hour on two idle cores, some 700 calls of SmolLM2: can this lab see true words help a small model?
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
reflexion-lab study run "$here/study.yaml" quiet=true
reflexion-lab report --one-seed --out report runs/2*-basics-s0 && gzip -9nc report/cases.csv > "$here/cases.csv.gz"
python -m experiments._tools.dose runs/2*-basics-s0 --out report && cp report/cases.csv "$here/retries.csv"
python -m experiments.oracle_words.analysis
