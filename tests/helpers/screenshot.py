"""Create scheduler_extras/docs/demo.png, the picture in README.md: a decision of the demo on the page, in Chromium.

    .venv/bin/python tests/helpers/screenshot.py

Run it again when the page changes.
"""

import subprocess
import sys
import tempfile
from pathlib import Path


ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "scheduler_extras" / "docs" / "demo.png"
POD = "default/ingress-1"  # the decision that README.md computes by hand
CHROMIUM = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--force-device-scale-factor=1", "--window-size=1280,720"]


def take_picture(picture):
    """Run the demo, and save the page with one decision as a PNG file."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "demo.html"
        with page.open("w") as output:
            subprocess.run([sys.executable, "scheduler_extras", "--cluster", "tests/demo.yaml", "--output", "html"],
                           cwd=ROOT, stdout=output, check=True)
        subprocess.run([*CHROMIUM, f"--screenshot={picture}", f"{page.as_uri()}#pod={POD}"],
                       stderr=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    take_picture(PICTURE)
    print(f"{PICTURE}: {PICTURE.stat().st_size // 1000} KB")
