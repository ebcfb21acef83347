#!/usr/bin/env bash
# Some three hours of one core, SmolLM2 in the process; the same command continues it after a stop.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
name="$(basename "$here")"
reflexion-lab study run "$here/study.yaml" "run_root=runs/$name" cache.path=runs/calls.sqlite quiet=true
reflexion-lab report --baseline feedback_only --out "report/$name" "runs/$name"/2*
gzip -9nc "report/$name/cases.csv" > "$here/cases.csv.gz"
# the same runs from their recorded calls, without the limit of 300 s that ends loops on a loaded machine
for arm in experiment=feedback_only experiment=reflexion "experiment=reflexion reflector=length_matched arm=length_matched" experiment=retry; do
    reflexion-lab run -m $arm model=smollm2 model.slots=8 model.threads=1 actor=continuation temperature=0.3 loop.max_attempts=3 \
        loop.reflect_on_last=false tracker=none benchmark=basics benchmark.load.n=138 'benchmark.load.seed=${seed}' seed=101,102,103 \
        loop.timeout=100000 "run_root=runs/$name-complete" cache.path=runs/calls.sqlite quiet=true
done
reflexion-lab report --baseline feedback_only --out "report/$name-complete" "runs/$name-complete"/2*
gzip -9nc "report/$name-complete/cases.csv" > "$here/complete.csv.gz"
# every program once more
reflexion-lab audit --attempts --json "runs/$name"/2* | tail -1 | python -m json.tool > "$here/executions.json"
python -m experiments.own_words_with_room.retries "runs/$name"/2* --out "$here/retries.csv"
python -m experiments.own_words_with_room.analysis
