#!/usr/bin/env bash
# After experiments/reflexion_against_retry in the same run root five minutes: the calls at Ω = 0 and Ω = 1 are in its cache.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
reflexion-lab study run "$here/study.yaml" quiet=true
reflexion-lab report --one-seed --baseline omega_0 --out report runs/2*-omega_?-basics-s0
gzip -9nc report/cases.csv > "$here/cases.csv.gz"
python -m experiments.omega_sweep.analysis
