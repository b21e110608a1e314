"""The tests of what is on disk, on a system that is not POSIX, which `elsewhere` plays."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
TESTS = ["storage", *(f"durable/test_{name}.py" for name in ("journal", "fit", "fit_folder", "fit_changes")), "sweep/test_sweep_disk.py"]
LEFT = "not was_lost and not unknown_length and not again_and_again and not gone_on and not whole_rows_are"  # they ask for nothing else


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="which files are open is asked of /proc")
def test_elsewhere():
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1])])}
    words = ["-m", "pytest", "-q", "-p", "elsewhere", "-p", "no:cacheprovider", "-k", LEFT, *(str(HERE / name) for name in TESTS)]
    done = subprocess.run([sys.executable, *words], cwd=HERE.parents[1], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "no fork on this system" in done.stdout, "it was played"
