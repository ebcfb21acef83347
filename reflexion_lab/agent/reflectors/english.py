"""Word lists of `quality`: acts, intentions, blame, commonplaces."""

from __future__ import annotations

import re

_ACTS = """
accumulate add adjust append apply assign bound break build call cast change check clamp compare compute convert copy
count create cut decrement define delete divide drop exclude extend extract filter flip floor guard implement import
include increment initialise initialize insert invert iterate join keep limit loop lower maintain map merge modify
move multiply negate normalise normalize parse pass place preserve put raise reduce remove rename reorder replace
reset restrict return reverse rewrite round scan separate skip slice sort split start stop store strip subtract sum
swap switch take track traverse treat trim truncate turn update use validate walk wrap
"""
_STEMS = "|".join(word[:-1] + "(?:y|i)" if word.endswith("y") else word.removesuffix("e") for word in _ACTS.split())
_ACT = rf"(?:{_STEMS})(?:e|[b-z]?ed|[b-z]?ing)?\b"
_NO_NOUN = r"(?<!\bthe )(?<!\ba )(?<!\ban )(?<!\bof )(?<!\bin )"
ACT = re.compile(rf"\b{_NO_NOUN}{_ACT}", re.IGNORECASE)
"""A verb for a concrete change of a program, unlike `fix`, `handle`, `consider` and `ensure`."""

INTENDED_ACT = re.compile(
    r"\b(?:should|will|shall|must|could|need(?:s|ed)?|(?:has|have|ought) to|next time|let me|let's|I'll|I'd"
    r"|to (?:fix|resolve|correct|overcome|address|solve|avoid|make|ensure|prevent|mend|get|achieve|guarantee))"
    rf"(?:(?:\W+[\w']+){{0,11}}?\W+{_NO_NOUN}{_ACT}| be [`\d(])"
    rf"|\b{_NO_NOUN}(?:{_STEMS})ing\b[^.]{{0,120}} (?:will|would|should|could|can) (?:fix|resolve|solve|correct)",
    re.IGNORECASE,
)
"""An act soon after a word of intention."""

_PARTS = r"""
lines? \d+|loops?|looping|iterat\w+|conditions?|conditionals?|if statement|elif|branch\w*|return statement|comparisons?
|comparing|compares|operators?|slic\w+|index\w*|indices|range|recurs\w+|base case|regex|regular expression|variables?
|counter|accumulator|initial\w*|comprehension|lambda|imports?|imported|arguments?|parameters?|dictionary|stack|queue
|sort(?:s|ed|ing)|formula|division|modul\w+|round(?:s|ed|ing)|cast\w*|convert\w*|conversion|syntax|indent\w*|parenthes\w+
|keyword|off[- ]by[- ]one|append\w*|recursion|exceptions?
"""
_DOING = """
add append assign assume break calculate call check combine compare concatenate consider convert count create cut
decrement divide exclude filter include increment initialise initialize iterate join keep look modify multiply
overwrite pad pass pop reduce remove replace reset reverse round search set skip sort split square start stop strip
subtract swap treat truncate update use
"""
_DOING_STEMS = "|".join(word.removesuffix("e") for word in _DOING.split())
CREDIT = re.compile(
    rf"\b(?:{''.join(_PARTS.splitlines())})\b|(?<!not )(?<!the )\b(?:{_DOING_STEMS})(?:e?s|[b-z]?ing)\b"
    r"|\bonly \w+s\b|\binstead of\b|\brather than\b|\bregardless\b|\breturns \w+ (?:when|if|as)\b",
    re.IGNORECASE,
)
"""A construct of a program, or a step of it."""

_JUDGES = (
    r"(?:(?:unit )?tests?(?: ?cases?| suite| code)?|assertions?(?: statements?)?|assert statements?"
    r"|test(?:ing)? (?:framework|harness|environment)|expected (?:outputs?|results?|values?|answers?)"
    r"|problem (?:statement|description)|task(?: description)?|specification|docstring|environment|harness"
    r"|instructions?)"
)
_FAULTY = (
    r"(?:wrong|incorrect(?:ly)?|flawed|invalid|faulty|broken|erroneous|mistaken|inconsistent|misleading|ambiguous|unclear"
    r"|vague|contradictory|not (?:correct|valid|clear|accurate|consistent|properly|well)|written incorrectly)"
)
BLAME = re.compile(
    rf"(?<!for the )(?<!for the failed )(?<!for )\b{_JUDGES}(?: themselves| itself| provided| given)?"
    r" (?:is|are|was|were|(?:may|might|could|must) be|seems?|appears?)"
    rf"(?: to be| being)?(?: \w+){{0,2}}? {_FAULTY}\b"
    rf"|\b(?:issue|problem|mistake|bug|fault|inconsistency|flaw|typo|(?:an|possible) error|error lies) (?:is |lies )?"
    rf"(?:in|with) (?:how )?(?:the |these |those |provided |given )*{_JUDGES}(?! where| is that| that| when|\w)"
    rf"|\b{_FAULTY} {_JUDGES}(?! results?| outputs?|\w)"
    r"|\bambigu(?:ous|ity)\b"
    r"|\b(?:implementation|function|code|program|solution|logic)(?: \w+){0,4}? (?:is|was|seems to be|appears to be)"
    r"(?: actually| already| indeed)? correct(?=[,.;]| but| and| as)"
    r"|\b(?:remove|change|modify|correct|fix|adjust|update|rewrite) (?:the |this |that |these |those |failing )*"
    r"(?:unit )?(?:tests?(?: ?cases?)?|assertions?)\b",
    re.IGNORECASE,
)
"""Blame on anything but the program."""

OUTCOMES = {
    "timeout": re.compile(r"time|infinite|endless|forever|slow|terminat|hang|never end|effici"),
    "memory": re.compile(r"memory|recurs|stack"),
}
"""Words for outcomes that have no exception."""

_COMMONPLACE = """
able accordingly account accurate accurately actual actually add additional additionally address adjust again
algorithm all also always anew answer any appear appears approach arises ask asked asks aspect assert assertion
attempt attempts attention avoid aware based basic because been before beginning behaves behavior behaviour being
better both boundary bug bugs call called care careful carefully carefulness case cases cause caused causes causing
certain change changed changes check checked checking checks code come common complete completely condition conditions
consider considered considering considers corner correct corrected correctly could cover covered current currently
deal debug debugging describe described description desired detail details determine did difference different does
double due during each edge edges effect either else ensure ensures ensuring error errors evaluate even every exactly
examine example examples expect expected expects explain explanation fail failed failing fails failure failures fault
find first fix fixed following found fully function functions future general get getting give given gives go good
handle handled handles handling happen happened happens hard having help here however identify implement
implementation implemented important improper improve improved inaccurate include incorrect incorrectly indicate
indicates indicating input inputs instead intended issue issues itself job just keep kind know lead leading leads
learn learned least lesson lie lies like likely line lines logic look made main make makes making many match matches
may maybe means meet message might mind missed missing mistake mistakes modify more most much must my necessary need
needed needs never new next note nothing now often once one only operation order original other output outputs over
overall oversight own part particular pass passed passes passing pay perform performs plan please possible precise
previous prior problem problems process produce produced produces program proper properly provide provided put python
question quite read really reason reasons reflect reflection related require required requirement requirements
requires resolve result resulting results return returned returning returns review rewrite right rigorous robust root
run same scenario scenarios see seems seen several should show shows similar simply since situation situations
solution solutions solve some something sometimes sort specific specifically specification specified start statement
step steps still strategy such sure take task tasks tell test tested testing tests than thing things think this
thoroughly those through time times to too trace try trying type types unclear understand understanding unexpected
unit unusual up update use used user uses using usual valid value values various verify version very want way well
were whatever where whether which while whole why within without work working works would write writing written wrong
wrongly yet
"""
COMMONPLACE = frozenset(_COMMONPLACE.split())
"""Words that fit a text about any failure."""
