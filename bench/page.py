"""What the page of a run costs: 164 tasks x 5 attempts, programs and words cut from this package's own source, so that
they compress as real ones do. Where playwright and Chromium are there, also how long the page takes to open and to show
a task.

python bench/page.py [--tasks 164] [--smallest]
"""

import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path

from analysis import write_run
from msgspec.structs import replace
from table import Row, options_of, print_rows

import reflexion_lab
from reflexion_lab.analysis.report.history import Sources, history
from reflexion_lab.analysis.report.page import overview, save_page
from reflexion_lab.analysis.run_log import Log
from reflexion_lab.records import Message
from reflexion_lab.runner.folder.folder import RunFolder

ATTEMPTS, ROUNDS = 5, 5
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def realistic(log, rng):
    """The run with texts of its own for every attempt: a program of 25 lines of which a retry changes some, a prompt of
    2 to 6 kB, a reply that holds the program, a reflection.
    """
    folder = Path(reflexion_lab.__file__).parent
    lines = [line for file in sorted(folder.rglob("*.py")) for line in file.read_text().splitlines() if line.strip()]
    attempts = {task_id: list(_loop(history, lines, rng)) for task_id, history in log.attempts.items()}
    return replace(log, attempts=attempts)


def _loop(history, lines, rng):
    start = rng.randrange(len(lines) - 25)
    program = lines[start : start + 25]
    for attempt in history:
        program = [rng.choice(lines) if rng.random() < 0.15 else line for line in program]
        text, words = "\n".join(program), " ".join(rng.choice(lines).strip() for _ in range(5))
        joined = "\n".join(rng.choice(lines) for _ in range(30 + 15 * attempt.number))
        reflection = attempt.reflection
        trajectory = replace(
            attempt.trajectory,
            solution=text,
            reply=f"{words}\n```python\n{text}\n```",
            messages=(Message(role="user", content=joined),),
        )
        if reflection:
            reflection = replace(reflection, root_cause=words, what_to_change=rng.choice(lines), text=words)
        yield replace(attempt, trajectory=trajectory, reflection=reflection)


def write(path, tasks):
    """The run, and its log."""
    run = RunFolder(write_run(path, "reflexion", 0, tasks, ATTEMPTS))
    log = realistic(Log.read(run), random.Random(0))
    (path / "attempts.jsonl").unlink()
    for attempt in log.every:
        run.append("attempts.jsonl", attempt)
    run.close()
    return run, log


def cpu_seconds(work, *arguments):
    took = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work(*arguments)
        took.append(time.process_time() - start)
    return statistics.median(took)


def opening_seconds(page):
    """Medians: from asking for the file to its list and first history, of it the processor time of the page's main
    thread, and from a key to the next task's history.
    """
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        browser_path = None
    if not browser_path:
        return {}
    opened, busy, moved = [], [], []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=browser_path, args=ARGUMENTS)
        for _ in range(ROUNDS):
            tab = browser.new_page()
            inside = tab.context.new_cdp_session(tab)
            inside.send("Performance.enable", {"timeDomain": "threadTicks"})
            start = time.perf_counter()
            tab.goto(page.as_uri())
            tab.wait_for_selector(".reflexion-columns")
            opened.append(time.perf_counter() - start)
            busy += [
                m["value"] for m in inside.send("Performance.getMetrics")["metrics"] if m["name"] == "TaskDuration"
            ]
            start = time.perf_counter()
            tab.keyboard.press("ArrowDown")
            tab.wait_for_selector("#tasks li:nth-child(2) a[aria-current]")
            moved.append(time.perf_counter() - start)
            tab.close()
        browser.close()
    durations = {"open": opened, "open, CPU of its main thread": busy, "next task": moved}
    return {name: statistics.median(took) for name, took in durations.items()}


def rows(tasks):
    with tempfile.TemporaryDirectory() as scratch:
        run, log = write(Path(scratch) / "run", tasks)
        item, of = next(iter(log.attempts.values())), f"{tasks} tasks x {ATTEMPTS} attempts"
        yield Row(f"page of a run, {of}", "CPU s", cpu_seconds(save_page, run))
        yield Row("history of a task", "CPU s", cpu_seconds(history, item, log.grades, Sources.of(log)))
        yield Row("overview of a run", "CPU s", cpu_seconds(overview, log))
        page = run.path / "run.html"
        sizes = [path.stat().st_size / 1e6 for path in (page, run.path / "attempts.jsonl")]
        yield Row(f"size of the page, {of}", "MB", sizes[0], "attempts.jsonl", sizes[1])
        yield from (Row(f"in Chromium: {work}", "s", seconds) for work, seconds in opening_seconds(page).items())


def main():
    options = options_of(__doc__, tasks=164)
    print_rows(rows(5 if options.smallest else options.tasks))


if __name__ == "__main__":
    main()
