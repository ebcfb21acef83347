"""Where a key comes from, who may read it, and that it is never shown."""

import os

import pytest

from reflexion_lab.agent.models.api_keys import ApiKey
from reflexion_lab.agent.models.openai import OpenAIModel
from reflexion_lab.errors import Unanswered

KEY = "sk-planted-0123456789abcdef"


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "key"
    file.write_text(f"{KEY}\n")
    file.chmod(0o600)
    return file


def refused(path):
    with pytest.raises(Unanswered) as caught:
        ApiKey("UNSET", str(path), is_needed=True).read()
    assert (caught.value.outcome, caught.value.is_lasting) == ("key_refused", True)
    assert "sk-" not in str(caught.value)
    return str(caught.value)


def test_a_file_comes_before_the_environment_and_changes_no_fingerprint(file, monkeypatch):
    monkeypatch.setenv("OWN_KEY", "other")
    assert ApiKey("OWN_KEY", str(file), is_needed=True).read() == KEY
    assert ApiKey("OWN_KEY", None, is_needed=True).read() == "other"
    monkeypatch.setenv("OPENAI_API_KEY", "other")
    models = [OpenAIModel("m", "http://127.0.0.1:9/v1", api_key_file=path) for path in (None, str(file))]
    assert len({model.fingerprint for model in models}) == 1
    assert all("planted" not in repr(vars(model)) for model in models)
    for model in models:
        model.close()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o610, 0o601, 0o644])
def test_a_file_that_others_may_open_is_refused(file, mode):
    file.chmod(mode)
    message = refused(file)
    assert f"chmod 600 {file}" in message
    assert f"mode {mode:o}" in message


def test_what_is_no_file_with_one_key_is_refused(file, tmp_path):
    assert f"got {tmp_path}, expected a regular file" in refused(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    assert f"got {pipe}, expected a regular file" in refused(pipe)
    assert "cannot be read (No such file" in refused(tmp_path / "none")
    file.write_text(" \n")
    assert "is empty" in refused(file)
    file.write_bytes(b"\xff" + KEY.encode())
    assert "characters that no key has" in refused(file)
    file.write_text(f"{KEY}\n{KEY}\n")
    assert "characters that no key has" in refused(file)


def test_a_new_key_is_used_and_former_keys_stay_hidden(file):
    key = ApiKey("UNSET", str(file), is_needed=True)
    key.read()
    file.write_text("sk-planted-new")
    assert key.read() == "sk-planted-new"
    assert key.hidden(f"<{KEY}> <sk-planted-new>") == "<[key]> <[key]>"


@pytest.mark.parametrize("value", ["x", "EMPTY", "ollama", "placeholder", "not_needed", "12345678"])
def test_a_placeholder_is_no_secret_and_a_warning_says_so(monkeypatch, value):
    monkeypatch.setenv("OWN_KEY", value)
    key = ApiKey("OWN_KEY", None, is_needed=True)
    with pytest.warns(UserWarning, match="OWN_KEY .* taken for a placeholder"):
        key.read()
    assert key.hidden(f"return {value}") == f"return {value}"
