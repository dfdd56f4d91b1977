"""The command `python scheduler_extras`."""

import sys
from pathlib import Path


if not __package__:  # the folder itself was run: make its modules importable as a package
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from scheduler_extras import main


if __name__ == "__main__":
    sys.exit(main())
