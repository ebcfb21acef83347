"""Packages that a task requires: readable and importable for its programs alone, inside the same layers."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pandas
import pytest
from msgspec.structs import replace

import reflexion_lab as rl
from reflexion_lab.errors import ConfigError
from reflexion_lab.records import Task
from reflexion_lab.tasks.evaluators.executed import executed
from reflexion_lab.tasks.sandbox import attacks
from reflexion_lab.tasks.sandbox.cached import CachedSandbox
from reflexion_lab.tasks.sandbox.packages import Packages, packages

CHECK = ("assert f(2) == 4",)
TASK = Task(
    task_id="n", prompt='def f(x):\n    """Twice x."""\n', entry_point="f", requires=("numpy",),
    visible_tests=CHECK, hidden_tests=("assert f(3) == 6",),
    canonical_solution="    import numpy as np\n    return int(np.add(x, x))\n",
)  # fmt: skip
PANDAS = Path(pandas.__file__)


def only(sandbox, program, requires=("numpy",)):
    return executed(replace(TASK, requires=requires), program, CHECK, sandbox).checks[0]


def test_what_a_task_requires_is_there_for_it_alone(sandbox):
    program = "import numpy as np\ndef f(x): return int(np.array([x, x]).sum())"
    assert only(sandbox, program).outcome == "pass"
    for required, other in (((), "numpy"), (("numpy",), "pandas"), (("numpy",), "yaml"), (("six",), "numpy")):
        check = only(sandbox, f"import {other}\ndef f(x): return 2 * x", required)
        assert (check.outcome, check.error_type) == ("error", "ModuleNotFoundError")
    stdin = replace(TASK, kind="program")
    sums = executed(stdin, "import numpy as np\nprint(np.ones(3).sum())", ['{"input": "", "output": "3.0"}'], sandbox)
    assert sums.checks[0].outcome == "pass"


@pytest.mark.parametrize("act", [
    f"open({str(PANDAS)!r})", f"os.listdir({str(PANDAS.parents[1])!r})", "open(np.__file__, 'a')",
    "os.symlink('/', os.path.dirname(np.__path__[0]) + '/hostile-link')", "os.remove(np.__path__[0])",
    "ctypes.CDLL(None).fork() < 0 and os.fork()",
])  # fmt: skip
def test_a_program_with_packages_is_in_the_same_layers(sandbox, act):
    check = only(sandbox, f"import ctypes, os\nimport numpy as np\n{act}\ndef f(x): return 2 * x")
    assert (check.outcome, check.error_type) == ("error", "PermissionError")


def test_hostile_programs_get_the_right_verdict_beside_numpy(sandbox):
    beside = SimpleNamespace(run=partial(sandbox.run, requires=("numpy",)))
    every = [attack for attack in attacks.read(attacks.QUICK) if not attack.probe]
    assert [attack.name for attack in every if not attacks.judge(beside, attack).right] == []


def test_usual_calls_of_scikit_learn_read_no_file_of_the_machine(sandbox):
    setup = "import numpy as np\nX, y = np.arange(40.).reshape(20, 2), [0, 1] * 10\n"
    for act in (
        "from sklearn.cluster import KMeans; KMeans(2, n_init=1).fit(X)",
        "from sklearn.mixture import GaussianMixture; GaussianMixture(2).fit(X)",
        "from sklearn.metrics import pairwise_distances_argmin; pairwise_distances_argmin(X, X)",
        "from sklearn.ensemble import *; RandomForestClassifier(3, n_jobs=-1).fit(X, y)",
        "from sklearn.ensemble import *; HistGradientBoostingClassifier(max_iter=2).fit(X, y)",
        "from joblib import Parallel, delayed; Parallel(2, backend='loky')(delayed(abs)(i) for i in y)",
        "import scipy.linalg, threadpoolctl as t; assert {pool['num_threads'] for pool in t.threadpool_info()} == {1}",
    ):
        check = only(sandbox, f"{setup}{act}\ndef f(x): return 2 * x", ("scikit-learn",))
        assert (check.outcome, check.message) == ("pass", ""), act


def test_packages_do_not_count_towards_the_memory_of_a_program(sandbox):
    for size, outcome in ((400, "pass"), (600, "memory")):
        program = f"import numpy as np\na = np.empty({size} << 20, 'u1')\ndef f(x): return 2 * x"
        assert only(sandbox, program).outcome == outcome


def test_a_package_is_known_by_its_name_and_its_modules_and_comes_with_what_it_needs():
    by_module, by_name = packages(("sklearn",)), packages(("scikit-learn",))
    assert by_module.modules == by_name.modules == ("sklearn",) and by_module.versions == by_name.versions
    assert {"numpy", "scipy", "scikit-learn"} < {version.partition("==")[0] for version in by_name.versions}
    missing = ("nowhere", "zope.interface", "sklearn.nowhere", "google.nowhere", "google.protobuf.nowhere")
    assert packages(("numpy", *missing, "six.moves")).missing == missing and packages(()) == Packages()
    assert packages(("sklearn.svm", "os", "unittest.mock")) == by_module and packages(("random",)) == Packages()
    for names in (("PIL.Image", "Pillow", "pillow"), ("google.protobuf", "google.protobuf.message", "protobuf")):
        assert len({packages((name,)) for name in names}) == len(packages(names).versions) == 1


def test_what_is_not_installed_is_no_verdict_and_is_not_kept(sandbox, tmp_path):
    cached = CachedSandbox(sandbox, tmp_path / "executions.sqlite")
    for task in (replace(TASK, requires=("nowhere",)), replace(TASK, requires=("nowhere",), kind="program")):
        [check] = executed(task, "print(1)", ['{"input": "", "output": "1"}'], cached).checks
        assert (check.outcome, check.error_type) == ("harness_error", "NotInstalled")
        assert "pip install nowhere" in check.message
    assert cached.hits == 0
    outcomes = [only(cached, TASK.canonical_program, required).outcome for required in (("numpy",), ())]
    assert outcomes == ["pass", "error"]


def test_a_run_says_before_it_starts_what_is_not_installed(tmp_path):
    def run(*overrides):
        tasks = [TASK, replace(TASK, task_id="m", requires=("google.nowhere",), prompt=f"# another\n{TASK.prompt}")]
        common = ("experiment=simple", "model=simulated", "tracker=none", "model.first=1", *overrides)
        return rl.run(*common, benchmark=tasks, quiet=True, run_root=tmp_path)

    with pytest.raises(ConfigError, match=r"1 task needing google.nowhere, such as m, .*pip install google.nowhere"):
        run()
    assert not list(tmp_path.iterdir())
    summary = rl.load(run("benchmark.keep_failing=true")).runs.iloc[0]
    assert summary["pass_at_1"] == 1.0


def test_a_package_that_cannot_be_imported_is_named(sandbox, tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text("1 / 0")
    broken = Packages(("broken",), (tmp_path / "broken.py",))
    monkeypatch.setattr("reflexion_lab.tasks.sandbox.sandbox.packages", lambda requires: broken)
    check = only(sandbox, "def f(x): return 2 * x", ("broken",))
    assert check.outcome == "harness_error" and "broken cannot be imported (division by zero)" in check.message
