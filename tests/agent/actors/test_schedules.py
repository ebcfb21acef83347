"""Warming and escalation: the n-th attempt is made another way, and that is all."""

from reflexion_lab.agent.actors.escalation import Escalation
from reflexion_lab.agent.actors.single_shot import SingleShot
from reflexion_lab.agent.actors.warming import Warming
from reflexion_lab.agent.models.scripted import ScriptedModel
from reflexion_lab.records import Recollection, Sampling

CODE = "```python\ndef double(x):\n    return 2 * x\n```"


class Noting(ScriptedModel):
    """Keeps how each call was sampled."""

    def __init__(self, name):
        super().__init__(lambda _: CODE, name=name)
        self.sampled = []

    def complete(self, messages, *, sampling, sample=0):
        self.sampled.append(sampling)
        return super().complete(messages, sampling=sampling, sample=sample)


def make(model=None, **options):
    return SingleShot(model, Sampling(temperature=0.3, max_tokens=7), **options)


def test_retries_follow_the_temperature_schedule(task):
    model = Noting("a")
    actor = Warming(model, make, [0.0, 0.5])
    items = [actor.act(task.public, Recollection(attempt=n)) for n in (1, 2, 3)]
    assert [sampling.temperature for sampling in model.sampled] == [0.0, 0.5, 0.5]
    assert {sampling.max_tokens for sampling in model.sampled} == {7}
    assert {item.strategy for item in items} == {"warming"}
    assert items[0].solution.endswith("return 2 * x\n")


def test_retries_follow_the_model_schedule_and_cost_what_its_roles_do(task):
    models = {"actor": Noting("weak"), "strong": Noting("strong")}
    actor = Escalation(models, make, ["actor", "strong"])
    items = [actor.act(task.public, Recollection(attempt=n)) for n in (1, 2, 3)]
    assert [len(model.sampled) for model in models.values()] == [1, 2]
    assert [item.model for item in items] == ["scripted:weak", "scripted:strong", "scripted:strong"]
    assert {item.strategy for item in items} == {"escalation"}
    first, second, _ = items
    assert (first.usage.calls, first.others) == (1, {})
    assert second.usage.calls == 0
    assert {role: usage.calls for role, usage in second.others.items()} == {"strong": 1}
