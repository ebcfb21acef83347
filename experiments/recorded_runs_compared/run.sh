#!/usr/bin/env bash
# Twenty minutes on two busy cores. Needs the recorded runs in ../shared/data, or where REFLEXION_LAB_DATA says; ends with
# the evidence, tables, page and figures here, and run folders in runs/recorded.
set -euo pipefail
data="${REFLEXION_LAB_DATA:-../shared/data}"
here=experiments/recorded_runs_compared
out="${1:-runs/recorded}"
t="$data/transcripts"
cached=(--executions "$out/executions.sqlite")

reflexion-lab import "$t"/agentevals_{reflexion_humaneval,simple,simple_repeat,simple_incr_temp,simple_boosting}.jsonl.gz \
    --hidden humaneval --prompts "$t/agentevals_prompts.json.gz" "${cached[@]}" --out "$out/as_run"
reflexion-lab import "$t"/{noah_mbpp_gpt4,noah_ucs_humaneval_gpt4,cray_deepseek_humaneval,ldb_humaneval,ldb_mbpp}.jsonl.gz \
    --out "$out/others" "${cached[@]}"

python -m experiments._tools.recorded_cases "$out"/others/*/ "$out"/as_run/*/ --transcripts "$t" --out "$here"
hotpotqa="$data/trials/hotpotqa"
python -m experiments._tools.trials "$data/trials" "$hotpotqa"/ReAct__base__100_questions_5_trials.txt.gz \
    "$hotpotqa"/ReAct__reflexion__100_questions_7_trials.txt.gz --out "$here"
python -m experiments.recorded_runs_compared.analysis
