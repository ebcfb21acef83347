"""tests/docs/preset_prompts.md holds the prompts that the presets give today, and what is promised of them."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("presets", ROOT / "docs" / "presets.py")
presets = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(presets)


@pytest.mark.parametrize("preset", presets.PRESETS)
@pytest.mark.slow
def test_prompt_of_the_third_attempt(preset):
    assert presets.printed(preset) == presets.prompt(preset), "run python docs/presets.py --write"


@pytest.mark.parametrize("preset", presets.PRESETS)
def test_each_promised_text_is_in_the_prompt(preset):
    text = presets.printed(preset)
    assert presets.block(preset, text) in presets.PAGE.read_text(), "run python docs/presets.py --write"
    for promise, words in presets.PROMISES[preset].items():
        assert words in text, promise


def test_every_preset_is_on_the_page():
    assert sorted(presets.PRESETS) == sorted(path.stem for path in (ROOT / "conf" / "preset").glob("*.yaml"))
