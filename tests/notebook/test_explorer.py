"""The explorer, handled as its reader would: filters narrow the list, steps go through attempts, nothing is obeyed."""

import pytest

from reflexion_lab.notebook.explore import explore
from tests import builders

RIGHT, WRONG = (1, True), (0, False)
LOOPS = {"t/10": [WRONG, RIGHT], "t/9": [RIGHT], "t/2": [WRONG, WRONG, WRONG], "t/1": [(0.5, True), (1, False)]}


@pytest.fixture
def explorer(write_run):
    return explore(write_run(LOOPS))


def test_filters_narrow_the_list_to_as_many_tasks_as_they_say(explorer):
    assert explorer.task_ids == ["t/1", "t/2", "t/10", "t/9"]
    w = explorer.widgets
    for name, value, left in (
        ("result", "repaired", ["t/10"]), ("result", "damaged", ["t/1"]), ("result", "solved at once", ["t/9"]),
        ("result", "not solved", ["t/2"]), ("attempts", 2, ["t/1", "t/10"]), ("text", " T/9 ", ["t/9"]),
    ):  # fmt: skip
        before, w.filters[name].value = w.filters[name].value, value
        assert explorer.task_ids == left and left[0] in w.page.value
        w.filters[name].value = before
    for name, chooser in w.filters.items():
        for label, value in chooser.options[1:] if name != "text" else ():
            chooser.value = value
            assert label.endswith(f"({len(explorer.task_ids)})")
            chooser.value = chooser.options[0][1]
    w.filters["text"].value = "nothing like it"
    assert explorer.task_ids == [] and "No task fits" in w.page.value
    w.filters["text"].value = ""
    assert len(explorer.task_ids) == 4


def test_a_page_shows_one_attempt_or_the_whole_history(explorer):
    w = explorer.widgets
    w.tasks.value = explorer.selected[1]
    single, w.attempt.value = w.page.value, 2
    assert w.page.value != single and "Attempt 3" in w.page.value
    w.attempt.value = -1
    assert all(f"Attempt {n}" in w.page.value for n in (1, 2, 3))
    w.tasks.value = explorer.selected[0]
    assert w.attempt.value == 0


def test_what_models_wrote_and_tasks_are_called_is_no_markup(write_run):
    evil = "<script>alert(1)</script>\u202e"
    acted = {"solution": evil, "strategy": evil, "reply": evil}
    attempt = builders.attempt(task_id=evil, judged={"feedback": evil}, acted=acted)
    explorer = explore(write_run(attempts={evil: [attempt]}))
    for html in (explorer.widgets.page.value, explorer._repr_html_()):
        assert "<script" not in html and "\u202e" not in html
        assert "&lt;script&gt;" in html
    assert "\u202e" not in repr(explorer)


def test_the_heading_says_upper_bound_and_unfinished(write_run):
    bound = explore(write_run(LOOPS, feedback_source="oracle", name="bound"))
    assert "UPPER BOUND, not pass@1" in bound.heading and "feedback source oracle" in bound.heading
    unsealed = explore(write_run(LOOPS, sealed=False, name="unsealed"))
    assert [(task.result, task.strip) for task in unsealed.histories if task.task_id == "t/10"] == [("right", "?✓")]
    assert explore(write_run(LOOPS, n_expected=8)).heading.startswith("INCOMPLETE, 4 of 8 tasks ended: ")
    assert explore(write_run({}, n_expected=3, name="none")).heading.endswith("0 tasks, no results yet")


def test_only_one_run_can_be_explored(write_run):
    runs = [write_run(LOOPS, name=name) for name in ("a", "b")]
    with pytest.raises(ValueError, match=r"2 runs, expected one"):
        explore(runs)
