"""`reflexion-lab completion`: completion of commands and options in a shell."""

from __future__ import annotations

import argparse

from reflexion_lab.cli import place


def add(commands: place.Commands) -> None:
    text = "print a script that completes commands in a shell: source <(reflexion-lab completion bash)"
    sub = place.add_command(commands, "completion", completion, text)
    sub.add_argument("shell", choices=("bash", "zsh", "fish"))


def completion(options: argparse.Namespace) -> None:
    import shtab

    from reflexion_lab.cli.main import parser

    print(shtab.complete(parser(), options.shell))
