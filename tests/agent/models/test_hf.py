"""Weights of transformers in the process: a tiny model that the tests make, alone, in a batch and through the door."""

import random
import re
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest

import reflexion_lab as rl
from reflexion_lab.agent.models import hf
from reflexion_lab.agent.models.hf import TransformersModel, _Call, _next_tokens
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.cli.main import main
from reflexion_lab.errors import ModelError
from reflexion_lab.records import Message, Sampling
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.folder.folder import RunFolder
from tests.builders import canonical_bytes

CHAT = (
    "{% for message in messages %}{% if message.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    "<{{ message.role }}>{{ message.content }}<end>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)
TEXTS = ["Sum a list.", "x" * 90, "Say so. " * 12, *(f"Task {n}" + " and more" * n for n in range(8))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A Llama of two layers with random weights, and a tokenizer of bytes with a few merges."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    path, alphabet = tmp_path_factory.mktemp("weights") / "tiny", pre_tokenizers.ByteLevel.alphabet()
    tokenizer, special = Tokenizer(models.BPE()), ["<end>", "<user>", "<assistant>"]
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    options = {"special_tokens": special, "initial_alphabet": alphabet, "show_progress": False}
    tokenizer.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=300, **options))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", chat_template=CHAT).save_pretrained(path)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    shape = sizes | {"max_position_embeddings": 4096, "initializer_range": 0.3, "eos_token_id": 0}
    LlamaForCausalLM(LlamaConfig(vocab_size=tokenizer.get_vocab_size(), **shape)).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def alone(folder):
    return TransformersModel(str(folder), slots=1)


def asks(text, role="user"):
    return [Message(role=role, content=text)]


def replies(model, sampling, sample=0):
    with ThreadPoolExecutor(len(TEXTS)) as pool:
        calls = [*pool.map(lambda text: model.complete(asks(text), sampling=sampling, sample=sample), TEXTS)]
    return [(call.text, call.finish_reason, call.usage.prompt_tokens, call.usage.completion_tokens) for call in calls]


DRAWN = Sampling(max_tokens=30, temperature=1)
CUT = Sampling(max_tokens=30, temperature=1.2, top_p=0.6, stop=("a", "zz"))


@pytest.mark.parametrize("sampling", [Sampling(max_tokens=20), DRAWN, CUT, Sampling(temperature=None, max_tokens=40)])
def test_a_reply_in_a_batch_is_that_of_the_call_alone_and_another_draw_is_another(alone, folder, sampling):
    """More calls than slots, which join as others end; in float32 such a small model rounds alike."""
    batched, single = TransformersModel(str(folder), slots=5), replies(alone, sampling)
    assert replies(batched, sampling) == single
    assert len({text for text, *_ in single}) > len(TEXTS) / 2
    assert (replies(batched, sampling, sample=1) == single) == (sampling.temperature == 0)


def test_greedy_replies_and_their_counts_are_those_of_generate(alone, folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    for text, reply in zip(TEXTS, replies(alone, Sampling(max_tokens=60)), strict=True):
        prompt = tokenizer(f"<user>{text}<end><assistant>", return_tensors="pt")
        n = prompt["input_ids"].shape[1]
        tokens = model.generate(**prompt, max_new_tokens=60, do_sample=False)[0, n:]
        end = "length" if tokens[-1] else "stop"
        assert reply == (tokenizer.decode(tokens, skip_special_tokens=True), end, n, len(tokens))


def test_draws_follow_temperature_and_top_p():
    import torch

    logits = torch.tensor([0.5, 0.3, 0.2]).log().repeat(4000, 1)
    for top_p, expected in ((1.0, [0.5, 0.3, 0.2]), (0.7, [0.625, 0.375, 0.0]), (0.0, [1.0, 0.0, 0.0])):
        calls = [_Call([], Sampling(temperature=1.0, top_p=top_p), random.Random(n)) for n in range(4000)]
        shares = torch.bincount(_next_tokens(logits, calls), minlength=3) / 4000
        assert shares.tolist() == pytest.approx(expected, abs=0.03)
    edge = [_Call([], Sampling(temperature=1.0), Mock(random=lambda: 1 - 2**-26))]  # 1 in float32
    assert _next_tokens(torch.tensor([[0.0, 0.0, -1e4]]), edge).tolist() == [1]
    with pytest.raises(ModelError, match=r"logits are not finite numbers; model\.dtype=bfloat16"):
        _next_tokens(torch.tensor([[0.0, torch.nan]]), edge)


def test_a_stop_text_or_an_end_token_that_is_not_special_ends_a_reply_and_is_left_out(alone, monkeypatch):
    whole = alone.complete(asks("Sum."), sampling=Sampling(max_tokens=40))
    reply = alone.complete(asks("Sum."), sampling=Sampling(max_tokens=40, stop=("never", stop := whole.text[9:12])))
    assert (reply.text, reply.finish_reason) == (whole.text.partition(stop)[0], "stop")
    monkeypatch.setattr(alone, "_ends", {*alone._tokenizer(end := whole.text[2]).input_ids})
    reply = alone.complete(asks("Sum."), sampling=Sampling(max_tokens=40))
    assert (reply.text, reply.finish_reason) == (whole.text.partition(end)[0], "stop")


def test_an_interrupted_call_ends_and_so_does_one_whose_error_cannot_be_copied(alone, monkeypatch):
    monkeypatch.setattr(hf, "_logits", steps := Mock(wraps=hf._logits))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(hf.Future, "result", Mock(side_effect=KeyboardInterrupt))
        alone.complete(asks("Sum."), sampling=Sampling(max_tokens=3000))
    assert alone.complete(asks("Sum."), sampling=Sampling(max_tokens=5)) and steps.call_count < 100
    error = type("Panic", (BaseException,), {"__reduce_ex__": None})
    for owner, name in ((alone, "_write"), (hf, "_logits"), (alone, "_tokens")):
        monkeypatch.setattr(owner, name, Mock(side_effect=error("of tokenizers")))
        with pytest.raises((error, ModelError), match="of tokenizers"):
            alone.complete(asks("Sum."), sampling=DRAWN)


def test_an_adapters_own_chat_template_is_used(folder, tmp_path, monkeypatch):
    (shutil.copytree(folder, tmp_path, dirs_exist_ok=True) / "chat_template.jinja").write_text("a b c")
    monkeypatch.setitem(sys.modules, "peft", peft := Mock())
    peft.PeftModel.from_pretrained = lambda model, path: Mock(merge_and_unload=lambda: model)
    assert TransformersModel(str(folder), adapter=str(tmp_path)).complete(asks(CHAT), sampling=CUT).usage.tokens < 50


def test_a_last_message_of_the_assistant_is_continued(alone):
    lone, chat = asks("def f(x):", "assistant"), asks("Sum.") + asks("Well,", "assistant")
    for messages, prompt in ((lone, "def f(x):"), (chat, "<user>Sum.<end><assistant>Well,")):
        reply = alone.complete(messages, sampling=Sampling(max_tokens=3))
        assert reply.usage.prompt_tokens == len(alone._tokenizer(prompt).input_ids)


def test_a_prompt_beyond_the_context_is_a_completion(folder):
    model = TransformersModel(str(folder), context=30)
    long, short = (model.complete(asks("x " * n), sampling=Sampling(max_tokens=500)) for n in (40, 3))
    assert (long.text, long.finish_reason, long.refused_tokens, long.usage.tokens) == ("", "context_overflow", 83, 0)
    assert (short.finish_reason, short.usage.tokens) == ("length", 30)


@pytest.mark.parametrize(("settings", "role", "error"), [
    ({"path": "./none"}, "user", r"model\.path: no folder at '\./none'; expected one, or a hub name"),
    ({"adapter": "none"}, "user", r"model\.adapter: got no folder at 'none'"),
    ({"adapter": "."}, "user", r"needs peft: pip install 'reflexion_lab\[transformers\]'"),
    ({"path": "."}, "user", r"model\.path: got an adapter, expected whole .*, and model\.adapter=FOLDER"),
    ({"path": "part"}, "user", r"part cannot be loaded \(its files lack model\.layers\.2"),
    ({"context": 5000}, "user", r"model\.context: got 5000, expected at most 4096, the window of tiny"),
    ({"device": "mps"}, "user", r"model\.path: .*tiny cannot be loaded .*, and a device of this machine"),
    ({}, "system", r"tiny refuses a call \(no system\)"),
    ({"path": "base"}, "user", r"base refuses a call \(it has no chat template, as instruct models have\)"),
    ({}, "user", r"no memory of the GPU for 1 sequences; model\.slots=1"),
])  # fmt: skip
def test_what_cannot_run_is_refused_with_its_key(folder, tmp_path, monkeypatch, settings, role, error):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hf, "_logits", Mock(side_effect=type("OutOfMemoryError", (RuntimeError,), {})))
    monkeypatch.setitem(sys.modules, "peft", None)
    shutil.copytree(folder, "base", ignore=lambda *_: ["chat_template.jinja"])
    (tmp_path / "adapter_config.json").touch()
    layers = (folder / "config.json").read_text().replace('_layers": 2', '_layers": 3')
    (shutil.copytree(folder, tmp_path / "part") / "config.json").write_text(layers)
    with pytest.raises((ValueError, ModelError), match=error):
        TransformersModel(**{"path": str(folder), **settings}).complete(asks("x", role), sampling=DRAWN)


def test_layers_that_keep_more_than_keys_and_values_are_refused(folder, tmp_path):
    kinds = pytest.importorskip("transformers")
    shape = {"layer_types": ["conv", "full_attention"], "num_hidden_layers": 2, "num_attention_heads": 4}
    model = kinds.Lfm2ForCausalLM(kinds.Lfm2Config(hidden_size=32, num_key_value_heads=4, **shape))
    model.save_pretrained(own := shutil.copytree(folder, tmp_path / "lfm2"))
    with pytest.raises(ModelError, match=r"model\.path: its layers keep more than .*; use a server such as vLLM"):
        TransformersModel(str(own), context=99).complete(asks("x"), sampling=DRAWN)


SMALL = "actor=single_shot actor.sampling.max_tokens=24 reflector=rules silent_replies=null benchmark.limit=4"


def test_a_run_is_equal_from_its_recorded_calls_with_other_workers_and_without_the_weights(folder, tmp_path, capsys):
    own, root, bundle = shutil.copytree(folder, tmp_path / "own"), tmp_path / "runs", str(tmp_path / "run.zip")
    command = [f"model=hf/{own}", *SMALL.split(), "tracker=none", "quiet=true", f"run_root={root}"]
    first, second = (rl.run([*command, f"workers={workers}"]).path for workers in (3, 1))
    assert re.search(r'"model_fingerprint": ?"hf:own:\w{16}:dtype=auto', (first / "manifest.json").read_text())
    assert main(["bundle", str(first), "-o", bundle]) == 0
    shutil.rmtree(own)
    assert main(["replay", bundle, "--out", str(tmp_path / "again")]) == main(["runs", str(root)]) == 0
    assert " own " in capsys.readouterr().out
    (again,) = (path.parent for path in (tmp_path / "again").rglob("manifest.json"))
    assert len({canonical_bytes(Log.read(RunFolder.existing(path))) for path in (first, second, again)}) == 1


@pytest.mark.parametrize("name", ["Qwen/Qwen2.5-Coder-1.5B-Instruct", "/w/a b", "./w", "~/w"])
def test_a_model_in_one_word(name):
    cfg = compose(f"model=hf/{name}", f"model@roles.critic=hf/{name}")
    nodes = {(node._target_.rpartition(".")[2], node.path) for node in (cfg.model, cfg.roles.critic)}
    assert nodes == {("TransformersModel", name)}
