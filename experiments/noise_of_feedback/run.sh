#!/usr/bin/env bash
# A simulated student, as good as GPT-4 was on MBPP (conf/model/simulated.yaml), whose wrong programs are right on half of the
# inputs: no language model runs, and nothing follows about one but how a loop passes on the errors of its tests. The first
# command is the registered study with the cells around it, the last one varies the wrong programs.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
common=(model=simulated actor=single_shot seed=0,1,2 benchmark.load.n=100 benchmark.load.seed=0 loop.stuck_after=null
    recall.max_tokens=4000 reflector=none tracker=none)
noise=(evaluator=noisy arm=noise loop.max_attempts=4)
registered=(model.partial=0.5 study="$here/study.yaml")
reflexion-lab run -m "${common[@]}" "${registered[@]}" evaluator=noisy arm=first loop.max_attempts=1
reflexion-lab run -m "${common[@]}" "${registered[@]}" "${noise[@]}" evaluator.wrong_tests=0.0,0.2,0.4,0.6 \
    evaluator.weak_tests=0.0,0.2,0.4
reflexion-lab run -m "${common[@]}" "${registered[@]}" "${noise[@]}" evaluator.wrong_tests=1.0 evaluator.weak_tests=0.0
reflexion-lab run -m "${common[@]}" "${noise[@]}" model.partial=0.0,0.8 evaluator.wrong_tests=0.4,1.0 evaluator.weak_tests=0.0
python "$here/tabulate.py" "$here" runs
