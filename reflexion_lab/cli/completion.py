"""`reflexion-lab completion`: completion of commands, options, runs and config groups in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from reflexion_lab.cli import place

SCRIPTS = {
    "bash": """_reflexion_lab() {
    local IFS=$'\\n'
    COMPREPLY=($(reflexion-lab completion bash --line "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _reflexion_lab reflexion-lab
""",
    "zsh": """#compdef reflexion-lab
_reflexion_lab() {
    local -a words_
    words_=("${(@f)$(reflexion-lab completion zsh --line "$LBUFFER" 2>/dev/null)}")
    [[ -n $words_[1] ]] && compadd -S '' -- $words_ || _files
}
compdef _reflexion_lab reflexion-lab
""",
    "fish": """complete -c reflexion-lab -f -a '(reflexion-lab completion fish --line (commandline -cp))'
""",
}
USE = {
    "bash": "source <(reflexion-lab completion bash), in ~/.bashrc",
    "zsh": "source <(reflexion-lab completion zsh), in ~/.zshrc after compinit",
    "fish": "reflexion-lab completion fish | source, in ~/.config/fish/config.fish",
}


def add(commands: place.Commands) -> None:
    text = "print a script that completes commands in a shell"
    use = "; ".join(f"{shell}: {line}" for shell, line in USE.items())
    sub = place.add_command(commands, "completion", completion, f"{text}; {use}")
    sub.add_argument("shell", choices=tuple(SCRIPTS))
    sub.add_argument("--line", help="print the words that may follow this command line instead")


def completion(options: argparse.Namespace) -> None:
    if options.line is None:
        print(SCRIPTS[options.shell], end="")
        return
    words = candidates(options.line)
    if options.shell == "bash":  # which completes the part behind a "=" alone
        words = [word.rpartition("=")[2] or word if _last(options.line).count("=") else word for word in words]
    print("\n".join(words))


def candidates(line: str) -> list[str]:
    """Words that may stand at the end of a command line in place of its last, unfinished one."""
    from reflexion_lab.cli.main import parser

    _, *words = [*line.split(), *[""] * line.endswith((" ", "\t"))] or [""]
    *before, current = words or [""]
    commands = _subcommands(parser())
    if not before:
        return _beginning(current, commands)
    if before[0] == "run":
        return _beginning(current, _choices(current))
    sub, options = commands.get(before[0]), list[str]()
    while sub is not None:
        names = _subcommands(sub)
        options = [*names, *(option for action in sub._actions for option in action.option_strings)]
        takes_runs = any(action.metavar == "RUN" for action in sub._actions)
        options += [path.parent.name for path in sorted(Path("runs").glob("[!.]*/manifest.json"))] * takes_runs
        before = before[1:]
        sub = next((names[word] for word in before if word in names), None)
    return _beginning(current, options)


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return {name: sub for action in actions for name, sub in action.choices.items()}


def _choices(current: str) -> list[str]:
    """Config groups as `group=`; behind a group's `=`, its choices."""
    from reflexion_lab.runner.config.compose import CONF

    group, is_given, _ = current.partition("=")
    if is_given:
        return [f"{group}={path.stem}" for path in sorted((CONF / group.partition("@")[0]).glob("*.yaml"))]
    return [f"{path.name}=" for path in sorted(CONF.iterdir()) if path.is_dir() and path.name != "hydra"]


def _last(line: str) -> str:
    return line.rsplit(" ", maxsplit=1)[-1]


def _beginning(current: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(current)]
