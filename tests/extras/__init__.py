"""Tests of the second program, `python scheduler_extras`."""
