#!/usr/bin/env bash
# Reflections by rules, so that what is compared is the retrieval; tasks learn from those of the rounds before theirs.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
study="benchmark=basics benchmark.load.n=40 loop.max_attempts=2 temperature=0.6 reflector=rules study=$here/study.yaml model.slots=8 model.threads=1"
reflexion-lab run -m arm=wisdom_none seed=0,1 $study
for retriever in random jaccard embedding; do
    reflexion-lab run -m arm=wisdom_$retriever retriever=$retriever memory.shared.shown.wisdom=3 \
        memory.shared.round_size=10 seed=0,1 $study
done
