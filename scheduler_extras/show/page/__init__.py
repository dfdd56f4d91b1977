"""The page: the decisions of a run as HTML."""
