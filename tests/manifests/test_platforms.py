"""docs/platforms: what each page has a job ask for fits every example, and the SR-IOV objects fit the page."""

import copy
import fnmatch
import os
import re
import tomllib
import unittest

import example_checks
import platform_patches
import render
from platform_patches import PAGES, PLATFORMS, block, for_example
from render import OVERLAYS, ROOT
from test_examples import NAMES, VERSIONS, objects

# What a template without RDMA devices cannot have.
TCPXO = ("an RDMA resource", "init containers: ['selvage-preflight', 'tcpxo-daemon', 'selvage-sidecar']",
         "placed by selvage.dev/rails")


def laid_over(below, above):
    """As a reader would: lists of named things by name (mounts by path), null takes away, a value replaces."""
    if isinstance(below, dict) and isinstance(above, dict):
        result = dict(below)
        for name, value in above.items():
            if value is None:
                result.pop(name, None)
            else:
                result[name] = laid_over(result[name], value) if name in result else value
        return {name: value for name, value in result.items() if value is not None}
    key = "mountPath" if isinstance(above, list) and above and "mountPath" in above[0] else "name"
    if isinstance(below, list) and isinstance(above, list) and all(
        isinstance(each, dict) and key in each for each in [*below, *above]
    ):
        result = list(below)
        for each in above:
            at = next((n for n, old in enumerate(result) if old[key] == each[key]), None)
            if at is None:
                # Beside the sidecar, which comes last.
                result.insert(len(result) - (key == "name" and "image" in each), each)
            else:
                result[at] = laid_over(result[at], each)
        return result
    return copy.deepcopy(above)


def without_nulls(value):
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def on_platform(name: str, found: list) -> list:
    """An example's objects with what the platform's page says in each pod with GPUs."""
    found = copy.deepcopy(found)
    for each in found:
        for _, _, template in example_checks.templates(each):
            if example_checks.gpus(template):
                above = for_example(name, template)
                template.update(without_nulls(laid_over(copy.deepcopy(template), above)))
    return found


class Platforms(unittest.TestCase):
    def test_all_are_there(self):
        self.assertEqual(set(PAGES), set(PLATFORMS))
        for name, overlay in PLATFORMS.items():
            self.assertIn(overlay, OVERLAYS)
            self.assertIn(f"manifests/overlays/{overlay}", PAGES[name])

    def test_each_tells_what_it_was_tested_on(self):
        for name, page in PAGES.items():
            with self.subTest(name):
                for part in ("## Before", "## Install", "## What there should be", "## What selvage sees",
                             "## In a job", "## Limits", "## Tested on"):
                    self.assertIn(f"\n{part}\n", page)
                self.assertRegex(page.split("## Tested on")[1], r"\| not yet \|")

    def test_each_example_on_each_platform(self):
        for name in PAGES:
            for example in NAMES:
                found = on_platform(name, objects(example))
                with self.subTest(platform=name, example=example):
                    wrong = [line for line in example_checks.pods(found)
                             if name != "gcp-tcpxo" or not line.endswith(TCPXO)]
                    self.assertEqual(wrong + example_checks.custom(found) + example_checks.gangs(found), [])
                    for version in (VERSIONS[0], VERSIONS[-1]):
                        self.assertEqual(example_checks.schema(found, version), [])

    def test_no_name_of_another_platform_remains(self):
        for name in PAGES:
            for each in on_platform(name, objects("jobset")):
                for _, _, template in example_checks.templates(each):
                    asked = set(example_checks.extended(template["spec"]["containers"][0])) - {"nvidia.com/gpu"}
                    self.assertEqual(len(asked), 0 if name == "gcp-tcpxo" else 1, name)
                    self.assertNotIn("rdma/ib", asked)

    def test_a_block_that_gives_the_job_alone_a_device_is_found(self):
        found = on_platform("aws-efa", objects("jobset"))
        (_, _, template), = example_checks.templates(found[0])
        del template["spec"]["initContainers"][0]["resources"]["limits"]["vpc.amazonaws.com/efa"]
        self.assertTrue(example_checks.pods(found))

    def test_fixtures_that_are_named_can_be_simulated(self):
        """Presets, or instance types of the agent's table; what is said to be tested has golden files."""
        known = (ROOT / "src/simulate/data/machines.toml").read_text()
        for name, page in PAGES.items():
            found = re.findall(r"`selvage simulate (\S+) DIR`", page)
            self.assertTrue(found, name)
            for each in found:
                self.assertTrue(f'name = "{each}"' in known or any(accepts(row, each) for row in shapes()), each)
            (fixtures,) = re.findall(r"^\| fixture \| (.*?): the whole report", page, re.MULTILINE)
            for each in re.findall(r"`(\w+)`", fixtures):
                self.assertTrue((ROOT / f"tests/golden/{each}.txt").exists(), each)
            self.assertIn(f"`{found[0]}`", fixtures)

    def test_nodes_that_are_taken_are_named(self):
        """Labels by which an overlay takes nodes: in its row of docs/install.md and on its page."""
        install = (ROOT / "docs/install.md").read_text()
        pages = {overlay: PAGES[page] for page, overlay in PLATFORMS.items()}
        for overlay in OVERLAYS:
            terms = node_terms(overlay)
            keys = {each["key"] for term in terms for each in term["matchExpressions"]} - {
                "node.kubernetes.io/instance-type"}
            (row,) = re.findall(rf"^\|.*`manifests/overlays/{overlay}` \| (.*?) \|", install, re.MULTILINE)
            said = [*([] if row == "the same" else [row]), *([pages[overlay]] if overlay in pages else [])]
            for text in said:
                for key in keys:
                    self.assertIn(key, text, overlay)
                self.assertEqual("nvidia.com/gpu.present" in text.split("## What there should be")[0],
                                 "nvidia.com/gpu.present" in keys or "overlays/gke`" in text, overlay)

    def test_a_node_whose_gpus_are_gone_keeps_its_agent(self):
        """The GPU operator sets its label to "false" there; feature discovery takes its own away."""
        gone = {"nvidia.com/gpu.present": "false"}
        found = {"nvidia.com/gpu.count": "8"}, *({f"feature.node.kubernetes.io/pci-{name}.present": "true"}
                                                for name in ("10de", "0302_10de", "0300_10de"))
        for overlay in OVERLAYS:
            clouds = overlay in ("eks-efa", "aks-ib", "gke", "oke")
            for labels in [gone, *([] if clouds else found)]:
                taken = any(all(matches(each, labels) for each in term["matchExpressions"])
                            for term in node_terms(overlay))
                self.assertIs(taken, overlay != "gke-tcpxo", f"{overlay}: {labels}")

    def test_paths_named_in_pages_are_there(self):
        for page in PAGES.values():
            for path in re.findall(r"\b(?:manifests|examples)/[a-z0-9/._-]*[a-z0-9]", page):
                self.assertTrue((ROOT / path).exists(), path)


class Kustomize(unittest.TestCase):
    """examples/platforms: what kustomize makes of an example is what a reader makes of it by hand."""

    def test_each_platform(self):
        self.assertEqual({path.name for path in platform_patches.WHERE.iterdir()}, set(PLATFORMS.values()))
        for name, directory in PLATFORMS.items():
            with self.subTest(directory):
                found = render.kustomize(platform_patches.WHERE / directory)
                must = on_platform(name, objects("pytorchjob"))
                if name == "openshift-sriov":
                    must[0]["metadata"]["namespace"] = OpenShift.namespace["metadata"]["name"]
                self.assertEqual(found, must)
                wrong = [line for line in example_checks.pods(found)
                         if name != "gcp-tcpxo" or not line.endswith(TCPXO)]
                self.assertEqual(wrong + example_checks.custom(found) + example_checks.gangs(found), [])
                for version in (VERSIONS[0], VERSIONS[-1]):
                    self.assertEqual(example_checks.schema(found, version), [])

    def test_nothing_of_the_example_is_lost(self):
        """What a strategic merge patch takes away: kustomize has no merge keys of these kinds."""
        ((_, _, before), _) = example_checks.templates(objects("pytorchjob")[0])
        for name, directory in PLATFORMS.items():
            for _, _, after in example_checks.templates(
                render.the(render.kustomize(platform_patches.WHERE / directory), "PyTorchJob")
            ):
                with self.subTest(directory):
                    (old,), (new,) = before["spec"]["containers"], after["spec"]["containers"]
                    for field in ("image", "command", "securityContext"):
                        self.assertEqual(new[field], old[field])
                    self.assertEqual(example_checks.gpus(after), 8)
                    self.assertNotIn("rdma/ib", example_checks.extended(new))
                    self.assertIn("selvage-sidecar", [each["name"] for each in after["spec"]["initContainers"]])

    def test_patches_are_made_from_the_pages(self):
        for name, directory in PLATFORMS.items():
            file = platform_patches.WHERE / directory / "patch.yaml"
            if os.environ.get("UPDATE_GOLDEN"):
                file.write_text(platform_patches.patch(name))
            self.assertEqual(file.read_text(), platform_patches.patch(name), "UPDATE_GOLDEN=1 makes them anew")

    def test_pages_say_how_to_merge(self):
        for name, directory in PLATFORMS.items():
            (said,) = [line for line in PAGES[name].splitlines() if "#merging-a-platforms-block" in line]
            self.assertIn(f"`examples/platforms/{directory}`", said)
        self.assertIn("\n## Merging a platform's block\n", (ROOT / "examples/README.md").read_text())


class Tcpxo(unittest.TestCase):
    def test_no_overlay_takes_a_node_without_rails_for_well(self):
        for name in OVERLAYS:
            found = render.kustomize(render.MANIFESTS / "overlays" / name)
            (config,) = render.normalised(render.of_kind(found, "ConfigMap")).values()
            rails = config["data"]["selvage.toml"].get("policy", {}).get("expect", {}).get("rails")
            self.assertIsNone(rails, name)

    def test_on_machines_that_have_none_alone(self):
        daemonset = render.the(render.kustomize(render.MANIFESTS / "overlays/gke-tcpxo"), "DaemonSet")
        affinity = daemonset["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        ((term,),) = [each["matchExpressions"] for each in
                      affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]]
        self.assertEqual(term["values"], ["a3-highgpu-8g", "a3-megagpu-8g"])


def node_terms(overlay: str) -> list:
    """What an overlay chooses nodes by."""
    daemonset = render.the(render.kustomize(render.MANIFESTS / "overlays" / overlay), "DaemonSet")
    return daemonset["spec"]["template"]["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]


def matches(expression: dict, labels: dict) -> bool:
    """As the scheduler does, of the operators that the overlays have."""
    present = expression["key"] in labels
    return present if expression["operator"] == "Exists" else labels.get(expression["key"]) in expression["values"]


def shapes() -> list:
    """Rows of the agent's table: provider, patterns of types, devices, fabric."""
    table = tomllib.loads((ROOT / "src/check/profile/table.toml").read_text())
    return [(row["provider"], row["types"], str(row["rails"][0]), row["fabric"]) for row in table["shape"]]


def accepts(row: tuple, name: str) -> bool:
    """As --platform-profile does."""
    return any(fnmatch.fnmatchcase(name.lower(), pattern) for pattern in row[1])


class Shapes(unittest.TestCase):
    pages = {"aws": "aws-efa", "azure": "azure-ib", "gcp": "gcp-tcpxo", "oci": "oci-roce"}

    def named(self, page: str) -> list:
        """Name and number of devices, by the page's table."""
        (table,) = re.findall(r"\n## What there should be\n(.*?)\n## ", PAGES[page], re.DOTALL)
        rows = [line.split("|") for line in table.splitlines() if re.match(r"\| [^-]", line)][1:]
        return [(name.strip(), re.match(r" (\d+)", cells[2])[1]) for cells in rows for name in cells[1].split(",")]

    def test_each_shape_that_the_agent_knows_is_on_its_page(self):
        """With the same number of devices; the table is the agent's own."""
        self.assertGreater(len(shapes()), 20)
        for row in shapes():
            provider, types, devices, fabric = row
            if provider in self.pages:
                with self.subTest(types[0]):
                    # gVNIC rails are no RDMA devices.
                    must = "0" if fabric == "gvnic" else devices
                    found = {number for name, number in self.named(self.pages[provider]) if accepts(row, name)}
                    self.assertEqual(found, {must})

    def test_each_type_with_a_fabric_has_an_agent(self):
        """The overlay names every type of the table that has rails; OCI's HPC shapes have no GPUs."""
        for provider, overlay in (("AWS", "eks-efa"), ("OCI", "oke")):
            chosen = [name for term in node_terms(overlay) for each in term["matchExpressions"]
                      if each["key"] == "node.kubernetes.io/instance-type" for name in each["values"]]
            self.assertEqual(len(chosen), len(set(chosen)))
            wanted = {name for row in shapes() if row[0] == provider and row[3] != "none" for name in row[1]}
            without_gpus = {"bm.optimized3.36", "bm.hpc.e5.144"}
            self.assertEqual({name.lower() for name in chosen}, wanted - without_gpus, overlay)
            # Labels are compared letter by letter.
            page = PAGES[self.pages[provider.lower()]]
            self.assertEqual([name for name in chosen if name not in page], [], overlay)

    def test_names_are_written_as_they_are_accepted(self):
        for page in self.pages.values():
            said = re.findall(r"`selvage check --platform-profile (\S+)`", PAGES[page])
            self.assertEqual(len(said), 1, page)
            for name in [*said, *(name for name, _ in self.named(page))]:
                self.assertTrue(any(accepts(row, name) for row in shapes()), f"{page}: {name}")
        page = PAGES["openshift-sriov"]
        for name in re.findall(r"`(?:selvage check --platform-profile )?(DGX\w+)`", page):
            self.assertTrue(any(accepts(row, name) for row in shapes()), name)

    def test_findings_that_are_named_are_there(self):
        reasons = set(re.findall(r"^\| `([A-Z]\w+)` \|", (ROOT / "docs/checks.md").read_text(), re.MULTILINE))
        for name, page in PAGES.items():
            self.assertIn("`FewerDevicesThanPromised`", page)
            self.assertIn("runbooks/SelvageResourceMismatch.md", page)
            seen = page.split("## What selvage sees")[1].split("## In a job")[0]
            for each in re.findall(r"`([A-Z][a-z]+[A-Z]\w*)`", seen):
                if each not in ("GPUDirectTCPX…",):
                    self.assertIn(each, reasons, name)


class Blocks(unittest.TestCase):
    """What a platform's own documents hold a job to."""

    def containers(self, page: str) -> list:
        spec = block(PAGES[page])["spec"]
        return [each for each in [*spec["initContainers"], *spec["containers"]]
                if each["name"] in ("selvage-preflight", "job")]

    def test_oci_networks_and_devices_are_the_same_functions(self):
        """The resource is the network's, once for each; verbs devices are mounted."""
        template = block(PAGES["oci-roce"])
        names = [each.strip() for each in
                 template["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"].split(",")]
        self.assertEqual(set(names), {"default/rdma-vf"})
        for each in self.containers("oci-roce"):
            self.assertEqual(each["resources"]["limits"], {"rdma/ib": None, "nvidia.com/rdma-vf": len(names)})
            self.assertEqual(example_checks.mounted(each, "/dev/infiniband"), "infiniband")
        self.assertIn("`nvidia.com/mlnxnics`", PAGES["oci-roce"])

    def test_oci_on_the_hosts_network(self):
        (text,) = [each for each in re.findall(r"```yaml\n(.*?)```", PAGES["oci-roce"], re.DOTALL)
                   if "hostNetwork" in each]
        spec = render.yaml.safe_load(text)["spec"]
        self.assertEqual((spec["hostNetwork"], spec["dnsPolicy"]), (True, "ClusterFirstWithHostNet"))
        for each in [*spec["initContainers"], *spec["containers"]]:
            self.assertTrue(each["securityContext"]["privileged"])
            self.assertEqual(example_checks.mounted(each, "/dev/infiniband"), "infiniband")
            rails = example_checks.variables(each)["NCCL_IB_HCA"]
            self.assertEqual((rails[0], rails.count(",") + 1), ("=", 16))

    def test_azure_devices_by_either_name(self):
        """As Azure's HPC images name them, and as the kernel does: eight InfiniBand functions and one beside."""
        for each in self.containers("azure-ib"):
            value = example_checks.variables(each)["NCCL_IB_HCA"]
            self.assertEqual(value[0], "^")
            out = value[1:].split(",")
            for names, beside in (([f"mlx5_ib{n}" for n in range(8)], "mlx5_an0"),
                                  ([f"mlx5_{n}" for n in range(8)], "mlx5_8")):
                taken = [name for name in [*names, beside] if not any(name.startswith(part) for part in out)]
                self.assertEqual(taken, names)

    def test_azure_taints_are_tolerated(self):
        tolerations = block(PAGES["azure-ib"])["spec"]["tolerations"]
        self.assertIn({"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}, tolerations)
        self.assertIn({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}, tolerations)

    def test_tcpxo_daemon_and_plugin_are_named_as_a_pair(self):
        page = PAGES["gcp-tcpxo"]
        (daemon,) = [each for each in block(page)["spec"]["initContainers"] if each["name"] == "tcpxo-daemon"]
        version = daemon["image"].rsplit(":", 1)[1]
        self.assertIn(f"the daemon {version} and the variables of plugin v1.0.15", page)
        (args,) = daemon["args"]
        self.assertEqual(re.findall(r"--(\w+)", args), ["num_hops"])
        job = example_checks.variables(self.containers("gcp-tcpxo")[-1])
        # Without it the plugin's checker ends the job.
        self.assertEqual(job["NCCL_NVLSTREE_MAX_CHUNKSIZE"], "131072")
        self.assertNotIn("NCCL_DEBUG", job)


class OpenShift(unittest.TestCase):
    (namespace,) = render.objects((ROOT / "examples/openshift-sriov/namespace.yaml").read_text())
    found = [each for name in ("scc.yaml", "sriov.yaml")
             for each in render.objects((ROOT / "examples/openshift-sriov" / name).read_text())]
    template = block(PAGES["openshift-sriov"])

    def test_functions_are_those_that_a_job_asks_for(self):
        policy = render.the(self.found, "SriovNetworkNodePolicy")["spec"]
        network = render.the(self.found, "SriovNetwork")
        limits = self.template["spec"]["containers"][0]["resources"]["limits"]
        count = policy["numVfs"] * len(policy["nicSelector"]["pfNames"])
        self.assertEqual(limits, {"rdma/ib": None, f"openshift.io/{policy['resourceName']}": count})
        self.assertEqual(network["spec"]["resourceName"], policy["resourceName"])
        names = self.template["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"]
        self.assertEqual([each.strip() for each in names.split(",")], [network["metadata"]["name"]] * count)

    def test_network_account_and_job_are_in_the_namespace_that_is_made(self):
        name = self.namespace["metadata"]["name"]
        self.assertEqual(self.namespace["kind"], "Namespace")
        self.assertEqual(render.the(self.found, "SriovNetwork")["spec"]["networkNamespace"], name)
        for kind in ("ServiceAccount", "Role", "RoleBinding"):
            self.assertEqual(render.the(self.found, kind)["metadata"]["namespace"], name)
        (job,) = render.kustomize(platform_patches.WHERE / "openshift")
        self.assertEqual(job["metadata"]["namespace"], name)
        self.assertIn(f"`{name}`", PAGES["openshift-sriov"])

    def test_functions_have_verbs(self):
        policy = render.the(self.found, "SriovNetworkNodePolicy")["spec"]
        self.assertEqual((policy["deviceType"], policy["isRdma"]), ("netdevice", True))
        self.assertEqual((policy["nicSelector"]["vendor"], policy["nicSelector"]["deviceID"]), ("15b3", "1021"))

    def test_the_constraint_is_as_wide_as_a_job(self):
        scc = render.the(self.found, "SecurityContextConstraints")
        account = render.the(self.found, "ServiceAccount")
        self.assertEqual(scc["allowedCapabilities"], ["IPC_LOCK"])
        self.assertEqual(self.template["spec"]["serviceAccountName"], account["metadata"]["name"])
        for name in NAMES:
            for each in on_platform("openshift-sriov", objects(name)):
                for _, _, template in example_checks.templates(each):
                    kinds = {kind for volume in template["spec"].get("volumes", []) for kind in volume} - {"name"}
                    self.assertLessEqual(kinds, set(scc["volumes"]))
                    for container in [*template["spec"].get("initContainers", []), *template["spec"]["containers"]]:
                        added = container.get("securityContext", {}).get("capabilities", {}).get("add", [])
                        self.assertLessEqual(set(added), set(scc["allowedCapabilities"]))
        for switch in ("allowPrivilegedContainer", "allowHostNetwork", "allowHostPID", "allowHostDirVolumePlugin"):
            self.assertIs(scc[switch], False)
        role, binding = render.the(self.found, "Role"), render.the(self.found, "RoleBinding")
        self.assertEqual(role["rules"][0]["resourceNames"], [scc["metadata"]["name"]])
        self.assertEqual(binding["subjects"][0]["name"], account["metadata"]["name"])
