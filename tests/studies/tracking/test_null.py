import subprocess
import sys
from pathlib import Path

from reflexion_lab.studies.tracking.null import NullTracker


def test_null_tracker_writes_nothing_and_has_nowhere_to_look(tmp_path: Path) -> None:
    assert NullTracker().track(tmp_path) == ""
    assert list(tmp_path.iterdir()) == []


def test_null_tracker_imports_no_mlflow() -> None:
    program = (
        "import sys; from pathlib import Path; from reflexion_lab.studies.tracking.null import NullTracker; "
        "NullTracker().track(Path('.')); print('mlflow' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
