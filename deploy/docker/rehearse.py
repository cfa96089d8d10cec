"""A Dockerfile's steps done for real without a container engine, and the result started as an engine would start it.

    python -m deploy.docker.rehearse deploy/docker/Dockerfile.cpu --models ~/bentoml/models

`FROM debian:...` is a clean root by debootstrap, RUN goes into it by chroot in namespaces of its own, COPY obeys
.dockerignore. Then CMD runs as USER, without capabilities, on a read-only root with only /tmp to write to; it is asked
for its health, for one answer of each bundle, and to stop. Needs root, Linux, debootstrap and util-linux.

RUN steps see what the environment tells pip (`PIP_*`), and the files that it names.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

from deploy.docker.dockerfile import Context, DockerfileError, Stage, Step, chain, environment, parse, substitute
from deploy.docker.trial import Trial

ROOT = Path(__file__).parents[2]
SUITES = {"12": "bookworm", "13": "trixie"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Run by `sh -c` in namespaces of its own: mounts, then the step in the root.
ENTER = """set -e
root=$1; shift
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/run"
while [ "$1" != -- ]; do
    [ -d "$1" ] && mkdir "$root$2" || touch "$root$2"
    mount --bind "$1" "$root$2"; shift 2
done; shift
exec chroot "$root" "$@"
"""


@dataclass
class Build:
    """The roots of the stages below a folder, and what each step took."""

    folder: Path
    context: Context
    mirror: str
    roots: dict[str, Path] = field(default_factory=dict)
    report: list[tuple[str, str, float, float]] = field(default_factory=list)

    def run(self, stages: Sequence[Stage]) -> Path:
        """Build every stage in order; the root of the last."""
        for number, stage in enumerate(stages):
            root = self.folder / f"{number}-{stage.name}"
            began = perf_counter()
            if stage.base in self.roots:
                subprocess.run(["cp", "-a", "--reflink=auto", str(self.roots[stage.base]), str(root)], check=True)
            else:
                self._bootstrap(stage.base, root)
                self._note(stage, f"FROM {stage.base}", began, 0.0, root)
            self.roots[stage.name] = root
            workdir = "/"
            done: list[Stage] = [*self._below(stage, stages), Stage(stage.name, stage.base)]
            for step in stage.steps:
                began, before = perf_counter(), _megabytes(root)
                env = environment(done)
                if step.word == "WORKDIR":
                    workdir = os.path.join(workdir, substitute(step.text, env))
                    (root / workdir.lstrip("/")).mkdir(parents=True, exist_ok=True)
                elif step.word == "RUN":
                    self._shell(root, workdir, env, step)
                elif step.word == "COPY":
                    self._copy(root, workdir, step)
                done[-1].steps.append(step)
                if step.word in {"RUN", "COPY"}:
                    self._note(stage, f"{step.word} {step.text}", began, before, root)
        return self.roots[stages[-1].name]

    def _below(self, stage: Stage, stages: Sequence[Stage]) -> list[Stage]:
        until = next(i for i, other in enumerate(stages) if other is stage)
        return chain(stages[: until + 1])[:-1]

    def _note(self, stage: Stage, what: str, began: float, before: float, root: Path) -> None:
        self.report.append((stage.name, what, perf_counter() - began, _megabytes(root) - before))
        name, what, seconds, size = self.report[-1]
        print(f"{name:<8} {seconds:6.1f} s {size:+8.1f} MB  {what[:90]}", flush=True)

    def _bootstrap(self, image: str, root: Path) -> None:
        """The root of `debian:12.12-slim` and the like: Debian's minimal system with today's point release."""
        distribution, _, tag = image.partition(":")
        suite = SUITES.get(tag.partition(".")[0])
        if distribution != "debian" or suite is None:
            raise DockerfileError(f"FROM {image}: only Debian's images can be rehearsed")
        subprocess.run(
            ["debootstrap", "--variant=minbase", suite, str(root), self.mirror], check=True, stdout=subprocess.DEVNULL
        )
        security = self.mirror.rstrip("/").removesuffix("debian") + "debian-security"
        sources = [f"{self.mirror} {suite} main", f"{self.mirror} {suite}-updates main"]
        sources.append(f"{security} {suite}-security main")
        (root / "etc/apt/sources.list").write_text("".join(f"deb {line}\n" for line in sources))
        # The image of Debian leaves these out.
        for name in ("doc", "man", "locale"):
            shutil.rmtree(root / "usr/share" / name)
            (root / "usr/share" / name).mkdir()
        for file in (*root.glob("var/cache/apt/archives/*.deb"), *root.glob("var/lib/apt/lists/*")):
            if file.is_file():
                file.unlink()
        # An engine brings these two.
        shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")

    def _shell(self, root: Path, workdir: str, env: Mapping[str, str], step: Step) -> None:
        told = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh", str(root)]
        for name, value in told.items():
            if value.startswith("/") and Path(value).exists():
                told[name] = f"/run/{name}"
                command += [value, told[name]]
        command += ["--", "/bin/sh", "-c", f"cd {workdir} && {step.text}"]
        quiet = {"PATH": PATH, "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run(command, env={**quiet, **told, **env}, capture_output=True, text=True, check=False)
        if done.returncode:
            raise DockerfileError(f"RUN {step.text}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")

    def _copy(self, root: Path, workdir: str, step: Step) -> None:
        source, target = step.arguments()
        into = root / os.path.join(workdir, target).lstrip("/")
        if origin := step.flags.get("from"):
            into.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", str(self.roots[origin] / source.lstrip("/")), str(into)], check=True)
            return
        for path in self.context.files(source):
            inside = into if path == source else into / Path(path).relative_to(source)
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.context.folder / path, inside)


def _megabytes(root: Path) -> float:
    done = subprocess.run(["du", "-sx", "--block-size=1", str(root)], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0]) / 1e6


def main(argv: list[str] | None = None) -> int:
    """Build, start, ask, stop; 0 if all of it went well."""
    parser = argparse.ArgumentParser(prog="python -m deploy.docker.rehearse", description=__doc__.split("\n")[0])
    parser.add_argument("dockerfile", type=Path)
    parser.add_argument("--models", type=Path, help="models/ of a BentoML store, mounted for the trial")
    parser.add_argument("--bundles", default="klue-ner", help="which of them are served and asked; default: klue-ner")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", help="a setting of the trial")
    parser.add_argument("--mirror", default="http://deb.debian.org/debian", help="Debian's archive")
    parser.add_argument("--work", type=Path, help="where the roots are made and kept; default: a temporary folder")
    args = parser.parse_args(argv)
    folder = args.work or Path(tempfile.mkdtemp(prefix="clueserve-image-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        stages = parse(args.dockerfile.read_text(encoding="utf-8"))
        build = Build(folder, Context(ROOT), args.mirror)
        root = build.run(stages)
        print(f"the image: {_megabytes(root):.0f} MB, of these {build.report[0][3]:.0f} MB Debian")
        if args.models:
            settings = dict(setting.split("=", 1) for setting in args.env)
            for line in Trial(root, chain(stages), args.models.resolve(), args.bundles.split(","), settings).run():
                print(line, flush=True)
    except (DockerfileError, subprocess.CalledProcessError) as error:
        print(f"the image cannot be made or started: {error}", file=sys.stderr)
        return 1
    finally:
        if not args.work:
            shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
