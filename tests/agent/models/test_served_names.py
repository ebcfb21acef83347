"""Which names are one model."""

import pytest

from reflexion_lab.agent.models.openai import is_same


@pytest.mark.parametrize(
    ("requested", "answered"),
    [
        ("gpt-4o", "gpt-4o"),
        ("gpt-4o", "GPT-4o-2024-08-06"),
        ("gpt-4", "gpt-4-0613"),
        ("gpt-4o-mini", "openai/gpt-4o-mini"),
        ("openai/gpt-4o-mini", "gpt-4o-mini-2024-07-18"),
        ("gemini-1.5-pro", "models/gemini-1.5-pro-002"),
        ("gemini-2.5-flash", "gemini-2.5-flash-05-20"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet-20241022"),
        ("claude-3-haiku", "claude-3-haiku@20240307"),
        ("llama3", "llama3:latest"),
        ("llama3:8b", "llama3:8b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen/qwen2.5-7b-instruct"),
        ("smollm2", "/srv/models/SmolLM2.gguf"),
        ("mistral-7b-instruct", "mistral-7b-instruct-v0.3"),
    ],
)
def test_versions_tags_paths_and_case_make_no_other_model(requested, answered):
    assert is_same(requested, answered)


@pytest.mark.parametrize(
    ("requested", "answered"),
    [
        ("gpt-4o", "gpt-4o-mini"),
        ("gpt-4o-mini", "gpt-4o"),
        ("gpt-4", "gpt-4.1"),
        ("gpt-4", "gpt-4o"),
        ("gpt-4o", "gpt-4o-mini-2024-07-18"),
        ("gpt-4o-2024-08-06", "gpt-4o-2024-05-13"),
        ("gpt-3.5-turbo", "gpt-3.5-turbo-16k"),
        ("llama3:70b", "llama3:8b"),
        ("llama3", "llama3:70b"),
        ("qwen2.5-coder", "qwen2.5-coder:0.5b"),
        ("meta/llama-3", "other/llama-3"),
        ("qwen-2", "qwen-2-72b"),
        ("o1", "o1-mini"),
        ("student", ""),
        ("a", "ab"),
    ],
)
def test_another_model_is_another_model(requested, answered):
    assert not is_same(requested, answered)
