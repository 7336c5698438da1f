"""Unpacks parts of a wheel, each file checked against the wheel's own RECORD.

Usage: unpack.py WHEEL PREFIX=FOLDER...: what lies under PREFIX in the wheel goes under FOLDER. A
PREFIX that is a file's whole name goes to FOLDER/its last part.
"""

import base64
import csv
import hashlib
import io
import os
import sys
import zipfile


def place(name, rules):
    """Where a member goes, or None."""
    for prefix, folder in rules:
        if name == prefix:
            return os.path.join(folder, os.path.basename(name))
        if name.startswith(prefix + "/"):
            return os.path.join(folder, name[len(prefix) + 1 :])
    return None


def extract(wheel, info, target, expected):
    """Copies one member and compares its digest."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    digest = hashlib.sha256()
    with wheel.open(info) as source, open(target, "wb") as copy:
        while chunk := source.read(1 << 20):
            digest.update(chunk)
            copy.write(chunk)
    got = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
    if expected != "sha256=" + got:
        sys.exit(f"{info.filename}: digest sha256={got}, the wheel's RECORD says {expected or 'nothing'}")
    mode = (info.external_attr >> 16) & 0o777
    os.chmod(target, mode | 0o644)


def main():
    path, rules = sys.argv[1], [rule.split("=", 1) for rule in sys.argv[2:]]
    with zipfile.ZipFile(path) as wheel:
        record = next(name for name in wheel.namelist() if name.endswith(".dist-info/RECORD"))
        rows = csv.reader(io.StringIO(wheel.read(record).decode()))
        digests = {row[0]: row[1] for row in rows}
        for info in wheel.infolist():
            target = None if info.is_dir() or ".." in info.filename else place(info.filename, rules)
            if target:
                extract(wheel, info, target, digests.get(info.filename, ""))


main()
