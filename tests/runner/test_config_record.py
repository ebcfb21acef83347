"""A config with other values is the config that would have been composed with them."""

import pytest
from omegaconf import OmegaConf

from reflexion_lab import compose
from reflexion_lab.runner.config.record import RunConfig

LIMIT = "memory.shared.items.max_tokens"


@pytest.mark.parametrize(
    ("key", "reads", "value"),
    [
        (LIMIT, {}, 300),
        (LIMIT, {"curator.max_steps": "${curator.token_budget}"}, 300),
        (LIMIT, {"curator.sampling.seed": "${..token_budget}"}, 300),
        ("memory.shared.items", {"curator.max_steps": f"${{{LIMIT}}}"}, {"max_tokens": 300}),
        ("run_root", {"actor.names": ["a/${run_root}", "${run_root}", "run_root"]}, "elsewhere"),
        ("arm", {"actor.mine": "${oc.env:NOT_THERE,${arm}}"}, "other"),
    ],
)
def test_other_values_are_read_by_interpolations(key, reads, value):
    cfg = compose("model=simulated", "curator=ace")
    for place, text in reads.items():
        OmegaConf.update(cfg, place, text, force_add=True)
    changed = RunConfig.of(cfg).having({key: value})
    OmegaConf.update(cfg, key, value, merge=False)
    assert changed == RunConfig.of(cfg)
    assert changed.having({"seed": 9}).whole["actor"]["sampling"]["seed"] == 9
