//! Requests to the API server, each with a deadline.

use super::budget::{Group, Ledger, Listed};
use super::failure::chain;
pub use super::failure::{ApiError, Failure, bounded, is_unauthorized};
use super::kubeconfig;
use super::names::{FIELD_MANAGER, Names};
use super::node::{NodeObject, NodeSpec, NodeView, resource, text};
use super::pace::Limits;
use super::settings::{ClusterSettings, is_dns_name};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, MicroTime};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::KubeConfigOptions;
use kube::core::{Request, Selector};
use kube::{Api, Client, Config};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Nodes a page: a Node with its images is some 20 KB, but annotations alone may be 256 KB, and a page
/// is held as a whole.
const PAGE: u32 = 25;

/// No way to reach an API server is known, or it cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConnectError(String);

/// Whether there is an API server to talk to: a kubeconfig is set, or this is a pod.
pub fn is_in_cluster(settings: &ClusterSettings) -> bool {
    !settings.kubeconfig.is_empty() || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

/// A client, by kubeconfig or as a pod has it; its token and CA files are read again as they change.
///
/// # Errors
/// Why the configuration cannot be used.
pub async fn connect(settings: &ClusterSettings) -> Result<(Client, String), ConnectError> {
    let mut config = if settings.kubeconfig.is_empty() {
        Config::incluster().map_err(|error| ConnectError(chain(&error)))?
    } else {
        let file = kubeconfig::read(Path::new(&settings.kubeconfig)).map_err(ConnectError)?;
        Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
            .await
            .map_err(|error| ConnectError(chain(&error)))?
    };
    config.connect_timeout = Some(Duration::from_secs(5));
    // One policy of waiting: the writer's.
    config.default_retry = false;
    let namespace = match settings.namespace.as_str() {
        "" if settings.kubeconfig.is_empty() => config.default_namespace.clone(),
        "" => "selvage".into(),
        namespace => namespace.into(),
    };
    let client = Client::try_from(config).map_err(|error| ConnectError(chain(&error)))?;
    Ok((client, namespace))
}

/// The requests that the writer makes.
#[derive(Clone)]
pub struct NodeApi {
    client: Client,
    nodes: Api<NodeObject>,
    leases: Api<Lease>,
    node: String,
    ledger: String,
    taint: String,
    limits: Limits,
}

/// A Lease with the ledger it holds.
#[derive(Debug, Clone)]
pub struct LedgerLease {
    lease: Lease,
    /// The ledger.
    pub ledger: Ledger,
}

impl NodeApi {
    /// For one node.
    pub fn new(client: Client, namespace: &str, node: &str, names: &Names) -> Self {
        NodeApi {
            nodes: Api::all_with(client.clone(), &resource()),
            leases: Api::namespaced(client.clone(), namespace),
            client,
            node: node.to_string(),
            ledger: names.ledger(),
            taint: names.taint(),
            limits: Limits::default(),
        }
    }

    /// With other deadlines.
    #[must_use]
    pub fn limited(self, limits: Limits) -> Self {
        NodeApi { limits, ..self }
    }

    /// The client.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// All Nodes, for the watch.
    pub fn nodes(&self) -> Api<NodeObject> {
        self.nodes.clone()
    }

    /// The Node as it is now.
    ///
    /// # Errors
    /// As any request.
    pub async fn get(&self) -> Result<NodeView, ApiError> {
        let node = bounded(
            "read the Node",
            self.limits.deadline,
            self.nodes.get(&self.node),
        )
        .await?;
        Ok(NodeView::of(&node))
    }

    /// Server-side apply of our labels.
    ///
    /// # Errors
    /// As any request.
    pub async fn apply_labels(&self, body: &Value) -> Result<NodeView, ApiError> {
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(body);
        self.patch("write the labels", &params, &patch).await
    }

    /// Merge patch of metadata.
    ///
    /// # Errors
    /// As any request.
    pub async fn merge(&self, body: &Value) -> Result<NodeView, ApiError> {
        let patch = Patch::Merge(body);
        self.patch("clean up labels", &own_params(), &patch).await
    }

    /// Strategic merge patch of the status.
    ///
    /// # Errors
    /// As any request.
    pub async fn patch_status(&self, body: &Value) -> Result<NodeView, ApiError> {
        let patch = Patch::Strategic(body);
        let params = own_params();
        let request = self.nodes.patch_status(&self.node, &params, &patch);
        let node = bounded("write the condition", self.limits.deadline, request).await?;
        Ok(NodeView::of(&node))
    }

    /// JSON patch of the taints. A test that fails is a conflict.
    ///
    /// # Errors
    /// As any request.
    pub async fn patch_taints(&self, operations: &[Value]) -> Result<NodeView, ApiError> {
        let patch: kube::core::params::Patch<()> = Patch::Json(
            serde_json::from_value(Value::Array(operations.to_vec())).map_err(|error| {
                ApiError {
                    what: "write the taint",
                    failure: Failure::Other,
                    message: error.to_string(),
                }
            })?,
        );
        let answer = self.patch("write the taint", &own_params(), &patch).await;
        answer.map_err(|error| match error.failure {
            // The server calls a failed test an invalid request.
            Failure::Invalid => ApiError {
                failure: Failure::Conflict,
                ..error
            },
            _ => error,
        })
    }

    async fn patch<P: serde::Serialize + std::fmt::Debug>(
        &self,
        what: &'static str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<NodeView, ApiError> {
        let request = self.nodes.patch(&self.node, params, patch);
        let node = bounded(what, self.limits.deadline, request).await?;
        Ok(NodeView::of(&node))
    }

    /// The ledger of a group; none where there is no Lease yet.
    ///
    /// # Errors
    /// As any request.
    pub async fn ledger(&self, lease: &str) -> Result<Option<LedgerLease>, ApiError> {
        let lease = bounded(
            "read the budget",
            self.limits.deadline,
            self.leases.get_opt(lease),
        )
        .await?;
        Ok(lease.map(|lease| {
            let annotations = lease.metadata.annotations.as_ref();
            let text = annotations.and_then(|a| a.get(&self.ledger));
            LedgerLease {
                ledger: Ledger::parse(text.map(String::as_str)),
                lease,
            }
        }))
    }

    /// Writes a ledger in place of the one that was read (none: there was no Lease), only if nobody
    /// else has meanwhile.
    ///
    /// # Errors
    /// [`Failure::Conflict`] if somebody has; else as any request.
    pub async fn write_ledger(
        &self,
        name: &str,
        read: Option<&LedgerLease>,
        ledger: &Ledger,
    ) -> Result<LedgerLease, ApiError> {
        let mut lease = read.map(|read| read.lease.clone()).unwrap_or_default();
        lease.metadata.name = Some(name.to_string());
        lease.metadata.managed_fields = None;
        let annotations = lease.metadata.annotations.get_or_insert_with(BTreeMap::new);
        annotations.insert(self.ledger.clone(), ledger.to_text());
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        spec.holder_identity = Some(self.node.clone());
        spec.renew_time = Some(MicroTime(jiff::Timestamp::now()));
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.into()),
            ..PostParams::default()
        };
        let what = "write the budget";
        let lease = match read {
            Some(_) => {
                bounded(
                    what,
                    self.limits.deadline,
                    self.leases.replace(name, &params, &lease),
                )
                .await?
            }
            None => {
                bounded(
                    what,
                    self.limits.deadline,
                    self.leases.create(&params, &lease),
                )
                .await?
            }
        };
        Ok(LedgerLease {
            lease,
            ledger: ledger.clone(),
        })
    }

    /// The nodes of a group, page by page, as they are now (not from a cache), and those that have
    /// an entry in its ledger without being listed: somebody may have changed their labels.
    ///
    /// # Errors
    /// As any request.
    pub async fn list_group(
        &self,
        selector: &Selector,
        ledger: &Ledger,
    ) -> Result<Group, ApiError> {
        let mut group = self.list_members(selector).await?;
        let strangers = ledger.claims.keys().filter(|name| is_dns_name(name));
        let strangers: Vec<&String> = strangers
            .filter(|name| !group.contains_key(*name))
            .collect();
        for name in strangers {
            let found = self.nodes.get_opt(name);
            let found = bounded("look up a node", self.limits.deadline, found).await?;
            if let Some(node) = found {
                let version = node.metadata.resource_version.unwrap_or_default();
                group.insert(name.clone(), self.listed(version, &node.spec, false));
            }
        }
        Ok(group)
    }

    fn listed(&self, resource_version: String, spec: &NodeSpec, counted: bool) -> Listed {
        let mut taints = spec.taints.iter().flatten();
        Listed {
            resource_version,
            tainted: taints.any(|taint| text(taint, "key") == self.taint),
            counted,
        }
    }

    async fn list_members(&self, selector: &Selector) -> Result<Group, ApiError> {
        let mut group = Group::new();
        let mut params = ListParams::default().labels_from(selector).limit(PAGE);
        loop {
            let what = "list the group";
            let request = Request::new(self.nodes.resource_url()).list(&params);
            let request = request.map_err(|error| ApiError {
                what,
                failure: Failure::Other,
                message: error.to_string(),
            })?;
            let answer = self.client.request::<GroupPage>(request);
            let page = bounded(what, self.limits.list_deadline, answer).await?;
            for node in page.items {
                let listed = self.listed(node.metadata.resource_version, &node.spec, true);
                group.insert(node.metadata.name, listed);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(group),
            }
        }
    }
}

/// A page of nodes, as far as the budget looks: what else they hold is passed over, not kept.
#[derive(Deserialize)]
struct GroupPage {
    #[serde(default)]
    metadata: ListMeta,
    items: Vec<GroupNode>,
}

#[derive(Deserialize)]
struct GroupNode {
    metadata: GroupMeta,
    #[serde(default)]
    spec: NodeSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GroupMeta {
    name: String,
    resource_version: String,
}

fn own_params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    }
}
