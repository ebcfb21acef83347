#!/usr/bin/env bash
# About 12 minutes on two idle cores (some 750 calls of SmolLM2): can this lab see words help a small model? 138 templates of
# basics, two attempts. All arms share their first attempts; doses share the prompts whose words are the same.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
common=(benchmark=basics benchmark.load.n=138 benchmark.load.seed=5 temperature=0 loop.max_attempts=2
    loop.reflect_on_last=false tracker=none quiet=true)
reflexion-lab run -m experiment=feedback_only,reflexion,oracle_words,quoted seed=0 "${common[@]}"
reflexion-lab run -m experiment=corrupted_sweep reflector.share=0.25,0.5,0.75,1 seed=0 "${common[@]}"
python -m experiments._tools.dose runs/2*-basics-s0 --out "$here"
reflexion-lab report --one-seed --out "$here/report" runs/2*-basics-s0
