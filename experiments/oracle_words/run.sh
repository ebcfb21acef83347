#!/usr/bin/env bash
# Half an hour on two idle cores, some 700 calls of SmolLM2: can this lab see true words help a small model?
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
reflexion-lab study run "$here/study.yaml" quiet=true
reflexion-lab report --one-seed --out report runs/2*-basics-s0 && gzip -9nc report/cases.csv > "$here/cases.csv.gz"
python -m experiments._tools.dose runs/2*-basics-s0 --out report && cp report/cases.csv "$here/retries.csv"
reflexion-lab run -m experiment=feedback_only,oracle_words prompts=terse seed=0 benchmark=basics benchmark.load.n=138 \
    benchmark.load.seed=5 temperature=0 loop.max_attempts=2 model.slots=8 model.threads=1 tracker=none quiet=true run_root=terse
python -m experiments._tools.dose terse/2* --out terse/report && cp terse/report/cases.csv "$here/retries_with_program.csv"
python -m experiments.oracle_words.analysis
