"""What a config hands a constructor: of its types, by its names, and by the key that a mistake stands under."""

from __future__ import annotations

from typing import Any

import pytest

from reflexion_lab.errors import ConfigError
from reflexion_lab.runner.config.assemble import assemble
from reflexion_lab.runner.config.build import build, plain
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.text.prompts.render import Prompts


class Part:
    def __init__(self, model: object, n: int = 1, share: float | None = None, inner: object = None) -> None:
        self.model, self.n, self.share, self.inner = model, n, share, inner


class Maker:
    def __init__(self, make_part: Any) -> None:
        self.part = make_part(model="other")


class Forgetful:
    def act(self, task: object) -> None:
        return None


def node(cls: type = Part, **values: object) -> dict[str, object]:
    return {"_target_": f"{__name__}.{cls.__name__}", **values}


def test_a_value_of_another_type_and_pythons_own_library_are_named_by_their_key():
    for value in ("two", 1.5, None, True, [1]):
        with pytest.raises(ConfigError, match=r"^part\.inner\.n: got .*, expected an int$"):
            build(node(inner=node(n=value)), "part", {"model": "m"})
    with pytest.raises(ConfigError, match=r"^part\.inner\._target_: got 'os\.system'"):
        build(node(inner={"_target_": "os.system", "command": "touch bang"}), "part", {"model": "m"})


@pytest.mark.parametrize(("wrong", "message"), [
    (node(wings=2), r"^part\.wings: unknown key; expected one of model, n, share, inner$"),
    (node(Maker), r"^part: Maker cannot .*\(missing a required argument: 'make_part'\); .* it may take model$"),
    (node(Forgetful), r"^actor: Forgetful\.act: too many .*; expected the parameters task, recollection$"),
    ({"_target_": "no.such"}, r"^actor\._target_: got 'no\.such', expected the dotted name .*No module named 'no'"),
    ({"_target_": "os.path.no"}, r"^actor\._target_: got 'os\.path\.no', expected the dotted name"),
    (node(), r"^actor: the part is of type Part; expected one that has `act`$"),
])  # fmt: skip
def test_what_cannot_be_built_is_named_by_its_key(wrong, message):
    with pytest.raises(ConfigError, match=message):
        build(wrong, "part" if message.startswith("^part") else "actor", {"model": "m"})


class OwnPrompts(Prompts):
    pass


class OwnTracker:
    def prepare(self) -> None:
        return None

    def track(self, run: object, log: object) -> str:
        return ""

    def track_arms(self, folders: object, baseline: object = None) -> dict[str, str]:
        return {}


def test_a_method_may_need_what_the_lab_passes_beyond_the_required_parameters():
    assert isinstance(build(node(OwnPrompts), "prompts"), OwnPrompts)
    assert isinstance(build(node(OwnTracker), "tracker"), OwnTracker)


def test_values_of_ones_own_take_precedence_and_a_float_may_be_an_int_or_null():
    for share in (1, 0.5, None):
        assert build(node(share=share), "", {"model": "m"}).share == share
    maker = build(node(Maker, make_part=node()), "", {"model": "m", "inner": node(inner=None)})
    assert (maker.part.model, maker.part.inner.model) == ("other", "other")
    assert build(node(model="own"), "", {"model": "m"}).model == "own"


class Bang:
    def __init__(self) -> None:
        raise AssertionError("called before it was refused")


@pytest.mark.parametrize("target", ["os.system", "subprocess.Popen", "builtins.dict", f"{__name__}.Bang"])
def test_nothing_is_called_before_it_is_refused(target):
    with pytest.raises(ConfigError, match=r"^actor(\._target_)?: "):
        build({"_target_": target}, "actor")


def test_an_unused_key_is_refused_in_the_config_of_a_manifest_too(tmp_path):
    cfg = compose("model=simulated", "actor=single_shot", "tracker=none", "benchmark.load.n=1", f"run_root={tmp_path}")
    assemble(plain(cfg)).close()
    with pytest.raises(ConfigError, match="another_key: unknown key"):
        assemble({**plain(cfg), "another_key": 1})
