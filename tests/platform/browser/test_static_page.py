"""The page of a run, opened from its file: found, addressed, moved about in, harmless, and readable in both themes."""

from urllib.parse import quote

import pytest
from msgspec.structs import replace

from reflexion_lab.analysis.report.page import save_page

VERDICTS = {
    "t/9": [(0.0, False), (1, True)],
    "t/10": [(0.0, False), (0.5, False), (1, True)],
    "t/once": [(1, True)],
    "t/never": [(0.0, False), (0.0, False)],
}
WORST_FIRST = ["t/never", "t/10", "t/9", "t/once"]
PWN = "window.pwned = true"
HOSTILE = f'"\'><img src=x onerror="{PWN}"></script><script>{PWN}</script><a href="javascript:{PWN}">on</a>'

pytestmark = pytest.mark.browser


@pytest.fixture
def report(write_run):
    """The address of the page of a run of four tasks."""
    return save_page(write_run(VERDICTS)).as_uri()


def chosen(page):
    return page.locator("#tasks [aria-current]")


def counted(page, words):
    """Wait until the list says how many tasks it shows."""
    page.locator("#count").get_by_text(words, exact=True).wait_for()


def listed(page):
    return [words.split("\n")[0] for words in page.locator("#tasks li:visible a > span:first-child").all_inner_texts()]


def test_the_list_is_searched_and_filtered_and_its_count_says_so(page, report):
    page.goto(report)
    counted(page, "4 of 4 tasks")
    assert listed(page) == WORST_FIRST
    page.get_by_role("searchbox").fill("CAUSE 2")
    counted(page, "2 of 4 tasks")
    assert listed(page) == ["t/never", "t/10"]
    page.get_by_label("Result").select_option("repaired")
    counted(page, "1 of 4 tasks")
    assert listed(page) == ["t/10"]
    page.get_by_role("button", name="show all").click()
    counted(page, "4 of 4 tasks")


def test_address_names_task_and_attempt_and_follows_navigation(page, report):
    page.goto(f"{report}#task=t/10&attempt=2")
    page.locator("#task .attempt-2.chosen").wait_for()
    assert listed(page)[WORST_FIRST.index("t/10")] == chosen(page).locator("span").first.inner_text() == "t/10"
    assert page.locator("#task").get_by_text("cause 2").first.is_visible()
    page.locator("#tasks").get_by_role("link", name="t/9").click()
    page.wait_for_url("**#task=t/9")
    page.go_back()
    page.locator("#task .attempt-3").wait_for()
    page.goto(f"{report}#task=t/none")
    page.get_by_text("This run has no ended loop of task t/none.").wait_for()


def test_keys_move_through_the_tasks_that_are_shown(page, report):
    page.goto(report)
    page.locator("#task .attempt-1").first.wait_for()
    page.keyboard.press("/")
    page.keyboard.type("t/1")
    counted(page, "1 of 4 tasks")
    page.keyboard.press("ArrowDown")
    page.wait_for_url("**#task=t/10")
    page.locator("#tasks li", has=page.locator("[aria-current]")).get_by_text("t/10").wait_for()
    page.get_by_role("searchbox").fill("")
    counted(page, "4 of 4 tasks")
    page.keyboard.press("ArrowDown")
    page.wait_for_url("**#task=t/9")


def test_the_keys_leave_the_search_and_text_that_is_selected_alone(page, report):
    page.goto(f"{report}#task=t/10")
    page.locator("#task .attempt-3").first.wait_for()
    page.keyboard.press("/")
    page.keyboard.type("t")
    counted(page, "4 of 4 tasks")
    page.keyboard.press("Shift+ArrowUp")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.id") != "words"
    assert page.url.endswith("#task=t/10")
    page.keyboard.press("ArrowDown")
    page.wait_for_url("**#task=t/9")
    assert page.evaluate("document.activeElement.hash") == "#task=t/9"


def test_an_address_of_no_task_leaves_no_task_marked(page, report):
    page.goto(f"{report}#task=t/10")
    page.locator("#task .attempt-3").first.wait_for()
    page.evaluate("location.hash = '#task=nope'")
    page.get_by_text("This run has no ended loop of task nope.").wait_for()
    assert chosen(page).count() == 0
    assert "t/10" not in page.title()
    page.locator("#tasks").get_by_role("link", name="t/9").click()
    page.locator("#tasks [aria-current]").wait_for()
    assert chosen(page).count() == 1


def test_an_open_task_that_the_list_leaves_out_is_said_to_be(page, report):
    page.goto(f"{report}#task=t/10")
    page.locator("#task .attempt-3").first.wait_for()
    notice = page.get_by_text("This task is not among the tasks listed.")
    assert not notice.is_visible()
    page.get_by_role("searchbox").fill("t/9")
    notice.wait_for()
    page.get_by_role("searchbox").fill("nothing like it")
    counted(page, "No task fits")
    page.get_by_role("button", name="show all").click()
    notice.wait_for(state="hidden")


def test_model_text_is_never_run_and_no_network_is_used(page, write_run, attempt, reflection):
    requests = []
    page.context.on("request", lambda request: requests.append(request.url))
    words = replace(reflection(1, words=HOSTILE), what_to_change=HOSTILE)
    names = {"t/plain": 1, HOSTILE: 2}  # and how many tasks have the name in what is searched
    attempts = {
        name: [attempt(name, 1, 0.0, HOSTILE, reflection=words), attempt(name, 2, 1, HOSTILE)] for name in names
    }
    report = save_page(write_run(attempts=attempts)).as_uri()
    for name, hits in names.items():
        page.goto(f"{report}#task={quote(name)}&attempt=1")
        page.reload()
        page.locator("#task .attempt-1.chosen").wait_for()
        page.get_by_role("searchbox").fill(name)
        counted(page, f"{hits} of 2 tasks")
        assert page.locator("#task").get_by_text(HOSTILE, exact=False).count() >= 2
        assert page.locator("img[src='x'], a[href^='javascript:']").count() == 0
        assert page.evaluate("window.pwned") is None
    assert {url.partition("#")[0] for url in requests} == {report}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_word_can_be_read_in_either_theme(page, report, faint, scheme):
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{report}#task=t/10")
    page.locator("#task .attempt-3").first.wait_for()
    page.locator("details").evaluate_all("found => found.forEach(one => one.open = true)")
    assert faint(page.locator("body")) == []
    red, green, blue = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")[:3]
    assert (red + green + blue > 600) == (scheme == "light")
