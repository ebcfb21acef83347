from reflexion_lab.memory.texts import signature
from reflexion_lab.records import Check, Evaluation


def signature_of(message):
    check = Check(name="c", outcome="fail", message=message, error_type="TypeError")
    return signature(Evaluation(passed=False, outcome="fail", reward=0.0, checks=(check,)))


def test_an_apostrophe_within_a_word_opens_no_quotation():
    assert signature_of("can't add int and str, so it doesn't return") == (
        "TypeError can't add int and str, so it doesn't return"
    )


def test_values_are_left_out_of_a_signature():
    assert signature_of("""expected 'a', got b"b" and 12 after b'c'""") == "TypeError expected , got b and after"
