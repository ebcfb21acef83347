#!/usr/bin/env bash
# About 20 minutes on two cores. Then: python experiments/tabulate.py experiments/words_of_a_small_model feedback_only runs/FOLDER...
set -euo pipefail
reflexion-lab run -m seed=0,1,2 benchmark=basics quiet=true experiment=simple
reflexion-lab run -m seed=0,1,2 benchmark=basics quiet=true
reflexion-lab run -m seed=0,1,2 benchmark=basics quiet=true reflector=none arm=feedback_only
reflexion-lab run -m seed=0,1,2 benchmark=basics quiet=true reflector=rules arm=rules
