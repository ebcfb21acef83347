#!/usr/bin/env bash
# Without a word: both stages with the simulated student, some ten minutes on one core, no model. `run.sh study`: with the model of
# study.yaml, in the project's folder: eight draws at each task, the dead ones of them, and every arm.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
if [ "${1:-}" = study ]; then
    model=(model=smollm2 model.slots=8 model.threads=1)   # as in study.yaml, or model=gguf model.path=weights.gguf
    reflexion-lab run experiment=retry "${model[@]}" actor=single_shot actor.sampling.max_tokens=256 temperature=0.6 \
        loop.max_attempts=8 benchmark=basics benchmark.load.n=276 benchmark.load.seed=77 seed=0 tracker=none quiet=true
    python -m experiments.dead_units.pilot runs/2*-retry-basics-s0 --out "$here/first_stage.csv"   # is there room?
    python -m experiments.dead_units.dead_tasks "$(ls -d runs/2*-retry-basics-s0 | tail -1)" --out "$here/dead.jsonl"
    # Now n_tasks, clusters and discordance of study.yaml, and then: reflexion-lab study register experiments/dead_units/study.yaml
    reflexion-lab study run "$here/study.yaml" quiet=true
else
    python -m experiments.dead_units.simulated --runs "$(mktemp -d)"
    python -m experiments.dead_units.analysis
fi
