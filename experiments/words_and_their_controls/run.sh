#!/usr/bin/env bash
# Half an hour on two idle cores, some 640 calls of SmolLM2; after experiments/oracle_words in the same run root, 400.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
reflexion-lab study run "$here/study.yaml" quiet=true
reflexion-lab report --one-seed --baseline feedback_only --out report \
    runs/2*-{feedback_only,reflexion,length_matched,reflexion_shuffled}-basics-s0
gzip -9nc report/cases.csv > "$here/cases.csv.gz"
python -m experiments.words_and_their_controls.analysis
