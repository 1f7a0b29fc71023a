"""The report in a real browser: read as it is meant, nothing run, nothing fetched.

The page is shown by headless Chromium (Debian's package `chromium`), which writes down the
document that it made of it, and every address that it asked for.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from flows.report import collect_report
from flows.report_examples import Examples
from flows.report_html import report_page
from flows.run_config import check_config
from flows.stages import generate
from grading.verdict import Verdict
from labeling.noise import LabelNoise
from pipeline.records import LabeledSolution, Problem, StepLabel

pytestmark = pytest.mark.browser

BROWSER = shutil.which("chromium")
HOSTILE = (
    "</td></table></article></main></script><script>document.title='pwned'</script>"
    "<img src='http://127.0.0.1:9/x' onerror=\"document.title='pwned'\">"
    "<svg onload=\"document.title='pwned'\"><link rel=stylesheet href='http://127.0.0.1:9/y'>"
    "\u202eevil\x00"
)


@pytest.fixture(scope="module")
def report_dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("browser") / "d"
    content = {
        "problems": {"limit": 3},
        "engine": {"kind": "scripted"},
        "steps": {"method": "newline"},
    }
    generate(check_config(content, origin="test"), out, on_progress=lambda _: None)
    return out


def show(page: Path, folder: Path, *options: str) -> tuple[str, set[str]]:
    """The document after loading, and the addresses that were asked for."""
    if BROWSER is None:
        pytest.skip("chromium is not installed (apt-get install chromium)")
    log = folder / "net.json"
    done = subprocess.run(
        [
            BROWSER,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            f"--user-data-dir={folder / 'profile'}",
            f"--log-net-log={log}",
            "--virtual-time-budget=2000",
            *(options or ("--dump-dom",)),
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    events = json.loads(log.read_text(encoding="utf-8"))["events"]
    urls = {str(event.get("params", {}).get("url", "")) for event in events}
    return done.stdout, {url for url in urls if "127.0.0.1" in url or url.startswith("file:")}


def hostile_page(dataset: Path) -> str:
    problem = Problem(HOSTILE, HOSTILE, HOSTILE, "test", "train")
    labels = (StepLabel(4, 0, 0, 4, 0, 0), StepLabel(1, 0, 1, 0, 0, 0))
    examples = Examples()
    solution = LabeledSolution(problem, "s", (HOSTILE, HOSTILE), labels, HOSTILE, Verdict.CORRECT)
    examples.tell(solution, LabelNoise(0.0).tell(solution))
    figures = collect_report(dataset).figures
    figures["dataset"]["completer"] = HOSTILE
    return report_page(figures, examples)


def test_a_browser_shows_the_hostile_report_and_runs_and_fetches_nothing(
    report_dataset: Path, tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    page.write_text(hostile_page(report_dataset), encoding="utf-8")
    document, urls = show(page, tmp_path)
    assert "<title>d: noise report</title>" in document
    assert "pwned" in document  # as text
    assert "<script" not in document
    assert "<img" not in document
    assert document.count("<main>") == document.count("</main>") == 1
    assert document.index("Examples</h2>") < document.index("</main>")
    assert not {url for url in urls if "127.0.0.1" in url}


def test_the_browser_would_have_run_and_fetched_it(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(f"<title>d</title><table><tr><td>{HOSTILE}", encoding="utf-8")
    document, urls = show(page, tmp_path)
    assert "<title>pwned</title>" in document
    assert {"http://127.0.0.1:9/x", "http://127.0.0.1:9/y"} <= urls


def test_it_prints(report_dataset: Path, tmp_path: Path) -> None:
    page, printed = tmp_path / "report.html", tmp_path / "report.pdf"
    page.write_text(hostile_page(report_dataset), encoding="utf-8")
    show(page, tmp_path, f"--print-to-pdf={printed}")
    assert printed.read_bytes().startswith(b"%PDF-")
    assert printed.read_bytes().count(b"/Type /Page\n") >= 2
