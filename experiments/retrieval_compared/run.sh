#!/usr/bin/env bash
# Two minutes on two cores where runs/embeddings.sqlite holds the vectors, four where it does not. Needs the recorded runs
# in ../shared/data, or where REFLEXION_LAB_DATA says.
set -euo pipefail
data="${REFLEXION_LAB_DATA:-../shared/data}/transcripts"
python -m experiments._tools.retrieval --out experiments/retrieval_compared \
    "$data/agentevals_reflexion_humaneval.jsonl.gz" "$data/cray_deepseek_humaneval.jsonl.gz" \
    "$data/noah_ucs_humaneval_gpt4.jsonl.gz" "$data/noah_mbpp_gpt4.jsonl.gz"
python -m experiments.retrieval_compared.analysis
