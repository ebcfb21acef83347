#!/usr/bin/env bash
# Two minutes: the differences in designs.csv.
set -euo pipefail
for design in "138 3" "138 5" "400 3" "400 5"; do
    read -r tasks seeds <<< "$design"
    reflexion-lab power --tasks "$tasks" --clusters 138 --seeds "$seeds" --discordance 0.17 --comparisons 3 --studies 500
done
