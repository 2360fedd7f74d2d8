"""docs/seeds.md: what the third column names is there, and each row says what is done."""

import re
import unittest

from render import ROOT

PAGE = (ROOT / "docs/seeds.md").read_text()
ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.startswith("| ")][1:]
# A row that has no test says in plain words that nothing is done, or what not.
NONE = "none"


def complaints(rows: list) -> list:
    lines = []
    for row in rows:
        if len(row) != 3:
            lines.append(f"{row[0]}: {len(row)} columns")
            continue
        system, does, shown = row
        if system.startswith("**"):
            lines += [f"{system}: a heading says more"] if does or shown else []
            continue
        lines += [f"{system}: {word}" for word in ("pending", "TODO", "under way") if word in " ".join(row)]
        if not does:
            lines.append(f"{system}: nothing is said")
        if shown == NONE:
            lines += [] if "not checked" in does else [f"{system}: no test, and not said"]
            continue
        for entry in shown.split("; "):
            lines += [f"{system}: {line}" for line in wrong(entry)]
    return lines


def wrong(entry: str) -> list:
    """What is not there of an entry of the third column."""
    if found := re.fullmatch(r"golden (`\w+`(?:, `\w+`)*)", entry):
        return [f"no golden files of {name}" for name in re.findall(r"`(\w+)`", found[1])
                if not all((ROOT / f"tests/golden/{name}.{kind}").exists() for kind in ("txt", "json", "metrics"))]
    if found := re.fullmatch(r"(VM|cluster) (\d\d(?:, \d\d)*)", entry):
        where = ROOT / "tests" / found[1].lower() / "scenarios"
        return [f"no scenario {number} in {where}" for number in found[2].split(", ")
                if not any(where.glob(f"{number}-*.sh"))]
    if found := re.fullmatch(r"`([\w./-]+)(?:::(\w+))?`", entry):
        path, name = found.groups()
        if not (ROOT / path).is_file():
            return [f"no file {path}"]
        text = (ROOT / path).read_text()
        tests = r"#\[(?:tokio::)?test|^def |^    def test_|^#\[path|^mod "
        if not re.search(tests, text, re.MULTILINE):
            return [f"no tests in {path}"]
        if name and not re.search(rf"^\s*(?:async )?(?:fn|class|def) {name}\b", text, re.MULTILINE):
            return [f"no {name} in {path}"]
        return []
    return [f"cannot be looked up: {entry!r}"]


class Seeds(unittest.TestCase):
    def test_the_third_column(self):
        self.assertGreater(len(ROWS), 40)
        self.assertEqual(complaints(ROWS), [])

    def test_links(self):
        for link, anchor in re.findall(r"\]\(([^)#]+)(?:#([\w-]+))?\)", PAGE):
            path = ROOT / "docs" / link
            self.assertTrue(path.exists(), link)
            if anchor:
                heads = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
                self.assertIn(anchor, [re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads])

    def test_findings_metrics_and_checks_that_are_named_are_there(self):
        checks, metrics = (ROOT / "docs/checks.md").read_text(), (ROOT / "docs/metrics.md").read_text()
        items = (ROOT / "docs/preflight.md").read_text()
        for _, does, *_ in ROWS:
            for name in re.findall(r"`([A-Z][a-z]+[A-Z]\w*)`", does):
                self.assertIn(f"`{name}`", checks + items)
            for name in re.findall(r"`(selvage_\w+)`", does):
                self.assertIn(name, metrics)

    def test_systems_of_the_seeds_have_a_row(self):
        systems = " ".join(row[0] for row in ROWS)
        for name in (
            "EFA", "Azure", "TCPXO", "OCI", "SR-IOV", "InfiniBand", "RoCE", "MOFED", "network operator", "Multus",
            "macvlan", "ib-sriov", "host-device", "peermem", "DMA-BUF", "IOMMU", "Storage", "GDRCopy", "UCX",
            "HPC-X", "NVSHMEM", "Xid 79", "NET/Socket", "NetworkPolicy", "efaDevicesPerGPU", "IPC_LOCK", "/dev/shm",
            "nccl-tests", "1, 2, 4, 8 nodes", "PyTorchJob", "elastic", "MPIJob", "TFJob", "PaddleJob", "JAXJob",
            "DeepSpeed", "Horovod", "Megatron", "LeaderWorkerSet", "NIM", "SGLang", "Volcano", "Kueue", "JobSet",
            "hostIPC", "CPU limits", "VLAN", "NCCL versions", "root complex", "MASTER_ADDR", "Topology spread", "placement groups", "nmp.nvidia.com", "checkpoint",
        ):
            self.assertIn(name.lower(), systems.lower())

    def test_what_is_not_there_is_found(self):
        for entry in ("golden `h100_xy`", "golden h100_ib", "VM 99", "cluster 10, 98", "`tests/bench.rs::none`",
                      "`tests/none.rs`", "VM suite", "preflight: pending", "`docs/bench.md`", "VM 3"):
            self.assertTrue(wrong(entry), entry)
        for row in (["a", "b", "pending"], ["a", "b", NONE], ["a", "", NONE], ["a", "b"], ["a", "pending", "VM 75"]):
            self.assertTrue(complaints([row]), row)
