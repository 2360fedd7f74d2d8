"""The files of a release: the same twice, valid, and gone when they are removed."""

import contextlib
import filecmp
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import unittest

import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

HERE = pathlib.Path(__file__).parent
TOP = HERE.parents[1]
BINARIES = [pathlib.Path(line) for line in os.environ["BINARIES"].splitlines()]
sys.path.insert(0, str(TOP / "tests/lib"))
import waiting  # noqa: E402

VERSION = tomllib.loads((TOP / "Cargo.toml").read_text())["package"]["version"]
NEWER = "99.0.0"
IMAGE = "registry.example.com/Team/selvage"
SOURCE = {"GITHUB_SERVER_URL": "https://git.example.com", "GITHUB_REPOSITORY": "Team/selvage"}
WORK = pathlib.Path(tempfile.mkdtemp(prefix="selvage-packages."))
unittest.addModuleCleanup(shutil.rmtree, WORK)
os.environ["TMPDIR"] = str(WORK)  # lintian leaves files there


def run(*command, status=0, **more) -> str:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != status:
        raise AssertionError(f"{command}: status {done.returncode}, not {status}:\n{done.stdout}")
    return done.stdout


def release(name: str, binaries, **environment) -> pathlib.Path:
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1700000000", "SELVAGE_IMAGE": IMAGE} | SOURCE | environment
    run(TOP / "manifests/release/build", WORK / name, *binaries, env=environment)
    return WORK / name


@functools.cache
def dist() -> pathlib.Path:
    return release("dist", BINARIES)


@functools.cache
def newer() -> pathlib.Path:
    """The packages of a later version; a script stands in for the binary, which takes long to pack."""
    shutil.copytree(dist(), WORK / "newer", ignore=shutil.ignore_patterns("*.deb", "*.rpm", "*.tar"))
    (WORK / "newer/selvage-linux-amd64").write_text("#!/bin/sh\n")
    environment = os.environ | {"SOURCE_DATE_EPOCH": "1800000000"}
    run(TOP / "manifests/packages/build", "amd64", WORK / "newer", NEWER, env=environment)
    return WORK / "newer"


@contextlib.contextmanager
def containerd():
    """A containerd of the test's own; what runs its client."""
    home, programs = WORK / "containerd", pathlib.Path(os.environ["CONTAINERD"])
    home.mkdir()
    unused = ("grpc.v1.cri", "internal.v1.opt", *(f"snapshotter.v1.{name}" for name in ("btrfs", "devmapper", "zfs")))
    (home / "config.toml").write_text(
        f'version = 2\nroot = "{home}/root"\nstate = "{home}/state"\n'
        f"disabled_plugins = {[f'io.containerd.{name}' for name in unused]}\n"
        f'[grpc]\naddress = "{home}/socket"\n'
    )
    with open(home / "log", "wb") as log:
        daemon = subprocess.Popen([programs / "containerd", "--config", home / "config.toml"], stdout=log, stderr=log)
    try:
        ctr = functools.partial(run, programs / "ctr", "--address", home / "socket")
        waiting.until("containerd answers", (home / "socket").exists)
        ctr("version")
        yield ctr
    finally:
        daemon.terminate()
        daemon.wait()


class Root:
    """A small Debian on which packages are installed, with files that belong to others."""

    MANAGERS = ("var/cache/dnf", "var/lib/dnf", "var/lib/dpkg", "var/lib/rpm", "var/log")

    def __init__(self, name: str):
        self.path = WORK / name
        self.path.mkdir()
        with tarfile.open(os.environ["DEBIAN"]) as archive:
            archive.extractall(self.path, filter="fully_trusted")
        self.put("usr/bin/systemctl", '#!/bin/sh\necho "$*" >>/asked\n').chmod(0o755)
        (self.path / "run/systemd/system").mkdir(parents=True)
        self.put("etc/selvage/selvage.toml", "# of the administrator")
        self.put("etc/systemd/system/multi-user.target.wants/other.service", "")
        run(BINARIES[0], "simulate", "rail_down", self.path / "node")

    def put(self, name: str, text: str) -> pathlib.Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def inside(self, *command, **more) -> str:
        """Runs a command in the root, with /proc as everywhere: a mount of its own that ends with it."""
        script = 'mount --bind /proc "$0/proc" && exec chroot "$0" "$@"'
        return run("unshare", "--mount", "sh", "-c", script, self.path, *command, **more)

    def merged(self, name: str) -> str:
        """The name by which files() has it: /lib is a link to /usr/lib."""
        parent, _, last = name.rpartition("/")
        return "/" + pathlib.Path(os.path.realpath(f"{self.path}{parent}"), last).relative_to(self.path).as_posix()

    def asked(self) -> list:
        """What systemd was asked since the last call."""
        path = self.path / "asked"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def files(self) -> dict:
        """Owner, mode and content of every file but the package managers' own."""
        found = {}
        for directory, names, files in os.walk(self.path):
            if pathlib.Path(directory).relative_to(self.path).as_posix() in self.MANAGERS:
                names.clear()
                continue
            for name in names + files:
                path = pathlib.Path(directory, name)
                stat = path.lstat()
                content = os.readlink(path) if path.is_symlink() else ""
                if path.is_file() and not path.is_symlink():
                    content = f"{stat.st_mtime_ns} {hashlib.sha256(path.read_bytes()).hexdigest()}"
                name = "/" + path.relative_to(self.path).as_posix()
                found[name] = (oct(stat.st_mode), stat.st_uid, stat.st_gid, content)
        return found


class Release(unittest.TestCase):
    def test_twice_the_same(self):
        copies = []
        for binary in BINARIES:
            copies.append(shutil.copy(binary, WORK / f"copy-of-{binary.name}"))
        again = release("again", copies, TZ="Asia/Tokyo", LANG="C.UTF-8", HOSTNAME="other")
        sums = (dist() / "SHA256SUMS").read_text()
        self.assertEqual((again / "SHA256SUMS").read_text(), sums)
        names = {line.split("  ")[1] for line in sums.splitlines()}
        self.assertEqual(names | {"SHA256SUMS"}, {path.name for path in dist().iterdir()})
        run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=dist())

    def test_image(self):
        with tarfile.open(dist() / f"selvage-image-{VERSION}.tar") as archive:
            files = {each.name: archive.extractfile(each).read() for each in archive}
        for name, data in files.items():
            if name.startswith("blobs/"):
                self.assertEqual(name, f"blobs/sha256/{hashlib.sha256(data).hexdigest()}")

        def blob(entry: dict) -> dict:
            data = files["blobs/" + entry["digest"].replace(":", "/")]
            self.assertEqual(len(data), entry["size"])
            return json.loads(data)

        (index,) = json.loads(files["index.json"])["manifests"]
        images = blob(index)["manifests"]
        self.assertEqual(len(images), len(BINARIES))
        for image in images:
            config = blob(blob(image)["config"])
            self.assertEqual(config["architecture"], image["platform"]["architecture"])
            labels = {name.rpartition(".")[2]: value for name, value in config["config"]["Labels"].items()}
            self.assertEqual((labels["version"], labels["source"]), (VERSION, "https://git.example.com/Team/selvage"))
            if config["architecture"] == "amd64":
                self.assertEqual(labels.get("revision"), self.built_from())

    @staticmethod
    def built_from() -> str | None:
        """This commit, in full, if the binary that runs here says that it was built from it."""
        short, dirty = re.search(r"\((\w+)(-dirty)?\)", run(BINARIES[0], "--version")).groups(default="")
        done = subprocess.run(["git", "-C", TOP, "rev-parse", "HEAD"], capture_output=True, text=True)
        head = done.stdout.strip()
        return head + dirty if head.startswith(short) else None

    def test_containerd_takes_both_platforms(self):
        binaries = {"amd64": BINARIES[0], "arm64": WORK / "arm64"}
        if len(BINARIES) > 1:
            binaries["arm64"] = BINARIES[1]
        else:  # a stand-in: its ELF header says aarch64
            data = bytearray(BINARIES[0].read_bytes())
            data[18:20] = b"\xb7\x00"
            binaries["arm64"].write_bytes(data)
        name = "registry.example.com/team/selvage:both"
        images = {arch: WORK / f"{arch}.tar" for arch in binaries}
        digests = {arch: run(TOP / "manifests/image/build", binaries[arch], images[arch], name).strip() for arch in images}
        index = run(TOP / "manifests/image/index", WORK / "both.tar", *images.values()).strip()
        with containerd() as ctr:
            ctr("images", "import", "--all-platforms", "--no-unpack", WORK / "both.tar")
            listed = ctr("images", "ls", f"name=={name}").splitlines()[1].split()
            self.assertEqual((listed[0], listed[2], listed[-2]), (name, index, "linux/amd64,linux/arm64"))
            self.assertLessEqual(set(digests.values()), set(ctr("content", "ls", "-q").split()))
            for arch, binary in binaries.items():
                # To a node of this architecture, the image is this binary.
                ctr("images", "import", "--platform", f"linux/{arch}", "--snapshotter", "native", WORK / "both.tar")
                mounted = WORK / f"mounted-{arch}"
                mounted.mkdir()
                ctr("images", "mount", "--platform", f"linux/{arch}", "--snapshotter", "native", name, mounted)
                self.addCleanup(run, "umount", mounted)
                self.assertEqual([path.name for path in mounted.iterdir()], ["selvage"])
                self.assertTrue(filecmp.cmp(mounted / "selvage", binary, shallow=False))

    def test_chart(self):
        with tarfile.open(dist() / f"selvage-{VERSION}.tgz") as archive:
            files = {each.name: archive.extractfile(each).read() for each in archive if each.isfile()}
        chart = TOP / "manifests/helm/selvage"
        here = {f"selvage/{path.relative_to(chart)}": path.read_bytes() for path in chart.rglob("*") if path.is_file()}
        values = yaml.safe_load(files.pop("selvage/values.yaml"))
        expected = yaml.safe_load(here.pop("selvage/values.yaml"))
        expected["image"] |= {"registry": "registry.example.com", "repository": "team/selvage"}
        self.assertEqual(values, expected)
        self.assertEqual(files, here)

    def test_bill_of_materials(self):
        text = (dist() / "selvage.cdx.json").read_text()
        error = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
        self.assertIsNone(error)
        names = {each["name"] for each in json.loads(text)["components"]}
        self.assertLessEqual({"tokio", "rustls", "glibc", "rust-std"}, names)
        self.assertEqual({"tempfile", "proptest"} & names, set(), "of the demo and the tests")

    def test_lint(self):
        run("lintian", "--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", *dist().glob("*.deb"))
        report = run("rpmlint", "-c", HERE / "rpmlint.toml", *dist().glob("*.rpm"))
        self.assertIn(" 0 errors, 0 warnings", report, report)


class Packages(unittest.TestCase):
    maxDiff = None

    def life(self, root: Root, package: str, install: list, owned: list, remove: list) -> dict:
        """Installs, uses, updates and removes; what is there at the end that was not before."""
        before, path = root.files(), dist() / package
        began = time.monotonic()
        run(*install, path)
        self.assertIn("LinkDown", root.inside("/usr/bin/selvage", "check", "--host-root", "/node", status=2))
        print(f"\n{package}: {time.monotonic() - began:.1f} s from the package to the first verdict")
        self.assertIn(VERSION, root.inside("selvage", "--version"))
        self.assertIn("--watch", root.inside("kubectl-selvage", "--help"))
        self.assertEqual(
            [line for line in root.asked() if "daemon-reload" not in line],
            ["--no-reload preset selvage.service"] if package.endswith("rpm") else [],
            "installing starts nothing",
        )
        installed = root.files()
        self.assertEqual({name: installed.get(name) for name in before}, before)
        names = {root.merged(name) for name in run(*owned).splitlines()}
        self.assertEqual(set(installed) - set(before) - names, set(), "files that the package does not own")
        for path in root.path.joinpath("etc/default").glob("selvage*"):
            set_lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
            self.assertEqual(set_lines, [], "the settings as shipped set nothing")

        root.put("etc/default/selvage", "SELVAGE_LISTEN=:1\n")
        root.put("var/lib/selvage/state.json", "{}")
        wanted = root.path / "etc/systemd/system/multi-user.target.wants/selvage.service"
        wanted.symlink_to("/lib/systemd/system/selvage.service")
        run(*install, newer() / package.replace(VERSION, NEWER))
        self.assertIn(f"{NEWER}-1", run(*owned[:-2], *self.version))
        self.assertEqual((root.path / "etc/default/selvage").read_text(), "SELVAGE_LISTEN=:1\n")
        asked = [line for line in root.asked() if "daemon-reload" not in line]
        self.assertEqual(asked, ["try-restart selvage.service"])

        run(*remove)
        self.stops(root.asked())
        after = root.files()
        self.assertEqual({name: after.get(name) for name in before}, before)
        return {name for name in after if name not in before}

    def test_deb(self):
        root = Root("debian")
        dpkg = ["dpkg", f"--root={root.path}", "--force-not-root", "--force-confold"]
        query = ["dpkg-query", f"--root={root.path}"]
        self.version = ["-W", "selvage"]
        stop = ["stop selvage.service", "--system daemon-reload"]
        self.stops = lambda asked: self.assertEqual(asked, stop)
        package = f"selvage_{VERSION}-1_amd64.deb"
        left = self.life(root, package, [*dpkg, "-i"], [*query, "-L", "selvage"], [*dpkg, "--purge", "selvage"])
        self.assertEqual(left, set())

    @staticmethod
    def shell() -> pathlib.Path:
        """A package without files in place of the root's own shell, which rpm's database does not know."""
        spec = WORK / "shell.spec"
        spec.write_text(
            "Name: shell\nVersion: 1\nRelease: 1\nSummary: shell\nLicense: none\nBuildArch: noarch\n"
            "Provides: /bin/sh\n%description\n%files\n"
        )
        run("rpmbuild", "-bb", "--define", f"_topdir {WORK}/shell", "--define", f"_rpmdir {WORK}", spec)
        return WORK / "noarch/shell-1-1.noarch.rpm"

    def test_rpm(self):
        root = Root("rpm")
        # Every distribution with rpm has these, by its packages filesystem, systemd, shadow-utils and rpm.
        for name in ("etc/default", "usr/lib/systemd/system", "usr/share/man/man1", "usr/share/licenses", "var/lib/rpm"):
            (root.path / name).mkdir(parents=True, exist_ok=True)
        # Debian's rpm has its database elsewhere.
        root.put("../rpm-home/.rpmmacros", "%_dbpath /var/lib/rpm\n")
        rpm = ["env", f"HOME={WORK / 'rpm-home'}", "rpm", "--root", root.path]
        dnf = ["env", f"HOME={WORK / 'rpm-home'}", "dnf", f"--installroot={root.path}", "--assumeyes", "--nogpgcheck"]
        dnf += ["--noplugins", "--releasever=1", f"--setopt=reposdir={WORK / 'no-repositories'}"]
        dnf += [f"--setopt=persistdir={root.path}/var/lib/dnf", "--setopt=cachedir=/var/cache/dnf"]
        run(*dnf, "install", self.shell())
        self.version = ["-q", "selvage"]

        def stops(asked):
            self.assertEqual(asked, ["--no-reload disable --now selvage.service", "daemon-reload"])
            (root.path / "etc/systemd/system/multi-user.target.wants/selvage.service").unlink()

        self.stops = stops
        package = f"selvage-{VERSION}-1.x86_64.rpm"
        left = self.life(root, package, [*dnf, "install"], [*rpm, "-ql", "selvage"], [*dnf, "remove", "selvage"])
        # rpm keeps what an administrator wrote, and knows nothing of the agent's state.
        kept = {"/etc/default/selvage.rpmsave", "/var/lib/selvage", "/var/lib/selvage/state.json"}
        self.assertEqual(left, kept)


if __name__ == "__main__":
    unittest.main()
