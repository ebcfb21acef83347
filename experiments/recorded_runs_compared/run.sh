#!/usr/bin/env bash
# Twenty minutes on two busy cores. Needs the recorded runs in ../shared/data, or where REFLEXION_LAB_DATA says; ends with
# the evidence, tables, page and figures here.
set -euo pipefail
data="${REFLEXION_LAB_DATA:-../shared/data}"
here=experiments/recorded_runs_compared
t="$data/transcripts"
trials="$data/trials"

python -m experiments.recorded_runs_compared.execution --out "$here" \
    "$t"/agentevals_{reflexion_humaneval,simple,simple_repeat,simple_incr_temp,simple_boosting}.jsonl.gz \
    "$t"/{noah_mbpp_gpt4,noah_ucs_humaneval_gpt4,cray_deepseek_humaneval,ldb_humaneval,ldb_mbpp}.jsonl.gz
python -m experiments.recorded_runs_compared.trials_report --out "$here" "$trials" \
    "$trials"/hotpotqa/ReAct__{base__100_questions_5,reflexion__100_questions_7}_trials.txt.gz \
    "$trials"/hotpotqa/CoT__{no_context__base__100_questions_5,no_context__reflexion__100_questions_5}_trials.txt.gz \
    "$trials"/hotpotqa/CoT__context__reflexion__100_questions_8_trials.txt.gz
python -m experiments.recorded_runs_compared.analysis
