"""Runs as Hugging Face data sets, for the hub, Parquet files, or training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reflexion_lab.errors import ConfigError
from reflexion_lab.tasks.benchmarks.datasets_in import INSTALL

if TYPE_CHECKING:
    import datasets


def to_dataset(*runs: object, table: str = "attempts", texts: bool = True) -> datasets.Dataset:
    """A table of some runs as a `datasets.Dataset`.

    Its methods write it: `save_to_disk`, `to_parquet`, `to_json`, `push_to_hub`. Verdicts of hidden tests stand in
    columns whose names begin with `hidden_`; the hidden tests themselves are in none.

    Parameters
    ----------
    runs : Path, str, Run or list of these
        Run folders, patterns such as `runs/*`, or sweeps, as of `load`.
    table : str, default "attempts"
        `runs`, `tasks`, `attempts`, `checks`, `reflections` or `memory`.
    texts : bool, default True
        With programs, prompts, replies, feedback and reflections.

    Returns
    -------
    datasets.Dataset
        One row per row of the table.

    Raises
    ------
    ConfigError
        There is no such table, or the package `datasets` is not installed.
    FolderError
        No run is named, or a folder cannot be read.
    """
    from reflexion_lab.notebook.running import load

    try:
        from datasets import Dataset
    except ImportError:
        raise ConfigError("to_dataset", "no package datasets", INSTALL) from None
    frames = load(*runs, texts=texts)
    if table not in frames._fields:
        raise ConfigError("table", repr(table), f"one of {', '.join(frames._fields)}")
    frame = getattr(frames, table)
    categories = frame.select_dtypes("category").columns  # Arrow cannot cast a category without values
    return Dataset.from_pandas(frame.astype(dict.fromkeys(categories, "string")), preserve_index=False)
