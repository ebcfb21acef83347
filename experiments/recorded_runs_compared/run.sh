#!/usr/bin/env bash
# Twenty minutes on two busy cores. Needs the recorded runs in ../shared/data, or where REFLEXION_LAB_DATA says; ends with
# table.csv and figure.svg here, trials.csv and trials.svg for the agents, and run folders in runs/recorded.
set -euo pipefail
data="${REFLEXION_LAB_DATA:-../shared/data}"
here=experiments/recorded_runs_compared
out="${1:-runs/recorded}"
t="$data/transcripts"
cached=(--executions "$out/executions.sqlite")

reflexion-lab import "$t"/{noah_mbpp_gpt4,noah_ucs_humaneval_gpt4,cray_deepseek_humaneval,ldb_humaneval,ldb_mbpp}.jsonl.gz \
    --out "$out/others" "${cached[@]}"
systems=("$t"/agentevals_{reflexion_humaneval,simple,simple_repeat,simple_incr_temp,simple_boosting}.jsonl.gz)
options=(--hidden humaneval --prompts "$t/agentevals_prompts.json.gz" "${cached[@]}")
reflexion-lab import "${systems[@]}" "${options[@]}" --out "$out/as_run"
reflexion-lab import "${systems[@]}" "${options[@]}" --out "$out/two_attempts" --attempts 2

mkdir -p "$out/tables"
compare() {  # NAME BASELINE RUN...: at two attempts, and as run
    local name="$1" baseline="reflexion recorded.variant=$2" cut runs
    shift 2
    for cut in two_attempts as_run; do
        runs=()
        for pattern in "$@"; do
            for run in "$out/$cut"/recorded-$pattern-humaneval*-s[0-9]; do runs+=("$run"); done
        done
        reflexion-lab compare "${runs[@]}" --by recorded.variant --baseline "$baseline" --unit calls \
            --csv "$out/tables/$name.$cut.csv"
    done
}
turbo=gpt-4-turbo
compare $turbo $turbo-2024-04-09 reflexion-$turbo-2024-04-09 simple-$turbo-2024-04-09 \
    retry-$turbo-0409-{5repeats-no-temp-incr,5repeats-0.5temp,8repeats-no-temp-incr} warming-$turbo-0409-5step \
    escalation-l3-8b-gpt35-l3-70b-gpt4-0409
compare gpt-4 gpt-4-0613 {reflexion,simple}-gpt-4-0613 retry-gpt-4-0613-5repeats-no-temp-incr warming-gpt-4-0613-5step
compare gpt-3.5 gpt-3.5-turbo-0613 {reflexion,simple}-gpt-3.5-turbo-0613 \
    retry-gpt-3.5-turbo-0613-5repeats-no-temp-incr warming-gpt-3.5-turbo-0613-5step
python "$here/tabulate.py" "$here" "$out"/tables/*.csv
hotpotqa="$data/trials/hotpotqa"
python -m experiments._tools.trials "$data/trials" "$hotpotqa"/ReAct__base__100_questions_5_trials.txt.gz \
    "$hotpotqa"/ReAct__reflexion__100_questions_7_trials.txt.gz --out "$here"
