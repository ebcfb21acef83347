#!/usr/bin/env bash
# A simulated student, as good as GPT-4 was on MBPP (conf/model/simulated.yaml), whose wrong programs are right on half of the
# inputs: no language model runs. The first command is the registered study, the second the cells around it, the third varies
# the wrong programs. About ten minutes on two idle cores.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
reflexion-lab study run "$here/study.yaml" quiet=true
common=("hydra.searchpath=[file://$here/conf]" model=simulated actor=single_shot benchmark=basics benchmark.load.n=100 benchmark.load.seed=0 evaluator=noisy
    reflector=none loop.stuck_after=null recall.max_tokens=4000 tracker=none quiet=true loop.max_attempts=4 seed=0,1,2)
name='wrong_${evaluator.wrong_tests}_weak_${evaluator.weak_tests}'
reflexion-lab run -m "${common[@]}" model.partial=0.5 "arm=$name" evaluator.wrong_tests=0.0 evaluator.weak_tests=0.0,0.2
reflexion-lab run -m "${common[@]}" model.partial=0.5 "arm=$name" evaluator.wrong_tests=0.2,0.6 \
    evaluator.weak_tests=0.0,0.2,0.4
reflexion-lab run -m "${common[@]}" model.partial=0.5 "arm=$name" evaluator.wrong_tests=0.4 evaluator.weak_tests=0.2
reflexion-lab run -m "${common[@]}" model.partial=0.0,0.8 "arm=${name}_partial_\${model.partial}" \
    evaluator.wrong_tests=0.4,1.0 evaluator.weak_tests=0.0
reflexion-lab report --out report runs/2*-basics-s? && gzip -9nc report/cases.csv > "$here/cases.csv.gz"
python -m experiments.noise_of_feedback.analysis
