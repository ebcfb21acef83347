#!/usr/bin/env bash
# Half an hour on two idle cores: the evidence of this plan, with a rehearsal against the stand-in. No key, no model.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
evidence="python -m experiments.own_words_api.evidence"
python -m experiments.own_words_api.stub --port 8010 & stub=$!
trap 'kill $stub' EXIT
sleep 5
export OPENAI_BASE_URL=http://127.0.0.1:8010/v1 OPENAI_API_KEY=rehearsal
mkdir -p runs/own_words_api
study=runs/own_words_api/rehearsal.yaml
sed 's/tracker=none/tracker=none model.price_per_million=[0.5,1.5]/' "$here/study.yaml" > "$study"
reflexion-lab study register "$study"
reflexion-lab study run "$study" run_root=runs/own_words_api quiet=true
reflexion-lab study check "$study" runs/own_words_api/2*
$evidence costs runs/own_words_api
$evidence designs
$evidence words
python -m experiments.own_words_api.analysis
