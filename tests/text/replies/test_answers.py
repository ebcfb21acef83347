from fractions import Fraction

import pytest
from msgspec.structs import replace

from reflexion_lab.records import Task
from reflexion_lab.text.replies.answers import ANSWER_CHARS, equal, exact, extract_answer, is_symbolic, key, numeric


def question(is_number: bool) -> Task:
    return Task(task_id="q", prompt="?", entry_point="", kind="answer", data={"is_number": is_number})


@pytest.mark.parametrize(
    ("reply", "answer", "rule"),
    [
        ("Answer: 42", "42", "label"), ("**Answer:** 42.", "42", "label"), ("**Final Answer: 42**", "42", "label"),
        ("### Final Answer\n\n42", "42", "label"), ("Answer: 1\nI was wrong.\nAnswer: 2", "2", "label"),
        ("Answer: 7. I am sure the answer is right", "7", "label"), ("Answer: \\boxed{7}. Done", "7", "label"),
        ("Answer: x = 12 m", "12", "label"), ("So \\boxed{\\frac{3}{4}}", "3/4", "boxed"),
        ("\\boxed{1} no, \\boxed{2}", "2", "boxed"), ("5 + 5\n#### 1,234", "1234", "hashes"),
        ("#### 1. First step\nthe total is 9", "9", "last_number"),
        ("The answer is 3.5 because it holds. Bye 9", "3.5", "phrase"),
        ('{"reason": "7 days", "final_answer": 3}', "3", "json"), ("I think 3 + 4 = 7", "7", "last_number"),
        ("<think>Answer: 3</think>Answer: 4<|im_end|>", "4", "label"), ("Answer:", "", "none"),
        ("<think>Answer: 3", "", "thinking"), ("Answer: 42\nI checked that the answer is correct.", "42", "label"),
        ("Answer: **42** apples", "42", "label"), ("Answer: about 42", "42", "label"),
        ("So the answer is 12, not 15.", "12", "phrase"), ("Answer: <answer>5</answer>", "5", "tag"),
        ("<answer>\n12\n</answer>\nLet me know if you have 3 questions: <answer></answer>", "12", "tag"),
        ("<answer>7 (see 2)</answer>", "7", "tag"),
        ("<answer>She sells 9 eggs and makes 18 dollars</answer>", "18", "last_number"),
        ("Use <answer>...</answer>, <answer>3</answer> as an example.\nAnswer: 18", "18", "label"),
        ("Answer:\n> 18", "18", "label"), ("Answer: <b>18</b><br>9 eggs", "18", "label"),
        ("Answer: 3+4=<<3+4=7>>7", "7", "label"), ("Answer: 3/4 or 0.75", "3/4", "label"),
        ("Answer: 18 = 9 * 2", "18", "label"), ("Answer: 2 million people", "2e6", "label"),
        ("So 1.5 \\times 10^{3}", "1.5e3", "last_number"), ("Answer: 2\u202f000\u202f000", "2000000", "label"),
        ("Answer: 5 * 3 = 15 apples, so there are 15", "15", "label"),
        ("Answer: 42! I checked it 3 times", "42", "label"), ("Answer: 5m of it", "5", "label"),
        ("<answer>\n3 and 4 are 7 fruits.\n\nAnswer: 7\n</answer>", "7", "label"),
        ("Answer: " + "1" * (ANSWER_CHARS + 1), "", "too_long"),
    ],
)  # fmt: skip
def test_a_number_is_read_from_a_reply_by_the_named_rule(reply, answer, rule):
    assert extract_answer(reply, question(True)) == (answer, rule)


@pytest.mark.parametrize(
    "text",
    [
        "2\\sqrt{3}", "\\sqrt{2}", "2x", "x^2", "2^10", "2 + 3i", "2k", "(2, 3)", "2 or 3", "2-3", "2 * 3", "5, -5",
        "3/4 million", "\\sqrt{\\frac{3}{4}}", "e^{\\frac{3}{4}}", "-(2)", "x > 2", "2:30", "2 000 000",
    ],
)  # fmt: skip
def test_a_number_within_something_else_is_not_the_answer(text):
    assert extract_answer(f"So \\boxed{{{text}}}.", question(True)) == (text, "boxed")


@pytest.mark.parametrize(
    ("reply", "answer", "rule"),
    [
        ("The answer is **Paris**. It is large.", "Paris", "phrase"),
        ("Answer:\n1 2\n3 4\n\nThat is all.", "1 2\n3 4", "label"),
        ("Answer:\n```\n1 2\n\n3 4\n```\nThat is all.", "1 2\n\n3 4", "label"),
        ("\\boxed{a{b}c} and more", "a{b}c", "boxed"), ("\\boxed{open", "\\boxed{open", "last_line"),
        ("Well.\nParis\n\n", "Paris", "last_line"), ("The answer is St. Louis. Yes.", "St. Louis", "phrase"),
        ("The answer is George H. W. Bush. He won.", "George H. W. Bush", "phrase"),
        ("The answer is J. K. Rowling. She wrote it.", "J. K. Rowling", "phrase"),
        ("The answer is U.S. Route 66. Yes.", "U.S. Route 66", "phrase"),
        ("The answer is Malcolm X. He was born.", "Malcolm X", "phrase"),
        ("The answer is Vitamin C. Therefore, we take it.", "Vitamin C", "phrase"),
        ("The answer is Apple Inc. Microsoft was second.", "Apple Inc", "phrase"),
        ("The answer is Group A. Groups B and C are other.", "Group A", "phrase"),
        ("The answer is C. Because it is.", "C", "phrase"),
        ("The answer is option B. The others are not.", "option B", "phrase"),
        ("The answer is Option B. The others are not.", "Option B", "phrase"),
        ("The capital is <answer>Paris</answer>.\nI hope this helps!", "Paris", "tag"),
        ("<answer>The answer is Paris. Yes.</answer>", "Paris", "phrase"),
        ("Answer: Paris\n\nI am sure the answer is correct.", "Paris", "label"), ("Answer: 3 of 4", "3 of 4", "label"),
        ("I answer in <answer> tags.\n\nAnswer: <Answer>Paris</Answer>", "Paris", "tag"),
    ],
)  # fmt: skip
def test_other_answers_keep_their_words_and_lines(reply, answer, rule):
    assert extract_answer(reply, question(False)) == (answer, rule)


@pytest.mark.parametrize(
    ("reply", "rule"),
    [
        ("Answer: 1 2\n3 4\n\nThat is all.", "label"), ("**Answer:** 1 2\n3 4", "label"),
        ("Answer: ```\n1 2\n3 4\n```\nDone.", "label"), ("Answer:\n\n```text\n1 2\n3 4\n```", "label"),
        ("The answer is:\n1 2\n3 4\n", "phrase"), ("I turn it.\n\n```\n1 2\n3 4\n```\n", "last_lines"),
        ("First 9 9\n9 9\n\n1 2\n3 4", "last_lines"), ('{"answer": "1 2\\n3 4"}', "json"),
        ("So:\n\n<answer>\n1 2\n3 4\n</answer>", "last_lines"),
        ("Answer:\n1 2\n3 4\n\nIn code:\n```python\nprint(1)\nprint(2)\n```", "label"),
        ("In code:\n```python\nprint(1)\nprint(2)\n```\n\n1 2\n3 4", "last_lines"),
        ("So the answer is 1 2\n3 4.", "phrase"), ("\\boxed{\n1 2\n3 4\n}", "boxed"),
        ("The final answer is as follows:\n\n1 2\n3 4", "phrase"),
        ("Answer:\nHere is the solution:\n\n```\n1 2\n3 4\n```\nDone.", "label"),
        ("Answer: Here it is:\n1 2  \n3 4\n\nThat is all\nof it.", "label"),
        ("Answer:\n  ~~~\n  1 2\n  3 4\n  ~~~", "label"),
        ("Here it is:\n```\n1 2\n3 4\n```\n\nEvery row\nis right.", "last_lines"),
        ("Here it is:\n1 2\n3 4\n\nEvery row is right.", "last_lines"),
        ("Answer:\n1 2\n3 4\n\nFinal Answer: see the grid above.", "label"),
        ("Answer:\n```\n1 2\n3 4\n```\n\nLet me verify that the answer is right:\n- Row 1\n- Row 2", "label"),
        ("Answer:\n```\n1 2\n3 4", "label"), ("Answer:\n```\n1 2\n3 4```\nDone.", "label"),
        ("Answer: ```1 2\n3 4```", "label"), ("The answer is therefore:\n1 2\n3 4", "phrase"),
    ],
)  # fmt: skip
def test_an_answer_with_lines_is_read_whole_wherever_it_begins(reply, rule):
    grid = Task(task_id="q", prompt="?", entry_point="", kind="answer", data={"has_lines": True})
    assert extract_answer(reply, grid) == ("1 2\n3 4", rule)
    assert extract_answer("I think\nof it.\n\nAnswer: a, b", grid) == ("a, b", "label")


def test_a_reply_that_broke_off_holds_no_answer_without_a_mark():
    assert extract_answer("First 3, then 4", question(True), broke_off=True) == ("", "none")
    assert extract_answer("Answer: 3\nSince", question(True), broke_off=True) == ("3", "label")


@pytest.mark.parametrize(("text", "value"), [
    ("1,234.50", Fraction(2469, 2)), ("$5", 5), ("3/4", Fraction(3, 4)), ("\\dfrac{-3}{4}", Fraction(-3, 4)),
    ("1 1/2", Fraction(3, 2)), ("\u22122", -2), ("2e3", 2000), ("x = 7", 7), ("12 apples", 12), ("5 m", 5), ("50%", 50),
    ("20 km/h", 20), ("\\$1{,}000.", 1000), ("3.0", 3), (".5", Fraction(1, 2)),
    ("3,5", None), ("10\u00b2", None), ("5 and 6", None), ("1e999", None), ("1/0", None), ("\u0663\u0664", None),
    ("90^\\circ", 90), ("2 million", 2_000_000), ("1.5\\times 10^3", 1500), ("2.5 x 10^3", 2500),
    ("2 hundred thousand", 200_000), ("1 1/2 million", None), ("1 million and a half", None),
    ("nan", None), ("3i", None), ("2x", None), ("5 - x", None), ("5\\pi", None), ("", None), ("9" * 400, None),
])  # fmt: skip
def test_numeric_reads_one_number_and_nothing_doubtful(text, value):
    assert numeric(text) == value


def test_rules_compare_as_stated():
    assert equal("numeric", "3.0000001", "3") and not equal("numeric", "3.001", "3")
    assert not equal("numeric", "1000001", "1000000") and not equal("numeric", "three", "3")
    assert equal("exact", " the  Beatles!", "Beatles") and not equal("exact", "Beatle", "Beatles")
    assert not equal("exact", "the", "a"), "words of which nothing is left are compared themselves"
    assert all(equal("exact", right, f"({right})") and equal("exact", f"{right}.", right) for right in "ABa")
    for right, wrong in (
        ("x-1", "x+1"), ("(-1, 3)", "(1,-3)"), ("3:45", "34:5"), ("-\\sqrt{2}", "\\sqrt{2}"),
        ("6 - 4i", "6 + 4i"), ("a - b", "b"), ("3 : 2", "3 2"), ("C++", "C"), ("C#", "C"), ("A-", "A"),
    ):  # fmt: skip
        assert is_symbolic(right) and equal("literal", f" ${right}$. ", right) and not equal("literal", wrong, right)
    assert equal("literal", "\\binom{1 \\\\ 2}", "\\binom{1\\\\2}") and is_symbolic('["a", "b"]')
    assert equal("literal", "\\dfrac{a}{b}", "\\frac{a}{b}") and equal("exact", "Evelyn", "\\text{Evelyn}")
    assert not any(
        map(is_symbolic, ("\\text{(C)}", "Episode IV - A New Hope", "Paris", "the United States", "A", "St. Louis"))
    )
    assert exact("An apple, the end") == "apple end"
    assert key(question(True), "3.0") == key(question(True), "$3") != key(question(True), "4")
    assert key(question(False), "The End") == key(question(False), "end")


HOSTILE = [
    "\\boxed{" * 140_000, "Answer:\n" * 120_000, "#### 1" + " " * 900_000 + "x", "</s>" * 240_000, "1" * 900_000,
    "Answer: " + "1,111" * 1_900, '{"' * 400_000, "Answer: " + "1/" * 4_900, "Answer: " + "\\frac{" * 1_500,
    "*" * 900_000, "the answer is " * 70_000, "<answer>" * 120_000,
    "Answer: 5\n\n" + "`" * 99_000 + "\n" + "x\n" * 99_000,
    "The answer is " + "A. " * 300_000 + "The end.", "[" + "," * 900_000, "Answer: " + "1 million " * 900,
    "```\n" + " " * 900_000,    "2 " * 450_000, "Answer: " + "A" * 9_000, "Answer: " + "\\text{" * 1_600,
]  # fmt: skip


def test_hostile_replies_are_read_in_linear_time():
    grid = replace(question(False), data={"has_lines": True})
    for reply in HOSTILE:  # in quadratic time this test would take hours
        for task in (question(True), question(False), grid):
            assert len(extract_answer(reply, task).program) <= ANSWER_CHARS
        assert numeric(reply) is None and len(exact(reply)) <= ANSWER_CHARS
