"""Files of rows for the readers of benchmarks, and the errors about them."""

from pathlib import Path

import pytest


@pytest.fixture
def written(write_rows):
    """Writes rows (text as it is, anything else as JSON) to a file; returns its path."""

    def written(*rows, name="rows.jsonl"):
        return str(write_rows(*rows, name=name))

    return written


@pytest.fixture
def complaint(written):
    """The error of a reader about a file of rows, without the file's folder."""

    def complaint(read, *rows, name="rows.jsonl"):
        path = written(*rows, name=name)
        with pytest.raises(ValueError) as error:
            read(path)
        return str(error.value).replace(f"{Path(path).parent}/", "")

    return complaint
