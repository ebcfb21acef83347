#!/usr/bin/env bash
# About 25 minutes on two cores, no model: every memory across tasks for a simulated student, whose gain from the
# rules in its prompt is planted.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
common=("hydra.searchpath=[file://$here/conf]" benchmark=families model=family_student model.insight=0.9 actor=single_shot loop.max_attempts=1 benchmark.load.seed=0
    benchmark.load.n=240 benchmark.load.families=40 'benchmark.order=${seed}' tracker=none quiet=true)
unlimited=(memory.shared.round_size=1 memory.shared.items.max_tokens=0)
orders=seed=0,1,2,3,4,5,6,7,8,9

arm() { # NAME OVERRIDE...: a sweep over the orders
    local name=$1
    shift
    reflexion-lab run -m "${common[@]}" "${unlimited[@]}" "$orders" "arm=$name" "$@"
}

methods() {
    for curator in none raw_trajectories expel awm dynamic_cheatsheet memento a_mem gold; do
        arm "$curator" "curator=$curator"
    done
    arm none_again curator=none loop.first_draw=1000
    arm wisdom curator=wisdom loop.reflect_on_last=true # its words are reflections, here on failed last attempts
    arm full_history curator=full_history memory.shared.items.max_tokens=4000
    arm full_history_unlimited curator=full_history
    arm dynamic_cheatsheet_rs curator=dynamic_cheatsheet curator.variant=retrieval_synthesis
    arm reasoning_bank curator=reasoning_bank memory.shared.items.duplicates=keep
    arm memento_bm25 curator=memento retriever=bm25
    arm reasoning_bank_bm25 curator=reasoning_bank memory.shared.items.duplicates=keep retriever=bm25
    arm ace curator=ace curator.token_budget=80000
    arm expel_8 curator=expel memory.shared.round_size=8
    arm shuffled_memento curator=shuffled curator@curator.first=memento
    arm filler_memento curator=filler curator@curator.first=memento
    arm filler_expel curator=filler curator@curator.first=expel
}

naive() {
    for curator in none gold memento expel; do
        arm "naive_$curator" "curator=$curator" benchmark.load.stream=naive
    done
}

rounds() {
    for size in 4 16 50 240; do
        arm "rounds_expel_$size" curator=expel "memory.shared.round_size=$size"
        arm "rounds_ace_$size" curator=ace curator.token_budget=80000 "memory.shared.round_size=$size"
        arm "rounds_awm_$size" curator=awm "memory.shared.round_size=$size"
    done
    for size in 16 50; do
        arm "rounds_expel_all_$size" curator=expel curator.max_operations=0 "memory.shared.round_size=$size"
    done
}

matrix() { # NAME OVERRIDE...: ten orders of a stream, and frozen runs on its memory after 0, 60, 120, 180 and 240 rounds
    local name=$1 seed after
    shift
    for seed in 0 1 2 3 4 5 6 7 8 9; do
        local run=(reflexion-lab run "${common[@]}" "${unlimited[@]}" memory.shared.same_task=true "seed=$seed" "$@")
        "${run[@]}" "arm=matrix_$name"
        for after in 0 60 120 180 240; do
            "${run[@]}" "arm=frozen_${name}_$after" memory.shared.items.frozen=true "memory.shared.items.after=$after" \
                memory.shared.items.of="$(echo runs/2*-"matrix_$name"-families-s"$seed")"
        done
    done
}

methods & first=$!
(naive && rounds && matrix expel curator=expel && matrix capped curator=raw_trajectories memory.shared.items.max_items=5) &
wait "$first"
wait "$!"
python -m experiments.memory_methods.cases runs/2* --out "$here"
python -m experiments.memory_methods.analysis
