from reflexion_lab.tasks.benchmarks.rows import repeated


def test_a_test_is_repeated_however_it_is_written_and_not_by_another_call_or_value() -> None:
    for other in (
        "assert candidate([1, 'a']) == 2", "assert f( [1,\"a\"] )==2, 'a message'",
        "data = 1\nassert (f([1, 'a']) == 2)", "for x in ():\n    assert f([1, 'a']) == 2",
    ):  # fmt: skip
        assert repeated(["assert f([1, 'a']) == 2", "assert f(3) == 3"], [other], "f") == ("assert f([1, 'a']) == 2",)
    for other in ("assert f(1) == 3", "assert g(1) == 2", "f(1) == 2", "assert f(2) == 2"):
        assert repeated(["assert f(1) == 2"], [other], "f") == ()
