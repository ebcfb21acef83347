import pytest

from reflexion_lab.runner.folder.folder import RunFolder


@pytest.fixture
def folder(tmp_path):
    """An empty run folder."""
    return RunFolder(tmp_path)
