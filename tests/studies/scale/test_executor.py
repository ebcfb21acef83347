"""Executors before anything is started."""

import pickle
import subprocess
import sys

import pytest

from reflexion_lab.errors import ConfigError, Unanswered
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.build import plain
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.parts import Local
from reflexion_lab.runner.folder.manifest import config_digest
from reflexion_lab.studies.scale.cluster import Cluster
from reflexion_lab.tasks.sandbox.sandbox import Limits


def test_the_executor_is_no_part_of_the_config_digest():
    here, there = compose(), compose("executor=ray", "executor.workers=7", "executor.address=head:6379")
    assert config_digest(plain(here)) == config_digest(plain(there))


def test_a_run_without_an_executor_runs_in_this_process(tmp_path):
    cfg = compose("model=simulated", "tracker=none", "actor=single_shot", "benchmark.limit=1", f"run_root={tmp_path}")
    cfg.executor = None  # as manifests of earlier versions have it
    lab = assemble(cfg)
    lab.close()
    assert isinstance(lab.executor, Local)


@pytest.mark.parametrize("name", ["workers", "cpus"])
def test_an_impossible_value_is_named(name):
    with pytest.raises(ConfigError, match=rf"Cluster\.{name}: got 0, expected 1 to 1000"):
        Cluster(**{name: 0})


def test_without_ray_one_line_says_how_to_install_it():
    script = (
        "import sys; sys.modules['ray'] = None; sys.argv = ['lab', 'run', 'executor=ray', 'tracker=none']; "
        "from reflexion_lab.cli.main import main; sys.exit(main())"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert process.returncode == 2
    (line,) = (line for line in process.stderr.splitlines() if not line.startswith("warning"))
    assert "pip install 'reflexion_lab[ray]'" in line


def test_a_config_with_a_secret_is_refused_and_not_repeated():
    public = {"model": {"api_key_env": "OPENAI_API_KEY"}, "storage": {"url": "postgresql://me@host/lab", "a": "${b}"}}
    assert Cluster().pool(Limits(), 3, public).each == 3
    for section, name, value in (
        ("storage", "url", "postgresql://me:hunter2hunter2@host/lab"),
        ("model", "base_url", "https://host/v1?api_key=hunter2hunter2"),
        ("model", "api_key", "hunter2hunter2"),
    ):
        with pytest.raises(ConfigError, match=rf"{section}\.{name}: got a key or password") as caught:
            Cluster().pool(Limits(), None, {section: {name: value}})
        assert "hunter2" not in str(caught.value)


def test_an_unanswered_call_is_pickled_in_whole():
    error = Unanswered("the server is away", "rate_limited", True)
    error.add_note("while acting: task t, attempt 2")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.outcome, copy.is_lasting, copy.__notes__) == (
        "the server is away", "rate_limited", True, ["while acting: task t, attempt 2"],
    )  # fmt: skip
