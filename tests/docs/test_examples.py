"""The examples in docstrings run, and print what they show."""

import doctest
import os
from importlib import import_module
from pathlib import Path

import matplotlib
import pytest

import reflexion_lab as rl

PACKAGE = Path(rl.__file__).parent
MODULES = [
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.parent.name in ("notebook", "stats") and "    >>> " in path.read_text()
]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def play(example, names):
    """The names after the example; `names` are those that it may use beside the globals of its module."""
    report = []
    example.globs |= {"rl": rl, **names}
    result = doctest.DocTestRunner(optionflags=OPTIONS).run(example, out=report.append, clear_globs=False)
    assert not result.failed, "".join(report)
    return example.globs


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """What the examples of `rl.run` and `rl.sweep` define, for all others; their runs are in the present folder."""
    home = Path.cwd()
    os.chdir(tmp_path_factory.mktemp("examples"))
    matplotlib.use("agg")
    finder = doctest.DocTestFinder()
    names = {}
    for name in ("run", "sweep"):
        (example,) = finder.find(getattr(rl, name), name)
        defined = play(example, names)
        names |= {"small": defined["small"], name: defined[name]}
    yield names
    os.chdir(home)


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES)
def test_the_examples_of_a_module_print_what_they_show(module, names):
    finder = doctest.DocTestFinder(exclude_empty=True)
    done = {f"reflexion_lab.notebook.run.{name}" for name in ("run", "sweep")}
    for example in finder.find(import_module(module)):
        if example.name not in done:
            play(example, names)


def test_every_public_function_has_an_example():
    functions = [name for name in rl.__all__ if name.islower() and name != "plot"]
    without = [name for name in functions if ">>> " not in (getattr(rl, name).__doc__ or "")]
    assert without == []
