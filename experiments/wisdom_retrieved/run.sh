#!/usr/bin/env bash
# One piece of wisdom is shown, so that it matters which; tasks learn from those of the rounds before theirs. Also the last
# attempt is reflected on: a cause enters the book once two failures share it.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
study="benchmark=basics benchmark.load.n=40 benchmark.load.seed=0 loop.max_attempts=2 temperature=0.6 reflector=llm \
    study=$here/study.yaml model.slots=8 model.threads=1"
reflexion-lab run -m arm=wisdom_none seed=0,1,2 $study
for retriever in random jaccard embedding; do
    reflexion-lab run -m arm=wisdom_$retriever retriever=$retriever memory.shared.shown.wisdom=1 \
        memory.shared.round_size=10 seed=0,1,2 $study
done
