"""Takes the pictures of the documentation from the pages of real runs, with a headless Chromium.

python docs/images/pictures.py report runs/report/<address>/report.html     (of `make demo-web DATA=<folder>`)
python docs/images/pictures.py ladders standard.html mup.html
python docs/images/pictures.py study repeats.html

report.png                 the beginning of the page, 1,400 px wide
report_narrow.png          the page at 400 px: its beginning, and two of its sections
report_text.png            the section with text that the model wrote
report_scores.png          the section with the scores
rates.png                  losses by learning rate of two ladders, without and with model.base_width
../../courses/docs/studies/<name>.png      the figures of a study's page <name>.html
"""

import argparse
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=20000")
ONLY = "<style>header, nav, footer, main > section:not(#{}) {{ display: none }}</style></head>"
FRAME = '<iframe src="page.html#{}" style="width: 400px; height: 1000px; border: 1px solid #ccc; margin: 8px"></iframe>'
"""Chromium has no window of 400 px, so the narrow page is in frames."""
LADDER = '<iframe src="{}" style="width: 1000px; height: 430px; border: 0"></iframe>'
HEIGHT = re.compile(r'"height":(\d+)')
CAPTION_HEIGHT, HEADING_HEIGHT = 65, 110

Shown = dict[str, tuple[str, int, int]]
"""Path of each picture from here, without suffix → the page that it shows, its width and its height in pixels."""


def only(page: str, section: str) -> str:
    """Returns ``page`` with one section."""
    return page.replace("</head>", ONLY.format(section))


def report(paths: list[Path], folder: Path) -> Shown:
    (page,) = (path.read_text(encoding="utf-8") for path in paths)
    (folder / "page.html").write_text(page, encoding="utf-8")
    frames = "".join(FRAME.format(section) for section in ("", "drops", "scores"))
    return {
        "report": (page, 1400, 1700),
        "report_narrow": (f'<body style="margin: 8px; white-space: nowrap">{frames}</body>', 1290, 1034),
        "report_text": (only(page, "text"), 1400, 900),
        "report_scores": (only(page, "scores"), 1400, 1100),
    }


def ladders(paths: list[Path], folder: Path) -> Shown:
    for path in paths:
        (folder / path.name).write_text(only(path.read_text(encoding="utf-8"), "figures"), encoding="utf-8")
    frames = "<br>".join(LADDER.format(path.name) for path in paths)
    return {"rates": (f'<body style="margin: 0">{frames}</body>', 1000, 434 * len(paths))}


def study(paths: list[Path], folder: Path) -> Shown:
    shown: Shown = {}
    for path in paths:
        page = path.read_text(encoding="utf-8")
        heights = [int(height) + CAPTION_HEIGHT for height in HEIGHT.findall(page)]
        shown[f"../../courses/docs/studies/{path.stem}"] = (only(page, "figures"), 1000, sum(heights) + HEADING_HEIGHT)
    return shown


KINDS = {"report": report, "ladders": ladders, "study": study}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("pages", nargs="+", type=Path, metavar="PAGE")
    arguments = parser.parse_args()
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        raise SystemExit("Chromium must be installed")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for target, (content, width, height) in KINDS[arguments.kind](arguments.pages, folder).items():
            shown = folder / "shown.html"
            shown.write_text(content, encoding="utf-8")
            picture, size = Path(__file__).parent / f"{target}.png", f"--window-size={width},{height}"
            command = [browser, *FLAGS, f"--user-data-dir={folder}/profile", f"--screenshot={picture}", size]
            subprocess.run([*command, shown.as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    main()
