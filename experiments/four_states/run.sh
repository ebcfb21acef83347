#!/usr/bin/env bash
# About an hour on two busy cores, no model. A simulated student learns the rules of task families, then solves later
# tasks of these families in four states of memory: before, applied, rolled back and applied again.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
common=("hydra.searchpath=[file://$here/../memory_methods/conf]" benchmark=families model=family_student
    model.without=0.05 model.with_rule=0.95 model.with_wrong=0.05 model.insight=0.9 actor=single_shot loop.max_attempts=1
    benchmark.load.families=50 memory.shared.round_size=1 memory.shared.items.max_tokens=0 tracker=none quiet=true)

run() { # STATE WORLD DRAWS OVERRIDE...: later tasks with frozen memory, once with each of the draws
    local state=$1 world=$2 draws=$3
    shift 3
    reflexion-lab run -m "${common[@]}" "benchmark.load.seed=$world" benchmark.load.n=300 "benchmark.ids=$ids" \
        memory.shared.items.frozen=true "seed=$(for draw in $draws; do echo "$draw$world"; done | paste -sd,)" \
        "arm=$state" "$@"
}

states() { # WORLD NAME OVERRIDE...: a curator learns the first tasks; then memory is rolled back and applied again
    local world=$1 name=$2
    shift 2
    local store=(store=jsonl "store.place=stores/$name-$world") first="" second=""
    [ "$world" != 0 ] || first=" 1" second=" 2" # in one world also with the draws of the state before
    reflexion-lab run "${common[@]}" "benchmark.load.seed=$world" benchmark.load.n=50 "seed=$world" "arm=learn-$name" \
        "${store[@]}" "$@"
    local learnt
    learnt=$(echo runs/2*-"learn-$name"-families-s"$world")
    run "applied-$name" "$world" 2 "${store[@]}" "$@"
    reflexion-lab memory revert "$learnt" 0 --store "stores/$name-$world" --yes >/dev/null
    run "rolled_back-$name" "$world" "3$first" "${store[@]}" "$@"
    reflexion-lab memory revert "$learnt" 50 --store "stores/$name-$world" --yes >/dev/null
    run "applied_again-$name" "$world" "4$second" "${store[@]}" "$@"
    case $name in ace | dynamic_cheatsheet)
        run "half-$name" "$world" 5 "memory.shared.items.of=$learnt" memory.shared.items.after=25 "$@" ;;
    esac
}

for world in 0 1 2 3 4; do
    ids=$(python -m experiments.four_states.cases --ids "$world")
    run before-none "$world" 1 curator=none
    states "$world" ace curator=ace curator.token_budget=80000
    states "$world" dynamic_cheatsheet curator=dynamic_cheatsheet
    states "$world" full_history curator=full_history memory.shared.items.max_tokens=4000
    states "$world" filler_ace curator=filler curator.seed=0 curator@curator.first=ace curator.first.token_budget=80000
done
python -m experiments.four_states.cases runs/2* --out "$here"
python -m experiments.four_states.analysis
