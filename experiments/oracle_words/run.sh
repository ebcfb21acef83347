#!/usr/bin/env bash
# Half an hour on two idle cores, some 700 calls of SmolLM2: can this lab see true words help a small model?
# All studies share one call cache; each has a run root of its own.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
name="$(basename "$here")"
shared="run_root=runs/$name cache.path=runs/calls.sqlite quiet=true"
reflexion-lab study run "$here/study.yaml" $shared
reflexion-lab report --baseline feedback_only --out "report/$name" "runs/$name"/2*
gzip -9nc "report/$name/cases.csv" > "$here/cases.csv.gz"
for run in "runs/$name"/2*oracle_words*; do
    reflexion-lab bundle "$run" -o "$here/oracle_words.bundle.zip" --trust experiments.oracle_words
done
python -m experiments._tools.dose "runs/$name"/2* --out report/retries && cp report/retries/cases.csv "$here/retries.csv"
reflexion-lab run -m "hydra.searchpath=[file://$here/conf]" experiment=feedback_only,oracle_words,quoted prompts=terse seed=0 benchmark=basics benchmark.load.n=138 \
    benchmark.load.seed=5 temperature=0 loop.max_attempts=2 model.slots=8 model.threads=1 tracker=none quiet=true \
    run_root=runs/with_program cache.path=runs/calls.sqlite
python -m experiments._tools.dose runs/with_program/2* --out report/with_program
cp report/with_program/cases.csv "$here/retries_with_program.csv"
python -m experiments.oracle_words.analysis
