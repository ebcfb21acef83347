#!/usr/bin/env bash
# SmolLM2-135M-Instruct in the process. Retry gets eight attempts, so that what it may spend reaches what Reflexion spends.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
study="benchmark=basics benchmark.load.n=60 benchmark.load.seed=0 temperature=0.6 recall.max_tokens=1000 study=$here/study.yaml model.slots=8 model.threads=1"
reflexion-lab run -m experiment=retry loop.max_attempts=8 seed=0,1,2 $study
reflexion-lab run -m experiment=feedback_only loop.max_attempts=4 seed=0,1,2 $study
reflexion-lab run -m experiment=reflexion loop.max_attempts=3 seed=0,1,2 $study
