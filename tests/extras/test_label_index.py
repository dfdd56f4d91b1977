"""The index of objects by their labels."""

from helpers.extras import table
from scheduler_extras.reading.label_selectors import NOTHING, Requirement
from scheduler_extras.rules.label_index import LabelIndex, labels_needed


def test_an_updated_index_has_no_entries_of_removed_objects():
    """The index before the update does not change."""
    def filings(text):
        return [tuple(filing.split("/")) for filing in text.split()]

    first = LabelIndex().updated(filings("a/x/n b/x/n b/y/n b/x/m"))
    second = first.updated(filings("a/x/n b/x/n c/x/n"))
    assert first.filed == {"a": {"x": {"n"}}, "b": {"x": {"n", "m"}, "y": {"n"}}}
    assert second.filed == {"b": {"x": {"m"}, "y": {"n"}}, "c": {"x": {"n"}}}
    assert (first.find("b", "xyz"), second.find("b", "x"), second.find("a", "x")) == ({"n", "m"}, {"m"}, set())


@table("requirements, labels", {
    "none": ([], [None]),
    "the absence of a label": ([("a", "DoesNotExist", [])], [None]),
    "a label, and another one": ([("a", "Exists", []), ("b", "In", ["1", "2"]), ("c", "In", ["3"])], [("c", "3")]),
    "one of two labels": ([("b", "In", ["1", "2", "1"])], [("b", "1"), ("b", "2")]),
    "a selector that matches nothing": (NOTHING, []),
})
def test_a_selector_looks_up_as_few_labels_as_possible(requirements, labels):
    assert labels_needed([Requirement(*each) for each in requirements]) == labels
