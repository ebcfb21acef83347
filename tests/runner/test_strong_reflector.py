"""A reflector with its own model: two different simulated models in one loop."""

import pytest

from reflexion_lab.analysis.run_log import Log
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.studies.run import finish
from tests import builders as make

SMALL = (
    "benchmark=basics", "benchmark.load.n=6", "loop.max_attempts=2", "actor=single_shot", "tracker=none", "quiet=true",
    "cache.mode=off",
)  # fmt: skip


@pytest.fixture
def run(tmp_path):
    """Runs a config; returns the run's folder."""

    def run(*overrides, base=SMALL):
        cfg = compose(*base, f"run_root={tmp_path / 'runs'}", *overrides)
        lab = assemble(cfg)
        finish(lab)
        return lab.folder

    return run


def test_a_strong_reflector_writes_the_words_of_a_weak_actor(run):
    folder = run(
        "experiment=reflexion", "arm=strong_reflector", "model=simulated", "model.first=0",
        "model@roles.reflector=simulated", "roles.reflector.first=1",
    )  # fmt: skip
    manifest = folder.manifest
    assert set(manifest.role_fingerprints) == {"reflector"}
    assert manifest.role_fingerprints["reflector"] != manifest.model_fingerprint
    reflections = [attempt.reflection for attempt in Log.read(folder).every if attempt.reflection]
    assert {reflection.source for reflection in reflections} == {"llm"}
    assert all(make.reflection().usage.calls < reflection.usage.calls for reflection in reflections)
