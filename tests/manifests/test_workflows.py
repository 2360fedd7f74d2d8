"""The workflows: valid by GitHub's schema, and what they run is there."""

import importlib.util
import json
import pathlib
import re
import subprocess
import unittest

import jsonschema
import yaml

from render import ROOT

FILES = sorted((ROOT / ".github/workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


class NoBooleans(yaml.CSafeLoader):
    """YAML 1.2 in the one point that matters: `on` is a key, not true."""

    yaml_implicit_resolvers = {
        letter: [rule for rule in rules if rule[0] != "tag:yaml.org,2002:bool"]
        + ([("tag:yaml.org,2002:bool", re.compile("true|false"))] if letter in "tf" else [])
        for letter, rules in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }


def load(path) -> dict:
    return yaml.load(path.read_text(), NoBooleans)


def jobs():
    every = [(f"{path.name}: {name}", job) for path in FILES for name, job in load(path)["jobs"].items()]
    return [(name, job) for name, job in every if "steps" in job]


class Workflows(unittest.TestCase):
    def test_schema(self):
        # By its place: importing the package wants more packages.
        package = pathlib.Path(importlib.util.find_spec("check_jsonschema").origin).parent
        schema = json.loads((package / "builtin_schemas/vendor/github-workflows.json").read_text())
        check = jsonschema.validators.validator_for(schema)(schema)
        for path in FILES:
            self.assertEqual([error.message for error in check.iter_errors(load(path))], [], path.name)
        broken = load(FILES[0])
        next(iter(broken["jobs"].values()))["steps"][0]["runs"] = "make"
        self.assertTrue(list(check.iter_errors(broken)), "the schema takes anything")

    def test_each_suite_runs(self):
        self.assertEqual([path.name for path in FILES], ["ci.yml", "release.yml"])
        suites = load(FILES[0])["jobs"]["suite"]["strategy"]["matrix"]["suite"]
        make = (ROOT / "Makefile").read_text()
        rules = re.findall(r"^(?:test|test-system):.*(?:\n\t.*)*", make, re.MULTILINE)
        targets = {name for rule in rules for name in re.findall(r"\btest-[a-z0-9-]+", rule)}
        # One job a kernel in place of test-vm-all.
        named = targets - {"test-system", "test-vm-all"} | {"test-vm"}
        self.assertEqual({suite.split()[0] for suite in suites}, named, "ci.yml and the Makefile")
        kernels = re.search(r"^VM_KERNELS \?= (.*)$", make, re.MULTILINE)[1].split()
        self.assertEqual([suite for suite in suites if "VM_KERNELS" in suite], [f"test-vm VM_KERNELS={kernel}" for kernel in kernels])

    def test_a_release_is_tested(self):
        self.assertIn("workflow_call", load(FILES[0])["on"])
        jobs = load(FILES[1])["jobs"]
        self.assertEqual(jobs["test"], {"uses": "./.github/workflows/ci.yml"})
        self.assertIn("test", jobs["publish"]["needs"])

    def test_the_oldest_rust_is_that_of_the_package(self):
        oldest = re.search(r'^rust-version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
        self.assertEqual(load(FILES[0])["jobs"]["oldest-rust"]["container"], f"rust:{oldest}-bookworm")

    def test_scripts(self):
        for name, job in jobs():
            self.assertIn("timeout-minutes", job, name)
            for step in job["steps"]:
                script = re.sub(r"\$\{\{.*?\}\}", "x", step.get("run", ""))
                shell = "bash" if "container" not in job else "sh"
                done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True)
                self.assertEqual(done.stderr, "", f"{name}: {script}")
                for target in re.findall(r"\bmake ([a-z0-9-]+)", script):
                    self.assertIn(target, TARGETS | {"x"}, name)
                for file in re.findall(r"\bmanifests/[a-z/.]+", script):
                    self.assertTrue((ROOT / file).exists(), file)

    def test_actions_are_pinned_and_rights_are_named(self):
        for path in FILES:
            for line in re.findall(r"uses: ([^.].*)", path.read_text()):
                self.assertRegex(line, r"^[a-z-]+/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")
            self.assertEqual(load(path)["permissions"], {"contents": "read"}, path.name)

    def test_paths_follow_the_repository(self):
        for path in FILES:
            self.assertEqual(re.findall(r"ghcr\.io/\S+|github\.com/\S+", path.read_text()), [], path.name)


if __name__ == "__main__":
    unittest.main()
