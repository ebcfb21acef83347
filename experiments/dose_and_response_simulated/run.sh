#!/usr/bin/env bash
# About six minutes on two idle cores, no model: oracle words of which a known share is wrong, read by a simulated
# student whose repairs depend on their truth by a known curve (0.2 without words, 0.6 after true, 0.1 after wrong ones).
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
common=("hydra.searchpath=[file://$here/../oracle_words/conf,file://$here/conf]" model=simulated_student actor=single_shot benchmark=basics benchmark.load.n=138 benchmark.load.seed=0
    loop.max_attempts=2 loop.reflect_on_last=false tracker=none quiet=true)
reflexion-lab run -m experiment=feedback_only,oracle_words,quoted seed=0,1,2,3,4,5,6,7,8,9 "${common[@]}"
reflexion-lab run -m experiment=corrupted_sweep reflector.share=0.25,0.5,0.75,1 seed=0,1,2,3,4,5,6,7,8,9 "${common[@]}"
python -m experiments._tools.dose runs/2*-basics-s? --planted 0.2 0.6 0.1 --out "$here"
python -m experiments.dose_and_response_simulated.analysis
