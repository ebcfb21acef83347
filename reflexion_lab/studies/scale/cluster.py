"""A Ray cluster: a local one, which ends with the run, or an existing one."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from reflexion_lab.errors import ConfigError, HarnessError
from reflexion_lab.io.files import Scratch
from reflexion_lab.io.secrets import without_logins
from reflexion_lab.limits import NotNegative, Parallel, validated
from reflexion_lab.protocols import Loop, StartedRun, Stored
from reflexion_lab.records import Episode, Mistake, Record
from reflexion_lab.studies.scale.worker import RunContext, Worker
from reflexion_lab.studies.scale.worker_pool import Programs, WorkerPool
from reflexion_lab.tasks.sandbox.sandbox import Limits

OBJECT_STORE = 100 << 20
"""Bytes of shared memory, for attempts and lessons."""
USER = re.compile(r"(?<=://)[^\s:/?#@]+@")
"""A user name without a password in an address: not secret."""
REMEDY = "set it in each worker's environment alone, such as PGPASSWORD"


class Cluster:
    """Loops and programs in Ray actors, `workers` of them, each with models, a sandbox and memory of its own.

    Nothing is started before it is needed. A cluster that this process is connected to is used and not stopped.

    Parameters
    ----------
    address : str | None, optional
        Of an existing cluster; by default RAY_ADDRESS, else a cluster of this machine is started.
    workers : int | None, optional
        Number of workers; by default as many as the cluster has room for.
    cpus : int, default 1
        CPUs per worker, 1 or more.
    patience : float, default 300.0
        Seconds for the cluster and for each worker to start.

    Raises
    ------
    ConfigError
        A value is impossible, or Ray is not installed.
    HarnessError
        (later) the cluster cannot be reached.
    """

    @validated
    def __init__(
        self,
        address: str | None = None,
        workers: Parallel | None = None,
        cpus: Parallel = 1,
        patience: NotNegative = 300.0,
    ) -> None:
        if importlib.util.find_spec("ray") is None:
            raise ConfigError("executor: ray is not installed; pip install 'reflexion_lab[ray]'")
        self.address = address or os.environ.get("RAY_ADDRESS")
        self.workers = workers
        self.cpus = cpus
        self.patience = patience
        self._is_connected = False
        self._own: Scratch | None = None
        """Folder of a cluster that was started here."""
        self._lock = threading.Lock()
        self._pool: WorkerPool | None = None
        self._is_closed = False
        self._worker: tuple[Any, ...] = ()
        self.config: Mapping[str, Any] = {}

    @property
    def worker_pool(self) -> WorkerPool:
        """The workers, started when they are first needed. Raises HarnessError."""
        with self._lock:
            if self._is_closed:
                raise HarnessError("The executor was closed; make another.")
            self._pool = self._pool or self._started()
            return self._pool

    def pool(self, limits: Limits, servers: int | None, config: Mapping[str, Any]) -> Programs:
        """Raises ConfigError: the config contains a secret; secrets are never sent to workers."""
        for key, value in _leaves(config):
            public = USER.sub("", value)
            if without_logins({key.rpartition(".")[2]: public}) != {key.rpartition(".")[2]: public}:
                raise ConfigError(key, "a key or password", "none, as executor=ray sends no secret to workers", REMEDY)
        self.config = config
        self._worker = (limits, servers or self.cpus, str(Path.cwd()))
        return Programs(lambda: self.worker_pool, limits, servers or self.cpus)

    def loops(self, here: Callable[[], Loop], started: StartedRun) -> Callable[[], Loop]:
        """Workers do not read the store. They receive its contents, so it may be a file on this machine only."""
        import ray

        worker_pool, store = self.worker_pool, started.store if started.beginning else None
        stored: list[Stored] = [*store.read(Episode), *store.read(Mistake)] if store else []
        context = RunContext(
            self.config, len(worker_pool.places), started.run_id, started.scope, started.beginning, stored
        )
        worker_pool.counted = started.counted
        worker_pool.broadcast("begin", ray.put(context))
        return lambda: worker_pool

    def broadcast(self, learnt: Sequence[Record]) -> None:
        import ray

        self.worker_pool.broadcast("absorb", ray.put(learnt))

    def close(self) -> None:
        """Stop the workers, and the cluster if it was started here. Safe to call twice."""
        self._is_closed = True
        if self._pool:
            self._pool.close()
            self._pool = None
        if self._is_connected:
            import ray

            ray.shutdown()
            self._is_connected = False
        if self._own:
            self._own.close()
            self._own = None

    def _started(self) -> WorkerPool:
        import ray

        try:
            self.connect()
            actor = ray.remote(Worker).options(num_cpus=self.cpus, max_concurrency=1000)
            size = self.workers or max(1, int(ray.cluster_resources().get("CPU", 1)) // self.cpus)
            return WorkerPool(lambda: actor.remote(*self._worker), size, self.patience)
        except BaseException:
            self.close()
            raise

    def connect(self) -> None:
        """Connect this process to the cluster at the address, or to a new one, with a password: Ray listens on every
        network. Runs of this process use it until `close`. Raises HarnessError.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray

        if ray.is_initialized():
            return
        self._is_connected = True
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        handler = signal.getsignal(signal.SIGTERM)
        try:
            if self.address:
                ray.init(self.address, **quiet)
            else:
                self._own = Scratch()
                os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # else Ray writes one into HOME
                os.environ.setdefault("RAY_memory_monitor_refresh_ms", "0")  # whom to kill is the system's choice
                cpus = self.workers * self.cpus if self.workers else None
                own: dict[str, Any] = {"_temp_dir": str(self._own.path), "include_dashboard": False, "num_cpus": cpus}
                with _patient(self.patience), _lean(self._own.path):
                    ray.init("local", object_store_memory=OBJECT_STORE, **quiet, **own)
        except Exception as problem:  # of many types, one of them Exception itself
            place = self.address or "a cluster of this machine alone"
            reason = " ".join(str(problem).split())[:300]
            raise HarnessError(f"executor.address: {place} cannot be used ({reason}); is Ray up there?") from problem
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, handler)  # Ray replaces the lab's handler


@contextlib.contextmanager
def _lean(folder: Path) -> Iterator[None]:
    """Hide a module from Ray's ten processes, which saves three quarters of their start time: each imports jsonschema,
    which compiles a grammar of web addresses if it finds one, as beside JupyterLab.
    """
    (folder / "lean").mkdir()
    (folder / "lean" / "rfc3987_syntax.py").write_text("raise ImportError\n")
    path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder / "lean"), path)))
    try:
        yield
    finally:
        if path is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = path


@contextlib.contextmanager
def _patient(seconds: float) -> Iterator[None]:
    """Ray gives its own node 30 s to start, however busy the machine; give it as many as workers get."""
    from ray._private import services

    get_node: Callable[..., Any] = services.get_node

    def waited_for(*which: Any) -> Any:
        end = time.monotonic() + seconds
        while True:
            try:
                return get_node(*which)
            except RuntimeError:
                if time.monotonic() >= end:
                    raise
                time.sleep(0.1)

    services.get_node = waited_for
    try:
        yield
    finally:
        services.get_node = get_node


def _leaves(node: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Every text of a config, with its key."""
    if isinstance(node, str):
        yield key, node
    items = node.items() if isinstance(node, Mapping) else enumerate(node) if isinstance(node, list) else ()
    for name, value in items:
        yield from _leaves(value, f"{key}.{name}" if key else str(name))
