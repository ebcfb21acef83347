"""GBNF for `Sampling.grammar`, beside `fields.GRAMMAR`: labelled fields on a success, and reflections in JSON.

Texts are 4 to 14 words each; words are bounded as in `fields.GRAMMAR`, so that a reply that ends in a loop of them
still fits into `max_tokens`.
"""

from reflexion_lab.agent.reflectors.fields import GRAMMAR

SUCCESS = r"""
root ::= worked cause wrong change confidence
worked ::= "WHAT_WORKED: My program passed because " value
cause ::= "ROOT_CAUSE: This task is easy to get wrong because " value
wrong ::= "WHAT_WENT_WRONG: A careless version would " value
change ::= "WHAT_TO_CHANGE: In similar tasks I will " value
""" + GRAMMAR[GRAMMAR.index("confidence ::=") :]
"""Labelled fields on an attempt that passed."""

_WORDS = r"""text ::= "\"" [A-Za-z] [a-zA-Z]{0,23} (" " word){3,13} "\""
word ::= [a-zA-Z_.,`']{1,24} | [!#-[\]-~]{1,10}
"""

SERVICE = (
    r"""
root ::= "{\"category\": " category ", \"analysis\": " text ", \"suggestion\": " text items confidence "}"
category ::= "\"" kind "\""
kind ::= "root_cause" | "approach_flaw" | "missing_context" | "tool_misuse" | "test_gap" | "verification"
items ::= ", \"actionItems\": [" text (", " text)? "]"
confidence ::= ", \"confidence\": 0." [0-9] [0-9]
"""
    + _WORDS
)
"""`category, analysis, suggestion, actionItems, confidence`."""

SESSION = (
    r"""
root ::= "{\"what_worked\": " text ", \"what_failed\": " text ", \"root_cause\": " text change insight "}"
change ::= ", \"strategy_change\": " text
insight ::= ", \"key_insight\": " text
"""
    + _WORDS
)
"""`what_worked, what_failed, root_cause, strategy_change, key_insight`."""
