#!/usr/bin/env bash
# An hour on two idle cores with the tuning, forty minutes without: SmolLM2 in the process.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
if [ "${1:-}" = tune ]; then
    tasks="benchmark=basics benchmark.load.n=38 benchmark.load.seed=77 loop.max_attempts=3 tracker=none quiet=true
        run_root=tuning model.slots=8 model.threads=1"
    reflexion-lab run -m experiment=retry temperature=0.3,0.6,0.9 $tasks
    reflexion-lab run -m experiment=feedback_only,reflexion temperature=0,0.3,0.6 $tasks
fi
reflexion-lab study run "$here/study.yaml" quiet=true
reflexion-lab report --one-seed --baseline retry --out report runs/2*-{retry,feedback_only,reflexion}-basics-s0
gzip -9nc report/cases.csv > "$here/cases.csv.gz"
python -m experiments.reflexion_against_retry.analysis
