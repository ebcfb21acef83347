#!/usr/bin/env bash
# About 20 minutes on two idle cores: one greedy attempt at each of 138 tasks, then every prompt on those that failed.
# With `--style chat` the prompts of chats, whose replies are longer: about half an hour more.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
reflexion-lab run experiment=quoted benchmark=basics benchmark.load.seed=77 benchmark.load.n=138 \
    loop.max_attempts=1 temperature=0 quiet=true tracker=none
run="$(ls -d runs/*-quoted-basics-s0 | tail -1)"
python -m experiments._tools.uptake "$run" --style continuation chat --out "$here"
