#!/usr/bin/env bash
# About 20 minutes on two cores. Then:
# reflexion-lab report --out report --figures svg --baseline feedback_only runs/FOLDER...
# which writes table.csv and figures. Those beside this file are of an earlier version, whose intervals took tasks x seeds
# for independent; `report` takes tasks as clusters, and matches tokens, too.
set -euo pipefail
reflexion-lab run -m seed=0,1,2 benchmark=basics quiet=true experiment=simple
reflexion-lab run -m seed=0,1,2 benchmark=basics quiet=true
reflexion-lab run -m seed=0,1,2 benchmark=basics quiet=true reflector=none arm=feedback_only
reflexion-lab run -m seed=0,1,2 benchmark=basics quiet=true reflector=rules arm=rules
