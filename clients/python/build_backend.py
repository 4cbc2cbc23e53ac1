"""Builds the package from pyproject.toml, as PEP 517 has it: installers call it. It is here because the client needs
nothing else, and so nothing else to be built either; it runs on Python 3.11 and newer, and what it builds on 3.10, too.

    python3 -m pip wheel --no-deps clients/python
"""

import base64
import hashlib
import io
import tarfile
import tomllib
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
SOURCES = ["pyproject.toml", "build_backend.py", "README.md", "order_service.py", "mainstem", "tests"]  # of an sdist
TIME = (1980, 1, 1, 0, 0, 0)  # the same files give the same bytes


def _project():
    return tomllib.loads((HERE / "pyproject.toml").read_text())["project"]


def _metadata(project):
    return "\n".join([
        "Metadata-Version: 2.1",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"License: {project['license']['text']}",
        f"Requires-Python: {project['requires-python']}",
        "Description-Content-Type: text/markdown",
        "",
        (HERE / project["readme"]).read_text(),
    ]).encode()


def _files(*roots):
    for root in roots:
        path = HERE / root
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(HERE).as_posix(), file.read_bytes()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    project = _project()
    name = f"{project['name']}-{project['version']}"
    info = f"{name}.dist-info"
    files = [
        *_files(project["name"]),
        (f"{info}/METADATA", _metadata(project)),
        (f"{info}/WHEEL", b"Wheel-Version: 1.0\nGenerator: mainstem\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
    ]
    record = ""
    for path, data in files:
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(data)}\n"
    record += f"{info}/RECORD,,\n"
    wheel = f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / wheel, "w") as z:
        for path, data in [*files, (f"{info}/RECORD", record.encode())]:
            entry = zipfile.ZipInfo(path, TIME)
            entry.external_attr = 0o100644 << 16
            z.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return wheel


def build_sdist(sdist_directory, config_settings=None):
    project = _project()
    name = f"{project['name']}-{project['version']}"
    with tarfile.open(Path(sdist_directory) / f"{name}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as t:
        for path, data in [*_files(*SOURCES), ("PKG-INFO", _metadata(project))]:
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size = len(data)
            t.addfile(entry, io.BytesIO(data))
    return f"{name}.tar.gz"
