import pytest

from reflexion_lab.manifest import config_digest, describe, differences
from reflexion_lab.models.scripted import ScriptedModel

CONFIG = {"arm": "a", "seed": 0, "feedback_source": "visible", "workers": 1, "recall": {"omega": 1}}


def manifest(**changed):
    return describe(CONFIG | changed, "own", "digest", 3, {"actor": ScriptedModel(str)}, ["rlimits"])


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("postgresql://me:planted-secret@host/db", "postgresql://host/db"),
        ("postgresql://me:planted/secret@host/db", "postgresql://host/db"),
        ("postgresql://me:planted@secret@host/db", "postgresql://host/db"),
        (
            "postgresql://me@host/db?password=planted-secret&sslmode=require",
            "postgresql://host/db?password=&sslmode=require",
        ),
    ],
)
def test_no_login_reaches_a_manifest(uri, shown):
    written = manifest(tracker={"uri": uri}, more=[uri])
    assert "secret" not in str(written)
    assert written.config["tracker"] == {"uri": shown}


@pytest.mark.parametrize(
    ("changed", "same"), [({"workers": 8}, True), ({"recall": {"omega": 2}}, False), ({"seed": 1}, False)]
)
def test_the_digest_knows_what_is_measured_and_not_how_it_is_carried_out(changed, same):
    assert (config_digest(CONFIG) == config_digest(CONFIG | changed)) is same
    assert (differences(manifest(), manifest(**changed)) == []) is same


def test_a_manifest_says_what_ran():
    made = manifest()
    assert made.isolation == ("rlimits",)
    assert made.slots == 64
    names = {"solve", "continue_solve", "memory", "reflect", "write_tests", "examples.json"}
    assert names <= made.prompt_digests.keys()
    assert "msgspec" in made.package_versions
