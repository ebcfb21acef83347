"""Tokens per second of `model=hf` with waiting tasks, beside `generate` of transformers on one full batch of them.

    python bench/hf.py [--folder FOLDER] [--tasks 64] [--reply 128] [--rounds 5] [--device auto] [--top-p 1]

Without a folder, a Llama of 4 layers, hidden size 256 and random weights. Each task is a thread that asks once; prompts
of 55 to 90 tokens by the own tokenizer, replies of full length: no end of text counts. Both take turns; medians of
tokens per CPU second and per second, and of the ratios of a turn. Last line: one JSON object.
"""

import argparse
import json
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from reflexion_lab.agent.models.hf import TransformersModel
from reflexion_lab.records import Message, Sampling


def random_weights(folder):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=2000, special_tokens=["<end>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([Path(__file__).parents[1].joinpath("README.md").read_text()], trainer)
    template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", chat_template=template)
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 4, "max_position_embeddings": 4096}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 4}
    LlamaForCausalLM(LlamaConfig(vocab_size=len(fast), **sizes, **heads)).save_pretrained(folder)
    return folder


def turns(model, texts, sampling):
    """Tokens that each side writes, by a call of the side."""
    options = {"max_new_tokens": sampling.max_tokens, "min_new_tokens": sampling.max_tokens, "do_sample": False}
    if sampling.temperature:
        options |= {"do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": 0}

    def lab():
        chats = [[Message(role="user", content=text)] for text in texts]
        with ThreadPoolExecutor(len(texts)) as pool:
            replies = pool.map(lambda chat: model.complete(chat, sampling=sampling), chats)
            return sum(reply.usage.completion_tokens for reply in replies)

    def generate():
        chats = [[{"role": "user", "content": text}] for text in texts]
        form = {"add_generation_prompt": True, "return_tensors": "pt", "return_dict": True, "padding": True}
        inputs = model._tokenizer.apply_chat_template(chats, **form).to(model._model.device)
        with torch.inference_mode():
            tokens = model._model.generate(**inputs, **options)[:, inputs["input_ids"].shape[1] :]
        model._tokenizer.batch_decode(tokens)
        return tokens.numel()

    return lab, generate


def rates(sides, rounds):
    """Tokens per CPU second and per second, shape (rounds, sides, 2); a round before them is not counted."""
    table = []
    for _ in range(rounds + 1):
        row = []
        for side in sides:
            cpu, wall = time.process_time(), time.perf_counter()
            tokens = side()
            row.append((tokens / (time.process_time() - cpu), tokens / (time.perf_counter() - wall)))
        table.append(row)
    return table[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder")
    for name, usual in (("tasks", 64), ("reply", 128), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--top-p", type=float, default=1.0)
    options = parser.parse_args()
    figures = {"device": options.device, "tasks": options.tasks}
    with tempfile.TemporaryDirectory() as place:
        model = TransformersModel(options.folder or random_weights(place), device=options.device, slots=options.tasks)
        model._model = model._load()
    model._ends, model._model.generation_config.eos_token_id = set(), None
    model._tokenizer.padding_side, model._tokenizer.pad_token = "left", model._tokenizer.eos_token
    texts = ["word " * (25 + number % 16) + str(number) for number in range(options.tasks)]
    for name, temperature in (("greedy", 0.0), ("sampling", 1.0)):
        sampling = Sampling(max_tokens=options.reply, temperature=temperature, top_p=options.top_p)
        table = rates(turns(model, texts, sampling), options.rounds)
        for unit, per in enumerate(("cpu_second", "second")):
            for side, who in enumerate(("lab", "generate")):
                figures[f"{name}_{who}_per_{per}"] = round(statistics.median(row[side][unit] for row in table))
            figures[f"{name}_ratio_{per}"] = round(statistics.median(lab[unit] / hf[unit] for lab, hf in table), 2)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
