#!/usr/bin/env bash
# Forty minutes on two idle cores, an hour with the tuning (run.sh tune): SmolLM2 in the process.
# All studies share one call cache; each has a run root of its own.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
name="$(basename "$here")"
shared="run_root=runs/$name cache.path=runs/calls.sqlite quiet=true"
if [ "${1:-}" = tune ]; then
    tasks="benchmark=basics benchmark.load.n=38 benchmark.load.seed=77 loop.max_attempts=3 tracker=none quiet=true
        run_root=runs/tuning model.slots=8 model.threads=1"
    reflexion-lab run -m experiment=retry temperature=0.3,0.6,0.9 $tasks
    reflexion-lab run -m experiment=feedback_only,reflexion temperature=0,0.3,0.6 $tasks
    python -m experiments._tools.tuning runs/tuning/2* --out "$here/tuning.csv"
fi
reflexion-lab study run "$here/study.yaml" $shared
reflexion-lab report --baseline retry --out "report/$name" "runs/$name"/2*
gzip -9nc "report/$name/cases.csv" > "$here/cases.csv.gz"
for run in "runs/$name"/2*; do reflexion-lab bundle "$run"; done   # bundles/ beside the run folders
# Ω = 2: five minutes more; Ω = 0 and Ω = 1 are calls of the arms above
shared="${shared/$name/omega}"
reflexion-lab study run "$here/omega.yaml" $shared
reflexion-lab report --baseline omega_0 --out report/omega runs/omega/2*
gzip -9nc report/omega/cases.csv > "$here/omega.csv.gz"
python -m experiments.reflexion_against_retry.analysis
