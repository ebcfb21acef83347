#!/usr/bin/env bash
# Some three hours of one core, SmolLM2 in the process; the same command continues it after a stop.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
name="$(basename "$here")"
reflexion-lab study run "$here/study.yaml" "run_root=runs/$name" cache.path=runs/calls.sqlite quiet=true
reflexion-lab report --baseline feedback_only --out "report/$name" "runs/$name"/2*
gzip -9nc "report/$name/cases.csv" > "$here/cases.csv.gz"
# every program once more, on an idle machine
reflexion-lab audit --attempts --json "runs/$name"/2* | tail -1 > "$here/executions.json"
python -m experiments.own_words_with_room.retries "runs/$name"/2* --out "$here/retries.csv"
python -m experiments.own_words_with_room.analysis
