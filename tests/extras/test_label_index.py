"""What is filed by labels is found by a selector."""

from helpers.extras import table
from scheduler_extras.reading.label_selectors import NOTHING, Requirement
from scheduler_extras.rules.label_index import LabelIndex, labels_needed


def test_what_is_filed_in_an_index_of_labels_is_found_until_it_is_gone():
    """Labels and namespaces that nothing has any more are forgotten; an older index is not changed."""
    def filings(text):
        return [tuple(filing.split("/")) for filing in text.split()]

    first = LabelIndex().updated(filings("a/x/n b/x/n b/y/n b/x/m"))
    second = first.updated(filings("a/x/n b/x/n c/x/n"))
    assert first.filed == {"a": {"x": {"n"}}, "b": {"x": {"n", "m"}, "y": {"n"}}}
    assert second.filed == {"b": {"x": {"m"}, "y": {"n"}}, "c": {"x": {"n"}}}
    assert (first.find("b", "xyz"), second.find("b", "x"), second.find("a", "x")) == ({"n", "m"}, {"m"}, set())


@table("requirements, labels", {
    "none": ([], [None]),
    "a label that is not there": ([("a", "DoesNotExist", [])], [None]),
    "a label, and another one": ([("a", "Exists", []), ("b", "In", ["1", "2"]), ("c", "In", ["3"])], [("c", "3")]),
    "one of two labels": ([("b", "In", ["1", "2", "1"])], [("b", "1"), ("b", "2")]),
    "what nothing has": (NOTHING, []),
})
def test_of_what_a_selector_requires_the_fewest_labels_are_looked_up(requirements, labels):
    assert labels_needed([Requirement(*each) for each in requirements]) == labels
