"""Runs as data sets of Hugging Face `datasets`."""

import sys

import pytest

import reflexion_lab as rl


def test_a_data_set_from_disk_equals_the_frame(write_run, tmp_path):
    datasets = pytest.importorskip("datasets")
    folder = write_run({"a": [(0.5, False), (1, True)]})
    frame = rl.load(folder, texts=True).attempts
    rl.to_dataset(folder).save_to_disk(str(tmp_path / "attempts"))
    rl.to_dataset(folder).to_parquet(str(tmp_path / "attempts.parquet"))
    saved = datasets.load_from_disk(str(tmp_path / "attempts"))
    parquet = datasets.Dataset.from_parquet(str(tmp_path / "attempts.parquet"), cache_dir=str(tmp_path))
    assert saved.column_names == parquet.column_names == list(frame.columns)
    for name in ("run_id", "task_id", "number", "passed", "solution"):
        assert (
            saved[name][:] == parquet[name][:] == frame[name].astype(object).where(frame[name].notna(), None).tolist()
        )


def test_every_table_is_a_data_set_and_another_name_is_refused(write_run):
    pytest.importorskip("datasets")
    folder = write_run({"a": [(0.5, False), (1, True)]})
    for name, frame in rl.load(folder)._asdict().items():
        assert len(rl.to_dataset(folder, table=name, texts=False)) == len(frame)
    with pytest.raises(ValueError, match="table: got 'attempt', expected one of runs, tasks, attempts,"):
        rl.to_dataset(folder, table="attempt")


def test_a_missing_package_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match=r"pip install datasets"):
        rl.to_dataset("runs/*")
