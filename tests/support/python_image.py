"""A base image with the host's Python, for engines that cannot reach a registry.

It replaces `python:3.12-slim`, so the Dockerfiles build unchanged. Packages are installed from a
folder of wheels inside it, so a build fetches nothing.
"""

import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

WHEELS = "/wheels"

LEFT_OUT = re.compile(
    r"/(test|tests|idlelib|tkinter|turtledemo|site-packages|__pycache__|config-3)\b"
)
"""Left out: not needed at run time, or installed in the image itself."""


BESIDE_LIBC = (
    *("libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1"),
    *("libgcc_s.so.1", "libstdc++.so.6"),
)
"""Every image of Debian has them: wheels need those of C++, and of older versions of glibc."""


def import_python(host: str, name: str, wheels: Path) -> None:
    """Import an image with this Python into an engine. Its pip installs only from `wheels`."""
    changes = {
        "PATH": f"{sys.base_prefix}/bin:/bin:/usr/bin",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": WHEELS,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    words = [f"--change=ENV {key}={value}" for key, value in changes.items()]
    loading = subprocess.Popen(
        ["docker", "-H", host, "import", *words, "-", name],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    assert loading.stdin is not None
    with tarfile.open(fileobj=loading.stdin, mode="w|") as image:
        _add_python(image)
        for wheel in sorted(wheels.iterdir()):
            image.add(wheel, f"{WHEELS.lstrip('/')}/{wheel.name}")
        image.addfile(_folder("tmp", 0o1777))
        passwd = b"root:x:0:0:root:/root:/bin/sh\n"
        found = tarfile.TarInfo("etc/passwd")
        found.size = len(passwd)
        image.addfile(found, io.BytesIO(passwd))
    loading.stdin.close()
    if loading.wait() != 0:
        raise RuntimeError(f"docker import of {name} failed")


def _add_python(image: tarfile.TarFile) -> None:
    prefix = Path(sys.base_prefix)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = prefix / "lib" / version
    program = Path(os.path.realpath(prefix / "bin" / version))
    binaries = [program, *sorted((library / "lib-dynload").glob("*.so"))]
    image.add(program, _inside(program))
    for alias in ("python", "python3"):
        image.addfile(_link(f"{_inside(prefix)}/bin/{alias}", str(program)))
    image.add(library, _inside(library), filter=_useful)
    # Debian keeps the bundled pip outside the standard library.
    bundled = Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or library)
    if bundled != library and bundled.is_dir():
        image.add(bundled, _inside(bundled))
    for path in sorted(_libraries(binaries)):
        image.add(os.path.realpath(path), _inside(Path(path)))
    busybox = "/bin/busybox" if Path("/bin/busybox").exists() else "/usr/bin/busybox"
    image.add(os.path.realpath(busybox), "bin/busybox")
    for tool in ("sh", "env", "cat", "chown", "ls", "mkdir", "ps", "kill", "sleep", "uname"):
        image.addfile(_link(f"bin/{tool}", "busybox"))


def _libraries(binaries: Iterable[Path]) -> Iterator[str]:
    """Yield the shared libraries of programs, each once, and their loader."""
    output = subprocess.run(
        ["ldd", *map(str, binaries)], capture_output=True, text=True, check=False
    ).stdout
    found = set(re.findall(r"(?:=> )?(/[^\s:]+\.so[^\s:]*) \(0x", output))
    yield from found
    for place in {os.path.dirname(path) for path in found if "/libc.so" in path}:
        beside = [f"{place}/{name}" for name in BESIDE_LIBC]
        yield from (path for path in beside if os.path.exists(path) and path not in found)


def _useful(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if LEFT_OUT.search("/" + entry.name) else entry


def _inside(path: Path) -> str:
    return str(path).lstrip("/")


def _link(name: str, target: str) -> tarfile.TarInfo:
    link = tarfile.TarInfo(name)
    link.type, link.linkname = tarfile.SYMTYPE, target
    return link


def _folder(name: str, mode: int) -> tarfile.TarInfo:
    folder = tarfile.TarInfo(name)
    folder.type, folder.mode = tarfile.DIRTYPE, mode
    return folder
