#!/usr/bin/env bash
# After experiments/reflexion_against_retry in the same run root little is left to pay: without a window every retry is one
# of retry's draws, and Ω = 1 is the arm reflexion. Three attempts hold two episodes at most.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
reflexion-lab run -m experiment=omega_sweep recall.omega=0,1,2 loop.max_attempts=3 loop.reflect_on_last=false \
    seed=0,1,2 benchmark.load.n=60 benchmark.load.seed=0 temperature=0.6 recall.max_tokens=1000 study="$here/study.yaml" model.slots=8 model.threads=1
