#!/usr/bin/env bash
# Ten minutes on two idle cores for SmolLM2, three for the stand-in, eight for the simulated student.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
reflexion-lab calibrate model=smollm2 model.slots=8 model.threads=1 temperature=0.3 run_root=runs/smollm2
cp runs/smollm2/sweeps/calibrate-*/calibration.json "$here/smollm2.json"
python -m experiments.own_words_api.stub &
trap 'kill %1' EXIT
sleep 10
export OPENAI_BASE_URL=http://127.0.0.1:8010/v1 OPENAI_API_KEY=rehearsal
reflexion-lab calibrate --tasks 80 model=openai model.model=gpt-3.5-turbo-0125 benchmark=humaneval temperature=0.2 run_root=runs/stub
cp runs/stub/sweeps/calibrate-*/calibration.json "$here/stub.json"
python -m experiments.calibration.planted --out "$here"
python -m experiments.calibration.analysis
