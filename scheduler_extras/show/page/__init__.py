"""The page: what a run has decided, as HTML to look at."""
