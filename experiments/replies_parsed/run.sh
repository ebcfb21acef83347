#!/usr/bin/env bash
# Three minutes on two idle cores. Needs the recorded runs in ../shared/data, or where REFLEXION_LAB_DATA says.
set -euo pipefail
data="${REFLEXION_LAB_DATA:-../shared/data}/transcripts"
python -m experiments._tools.parsing --out experiments/replies_parsed "$data"/*.jsonl.gz
python -m experiments.replies_parsed.analysis
