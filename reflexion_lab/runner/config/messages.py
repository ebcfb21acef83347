"""Error messages for a terminal: one line, without secrets, in terms of the config rather than of Hydra."""

from __future__ import annotations

import difflib
import errno
import re
import traceback
from collections.abc import Iterator

from reflexion_lab.errors import LabError
from reflexion_lab.io.secrets import without_keys
from reflexion_lab.io.terminal_text import plain, visible

NO_CHOICE = re.compile(r".*Could not find '(.+)/([^/']+)' Available options in '[^']*': ([\w -]+)(.*)")
SEVERAL = re.compile(r"Ambiguous value for argument '(.*?)' 1\. .*")
OWN_FILES = "config files of your own: 'hydra.searchpath=[file:///FOLDER]'"

MACHINE = frozenset(
    {
        errno.EACCES, errno.EBUSY, errno.ECONNREFUSED, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EMFILE, errno.ENFILE,
        errno.ENAMETOOLONG, errno.ENOLCK, errno.ENOMEM, errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EROFS,
        errno.ENOSYS, errno.EOPNOTSUPP, errno.ESTALE, errno.ETIMEDOUT,
    }
)  # fmt: skip
"""Error numbers of a full or read-only disk, of exhausted resources and of a file system without locks."""
NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)


def is_user_error(problem: Exception) -> bool:
    """Whether the user can fix the problem: an error, not a bug."""
    if isinstance(problem, OSError) and problem.errno in MACHINE:
        return True
    *_, cause = _causes(problem)
    return isinstance(cause, LabError) or is_hydra_error(cause)


def is_hydra_error(problem: BaseException) -> bool:
    """Whether Hydra or OmegaConf raised it."""
    return type(problem).__module__.startswith(("hydra", "omegaconf"))


def one_line(problem: BaseException, keys: str = "") -> str:
    """Problem and hint on one line: the innermost cause, Hydra's config key, the stage of the loop; without secrets and
    control characters.

    `keys`: the hint for an unknown key; by default the command that prints the config.
    """
    return "; ".join(filter(None, _problem_and_hint(problem, keys)))


def in_lines(problem: BaseException) -> str:
    """As `one_line`, with the hint on a second line."""
    return "\n  ".join(filter(None, _problem_and_hint(problem)))


def _problem_and_hint(problem: BaseException, keys: str = "") -> tuple[str, str]:
    if is_hydra_error(problem) and (unread := getattr(problem, "override", None)):
        return one_safe_line(
            f"{unread[:200]}: not of the form KEY=VALUE"
        ), "quote values with special characters: 'KEY=\"VALUE\"'"
    notes = "; ".join(note for cause in _causes(problem) for note in getattr(cause, "__notes__", ()))
    key = re.search(r"full_key: (\S+)", all_messages(problem))
    *_, problem = _causes(problem)
    text, hint = (problem.problem, problem.hint) if isinstance(problem, LabError) else (str(problem), "")
    if isinstance(problem, OSError) and problem.errno in NO_LOCKS:
        hint = "the folder needs a file system with `flock` (NFSv4; Lustre with the option `flock`): run_root=…"
    text = re.split(r"\s+(?:full_key:|object_type=|Config search path:|See https://hydra)", text)[0]
    if key and "is not in struct" in text:
        text = f"{key[1]}: unknown key"
        kind = "hydra" if key[1].startswith("hydra.") else "job"
        hint = keys if keys and kind == "job" else f"`reflexion-lab run --cfg {kind}` prints all keys"
    elif choice := NO_CHOICE.fullmatch(" ".join(text.split())):
        group, name, choices = choice[1], choice[2], choice[3].split()
        near = difflib.get_close_matches(name, choices, n=1)
        hint = f"did you mean {near[0]!r}?" if near else OWN_FILES
        if group.split("/")[0] == "model" and not near:
            group, _, owner = group.partition("/")
            name = f"{owner}/{name}".strip("/")
            hint = f"did you mean model={'vllm' if owner else 'openai'}/{name}? other servers: anthropic/, ollama/, …"
        text = f"{group}: got {name!r}, expected one of {', '.join(choices)}{choice[4]}"
    elif several := SEVERAL.fullmatch(" ".join(text.split())):
        key_of_list, _, values = several[1].partition("=")
        text = f"{several[1]}: got several values, expected one"
        hint = f"`-m` sweeps over them; {key_of_list}=[{values}] is a list"
    elif missing := re.search(r"Missing mandatory value: (\S+)", text):
        text = f"{missing[1]}: got no value, expected {missing[1]}=…"
    elif key and (unset := re.search(r"Environment variable '(\w+)' not found", text)):
        text, hint = f"{key[1]}: the environment variable {unset[1]} is not set", f"export it, or give {key[1]}=…"
    elif key and key[1].split(".")[0] not in text:
        text = f"{key[1]}: {text}"
    return one_safe_line(" ".join(f"{text} {f'({notes})' if notes else ''}".split())), one_safe_line(hint)


def all_messages(problem: BaseException) -> str:
    """The messages of a problem and of the exceptions that Hydra wraps in it."""
    return " ".join(map(str, _causes(problem)))


def _causes(problem: BaseException) -> Iterator[BaseException]:
    """The problem and the exceptions that Hydra wraps in it, the innermost last."""
    yield problem
    while problem.__cause__ is not None and type(problem).__module__.startswith("hydra"):
        problem = problem.__cause__
        yield problem


def one_safe_line(text: str) -> str:
    """`text` on one line, without secrets and control characters, since messages quote foreign text and configs."""
    return plain(without_keys(text))


def full_traceback(problem: BaseException) -> str:
    """The traceback, escaped and without secrets like `one_line`."""
    return visible(without_keys("".join(traceback.format_exception(problem))))
