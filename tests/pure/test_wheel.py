"""What pip installs: a wheel made from the sdist, as `python -m build` makes it."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

REPO = Path(__file__).parents[2]


def build(kind: str, source: Path, target: Path) -> Path:
    code = f"import sys; from setuptools import build_meta; print(build_meta.build_{kind}(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(target)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "deprecated" not in done.stdout + done.stderr
    return target / done.stdout.splitlines()[-1]


def test_the_wheel_has_every_file_of_the_package(tmp_path: Path) -> None:
    # A copy: a build leaves things beside its sources.
    checkout = tmp_path / "checkout"
    shutil.copytree(REPO / "kildsvc", checkout / "kildsvc", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPO / name, checkout)
    here = {str(path.relative_to(checkout)) for path in (checkout / "kildsvc").rglob("*") if path.is_file()}
    sdist = build("sdist", checkout, tmp_path)
    subprocess.run(["tar", "-xf", str(sdist), "-C", str(tmp_path)], check=True)
    wheel = build("wheel", tmp_path / sdist.name.removesuffix(".tar.gz"), tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {name for name in names if ".dist-info/" not in name} == here
    assert any(name.endswith("LICENSE") for name in names)
