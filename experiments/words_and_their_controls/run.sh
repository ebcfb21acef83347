#!/usr/bin/env bash
# About a quarter of an hour a seed on two idle cores. Then:
# reflexion-lab report --out report --figures svg --baseline feedback_only runs/FOLDER...
# which writes table.csv and figures. Those beside this file are of an earlier version, whose intervals took tasks x seeds
# for independent; `report` takes tasks as clusters, and matches tokens, too.
set -euo pipefail
for seed in 0 1; do
    lab="reflexion-lab run benchmark=basics quiet=true model.threads=1 seed=$seed"
    $lab experiment=simple
    $lab
    own="$(ls -d runs/*-reflexion-basics-s$seed | tail -1)"
    $lab reflector=none arm=feedback_only
    $lab reflector=generic arm=generic
    $lab reflector=shuffled "reflector.pool=[$PWD/$own]" arm=shuffled
    $lab reflector=length_matched arm=length_matched
    $lab reflector=keywords arm=keywords
    $lab experiment=warming
    $lab reflector=rules arm=rules
    $lab reflector=feedback_only arm=feedback_again
done
