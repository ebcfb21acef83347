#!/usr/bin/env bash
# Five minutes on two cores. Needs the recorded runs in ../shared/data, or where REFLEXION_LAB_DATA says. Options, such as
# `--sheet /tmp/sheet.csv` for a blind sheet, go to `cases`.
set -euo pipefail
t="${REFLEXION_LAB_DATA:-../shared/data}/transcripts"
here=experiments/recorded_reflections

python -m experiments.recorded_reflections.cases --out "$here" "$@" \
    "$t"/{agentevals_reflexion_humaneval,cray_deepseek_humaneval,noah_ucs_humaneval_gpt4,noah_mbpp_gpt4}.jsonl.gz \
    "$t"/agentevals_{simple,simple_repeat,simple_incr_temp,simple_boosting}.jsonl.gz
python -m experiments.recorded_reflections.analysis
