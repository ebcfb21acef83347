"""Prices: dated, of somebody's list, and never a silent 0."""

import datetime
import warnings

import msgspec
import pytest

from reflexion_lab.agent.models.cache import CachedModel
from reflexion_lab.agent.models.prices import FREE, LIST, UNKNOWN, Entry, Price, look_up, price_of, read, resolved_price
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.records import Completion, Message, Sampling, Usage
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.parts import ConfigError, load_models
from reflexion_lab.runner.config.record import RunConfig

HOST = "api.openai.com"
HELLO = [Message(role="user", content="hello")]
OWN = """
- models: [{models}]
  provider: Own
  host: "{host}"
  currency: {currency}
  prompt: 1.0
  completion: 2.0
  as_of: {as_of}
  source: a bill
"""


def own_file(tmp_path, models="tiny-*", host="*", currency="USD", as_of="2020-01-01"):
    path = tmp_path / "own.yaml"
    path.write_text(OWN.format(models=models, host=host, currency=currency, as_of=as_of))
    return path


def node(**changed):
    return {"_target_": "x.OpenAIModel", "model": "gpt-4o-mini", "base_url": None, "price_per_million": None} | changed


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    for name in ("REFLEXION_LAB_PRICES", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted")


def test_every_price_has_a_past_date_and_a_source():
    for entry in msgspec.yaml.decode(LIST.read_bytes(), type=list[Entry]):
        assert datetime.date(2023, 1, 1) <= entry.as_of <= datetime.date.today(), entry.models
        assert entry.source.strip(), entry.models
        assert entry.host == HOST


@pytest.mark.parametrize("lacking", ["as_of", "source", "currency", "host"])
def test_an_incomplete_price_entry_is_named(tmp_path, lacking):
    path = own_file(tmp_path)
    path.write_text("\n".join(line for line in path.read_text().splitlines() if f"{lacking}:" not in line))
    with pytest.raises(ValueError, match=rf"prices\.path: got .*own\.yaml \(.*{lacking}.*, expected a file of entries"):
        read(str(path))


@pytest.mark.parametrize(("model", "prompt", "completion"), [("gpt-4-turbo", 10.0, 30.0), ("gpt-4", 30.0, 60.0)])
def test_well_known_list_prices_are_found_by_their_exact_names(model, prompt, completion):
    price = look_up(model, HOST, read())
    assert price.per_million == (prompt, completion)
    assert price.words.startswith(f"{prompt:g}/{completion:g} USD per million, as of 202")
    assert "OpenAI: " in price.words


def test_where_a_model_runs_decides_its_price():
    assert price_of(node(), read()).per_million == (0.15, 0.6)
    assert price_of(node(base_url="https://gateway.example/v1"), read()) is UNKNOWN
    assert price_of({"_target_": "x.LlamaCppModel"}, []) is FREE
    assert "recorded" in str(price_of({"_target_": "x.ReplayModel"}, []))


def test_the_newest_entry_of_a_users_file_counts(tmp_path, monkeypatch):
    path = own_file(tmp_path, models="gpt-4o-*, tiny-*", host="*")
    newer = OWN.format(models="tiny-*", host="*", currency="USD", as_of="2021-01-01").replace("1.0", "7.0")
    path.write_text(path.read_text() + newer)
    assert look_up("gpt-4o-mini", HOST, read(str(path))).per_million == (1.0, 2.0)
    assert look_up("tiny-x", "any", read(str(path))).per_million == (7.0, 2.0)
    monkeypatch.setenv("REFLEXION_LAB_PRICES", str(path))
    assert look_up("tiny-x", "any", read()).per_million == (7.0, 2.0)


@pytest.mark.parametrize("prices", [[1.0], [1.0, -2.0], "free", [1, 2, 3, 4]])
def test_impossible_prices_in_the_config_are_refused(prices):
    with pytest.raises(ValueError, match=r"model\.price_per_million: got .*, expected two prices"):
        price_of(node(price_per_million=prices), [])


@pytest.mark.parametrize("place", ["", "10.0.0.7:80", "http://127.0.0.1:1/v1", "localhost:1", "http://[::1]/v1"])
def test_an_unknown_price_is_a_warning_but_for_this_machine(place):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert resolved_price("actor", node(model="nobodys", base_url=place), read()).per_million is None
    host = {"": "api.openai.com", "10.0.0.7:80": "10.0.0.7:80"}.get(place)
    texts = [str(each.message).partition(";")[0] for each in caught]
    assert texts == [f"cost: unknown. actor: nobodys at {host} has no known price"] * bool(host)


def test_a_price_older_than_a_year_is_a_warning(tmp_path):
    old = read(str(own_file(tmp_path, as_of=datetime.date.today() - datetime.timedelta(days=366))))
    with pytest.warns(UserWarning, match="more than a year old \\(1/2 USD per million, as of .*Own: "):
        resolved_price("actor", node(model="tiny-1"), old)
    new = read(str(own_file(tmp_path, as_of=datetime.date.today())))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = (resolved_price("actor", own, new) for own in [node(model="tiny-1")] * 2)  # which is unchanged
    assert (first, first.currency) == (second, "USD")


SERVED = ("model=openai", "actor=single_shot", "model.model=gpt-4o-mini")
UNPRICED = ("model=openai", "actor=single_shot", "model.model=nobodys")
TWO = ("model@roles.critic=openai", "roles.critic.model=tiny-2", "prices.path={}/own.yaml")


@pytest.mark.filterwarnings("ignore:actor")
@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ((*UNPRICED, "caps.cost=5"), r"caps\.cost: got 5.0 and no price of nobodys \(actor\).* expected a known price"),
        (
            (*UNPRICED, "stop=[plateau,budget]", "stop.budget.cost=0.5"),
            r"stop\.budget\.cost: got 0\.5 and no price of nobodys",
        ),
        (
            (*UNPRICED, "+stop.own={{_target_:reflexion_lab.loop.stop.Budget,cost:2}}"),
            r"own\.cost: got 2.*, or stop\.own\.tokens",
        ),
        (
            ("model=simulated", "caps.cost=5", "model@roles.critic=openai", "roles.critic.model=nobodys"),
            r"nobodys \(critic\) at .*; give roles\.critic\.price_per_million=\[prompt,completion\], an entry",
        ),
        ((*SERVED, "caps.tokens=5", "model.extra_body={{max_tokens:null}}"), "got no max_tokens, expected max_comple"),
        ((*SERVED, *TWO), "roles: got prices in EUR and USD, expected one currency"),
        (("model=replay", "caps.calls=-1"), r"caps.*: got -1, expected 0 or more"),
        (("model=replay", "caps.tokens=many"), r"caps.*, expected an int of 0 or more, or null"),
    ],
)
def test_caps_and_prices_that_do_not_go_together_are_refused_before_any_file(tmp_path, overrides, message):
    own_file(tmp_path, currency="EUR")
    with pytest.raises(ConfigError, match=message):
        load_models(RunConfig.of(compose(*(each.format(tmp_path) for each in overrides), f"run_root={tmp_path}/runs")))
    assert [path.name for path in tmp_path.iterdir()] == ["own.yaml"]


def test_cached_prompt_tokens_have_their_own_price_also_in_a_stored_reply_unless_it_was_paid():
    assert Price(per_million=(4.0, 8.0), words="").cost(100, 10, 60) == pytest.approx(480e-6)
    assert Price(per_million=(4.0, 8.0, 1.0), words="").cost(100, 10, 60) == pytest.approx((160 + 60 + 80) / 1e6)
    usage, price = Usage(calls=1, prompt_tokens=100, completion_tokens=10, cached_tokens=60), (4.0, 8.0, 1.0)
    free, paid = (Completion(text="", model="", usage=msgspec.structs.replace(usage, cost=c)) for c in (0.0, 0.25))
    assert Price(per_million=price, words="").with_cost(free).usage.cost == pytest.approx(300e-6)
    assert Price(per_million=price, words="").with_cost(paid) == UNKNOWN.with_cost(paid) == paid


def test_a_stored_reply_gets_a_cost_once_it_is_known(tmp_path):
    """Otherwise the cache would turn an unknown cost into 0."""
    path = tmp_path / "calls.sqlite"
    for price in (UNKNOWN, Price(per_million=(1e6, 1e6), words="")):
        model = CachedModel(ScriptedModel(lambda messages: "x" * 12), path, price=price)
        completion = model.complete(HELLO, sampling=Sampling())
        model.close()
    assert (completion.cached, completion.usage.tokens, completion.usage.cost) == (True, 5, 5.0)
