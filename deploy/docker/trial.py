"""A built root started as a container engine starts an image, and asked whether it works."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from deploy.docker.dockerfile import DockerfileError, Stage, Step, environment

PATIENCE = 120.0
"""Seconds until the service must be ready, and until it must have ended after its stop signal."""
# Run by `sh -c` with namespaces of its own for mounts, processes and network: only loopback, nothing to write to but
# /tmp, nobody's capabilities.
START = """set -e
root=$1 models=$2 user=$3 group=$4; shift 4
ip link set lo up
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o size=64m,mode=1777 tmpfs "$root/tmp"
mount --bind "$models" "$root/bentoml/models"
mount -o remount,bind,ro "$root/bentoml/models"
mount -o remount,bind,ro "$root"
exec chroot "$root" setpriv --reuid="$user" --regid="$group" --clear-groups --no-new-privs --bounding-set=-all \\
    --inh-caps=-all "$@"
"""
ASK = """
import json, os, sys, urllib.request
url = f"http://127.0.0.1:{os.environ['BENTOML_PORT']}{sys.argv[1]}"
body = sys.argv[2].encode() if len(sys.argv) > 2 else None
with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"}), timeout=20) as r:
    print(r.read().decode())
"""


@dataclass
class Trial:
    """One start of an image on bundles of a store. `settings` come on top of the image's environment."""

    root: Path
    stages: Sequence[Stage]
    models: Path
    bundles: Sequence[str]
    settings: Mapping[str, str] = field(default_factory=dict)

    def run(self) -> Iterator[str]:
        """What was seen, line by line; DockerfileError with the log's end if something is wrong."""
        log = self.root.with_suffix(".log")
        with log.open("wb") as file:
            process = self._start(file)
        try:
            yield from self._watch(process)
        except (DockerfileError, subprocess.SubprocessError, OSError) as error:
            told = log.read_text(encoding="utf-8", errors="replace")[-3000:]
            raise DockerfileError(f"{error}\n{told}") from None
        finally:
            # The first process of a namespace takes all others of it along; unshare itself only waits for it.
            for child in _children(process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
            process.wait()

    def _step(self, word: str) -> Step:
        found = [step for stage in self.stages if (step := stage.last(word))]
        if not found:
            raise DockerfileError(f"no {word}")
        return found[-1]

    def _env(self) -> dict[str, str]:
        served = {"NLU_MODELS": ",".join(f"{name}:latest" for name in self.bundles)}
        return environment(self.stages) | served | dict(self.settings)

    def _start(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        user, _, group = self._step("USER").text.partition(":")
        workdir = self._step("WORKDIR").text
        command = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "sh", "-c", START, "sh"]
        command += [str(self.root), str(self.models), user, group, "env", "-i", f"--chdir={workdir}"]
        command += [f"{name}={value}" for name, value in self._env().items()] + self._step("CMD").arguments()
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def _watch(self, process: subprocess.Popen[bytes]) -> Iterator[str]:
        began = time.monotonic()
        health = self._step("HEALTHCHECK").text.partition("CMD ")[2]
        probe = [str(word) for word in json.loads(health)]
        while not (inside := _child(process.pid)) or self._inside(inside, probe).returncode:
            if process.poll() is not None:
                raise DockerfileError(f"the service ended with {process.returncode} before it was ready")
            if time.monotonic() - began > PATIENCE:
                raise DockerfileError(f"its HEALTHCHECK did not pass within {PATIENCE:.0f} s")
            time.sleep(0.1)
        yield f"ready after {time.monotonic() - began:.1f} s, by its own HEALTHCHECK"
        status = _status(inside)
        if (status["CapEff"], status["NoNewPrivs"]) != ("0000000000000000", "1") or status["Uid"].startswith("0"):
            raise DockerfileError(f"the service runs with more than it needs: {status}")
        yield f"uid {status['Uid'].split()[0]}, no capabilities, read-only root"
        for name in self.bundles:
            item = self._golden(name)
            yield f"{name}: {self._ask(inside, f'/{name}', json.dumps(item)).strip()[:160]}"
        counted = [line for line in self._ask(inside, "/metrics").splitlines() if 'outcome="ok"' in line]
        if len(counted) != len(self.bundles):
            raise DockerfileError(f"/metrics counts {counted}")
        yield f"memory of its processes: {_family_megabytes(inside):.0f} MB"
        began = time.monotonic()
        os.kill(inside, signal.Signals[self._step("STOPSIGNAL").text])
        code = process.wait(PATIENCE)
        if code:
            raise DockerfileError(f"it ended with {code} when told to stop")
        yield f"ended with 0, {time.monotonic() - began:.1f} s after its stop signal"

    def _golden(self, name: str) -> object:
        folder = self.models / name
        manifest = folder / (folder / "latest").read_text(encoding="utf-8").strip() / "bundle.json"
        return json.loads(manifest.read_text(encoding="utf-8"))["golden"][0]["item"]

    def _ask(self, inside: int, path: str, *body: str) -> str:
        done = self._inside(inside, ["python", "-c", ASK, path, *body])
        if done.returncode:
            raise DockerfileError(f"{path} was not answered: {done.stderr[-500:]}")
        return done.stdout

    def _inside(self, inside: int, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """A command beside the service, as `docker exec` runs it."""
        env = [f"{name}={value}" for name, value in self._env().items()]
        user, _, group = self._step("USER").text.partition(":")
        enter = ["nsenter", f"--target={inside}", "--mount", "--net", "--pid", "--root"]
        enter += ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "env", "-i", *env, *command]
        return subprocess.run(enter, capture_output=True, text=True, timeout=30, check=False)


def _child(pid: int) -> int | None:
    """The first child of `unshare --fork`: the service, once it has been exec'ed into its root."""
    for child in _children(pid):
        if _status(child).get("NoNewPrivs") == "1":
            return child
    return None


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _family_megabytes(pid: int) -> float:
    """Proportional memory of a process and its descendants."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    own = next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) / 1e3
    return own + sum(map(_family_megabytes, _children(pid)))
