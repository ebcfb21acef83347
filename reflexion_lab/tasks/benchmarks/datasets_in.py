"""Rows of Parquet files, of folders that `save_to_disk` wrote, and of the Hugging Face hub, through `datasets`."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from reflexion_lab.errors import DataError

HUB = "hf://datasets/"
INSTALL = "pip install datasets"


def is_dataset(path: str) -> bool:
    """Whether `path` is read through `datasets`."""
    try:
        is_saved = any((Path(path) / name).is_file() for name in ("state.json", "dataset_dict.json"))
    except OSError:  # a name too long
        is_saved = False
    return path.startswith(HUB) or path.endswith(".parquet") or is_saved


def dataset_rows(path: str, instead: str = "") -> tuple[list[bytes], str]:
    """The rows of a data set as JSON, and its digest.

    Parameters
    ----------
    path : str
        A `.parquet` file; a folder of `save_to_disk`, or a split in it; or `hf://datasets/OWNER/NAME[/SUBSET[/SPLIT]]`.
    instead : str
        What to do where `datasets` is not installed or the hub cannot be read.

    Returns
    -------
    rows : list of bytes
        One JSON object a row, without the columns that are null or NaN in it; Infinity as Python's `json` writes it.
    digest : str
        SHA-256 in hex: of a file its bytes, else of the rows as JSON with sorted keys.

    Raises
    ------
    DataError
        The package is missing, the data set cannot be read, or it has several splits and `path` names none.
    """
    try:
        import datasets
    except ImportError:
        raise DataError(path, "no package datasets", INSTALL, instead) from None
    try:
        rows = _rows(datasets, path)
    except DataError:
        raise
    except Exception as problem:  # `datasets`, its file systems and its HTTP client raise a dozen unrelated kinds
        reason = " ".join(str(problem).split()) or type(problem).__name__
        hint = f"connect once, or {instead}" if instead else ""
        raise DataError(f"{path} could not be read ({reason})", expected="a data set", hint=hint) from problem
    data = Path(path).read_bytes() if path.endswith(".parquet") else msgspec.json.encode(rows, order="sorted")
    encoded = [json.dumps({key: value for key, value in row.items() if _is_value(value)}, default=str) for row in rows]
    return [row.encode() for row in encoded], hashlib.sha256(data).hexdigest()


def _is_value(value: object) -> bool:
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def dataset_name(path: str) -> str:
    """The name without folder, suffix, owner, subset and split."""
    if path.startswith(HUB):
        return path.removeprefix(HUB).split("/")[1]
    folder = Path(path)
    is_split = (folder.parent / "dataset_dict.json").is_file()
    return folder.parent.name if is_split else folder.name.removesuffix(".parquet")


def _rows(datasets: Any, path: str) -> list[dict[str, Any]]:
    if path.endswith(".parquet"):
        from pyarrow.parquet import read_table

        return list(datasets.Dataset(read_table(path)))
    if not path.startswith(HUB):
        return list(_only_split(datasets.load_from_disk(path), path))
    owner, name, subset, split = _parts(path)
    return list(_only_split(datasets.load_dataset(f"{owner}/{name}", subset, split=split), path))


def _parts(path: str) -> Sequence[str | None]:
    parts = path.removeprefix(HUB).split("/")
    if not 2 <= len(parts) <= 4 or not all(parts):
        raise DataError("benchmark.load.path", repr(path), f"{HUB}OWNER/NAME[/SUBSET[/SPLIT]]")
    return [*parts, None, None][:4]


def _only_split(data: Any, path: str) -> Any:
    """`data` where it is no mapping of splits, else its only one."""
    if not isinstance(data, dict):
        return data
    if len(data) != 1:
        expected = f"one of them behind the path, such as {path}/{next(iter(data), 'test')}"
        raise DataError(path, f"the splits {', '.join(data)}", expected)
    return next(iter(data.values()))
