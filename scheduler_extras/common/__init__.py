"""What all other packages use: texts for the log, who is to blame, clocks and threads."""
