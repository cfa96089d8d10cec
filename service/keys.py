"""Makes, lists and removes keys: `python -m service.keys {new,list,remove}`.

A new key is printed once; the file holds its hash. The file is replaced as a whole, so that a server that reads it
again never sees half of it. Who changes it locks a file beside it, so that no change is lost to another.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

from pydantic import ValidationError

from service.access import ID, Entry, File, Role, make, read
from service.errors import ConfigError
from service.locks import alone

DAYS = re.compile(r"(\d+)d")


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m service.keys", description=__doc__)
    file = {"type": Path, "default": os.environ.get("NLU_KEYS_FILE"), "help": "default: NLU_KEYS_FILE"}
    commands = top.add_subparsers(dest="command", required=True)
    new = commands.add_parser("new", help="make a key and print it")
    new.add_argument("id", help="what metrics and logs call it: a-z, 0-9 and -")
    new.add_argument("--role", choices=get_args(Role), default="caller")
    new.add_argument("--bundles", help="the only models it may ask, comma separated; without, all")
    new.add_argument("--rate", type=float, help="requests a second")
    new.add_argument("--burst", type=int, help="requests at once; without, a second's worth")
    new.add_argument("--expires", type=moment, help="days from now (90d) or a time (2030-01-31T00:00:00Z)")
    commands.add_parser("list", help="show all keys, without their hashes")
    commands.add_parser("remove", help="end a key").add_argument("id")
    for command in commands.choices.values():
        command.add_argument("--file", **file)  # type: ignore[arg-type]
    return top


def moment(text: str) -> datetime:
    if days := DAYS.fullmatch(text):
        try:
            return datetime.now(UTC).replace(microsecond=0) + timedelta(days=int(days[1]))
        except OverflowError:
            raise ValueError("there is no such day") from None
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def new(options: argparse.Namespace) -> str:
    """Add a key to the file, which need not be there yet, and return its text."""
    if not re.fullmatch(ID, options.id):
        raise ConfigError(f"{options.id!r} cannot be an id: use up to 32 of a-z, 0-9 and -")
    text, digest = make(options.id)
    bundles = None if options.bundles is None else [name.strip() for name in options.bundles.split(",")]
    try:
        entry = Entry(
            id=options.id,
            sha256=digest,
            role=options.role,
            bundles=bundles,
            rate=options.rate,
            burst=options.burst,
            expires=options.expires,
        )
        with alone(options.file.resolve().parent):
            known = read(options.file).keys if options.file.exists() else []
            write(options.file, File(keys=[*known, entry]))
    except ValidationError as error:
        raise ConfigError("; ".join(e["msg"] for e in error.errors())) from None
    return text


def remove(options: argparse.Namespace) -> str:
    with alone(options.file.resolve().parent):
        known = read(options.file).keys
        if all(entry.id != options.id for entry in known):
            raise ConfigError(f"{options.file} has no key {options.id!r}")
        write(options.file, File(keys=[entry for entry in known if entry.id != options.id]))
    return f"{options.id} is removed"


def listing(options: argparse.Namespace) -> str:
    return "\n".join(entry.model_dump_json(exclude={"sha256"}, exclude_none=True) for entry in read(options.file).keys)


def write(path: Path, file: File) -> None:
    """Replace the file by a new one with the mode and, as far as we may, the owner of the old; at first ours alone."""
    path = path.resolve()
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as out:
            out.write(file.model_dump_json(indent=2, exclude_none=True) + "\n")
            out.flush()
            os.fsync(out.fileno())
        if path.exists():
            old = path.stat()
            temporary.chmod(old.st_mode & 0o777)
            if os.geteuid() == 0:
                os.chown(temporary, old.st_uid, old.st_gid)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def main(arguments: Sequence[str] | None = None) -> int:
    top = parser()
    options = top.parse_args(arguments)
    if options.file is None:
        top.error("give --file or set NLU_KEYS_FILE")
    try:
        print({"new": new, "list": listing, "remove": remove}[options.command](options))
    except (ConfigError, OSError) as error:
        print(f"keys: {error}", file=sys.stderr)
        return 1
    if options.command == "new":
        print("Keep it: the file has only its hash.", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
