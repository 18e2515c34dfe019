"""Chromium, which shows what the scripts of a page make of it."""

import shutil
import subprocess
from pathlib import Path

import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = ("gpu", "quic", "background-networking", "component-update", "sync")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium, as from `apt-get install chromium`")


def shown(page: Path, profile: Path) -> str:
    """The page as HTML after its scripts have run."""
    flags = ["--headless", "--no-sandbox", "--no-first-run", *(f"--disable-{what}" for what in QUIET)]
    command = [str(BROWSER), *flags, f"--user-data-dir={profile}", "--dump-dom", page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
