#!/usr/bin/env bash
# A simulated student, as good as GPT-4 was on MBPP (conf/model/simulated.yaml): no language model runs, and nothing follows
# about one but how a loop passes on the errors of its tests.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
reflexion-lab run -m model=simulated actor=single_shot evaluator=noisy arm=noise seed=0,1,2 benchmark.load.n=100 \
    evaluator.false_negative=0,0.1,0.2,0.3,0.4 evaluator.false_positive=0,0.1,0.2,0.3,0.4 \
    loop.max_attempts=4 loop.stuck_after=null recall.max_tokens=4000 reflector=none tracker=none study="$here/study.yaml"
python "$here/tabulate.py" "$here" runs
