"""Prompts that evolve: gepa proposes and selects, the lab's own loop evaluates, and a paired test by betting accepts.

A candidate is an instruction by template, of the actor and of the reflector. Tasks are in three parts without a common
cluster: training for feedback and acceptance, validation for the choice of the winner, and test. Evaluations are cells
of a sweep: the same command continues a killed search, and pays no call twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from reflexion_lab.agent.models.cache import Draws
from reflexion_lab.agent.reflectors.llm import SHAPES, evidence
from reflexion_lab.analysis.report.cells import interval, number, rate
from reflexion_lab.analysis.report.screen import WIDTH, folded
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.analysis.stats.betting import ALPHA, fewest, is_above_zero, wealth
from reflexion_lab.analysis.stats.estimators import Paired, paired, verdict
from reflexion_lab.analysis.stats.intervals import Rate, unpaired_difference
from reflexion_lab.errors import CapReached, ConfigError, LabError
from reflexion_lab.io import files
from reflexion_lab.loop.selection import submitted_at
from reflexion_lab.records import Attempt, Message, Record, Sampling
from reflexion_lab.runner.config.build import build
from reflexion_lab.runner.config.check import check
from reflexion_lab.runner.config.compose import compose
from reflexion_lab.runner.config.grid import Cell, cell_digest, lines
from reflexion_lab.runner.config.parts import has_shared_memory, load_models, selected
from reflexion_lab.runner.config.record import RunConfig
from reflexion_lab.runner.folder.folder import RunFolder
from reflexion_lab.runner.folder.manifest import named
from reflexion_lab.studies.sweeps.running import run_all
from reflexion_lab.studies.sweeps.sweep import Sweep
from reflexion_lab.tasks.benchmarks.benchmark import Benchmark, draw
from reflexion_lab.tasks.benchmarks.stream import Split
from reflexion_lab.text.prompts.render import Prompts, fits, is_instruction
from reflexion_lab.text.shorten import bounded

TEMPLATES = {"SingleShot": "solve", "ChainOfThought": "think", "ReAct": "react"}
"""Template by class of an actor for chats; those of continuations hold no instruction."""
EXAMPLE_CHARS = (1500, 800, 400, 200, 100)
"""Lengths to which texts of examples are cut, one after the other, until they fit into the proposer's context."""
REPLY_TOKENS = 4096
"""Limit of a proposal."""
CHUNK = 8
"""Clusters of the test by betting that run at once."""
FORM = "Keep the form of the reply that it asks for, labels and code blocks: a program reads it.\n\n"

Candidate = dict[str, str]


class Settings(Record, frozen=True, kw_only=True):
    """Options of the command. `max_evaluations`: loops of a candidate over a task; `proposer`: overrides of a model."""

    max_evaluations: int
    accept: Literal["e_process", "greedy"] = "e_process"
    minibatch: int = 3
    scores: Literal["visible", "hidden"] = "visible"
    proposer: tuple[str, ...] = ()


class Decision(Record, frozen=True):
    """`before`, `after`: solved tasks of the proposal's own; `won`, `lost`, `wealth`: of the test on further tasks."""

    parent: int
    component: str
    before: float
    after: float
    is_accepted: bool
    won: int
    lost: int
    wealth: float
    is_cut: bool = False
    """The budget ended the test."""


class Optimization(Record, frozen=True, kw_only=True):
    """A search; candidate 0 is the seed. `passed`: validation tasks by candidate. `unusable`: replies of the proposer
    without a new instruction. `paid`: calls that no cache answered. `validation`, `test`: winner against seed,
    the latter by hidden tests, as `hidden` on the validation tasks.
    """

    settings: Settings
    tasks: dict[str, int]
    candidates: list[Candidate]
    parents: list[list[int]]
    passed: list[int]
    best: int
    decisions: list[Decision]
    unusable: int
    evaluations: int
    paid: int
    validation: Paired
    hidden: Paired | None = None
    test: Paired | None = None
    variant: str
    next: str

    def __repr__(self) -> str:
        """At most 15 lines of at most 80 columns, but for long paths."""
        n, accepted = len(self.decisions), sum(decision.is_accepted for decision in self.decisions)
        ended = sum(decision.is_cut for decision in self.decisions)
        how = self.settings.accept + f", alpha {ALPHA:g}" * (self.settings.accept == "e_process")
        names, tasks = ", ".join(self.candidates[0]), ", ".join(f"{n} {part}" for part, n in self.tasks.items())
        answer = f"no better prompt ({names}): the seed stays, {rate(Rate.of(self.passed[0], self.validation.n))}"
        if self.best:
            answer = f"evolved prompts ({names}): {self._gain(self.validation, self.settings.scores)}; "
            answer += f"chosen as the best of {len(self.candidates)} on these tasks, so expect less"
        more = f", and {2 * self.test.n} of --test" if self.test else ""
        lines = [
            answer,
            f"evaluations: {self.evaluations} of {self.settings.max_evaluations}{more}; model calls made: {self.paid}",
            f"proposals: {accepted} accepted, {n - accepted - ended} rejected, "
            + f"{ended} ended by the budget, " * bool(ended)
            + f"{self.unusable} unusable ({how})",
            f"tasks: {tasks}",
        ]
        if self.test and self.hidden:
            first, second = ((pairs.difference, pairs.low, pairs.high) for pairs in (self.hidden, self.test))
            curse = f"{number(first[0] - second[0], signed=True)} {interval(*unpaired_difference(first, second))}"
            lines += [f"on test tasks: {self._gain(self.test, 'hidden')}"]
            lines += [f"winner's curse (validation - test, by hidden tests): {curse} points"]
        lines += [f"winner: {self.variant}"] * bool(self.variant) + [f"next: {self.next}"]
        return "\n".join(part for line in lines for part in folded(line, WIDTH))

    def _gain(self, pairs: Paired, side: str) -> str:
        points = f"{number(pairs.difference, signed=True)} points {interval(pairs.low, pairs.high)}"
        return f"{points}, n = {pairs.n}, {pairs.repaired} won, {pairs.damaged} lost by {side} tests"


class Search:
    """The lab as gepa's adapter, acceptance criterion, stop callback and logger. Raises ConfigError."""

    def __init__(self, overrides: Sequence[str], settings: Settings, is_tested: bool = False) -> None:
        for word in overrides:
            if re.match(r"\+*(sweep_id|resume|only|study|benchmark\.(passes|shard))=", word):
                raise ConfigError("optimize", word, "overrides of a new run over each task once", "leave it out")
        cfg = RunConfig.of(compose(*overrides, "tracker=none", "quiet=true"))
        check(cfg)
        benchmark = selected(cfg)
        for side in dict.fromkeys((settings.scores, "hidden" if is_tested else settings.scores)):
            _refuse(cfg, side, benchmark)
        split = replace(cfg.benchmark.split or Split(test=0.3, validation=0.3), part="validation")
        part_of = {task_id: part for part, ids in split.ids(benchmark).items() for task_id in ids}
        self.clusters = {task.task_id: task.cluster_id for task in benchmark}
        self.tasks = dict[str, list[str]]({"train": [], "validation": [], "test": []})
        for task_id in self.clusters:
            self.tasks[part_of.get(task_id, "train")].append(task_id)
        self.seed = _instructions(cfg)
        self.settings = settings
        tested = fewest() if settings.accept == "e_process" else 0
        sizes = Counter(self.clusters[task_id] for task_id in self.tasks["train"])
        chunk = sum(size for _, size in sizes.most_common(CHUNK)) if tested else 0
        self.step, clusters = 2 * (settings.minibatch + chunk) + len(self.tasks["validation"]), len(sizes)
        if clusters < settings.minibatch + tested:
            expected = f"{settings.minibatch + tested} or more, {settings.minibatch} for a proposal, others to test it"
            hint = "more tasks, smaller shares in benchmark.split, or --accept greedy"
            raise ConfigError("benchmark", f"{clusters} clusters of training tasks", expected, hint)
        if settings.max_evaluations < (least := len(self.tasks["validation"]) + self.step):
            expected = f"{least} or more: validation of the seed, then a proposal with its test and validation"
            raise ConfigError("--max-evaluations", settings.max_evaluations, expected)
        facts = [cell_digest(cfg), split, replace(settings, max_evaluations=0), self.seed]
        self.name = f"{named(cfg.arm)}-{hashlib.sha256(msgspec.json.encode(facts, order='sorted')).hexdigest()[:10]}"
        self.folder = Path(cfg.run_root, "optimize", self.name)
        places = {f"storage.{key}": getattr(cfg.storage, key) for key in ("calls", "spending", "scratch")}
        places |= {"run_root": str(self.folder), "cache.path": cfg.cache.path}
        places |= dict.fromkeys(("benchmark.split", "benchmark.sample", "benchmark.limit"))
        self.words = (*overrides, "tracker=none", "quiet=true", *lines(places))
        self.cfg = RunConfig.of(compose(*self.words))
        self.outcomes: dict[tuple[str, str], tuple[float, Log]] = {}
        """Score and run by digest of the candidate and task."""
        self.left = settings.max_evaluations
        self.decisions: list[Decision] = []
        self.unusable = self.paid = self._idle = 0
        self._problem: Exception | None = None
        own_words = (*self.words, *settings.proposer, *lines({"sweep_id": self.name}))  # one scope of the caps
        self.models = load_models(RunConfig.of(compose(*own_words)))
        self.models.open()
        self.proposer = Draws(self.models.of("actor" if settings.proposer else "reflector"))

    def missing(self, candidate: Candidate, ids: Sequence[str]) -> list[str]:
        digest = digest_of(candidate)
        return [task_id for task_id in dict.fromkeys(ids) if (digest, task_id) not in self.outcomes]

    def scores(self, candidate: Candidate, ids: Sequence[str]) -> list[float]:
        """1 for each task whose submission passes, else 0, after a run over those without a score."""
        digest, new = digest_of(candidate), self.missing(candidate, ids)
        if len(new) > self.left:
            raise RuntimeError(f"{len(new)} evaluations, and {self.left} are left")
        for log in self.run({self.cfg.arm: candidate}, new) if new else ():
            self.outcomes |= {(digest, task_id): (self.score(log, task_id), log) for task_id in new}
        self.left, self._idle = self.left - len(new), self._idle * (not new)
        return [self.outcomes[digest, task_id][0] for task_id in ids]

    def score(self, log: Log, task_id: str, side: str = "") -> float:
        """Of `side`, by default that of the settings. Raises LabError: there is no verdict, which is no failure."""
        attempt, side = submitted_at(log.attempts[task_id]), side or self.settings.scores
        judged = log.grades.get((task_id, attempt.number)) if side == "hidden" else attempt.evaluation
        if (passed := verdict(judged)) is None:
            what = f"{task_id}: no verdict of {side} tests ({judged.outcome if judged else 'not graded'})"
            raise LabError(f"{what}; the same command asks again (only=unscored)")
        return float(passed)

    def instructions(self, candidate: Candidate) -> Candidate:
        changed = {name: text for name, text in candidate.items() if text != self.seed[name]}
        return (self.cfg.prompts.get("instructions") or {}) | changed

    def run(self, arms: Mapping[str, Candidate], ids: Sequence[str]) -> list[Log]:
        """Runs of candidates over tasks, by label. Raises LabError: a run failed; CapReached."""
        cells: list[Cell] = []
        for arm, candidate in arms.items():
            values = {"arm": arm, "benchmark.ids": [list(ids)], "prompts.instructions": self.instructions(candidate)}
            words = (*self.words, *lines({key: value for key, value in values.items() if value}))
            cells.append(Cell.of(len(cells), words, compose(*words)))
        for only in ({}, {"only": "unscored"}):
            sweep = Sweep([cell._replace(cfg=cell.cfg.having(only)) for cell in cells], self.name)  # one scope of caps
            run_all(sweep, (), quiet=True)
            for state in sweep.states.values():
                if state.status not in ("done", "kept"):
                    kind = CapReached if state.status in ("stopped", "silent") else LabError
                    raise kind(f"{state.problem or 'an evaluation has not ended'}; the same command goes on")
                self.paid += state.paid if state.status == "done" else 0
            if not any(state.problem for state in sweep.states.values()):  # harness errors
                break
        return [Log.read(RunFolder(Path(state.folder))) for state in sweep.states.values()]

    def evaluate(self, batch: list[str], candidate: Candidate, capture_traces: bool = False) -> Any:
        from gepa.core.adapter import EvaluationBatch

        if self._problem:
            raise self._problem
        before, scores = len(self.outcomes), self.scores(candidate, batch)
        loops = [self.outcomes[digest_of(candidate), task_id][1].attempts[task_id] for task_id in batch]
        return EvaluationBatch([None] * len(batch), scores, loops, num_metric_calls=len(self.outcomes) - before)

    def make_reflective_dataset(self, candidate: Candidate, eval_batch: Any, components: list[str]) -> dict[str, Any]:
        loops = eval_batch.trajectories
        return {name: [each for loop in loops for each in _examples(name, loop)] for name in components}

    def propose_new_texts(self, candidate: Candidate, dataset: Mapping[str, Any], components: list[str]) -> Candidate:
        """The answer of a model of the lab to gepa's prompt; {} without examples or a new instruction."""
        (name,) = components
        if self._problem:  # gepa asks once more after an exception
            raise self._problem
        if not dataset.get(name):
            return {}
        try:
            text = self._proposed(candidate[name], dataset[name])
        except Exception as problem:  # gepa would log it and go on
            self._problem = problem
            raise
        is_usable = text != candidate[name] and is_instruction(text)
        self.unusable += not is_usable
        return {name: text} if is_usable else {}

    def _proposed(self, text: str, examples: Sequence[Candidate]) -> str:
        from gepa.strategies.instruction_proposal import InstructionProposalSignature as Signature

        template = Signature.default_prompt_template.replace("Provide the new", f"{FORM}Provide the new")
        context = self.proposer.context
        limit = min(REPLY_TOKENS, context // 2) if context else REPLY_TOKENS
        sampling = Sampling(temperature=1.0, seed=self.cfg.seed, max_tokens=limit)
        for chars in EXAMPLE_CHARS:
            cut = [{key: bounded(value, chars) for key, value in example.items()} for example in examples]
            about = {"current_instruction_doc": text, "dataset_with_feedback": cut, "prompt_template": template}
            message = Message(role="user", content=str(Signature.prompt_renderer(about)))
            if fits(message.content, self.proposer, sampling):
                break
        reply = self.proposer.complete([message], sampling=sampling)
        before, _, after = reply.text.rpartition("```")
        is_whole = reply.finish_reason == "stop" and "```" in before and not after[:1].isalnum()
        return str(Signature.output_extractor(reply.text)["new_instruction"]).strip() if is_whole else ""

    def should_accept(self, proposal: Any, state: Any) -> bool:
        (parent,), used, settings = proposal.parent_program_ids, len(self.outcomes), self.settings
        old, new = state.program_candidates[parent], proposal.candidate
        before, after = sum(proposal.subsample_scores_before), sum(proposal.subsample_scores_after)
        (component,) = (name for name in new if new[name] != old[name])
        units, is_cut = list[list[float]](), False
        if settings.accept == "e_process" and after >= before:  # else no further evaluation is spent
            read = {self.clusters[self.tasks["train"][place]] for place in proposal.subsample_indices}
            units, is_cut = self._gains(old, new, read)
        state.increment_evals(len(self.outcomes) - used)
        gains, means = [*chain(*units)], [sum(unit) / len(unit) for unit in units]
        is_accepted = bool(is_above_zero(means)) if settings.accept == "e_process" else after > before
        won, lost, most = gains.count(1), gains.count(-1), float(max(wealth(means), default=1.0))
        self.decisions.append(Decision(parent, component, before, after, is_accepted, won, lost, most, is_cut))
        print(f"{len(self.outcomes)} evaluations; {component} accepted: {is_accepted}", file=sys.stderr)
        return is_accepted

    def _gains(self, old: Candidate, new: Candidate, read: set[str]) -> tuple[list[list[float]], bool]:
        """Differences of scores by cluster of training tasks outside `read`, in an order by seed, until the test by
        betting accepts, all further tasks together could not make it accept, or the budget ends; and whether it did.
        """
        units: dict[str, list[str]] = {}
        for task_id in sorted(self.tasks["train"], key=lambda i: draw(self.cfg.seed, "accept", self.clusters[i])):
            if self.clusters[task_id] not in read:
                units.setdefault(self.clusters[task_id], []).append(task_id)
        left, gains, means = [*units.values()], list[list[float]](), list[float]()
        while left and is_above_zero([*means, *[1.0] * len(left)]) and not is_above_zero(means):
            for size in range(min(CHUNK, len(left)), 0, -1):
                ids = [*chain(*left[:size])]
                if len(self.missing(old, ids) + self.missing(new, ids)) <= self.left - len(self.tasks["validation"]):
                    break
            else:
                return gains, True
            scores = zip(self.scores(new, ids), self.scores(old, ids), strict=True)
            gains += [[after - before for after, before in islice(scores, len(unit))] for unit in left[:size]]
            left, means = left[size:], [sum(unit) / len(unit) for unit in gains]
        return gains, False

    def __call__(self, state: object) -> bool:
        """Whether to stop: a further step might exceed the budget, or the search repeats itself."""
        if self._problem:
            raise self._problem
        self._idle += 1
        return self.left < self.step or self._idle > 20  # it repeats itself

    def log(self, message: str) -> None:
        """Nothing: the result has all."""

    def against_seed(self, seed: Mapping[str, Log], winner: Mapping[str, Log], *, side: str = "") -> Paired:
        """`seed`, `winner`: run by task."""
        first, second = ({i: bool(self.score(log, i, side)) for i, log in logs.items()} for logs in (seed, winner))
        return paired(first, second, {task_id: self.clusters[task_id] for task_id in first})


def _refuse(cfg: RunConfig, side: str, benchmark: Benchmark) -> None:
    """Raises ConfigError: prompts cannot be searched with this config, or by tests of this side."""
    if cfg.feedback_source != "visible" or has_shared_memory(cfg):
        got = f"feedback_source={cfg.feedback_source}" + ", memory across tasks" * has_shared_memory(cfg)
        raise ConfigError("optimize", got, "visible feedback, which the proposer may read, and no shared memory")
    if cfg.cache.mode == "off":
        raise ConfigError("cache.mode", "off", "read-write, by which the same command pays no call twice")
    if cfg.arm == "evolved":
        raise ConfigError("arm", "evolved", "another name: --test gives this one to the winner")
    if bare := [task.task_id for task in benchmark if not getattr(task, f"{side}_tests")]:
        got = f"{len(bare)} of {len(benchmark)} tasks without {side} tests ({', '.join(bare[:3])})"
        hint = "benchmark.ids=[...] without them, or, for training and validation tasks, other --scores"
        raise ConfigError("benchmark", got, "a verdict on every task", hint)


def _instructions(cfg: RunConfig) -> Candidate:
    """Those of actor and reflector, by template. Raises ConfigError: there is none."""
    prompts: Prompts = build(cfg.prompts, "prompts")
    shape = (cfg.reflector.get("first") or cfg.reflector).get("shape")
    names = {"reflector": SHAPES[shape][0][0]} if shape in SHAPES and cfg.loop.max_attempts > 1 else {}
    if cfg.actor.get("style", "chat") == "chat":
        name = TEMPLATES.get(str(cfg.actor["_target_"]).rpartition(".")[2], "")
        names = {"actor": name} | names if name else names
    texts = {name: prompts.instruction(name) for name in names.values()}
    expected = "a template with an instruction in one piece: actor=single_shot or chain_of_thought, or "
    expected += "reflector=llm of shape fields or lessons, with loop.max_attempts=2 or more"
    for key, name in names.items():
        if not texts[name]:
            raise ConfigError(key, f"the template {name} ({prompts.variant}), whose words Jinja divides", expected)
    if not texts:
        raise ConfigError("actor, reflector", "none of them", expected)
    return texts


def _examples(component: str, loop: Sequence[Attempt]) -> Iterator[Candidate]:
    """What a component read, its reply, and what came of it: of the actor, the submitted attempt; else reflections."""
    attempt = submitted_at(loop)
    read = "\n\n".join(message.content for message in attempt.trajectory.messages)
    cases = [(read, attempt.trajectory.reply, attempt)]
    if component.startswith("reflect"):
        steps = [(a, after) for after in loop for a in loop if a.number == after.parent]
        words = [(a, a.reflection.text, after) for a, after in steps if a.reflection and a.reflection.text]
        cases = [(f"{a.trajectory.reply}\n\nFailing checks:\n{evidence(a)}", text, after) for a, text, after in words]
    for inputs, reply, judged in cases:
        failed = f"The program then failed its tests.\n{evidence(judged)}"
        feedback = "The program then passed its tests." if judged.evaluation.passed else failed
        yield {"Inputs": inputs, "Generated Outputs": reply, "Feedback": feedback}


def digest_of(candidate: Candidate) -> str:
    return hashlib.sha256(msgspec.json.encode(candidate, order="sorted")).hexdigest()[:16]


def optimize(overrides: Sequence[str], settings: Settings, is_tested: bool = False) -> Optimization:
    """Evolve the prompts of the config `overrides`; writes `winner.yaml` and `optimization.json` below `run_root`.

    `is_tested`: winner and seed also run on the test tasks, as two arms. Raises ConfigError, LabError, CapReached.
    """
    try:
        import gepa
    except ImportError:
        raise ConfigError("optimize: needs the package gepa", hint="pip install 'reflexion_lab[optimize]'") from None
    search = Search(overrides, settings, is_tested)
    train, validation, test = search.tasks.values()
    parts = dict.fromkeys(("adapter", "acceptance_criterion", "stop_callbacks", "logger"), search)
    with contextlib.closing(search.models):
        more = {"reflection_minibatch_size": settings.minibatch, "seed": search.cfg.seed}
        evolution = gepa.optimize(search.seed, train, validation, **parts, **more)
    best, winner, record = evolution.best_idx, evolution.best_candidate, search.folder / "optimization.json"
    digests = [digest_of(candidate) for candidate in (search.seed, winner)]
    sides = [{task_id: search.outcomes[digest, task_id][1] for task_id in validation} for digest in digests]
    command, hidden, pairs = "more tasks or evaluations, or a --proposer", None, None
    if best and is_tested:
        logs = search.run({search.cfg.arm: search.seed, "evolved": winner}, test)
        pairs = search.against_seed(*(dict.fromkeys(test, log) for log in logs), side="hidden")
        hidden = search.against_seed(*sides, side="hidden")
        command = f"reflexion-lab compare {' '.join(str(search.folder / log.manifest.run_id) for log in logs)}"
    elif best:
        command = "the same command with --test"
        with contextlib.suppress(OSError, msgspec.MsgspecError):  # none, or of another version
            old = msgspec.json.decode(record.read_bytes(), type=Optimization)
            if old.test and old.candidates[old.best] == winner and old.validation == search.against_seed(*sides):
                hidden, pairs, command = old.hidden, old.test, old.next
    result = Optimization(
        settings=settings,
        tasks={part: len(ids) for part, ids in search.tasks.items()},
        candidates=evolution.candidates,
        parents=[[parent for parent in parents if parent is not None] for parents in evolution.parents],
        passed=[int(sum(scores.values())) for scores in evolution.val_subscores],
        best=best,
        decisions=search.decisions,
        unusable=search.unusable,
        evaluations=len(search.outcomes),
        paid=search.paid + search.models.paid,
        validation=search.against_seed(*sides),
        hidden=hidden,
        test=pairs,
        variant=str(search.folder / "winner.yaml") if best else "",
        next=command,
    )
    if best:
        digests = [digest_of(candidate) for candidate in result.candidates]
        lineage = {
            "digest": digests[best],
            "seed_digest": digests[0],
            "parents": [digests[parent] for parent in result.parents[best]],
            "tasks": result.tasks,
            "passed": {"validation": result.passed[best], "test": pairs and pairs.both + pairs.repaired},
            "evaluations": result.evaluations,
            "seed": search.cfg.seed,
            "gepa": version("gepa"),
        }
        node = {**search.cfg.prompts, "instructions": search.instructions(winner), "lineage": lineage}
        files.replace(Path(result.variant), [msgspec.yaml.encode(node)])
    files.replace(record, [msgspec.json.format(msgspec.json.encode(result))])
    return result
