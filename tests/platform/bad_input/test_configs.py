"""Overrides and configs that cannot be: one line that names the key, before anything is written."""

from __future__ import annotations

import json

import pytest

WRONG_VALUES = {
    "seed=one": "seed", "seed=null": "seed", "seed=1.5": "seed", "seed=[1]": "seed", "seed=true": "seed",
    "seed=99999999999999999999999999": "seed", "seed=-1e400": "seed",
    "temperature=hot": "temperature", "temperature=-1": "temperature", "temperature=nan": "temperature",
    "temperature=inf": "temperature", "loop.max_attempts=3.5": "loop.max_attempts",
    "loop.max_attempts=1e400": "loop.max_attempts", "loop.max_attempts={a: 1}": "loop.max_attempts",
    "loop.timeout=nan": "loop.timeout", "loop.timeout=0": "loop.timeout", "loop.timeout=-1": "loop.timeout",
    "loop.confidence_threshold=nan": "loop.confidence_threshold", "loop.reflect_on_last=maybe": "reflect_on_last",
    "loop.reflect_below=nan": "reflect_below",
    "loop.stuck_after=two": "loop.stuck_after", "loop=null": "loop", "loop=[]": "loop", "loop=5": "loop",
    "recall.omega=1.5": "recall.omega", "recall.omega=''": "recall.omega", "recall=null": "recall",
    "recall=5": "recall",
    "workers=0": "workers", "workers=100000000": "workers", "sandbox.servers=100000000": "sandbox.servers",
    "loop.max_attempts=100000000": "loop.max_attempts", "loop.extra_attempts=100000000": "loop.extra_attempts",
    "model.slots=100000000": "model.slots",
    "workers=-1": "workers", "workers=many": "workers", "workers=1.5": "workers",
    "quiet=perhaps": "quiet", "sandbox.servers=0": "sandbox.servers", "sandbox.servers=-1": "sandbox.servers",
    "sandbox.servers=x": "sandbox.servers", "sandbox.limits=null": "sandbox.limits", "sandbox=null": "sandbox",
    "sandbox.limits.memory_mb=-1": "memory_mb", "sandbox.limits.wall_seconds=nan": "wall_seconds",
    "sandbox.limits.cpu_seconds=99999999999999999999999": "cpu_seconds", "sandbox.limits.open_files=0": "open_files",
    "sandbox.limits.output_chars=-5": "output_chars",
    "memory=null": "memory", "memory.max_episodes=-1": "memory.max_episodes", "memory.shared=null": "memory.shared",
    "memory.max_episodes=x": "memory.max_episodes", "memory.reflection_files=script.json": "reflection_files",
    "cache=null": "cache", "cache.mode=1": "cache.mode", "cache.path=tasks.jsonl": "tasks.jsonl",
    "cache.path=/proc/x/y": "/proc/x/y", "cache.path=old": "old", "cache.executions=tasks.jsonl": "tasks.jsonl",
    "cache.mode=null": "cache.mode",
    "cache.path=null": "cache.path", "cache.path=5": "cache.path",
    "caps.calls=-1": "caps.calls", "caps.cost=dear": "caps.cost", "caps.kilowatts=3": "kilowatts", "caps=5": "caps",
    "caps.tokens=nan": "caps.tokens", "caps.seconds=inf": "caps.seconds",
    "prices.path=absent.yaml": "absent.yaml", "prices.path=tasks.jsonl": "tasks.jsonl", "prices=5": "prices",
    "prices.path=old": "old",
    "run_root=tasks.jsonl": "tasks.jsonl", "run_root=''": "run_root", "run_root=/proc/nowhere": "/proc/nowhere",
    "run_root=null": "run_root", "run_root=5": "run_root", "run_root=[a]": "run_root",
    "study=absent.yaml": "absent.yaml", "study=tasks.jsonl": "tasks.jsonl", "study=old": "old", "study=5": "study",
    "arm=''": "arm", "arm=null": "arm", "arm=a/b": "arm", "arm=../../x": "arm", "arm=[1]": "arm",
    "feedback_source=null": "feedback_source", "feedback_source=[visible]": "feedback_source",
    "quality.policy=null": "quality.policy", "quality.severe=[x]": "quality.severe",
    "quality.severe=5": "quality.severe", "quality=null": "quality", "quality.colour=red": "quality.colour",
    "stop=[nonesuch]": "nonesuch", "stop=5": "stop",
    "benchmark.load.path=null": "benchmark.load.path", "benchmark.load.path=5": "benchmark.load.path",
    "benchmark.ids=5": "benchmark.ids",
    "benchmark.ids=[5]": "benchmark.ids", "benchmark.limit=-1": "benchmark.limit",
    "benchmark.limit=lots": "benchmark.limit",
    "benchmark.limit=1.5": "benchmark.limit",
    "benchmark.sample=0": "benchmark.sample", "benchmark.sample=1000000": "benchmark.sample",
    "benchmark.sample=1.5": "benchmark.sample", "benchmark.load=null": "benchmark.load", "benchmark=null": "benchmark",
    "benchmark.name=5": "benchmark.name", "benchmark.load.colour=red": "benchmark.load.colour",
    "+benchmark.load.colour=red": "benchmark.load",
    "model=null": "model", "model.path=null": "model.path", "model.path=old": "old", "model.slots=0": "model.slots",
    "model.slots=x": "model.slots", "model.seconds=nan": "model.seconds", "model.context=-4": "model.context",
    "model.context=x": "model.context",
    "actor=null": "actor", "actor.sampling=5": "actor.sampling", "reflector=null": "reflector",
    "evaluator=5": "evaluator",
    "critic=null": "critic", "tracker=null": "tracker", "prompts=null": "prompts", "store=null": "store",
    "store=5": "store",
    "prompts.examples=-1": "prompts.examples", "prompts.examples=x": "prompts.examples", "roles=5": "roles",
    "+roles.reflector=5": "roles.reflector", "+roles.reflector={}": "roles.reflector",
    "sweep_id=../x": "sweep_id", "sweep_id=5": "sweep_id", "resume=5": "resume", "resume=[]": "resume",
    "resume=old/good": "resume", "resume=tasks.jsonl": "tasks.jsonl",
    "resume=''": "resume",
    "embedder=null": "embedder", "retriever=null": "retriever", "suite_writer=null": "suite_writer",
    "loop.stuck_after=1": "loop.stuck_after: got 1, expected 2 or more", "loop.reflect_below=2": "reflect_below: got 2",
    "loop.extra_attempts=some": "loop.extra_attempts: got 'some', expected an int of 0 to 1000",
    "prompts.examples=9": "prompts.examples: got 9, expected 0 to 3",
}  # fmt: skip
UNREADABLE = {
    "recall.omga=1": "recall.omga", "colour=red": "colour", "model=gpt5": "model: got 'gpt5', expected one of ",
    "colours@roles.reflector=openai": "colours",
    "++loop.colour=red": "colour",
    "=": "", "a=": "a", "recall.omega": "recall.omega", "recall.omega=[1": "recall.omega",
    "recall..omega=1": "recall..omega", "seed=": "seed",
    "+seed=1": "seed", "--no-such-flag": "--no-such-flag", "--config-name=nope": "nope",
    "--config-dir=absent": "absent",
    "--cfg=nonsense": "nonsense", "~actor": "actor", "~model": "model", "~loop.max_attempts": "max_attempts",
    "~tracker": "tracker",
    "~nope": "nope", "~seed": "seed", "~loop": "loop", "~cache": "cache", "~benchmark.load": "load", "~arm": "arm",
    "arm=${arm}": "arm", "arm=${nope}": "nope", "seed=${loop}": "seed",
    "arm=${oc.env:NOT_SET_ANYWHERE}": "NOT_SET_ANYWHERE", "arm=${unknown:x}": "unknown", "arm=???": "arm",
    "seed=???": "seed",
    "loop.max_attempts=???": "loop.max_attempts", "run_root=???": "run_root", "cache=???": "cache",
    "model=???": "model",
    "model.path=???": "model.path", "loop.max_attempts=${loop.timeout}s": "loop.max_attempts",
    "arm='${'": "arm", "arm=a\x00b": "arm", "arm=\udcff": "arm", "run_root=a\x00b": "run_root",
    "benchmark.load.path=a\x00b.jsonl": "benchmark.load.path", "resume=a\x00b": "resume",
    "arm=" + "x" * 300: "arm", "cache.path=" + "x" * 300: "cannot be used as a call cache",
    "run_root=" + "x" * 300: "cannot be used as a call cache",
    "seed=1,2": "seed", "experiment=nope": "experiment: got 'nope'",
    "hydra/launcher=nope": "nope", "hydra=null": "hydra", "hydra.run=5": "hydra.run",
    "hydra.run.dir=tasks.jsonl": "tasks.jsonl",
}  # fmt: skip
NOBODY_READS = {
    "+slots=1": "model.slots", "+wall_seconds=1": "sandbox.limits.wall_seconds",
    "+round_size=1": "memory.shared.round_size", "+policy=retry": "quality.policy", "+severe=[short]": "quality.severe",
    "+threshold=0.5": "loop.confidence_threshold", "+sed=3": "seed", "+model.secnds=1": "model.seconds",
    "+quality.polcy=retry": "quality.policy", "+sandbox.limits.memry_mb=1": "sandbox.limits.memory_mb",
    "+memory.shared.roundsize=1": "memory.shared.round_size", "+memory.shared.shown.wisdoms=1": "shown.wisdom",
    "+cache.pth=x": "cache.path", "+caps.call=1": "caps.calls",
    "+loop.attempts=1": "loop.max_attempts", "+store.place=x": "store",
    "+retriever.minlength=1": "retriever.min_length", "+embedder.thread=1": "embedder.threads",
    "+suite_writer.agrement=2": "suite_writer.agreement", "+reviser.styl=chat": "reviser.style",
    "+actor.sampling.temprature=1": "actor.sampling.temperature", "+prompts.example=1": "prompts.examples",
    "model@roles.critic=scripted roles.critic.path=script.json +roles.critic.secnds=1": "roles.critic.seconds",
    "stop=[plateau] +stop.plateau.attempt=1": "stop.plateau.attempts",
}  # fmt: skip
"""By overrides, the key that is nearest to the one that they add."""
NO_SUCH_PARTS = {
    "actor._target_=no.such.thing": "no.such.thing", "actor._target_=os.getcwd": "actor",
    "actor._target_=builtins.dict": "actor", "actor._target_=null": "actor", "actor._target_=5": "actor",
    "actor._target_=''": "actor",
    "actor._target_=own_parts.Nothing": "actor.sampling: unknown key; expected none below actor",
    "actor._target_=own_parts.Absent": "own_parts.Absent", "benchmark.load._target_=builtins.list": "benchmark.load",
    "benchmark.load._target_=os.getcwd": "benchmark.load", "model._target_=builtins.dict": "model",
    "evaluator._target_=os.getcwd": "evaluator", "reflector._target_=builtins.dict": "reflector",
    "tracker._target_=builtins.dict": "tracker", "recall._target_=builtins.dict": "recall",
    "store._target_=builtins.dict": "store", "prompts._target_=builtins.dict": "prompts",
    "stop=[plateau] stop.plateau._target_=builtins.dict": "stop.plateau",
}  # fmt: skip
OWN_CONFIGS = {
    "tabs": ("a:\n\t- b\n", ""), "binary": (b"\x00\xff\xfe", ""), "latin": (b"arm: caf\xe9\n", ""),
    "twice": ("arm: a\narm: b\n", "arm"), "python": ("arm: !!python/object/apply:os.system ['touch hacked']\n", ""),
    "nodefault": ("defaults:\n  - nonesuch\n", "nonesuch"),
    "itself": ("defaults:\n  - /experiment: itself\n", "itself"),
    "scalar": ("5\n", ""),
    "nan": ("# @package _global_\ntemperature: .nan\n", "temperature"),
    "date": ("# @package _global_\nseed: 2026-01-01\n", "seed"),
    "norway": ("# @package _global_\nfeedback_source: no\n", "feedback_source"),
    "sexagesimal": ("# @package _global_\nseed: '1:30'\n", "seed"),
    "bytes": ("# @package _global_\narm: !!binary aGk=\n", "arm"),
    "set": ("# @package _global_\nbenchmark:\n  ids: !!set {a, b}\n", "ids"),
    "merge": ("# @package _global_\n<<: 5\n", ""), "intkey": ("# @package _global_\n5: 6\n", "5"),
    "misspelt": ("# @package _global_\nsed: 3\n", "mean 'seed'"),
    "too_high": ("# @package _global_\nmax_attempts: 3\n", "mean 'loop.max_attempts'"),
    "limit": ("# @package _global_\nbenchmark:\n  limits: 3\n", "limits"),
    "place": ("# @package _global_\nstorage:\n  call: here.sqlite\n", "call"),
}  # fmt: skip


REFUSED = WRONG_VALUES | UNREADABLE | NO_SUCH_PARTS
"""By overrides, what the refusal names."""


@pytest.mark.parametrize("overrides", REFUSED, ids=lambda text: text[:40].encode("unicode_escape").decode())
def test_overrides_that_cannot_be_are_named(refused_run, overrides):
    words = overrides.split(" ") if overrides.startswith("stop=[plateau]") else [overrides]
    assert REFUSED[overrides] in refused_run(*words)


@pytest.mark.parametrize("overrides", NOBODY_READS)
def test_a_key_that_nobody_reads_is_refused_and_the_nearest_is_named(refused_run, overrides):
    key = overrides.rpartition("+")[2].partition("=")[0]
    line = refused_run(*overrides.split())
    assert f"{key}: unknown key; expected " in line
    assert NOBODY_READS[overrides] in line


def test_keys_of_ones_own_that_a_value_or_an_own_part_reads_are_taken(work, gone_well, monkeypatch):
    files = {
        "level/low": "mean: 0.25\n",
        "experiment/mine": "# @package _global_\ndefaults:\n  - /level: low\ntemperature: ${level.mean}\n",
    }
    for name, text in files.items():
        path = work / "mine" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (work / "stopping.py").write_text(
        "from reflexion_lab.agent.actors.continuation import Continuation\n"
        "class Tokened(Continuation):\n"
        "    def __init__(self, model, sampling, prompts, stop_token):\n"
        "        super().__init__(model, sampling, prompts)\n"
        "        assert stop_token == 'END'\n"
    )
    own = (f"hydra.searchpath=[file://{work}/mine]", "experiment=mine", "+half=0.5", "loop.reflect_below=${half}")
    part = ("actor._target_=stopping.Tokened", "+actor.stop_token=END")
    monkeypatch.syspath_prepend(str(work))
    gone_well(*own, *part, "run_root=own")
    (manifest,) = (json.loads(path.read_text()) for path in work.glob("own/*/manifest.json"))
    assert (manifest["config"]["temperature"], manifest["config"]["loop"]["reflect_below"]) == (0.25, 0.5)


@pytest.mark.parametrize("key", ["actor", "benchmark.load", "model", "tracker"])
def test_a_part_that_raises_is_a_bug_and_not_a_mistake(gone_well, key):
    with pytest.raises((KeyError, ZeroDivisionError)) as bug:
        gone_well(f"{key}._target_=own_parts.{'Divides' if key == 'tracker' else 'Raises'}")
    assert bug.traceback[-1].path.name == "own_parts.py"
    assert bug.value.__notes__ == [f"while making {key} of its config"]


@pytest.mark.parametrize("name", OWN_CONFIGS)
def test_a_config_file_that_is_none_is_named(work, refused_run, name):
    text, key = OWN_CONFIGS[name]
    (work / "mine" / "experiment").mkdir(parents=True)
    (work / "mine" / "experiment" / f"{name}.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    line = refused_run(f"hydra.searchpath=[file://{work}/mine]", f"experiment={name}")
    assert name in line or key in line
