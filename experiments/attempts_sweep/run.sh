#!/usr/bin/env bash
# After experiments/omega_sweep in the same run root every call of this sweep is in the cache: it costs nothing.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
reflexion-lab run -m experiment=attempts_sweep loop.max_attempts=1,2,3 loop.reflect_on_last=false \
    seed=0,1,2 benchmark.load.n=60 benchmark.load.seed=0 temperature=0.6 recall.max_tokens=1000 study="$here/study.yaml" model.slots=8 model.threads=1
