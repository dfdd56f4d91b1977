"""Make scheduler_extras/docs/demo.png, the picture in README.md: one step of the demo's page, in Chromium.

    .venv/bin/python tests/helpers/screenshot.py

Run it again when the page changes.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "scheduler_extras" / "docs" / "demo.png"
STEP = 18  # where ingress-1 goes, and why: README.md works this decision out by hand
CHROMIUM = ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--force-device-scale-factor=1", "--window-size=1180,680"]


def take_picture(picture):
    """Run the demo, and write the step of its page to a PNG file."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "demo.html"
        with page.open("w") as output:
            subprocess.run([sys.executable, "scheduler_extras", "--cluster", "tests/demo.yaml", "--output", "html"],
                           cwd=ROOT, stdout=output, check=True)
        subprocess.run([*CHROMIUM, f"--screenshot={picture}", f"{page.as_uri()}#{STEP}"],
                       stderr=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    take_picture(PICTURE)
    print(f"{PICTURE}: {PICTURE.stat().st_size // 1000} KB")
