"""What all other packages use: log texts, blame for exceptions, errors, clocks and threads."""
