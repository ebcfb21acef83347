#!/usr/bin/env bash
# Five minutes after experiments/reflexion_against_retry, whose calls are those of Ω = 0 and Ω = 1; else forty.
# All studies share one call cache; each has a run root of its own.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
name="$(basename "$here")"
shared="run_root=runs/$name cache.path=runs/calls.sqlite quiet=true"
reflexion-lab study run "$here/study.yaml" $shared
reflexion-lab report --baseline omega_0 --bundles --out "report/$name" "runs/$name"/2*
gzip -9nc "report/$name/cases.csv" > "$here/cases.csv.gz"
python -m experiments.omega_sweep.analysis
