#!/usr/bin/env bash
# The cells share what they have in common: Ω makes no difference at the first attempt, Ω of 1 and 3 none at the second.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
reflexion-lab run -m experiment=omega_sweep recall.omega=0,1,3 loop.max_attempts=4 seed=0,1 benchmark.load.n=40 \
    actor.sampling.temperature=0.6 study="$here/study.yaml" model.slots=8
