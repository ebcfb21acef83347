import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reflexion_lab.agent.reflectors.fields import LABELS, Category, Fields, ParseError, parse_fields
from tests.agent.reflectors.test_fields import EXPECTED

OURS = {
    "ROOT_CAUSE": "The loop stops one short.", "WHAT_WENT_WRONG": "The last item was never added.",
    "WHAT_TO_CHANGE": "I will loop to len(xs).", "CONFIDENCE": 0.85,
}  # fmt: skip
ANALYSED = {
    "category": "test_gap", "analysis": "The empty list was never tried.", "suggestion": "Return 0 for an empty list.",
    "actionItems": ["Guard the empty list", "Try it by hand"], "confidence": 0.7,
}  # fmt: skip
SCORED = {
    "what_worked": "The loop itself.", "what_failed": "The last item was left out.",
    "root_cause": "range ends before its end.", "strategy_change": "Loop over the items, not over positions.",
    "key_insight": "A range leaves out its end.",
}  # fmt: skip
texts = st.text().map(lambda text: " ".join(text.split())).filter(lambda text: any(map(str.isalnum, text)))
entries = st.lists(texts.filter(lambda text: len(text) <= 200), max_size=5).map(tuple)
fields = st.builds(
    Fields, root_cause=texts, what_went_wrong=texts, what_to_change=texts, confidence=st.floats(0, 1),
    what_worked=st.just("") | texts, key_insight=st.just("") | texts,
    category=st.sampled_from(["", *Category]).map(str), action_items=entries, lessons=entries,
)  # fmt: skip
spellings = st.sampled_from([str.upper, str.title, lambda name: name.replace("_", " "), lambda name: f" {name}-"])
anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from([*OURS, *ANALYSED, *SCORED, "lessons", "x"]), inner)
    ),
)


@given(fields, spellings, st.booleans(), st.sampled_from([None, 2]))
def test_what_is_written_as_json_is_read_back(fields, spell, ascii_only, indent):
    built = {spell(name): value for name, value in msgspec.to_builtins(fields).items()}
    assert parse_fields(json.dumps(built, ensure_ascii=ascii_only, indent=indent)) == fields


@given(anything, st.text(max_size=20), st.text(max_size=20))
def test_any_json_gives_fields_or_a_parse_error(value, before, after):
    try:
        fields = parse_fields(before + json.dumps(value) + after)
    except ParseError:
        return
    assert 0 <= fields.confidence <= 1
    assert fields.root_cause and fields.what_to_change


@given(st.text('{}[]":,\\ \nu0dROOT_CAUSEconfidence1.N'))
def test_json_soup_gives_fields_or_a_parse_error(text):
    with pytest.raises(ParseError, match="WHAT_TO_CHANGE"):  # no way to spell this label
        parse_fields(text)


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps(OURS), json.dumps(OURS, indent=2), f"```json\n{json.dumps(OURS, indent=2)}\n```",
        f"Here is {{my}} view: {json.dumps(OURS)} I hope that it helps.", json.dumps([OURS]),
        json.dumps({"reflection": OURS, "version": 2}), json.dumps({"note": "x"}) + json.dumps(OURS),
        json.dumps({"confidence": 0.1}) + json.dumps(OURS), json.dumps(OURS).replace(" stops", "\n stops"),
        json.dumps({name.lower().replace("_", ""): value for name, value in OURS.items()}),
        json.dumps({"rootCause": "", **OURS}),
        json.dumps({**OURS, "WHAT_WENT_WRONG": ["The last item", "was never added."]}),
        "<think>" + json.dumps({**OURS, "ROOT_CAUSE": "Perhaps another."}) + "</think>" + json.dumps(OURS),
    ],
)  # fmt: skip
def test_place_and_spelling_of_the_object_do_not_matter(reply):
    assert parse_fields(reply) == EXPECTED


def test_labelled_lines_come_before_json_and_of_a_key_given_twice_the_first_value():
    lines = "\n".join(f"{label}: {value}" for label, value in OURS.items())
    assert parse_fields(json.dumps({**OURS, "ROOT_CAUSE": "Another."}) + "\n" + lines) == EXPECTED
    twice = json.dumps(OURS)[:-1] + ', "ROOT_CAUSE": "", "WHAT_WENT_WRONG": "Later words."}'
    assert parse_fields(twice) == EXPECTED
    assert parse_fields('{"ROOT_CAUSE": "", ' + json.dumps(OURS)[1:]) == EXPECTED


def test_analysis_stands_for_cause_and_symptom_once():
    fields = parse_fields(json.dumps({**ANALYSED, "lessons": ["Try the smallest input."]}))
    assert (fields.root_cause, fields.what_went_wrong) == ("The empty list was never tried.", "")
    assert fields.lessons == ("Try the smallest input.",)
    assert fields.what_to_change == "Return 0 for an empty list."
    assert fields.action_items == ("Guard the empty list", "Try it by hand")
    assert (fields.category, fields.confidence) == ("test_gap", 0.7)
    fields = parse_fields(json.dumps({**ANALYSED, "root_cause": "No guard."}))
    assert (fields.root_cause, fields.what_went_wrong) == ("No guard.", "The empty list was never tried.")


def test_the_analysed_shape_is_bounded_and_the_scored_one_read():
    long = {"analysis": "x" * 900, "action_items": ["y" * 400] * 9, "confidence": 10, "category": "cosmic_rays"}
    fields = parse_fields(json.dumps({**ANALYSED, **long, "actionItems": None}))
    assert (fields.root_cause, fields.what_went_wrong) == ("x" * 500, "")
    assert fields.action_items == ("y" * 200,) * 5
    assert (fields.confidence, fields.category) == (1.0, "root_cause")
    fields = parse_fields(json.dumps(SCORED))
    assert (fields.root_cause, fields.what_went_wrong) == ("range ends before its end.", "The last item was left out.")
    assert fields.what_to_change == "Loop over the items, not over positions."
    assert (fields.what_worked, fields.key_insight) == ("The loop itself.", "A range leaves out its end.")


def test_our_own_labels_need_a_confidence_and_half_a_character_reaches_no_file():
    with pytest.raises(ParseError, match="lacks CONFIDENCE; expected"):
        parse_fields(json.dumps({key: value for key, value in OURS.items() if key.lower() != "confidence"}))
    fields = parse_fields(json.dumps({**OURS, "ROOT_CAUSE": "half \ud800 and whole \U0001f600"}))
    assert fields.root_cause == "half ? and whole \U0001f600"
    assert msgspec.json.decode(msgspec.json.encode(fields), type=Fields) == fields


@pytest.mark.parametrize("shape", [OURS, ANALYSED, SCORED])
@pytest.mark.parametrize(
    ("stated", "confidence"),
    [
        *((unclear, None) for unclear in ("NaN", "Infinity", '"high"', "1.7", "1e400")),
        *(("0.5", 0.5), ("0.9", 0.9), ("-0.2", 0.0), ("[0.9]", 0.9), ('"85%"', 0.85)),
    ],
)
def test_confidence_is_read_as_in_lines_and_neutral_if_unclear(shape, stated, confidence):
    others = {key: value for key, value in shape.items() if key.lower() != "confidence"}
    fields = parse_fields(json.dumps(others)[:-1] + f', "confidence": {stated}}}')
    expected = 0.5 if confidence is None else confidence
    assert (fields.confidence, fields.is_stated) == (pytest.approx(expected), confidence is not None)
    assert fields.root_cause and fields.what_to_change


@pytest.mark.parametrize("shape", [ANALYSED, SCORED])
def test_other_shapes_go_without_a_confidence(shape):
    for stated in ({}, {"confidence": None}):
        fields = parse_fields(json.dumps({key: value for key, value in shape.items() if key != "confidence"} | stated))
        assert fields.root_cause and (fields.confidence, fields.is_stated) == (0.5, False)


@pytest.mark.parametrize("absent", [(0,), (3,), (0, 2), (1, 2, 3)])
@pytest.mark.parametrize("empty", ["", "...", None, [], {}, False, [" "], [["nested"]]])
def test_missing_and_empty_keys_are_all_named(absent, empty):
    reply = OURS | {LABELS[i]: empty for i in absent}
    with pytest.raises(ParseError) as caught:
        parse_fields(json.dumps(reply))
    named = str(caught.value).partition(";")[0]
    assert [label in named for label in LABELS] == [i in absent for i in range(4)]


@pytest.mark.parametrize(
    "reply",
    [
        '{"a":' * 200_000, '{"a":' + "[" * 1_000_000, ('{"a":' + "[" * 200) * 5000, '{"' * 500_000, "{ " * 500_000,
        '{"a":"' + '{\\"' * 300_000 + '"}', '{"a":' * 250 + '"' + "x" * 1_000_000 + '"' + "}" * 250,
        '{"confidence":' + "1" * 60_000 + "}", '{"a" 1}' * 100_000,
    ],
    ids=range(9),
)  # fmt: skip
def test_hostile_json_is_only_a_parse_error(reply):
    with pytest.raises(ParseError, match="ROOT_CAUSE"):
        parse_fields(reply)


def test_an_object_too_far_or_too_late_is_not_read():
    with pytest.raises(ParseError):
        parse_fields("x" * 64_000 + json.dumps(OURS))
    with pytest.raises(ParseError):
        parse_fields('{"a": 1} ' * 256 + json.dumps(OURS))
    assert parse_fields('{"a": 1} ' * 255 + json.dumps(OURS)) == EXPECTED
