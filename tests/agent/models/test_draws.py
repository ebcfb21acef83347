import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reflexion_lab.agent.actors.warming import FixedTemperature
from reflexion_lab.agent.models.cache import CachedModel, Draws, draw_seed
from reflexion_lab.agent.models.caps import CappedModel, Meter
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.records import Sampling
from tests.builders import Replies, says

WARM = Sampling(temperature=1.0)


def test_every_equal_call_of_a_loop_is_the_next_draw():
    model = Replies("")
    draws = Draws(model)
    for text in ("a", "b", "a", "a", "b"):
        draws.complete(says(text), sampling=WARM)
    draws.complete(says("a"), sampling=Sampling(temperature=0.5))
    assert [(message.content, sampling.temperature, sample) for (message,), sampling, sample in model.requests] == [
        ("a", 1.0, 0), ("b", 1.0, 0), ("a", 1.0, 1), ("a", 1.0, 2), ("b", 1.0, 1), ("a", 0.5, 0),
    ]  # fmt: skip


@given(st.lists(st.integers(0, 5)))
def test_no_draw_number_of_the_caller_can_make_two_draws_one(given_samples):
    model = Replies("")
    draws = Draws(model)
    for sample in given_samples:
        draws.complete(says("a"), sampling=WARM, sample=sample)
    assert [sample for _, _, sample in model.requests] == list(range(len(given_samples)))


def test_two_loops_share_their_draws_and_one_loop_never_does(tmp_path):
    scripted = ScriptedModel(lambda messages: "same")
    cached = CachedModel(scripted, tmp_path / "calls.sqlite")
    for loop in (Draws(cached), Draws(cached)):
        for _ in range(3):
            loop.complete(says("a"), sampling=WARM)
    assert (cached.misses, cached.hits) == (3, 3)
    cached.close()


def test_neighbouring_seeds_share_no_draw_and_every_prompt_has_a_stream_of_its_own():
    warm = [replace(WARM, seed=seed) for seed in range(50)]
    seeds = {draw_seed(says("hello"), sampling, sample) for sampling in warm for sample in range(20)}
    assert len(seeds) == 50 * 20
    # One seed for all prompts would give all their first tokens the same random number.
    seeds = [draw_seed(says(f"task {number}"), WARM, 0) for number in range(2000)]
    assert len(set(seeds)) == 2000
    shares = [sum(seed < part * 2**31 for seed in seeds) / 2000 for part in (0.25, 0.5, 0.75)]
    assert shares == pytest.approx([0.25, 0.5, 0.75], abs=0.05)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 1000))
def test_a_draws_seed_is_one_that_servers_take(seed, sample):
    drawn = draw_seed(says("hello"), replace(WARM, seed=seed), sample)
    assert 0 <= drawn < 2**31
    assert drawn == draw_seed(says("hello"), replace(WARM, seed=seed), sample)


@pytest.mark.parametrize(
    "wrap",
    [
        Draws, lambda model: CachedModel(model, "unused", "off"), lambda model: CappedModel(model, Meter()),
        lambda model: FixedTemperature(model, 0.5),
    ],
    ids=["draws", "cached", "capped", "fixed temperature"],
)  # fmt: skip
def test_a_wrapped_model_keeps_fingerprint_slots_and_context(wrap):
    inner = Replies("", 2048)
    inner.slots = 5
    model = wrap(inner)
    assert (model.fingerprint, model.slots, model.context) == ("replies", 5, 2048)
