import hashlib
from itertools import product

import pytest
from msgspec.structs import replace

from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.io.files import file_digest
from reflexion_lab.runner.folder.manifest import changes, config_digest, differences, new_manifest, resumption
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark

CONFIG = {"arm": "a", "seed": 0, "feedback_source": "visible", "workers": 1, "recall": {"omega": 1}}


def manifest(**changed):
    return new_manifest(CONFIG | changed, Benchmark("own", ()), {"actor": ScriptedModel(str)}, ["rlimits"])


@pytest.mark.parametrize(("uri", "expected"), [
    ("postgresql://me:planted-secret@host/db", "postgresql://host/db"),
    ("postgresql://me:planted/secret@host/db", "postgresql://host/db"),
    ("postgresql://me:planted@secret@host/db", "postgresql://host/db"),
    ("postgresql://me@host/db?password=planted-secret&sslmode=require",
     "postgresql://host/db?password=&sslmode=require"),
])  # fmt: skip
def test_no_login_reaches_a_manifest(uri, expected):
    written = manifest(tracker={"uri": uri}, more=[uri])
    assert "secret" not in str(written)
    assert written.config["tracker"] == {"uri": expected}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("api_key", "abc"), ("auth_token", "abc"), ("password", "abc"), ("gateway_token", "planted-7f3a9c"),
        ("key", "a-long-planted-passphrase"), ("note", "sk-planted0123456789abcdefgh"),
        ("sentences", ["of sk-planted0123456789abcdefgh"]),
    ],
)  # fmt: skip
def test_a_secret_in_a_field_stays_out_of_the_manifest(field, value):
    written = manifest(actor={field: value})
    assert "planted" not in str(written)
    assert "abc'" not in str(written)
    assert "[hidden " in str(written.config["actor"][field])


def test_plain_words_are_no_secrets_because_of_their_field():
    words = ("AAA", "difficulty", "</s>", "<|endoftext|>", "12345678")
    for field, value in product(("sort_key", "stop_token", "eos_token", "key"), words):
        assert manifest(actor={field: value}).config["actor"] == {field: value}


def test_a_manifest_says_what_ran():
    written = manifest()
    assert (written.isolation, written.slots) == (("rlimits",), 64)
    names = {"solve", "continue_solve", "memory", "reflect", "write_tests", "examples.json"}
    assert names <= written.prompt_digests.keys()
    assert "msgspec" in written.package_versions


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({"workers": 8}, True), ({"recall": {"omega": 2}}, False), ({"seed": 1}, False),
        ({"sandbox": {"servers": 2}}, True), ({"store": {"place": "elsewhere"}}, True),
        ({"memory": {"reflection_files": "files"}}, True), ({"recall": {"omega": 1.0}}, True),
        ({"prices": {"path": "cheap.yaml"}}, True), ({"actor": {"stop_token": "<|im_end|>"}}, False),
        ({"actor": {"password": "other-planted-1"}}, False),
    ],
)  # fmt: skip
def test_a_digest_depends_on_measured_keys_alone(changed, same):
    base = {"sandbox": {"servers": 1}, "store": {"place": "here"}, "memory": {"reflection_files": None}}
    base |= {"actor": {"stop_token": "AAA", "password": "planted-1"}, "prices": {"path": None}}
    first, other = manifest(**base), manifest(**base | changed)
    assert (first.config_digest == other.config_digest) is same
    assert (differences(first, other) == []) is same
    assert first.config["actor"]["stop_token"] == "AAA"
    assert "planted" not in str((first, other))
    assert config_digest(first.config) == first.config_digest


def test_prices_are_in_the_digest_if_a_stop_rule_reads_costs_and_paths_are_no_difference():
    for cost, same in ((None, True), (0.5, False)):
        first, other = (
            manifest(stop={"budget": {"cost": cost}}, prices={"path": path}) for path in (None, "cheap.yaml")
        )
        assert (first.config_digest == other.config_digest) is same
    first, other = (manifest(benchmark={"load": {"path": path}}) for path in ("t.jsonl", "/data/t.jsonl"))
    assert differences(first, other) == []
    assert differences(first, replace(other, benchmark_digest="another")) == ["benchmark_digest"]


def test_what_a_resumption_changed_is_named_and_nothing_else():
    first = manifest()
    versions = {**first.package_versions, "msgspec": "0.1"}
    later = replace(first, isolation=("rlimits", "seccomp"), package_versions=versions)
    assert changes(first, resumption(first, first)) == []
    assert changes(first, resumption(first, later)) == [
        f"msgspec {first.package_versions['msgspec']} → 0.1", "isolation rlimits → rlimits + seccomp"
    ]  # fmt: skip


def test_a_files_digest_is_sixteen_digits_of_its_sha256(tmp_path):
    (tmp_path / "tasks.jsonl").write_bytes(b"{}")
    assert file_digest(tmp_path / "tasks.jsonl") == hashlib.sha256(b"{}").hexdigest()[:16]
