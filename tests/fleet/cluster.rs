//! The control plane that tests/cluster/fleet started: its directory is in SELVAGE_TEST_CLUSTER.

use crate::support::{Series, parse};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A client by kubeconfig, for this thread's runtime.
pub async fn client(kubeconfig: &Path) -> Client {
    let file = Kubeconfig::read_from(kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(file, &options).await;
    Client::try_from(config.expect("a kubeconfig of use")).expect("a client")
}

/// The API server.
pub struct Cluster {
    pub dir: PathBuf,
    /// With all rights.
    pub client: Client,
    /// As the shipped manifests give the agent.
    pub agents: PathBuf,
}

impl Cluster {
    /// Opens it, and applies the shipped namespace and rights.
    pub async fn open() -> Self {
        let dir = std::env::var("SELVAGE_TEST_CLUSTER").expect(
            "SELVAGE_TEST_CLUSTER: the directory of a control plane; run tests/cluster/fleet",
        );
        let dir = PathBuf::from(dir);
        let cluster = Cluster {
            client: client(&dir.join("admin.kubeconfig")).await,
            agents: dir.join("agents.kubeconfig"),
            dir,
        };
        cluster.kubectl(&["apply", "-f", "manifests/base/namespace.yaml"]);
        cluster.give_rights();
        let file = cluster.agents.display().to_string();
        cluster.ctl(&["kubeconfig", "selvage", "selvage", &file]);
        cluster
    }

    pub fn admin(&self) -> PathBuf {
        self.dir.join("admin.kubeconfig")
    }

    pub fn give_rights(&self) {
        self.kubectl(&["apply", "-f", "manifests/base/rbac.yaml"]);
    }

    pub fn ctl(&self, args: &[&str]) {
        let mut command = Command::new("tests/cluster/ctl");
        command.arg(&self.dir).args(args);
        let output = command.output().expect("tests/cluster/ctl runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "ctl {args:?}: {said}");
    }

    pub fn kubectl(&self, args: &[&str]) {
        let mut all = vec!["kubectl"];
        all.extend(args);
        self.ctl(&all);
    }

    /// What the server counts of itself.
    pub async fn usage(&self) -> Usage {
        let request = hyper::http::Request::get("/metrics").body(Vec::new());
        let text = self.client.request_text(request.expect("a request")).await;
        let series = parse(&text.expect("metrics"));
        let mut requests = BTreeMap::new();
        for one in series
            .iter()
            .filter(|one| one.family == "apiserver_request_total")
        {
            let label = |name: &str| one.labels.get(name).map_or("", String::as_str);
            let resource = match label("subresource") {
                "" => label("resource").to_string(),
                sub => format!("{}/{sub}", label("resource")),
            };
            let verb = match label("dry_run") {
                "" => label("verb").to_string(),
                _ => format!("{} (dry run)", label("verb")),
            };
            let key = (verb, resource, label("code").to_string());
            *requests.entry(key).or_default() += one.value;
        }
        let value = |family: &str| {
            let found = series.iter().find(|one: &&Series| one.family == family);
            found.map_or(0.0, |one| one.value)
        };
        let watches = series
            .iter()
            .filter(|one| {
                one.family.starts_with("apiserver_registered_watchers")
                    && one
                        .labels
                        .get("kind")
                        .is_some_and(|kind| kind.contains("Node"))
            })
            .map(|one| one.value)
            .sum();
        Usage {
            at: Instant::now(),
            cpu: value("process_cpu_seconds_total"),
            memory: value("process_resident_memory_bytes"),
            watches,
            requests,
        }
    }
}

/// Totals of the server at a moment.
pub struct Usage {
    pub at: Instant,
    pub cpu: f64,
    pub memory: f64,
    pub watches: f64,
    requests: BTreeMap<(String, String, String), f64>,
}

/// What was asked in a while, and what it cost.
pub struct Spent {
    pub wall: Duration,
    pub cpu: f64,
    requests: BTreeMap<(String, String, String), f64>,
}

impl Usage {
    pub fn since(&self, before: &Usage) -> Spent {
        let requests = self.requests.iter().filter_map(|(key, value)| {
            let more = value - before.requests.get(key).unwrap_or(&0.0);
            (more > 0.0).then(|| (key.clone(), more))
        });
        Spent {
            wall: self.at - before.at,
            cpu: self.cpu - before.cpu,
            requests: requests.collect(),
        }
    }
}

/// Resources that agents write or read.
const OURS: [&str; 4] = ["nodes", "nodes/status", "leases", "events"];

impl Spent {
    /// Writes to what agents write.
    pub fn writes(&self) -> u64 {
        let is = |(verb, resource, _): &(String, String, String)| {
            ["PATCH", "PUT", "POST", "APPLY"].contains(&verb.as_str())
                && OURS.contains(&resource.as_str())
        };
        self.sum(is)
    }

    fn sum(&self, is: impl Fn(&(String, String, String)) -> bool) -> u64 {
        let found = self.requests.iter().filter(|(key, _)| is(key));
        found.map(|(_, n)| *n).sum::<f64>() as u64
    }

    /// All that concerns us, by verb, resource and answer.
    pub fn words(&self) -> String {
        let ours = |(_, resource, _): &&(String, String, String)| OURS.contains(&resource.as_str());
        let mut words: Vec<String> = self
            .requests
            .iter()
            .filter(|(key, _)| ours(key))
            .map(|((verb, resource, code), n)| format!("{verb} {resource} {code}: {n}"))
            .collect();
        words.sort();
        words.join(", ")
    }

    /// Of one core.
    pub fn cores(&self) -> String {
        let share = self.cpu / self.wall.as_secs_f64();
        format!(
            "{:.2} s CPU in {:.1} s, {:.1} % of a core",
            self.cpu,
            self.wall.as_secs_f64(),
            share * 100.0
        )
    }
}
