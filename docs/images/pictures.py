"""Takes the pictures of the documentation from the pages of real runs, with a headless Chromium.

make demo-web DATA=<folder>
python docs/images/pictures.py runs/report/<address>/report.html
python docs/images/pictures.py standard.html mup.html

report.png           the beginning of the page, 1,400 px wide
report_narrow.png    the page at 400 px: its beginning, and two of its sections
report_text.png      the section with text that the model wrote
report_scores.png    the section with the scores
rates.png            losses by learning rate of two ladders, without and with model.base_width
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=20000")
ONLY = "<style>header, nav, footer, main > section:not(#{}) {{ display: none }}</style></head>"
FRAME = '<iframe src="page.html#{}" style="width: 400px; height: 1000px; border: 1px solid #ccc; margin: 8px"></iframe>'
"""Chromium has no window of 400 px, so the narrow page is in frames."""


LADDER = '<iframe src="{}.html" style="width: 1000px; height: 430px; border: 0"></iframe>'


def ladders(folder: Path, texts: list[str]) -> dict[str, tuple[str, int, int]]:
    """Writes the pages ``texts`` of ladders to ``folder``; returns the page that shows their losses by rate."""
    for number, text in enumerate(texts):
        figures = text.replace("</head>", ONLY.format("figures"))
        Path(folder, f"{number}.html").write_text(figures, encoding="utf-8")
    frames = "<br>".join(map(LADDER.format, range(len(texts))))
    return {"rates": (f'<body style="margin: 0">{frames}</body>', 1000, 434 * len(texts))}


def pages(page: str) -> dict[str, tuple[str, int, int]]:
    """Returns for each picture the page that it shows, its width and its height in pixels."""
    frames = "".join(FRAME.format(section) for section in ("", "drops", "scores"))
    return {
        "report": (page, 1400, 1700),
        "report_narrow": (f'<body style="margin: 8px; white-space: nowrap">{frames}</body>', 1290, 1034),
        "report_text": (page.replace("</head>", ONLY.format("text")), 1400, 900),
        "report_scores": (page.replace("</head>", ONLY.format("scores")), 1400, 1100),
    }


def main() -> None:
    """Takes all pictures of the page that the command line names."""
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None or len(sys.argv) < 2:
        raise SystemExit("give the path of a report.html, or of the pages of ladders; Chromium must be installed")
    first, *others = [Path(path).read_text(encoding="utf-8") for path in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "page.html").write_text(first, encoding="utf-8")
        for name, (content, width, height) in (
            ladders(Path(folder), [first, *others]) if others else pages(first)
        ).items():
            shown = Path(folder, "shown.html")
            shown.write_text(content, encoding="utf-8")
            picture, size = Path(__file__).with_name(f"{name}.png"), f"--window-size={width},{height}"
            command = [browser, *FLAGS, f"--user-data-dir={folder}/profile", f"--screenshot={picture}", size]
            subprocess.run([*command, shown.as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    main()
