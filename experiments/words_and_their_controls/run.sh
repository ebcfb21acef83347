#!/usr/bin/env bash
# Half an hour on two idle cores, some 640 calls of SmolLM2; 400 after experiments/oracle_words.
# All studies share one call cache; each has a run root of its own.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
name="$(basename "$here")"
shared="run_root=runs/$name cache.path=runs/calls.sqlite quiet=true"
reflexion-lab study run "$here/study.yaml" $shared
reflexion-lab report --baseline feedback_only --out "report/$name" "runs/$name"/2*
gzip -9nc "report/$name/cases.csv" > "$here/cases.csv.gz"
for run in "runs/$name"/2*; do reflexion-lab bundle "$run"; done   # bundles/ beside the run folders
python -m experiments.words_and_their_controls.analysis
