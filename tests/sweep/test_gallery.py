"""Every script of the gallery runs and draws its picture."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("xarray")
pytest.importorskip("matplotlib")

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
SCRIPTS = sorted(GALLERY.glob("*.py"))


def test_there_are_ten():
    assert len(SCRIPTS) >= 10


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_it_draws_its_picture(script, tmp_path):
    copy = Path(shutil.copy(script, tmp_path))
    subprocess.run([sys.executable, copy], check=True, env={**os.environ, "MPLBACKEND": "Agg"}, cwd=tmp_path)
    assert copy.with_suffix(".png").stat().st_size > 10_000
    assert script.with_suffix(".png").is_file(), "run it once and commit its picture"
