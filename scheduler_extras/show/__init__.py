"""Output: decisions in words, as tables, as a picture, and as a page."""
