//! Requests to the API server, each with a deadline, and what their failures mean.

use super::budget::{Group, Ledger, Listed};
use super::names::{FIELD_MANAGER, Names};
use super::node::{NodeObject, NodeView, resource, text};
use super::pace::Limits;
use super::settings::ClusterSettings;
use crate::units::cut;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Selector;
use kube::{Api, Client, Config};
use serde_json::Value;
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

/// Nodes a page: a Node with its images is some 20 KB.
const PAGE: u32 = 100;

/// What a failure means to the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The object is not what it was: look again.
    Conflict,
    /// There is no such object.
    NotFound,
    /// 401: the token is no longer, or not yet, good.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 422: the server cannot do what is asked.
    Invalid,
    /// 429, with how long to wait where the server says.
    Throttled(Option<Duration>),
    /// No answer in time.
    Timeout,
    /// Anything else: unreachable, 5xx, an answer that is none.
    Other,
}

impl Failure {
    /// As metrics name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Failure::Conflict => "conflict",
            Failure::Unauthorized | Failure::Forbidden => "denied",
            Failure::Throttled(_) => "throttled",
            Failure::Timeout => "timeout",
            Failure::NotFound | Failure::Invalid | Failure::Other => "error",
        }
    }
}

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {message}")]
pub struct ApiError {
    /// What was asked.
    pub what: &'static str,
    /// What it means.
    pub failure: Failure,
    /// In the server's or the network's words.
    pub message: String,
}

impl ApiError {
    /// Whether the same request would fail again, whenever it is made.
    pub fn is_final(&self) -> bool {
        use Failure::{Forbidden, Invalid, NotFound};
        matches!(self.failure, Forbidden | Invalid | NotFound)
    }
}

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
        let file = Kubeconfig::read_from(&settings.kubeconfig);
        let file = file.map_err(|error| ConnectError(chain(&error)))?;
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

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    cut(text, 400)
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

    /// The nodes of a group, page by page, as they are now (not from a cache).
    ///
    /// # Errors
    /// As any request.
    pub async fn list_group(&self, selector: &Selector) -> Result<Group, ApiError> {
        let mut group = Group::new();
        let mut params = ListParams::default().labels_from(selector).limit(PAGE);
        loop {
            let page = bounded(
                "list the group",
                self.limits.list_deadline,
                self.nodes.list(&params),
            )
            .await?;
            for node in &page.items {
                let tainted = node.spec.taints.iter().flatten();
                let listed = Listed {
                    resource_version: node.metadata.resource_version.clone().unwrap_or_default(),
                    tainted: tainted.into_iter().any(|t| text(t, "key") == self.taint),
                };
                group.insert(node.metadata.name.clone().unwrap_or_default(), listed);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(group),
            }
        }
    }
}

fn own_params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.into()),
        ..PatchParams::default()
    }
}

/// A request with its deadline; its failure made out.
pub async fn bounded<T>(
    what: &'static str,
    deadline: Duration,
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, ApiError> {
    match tokio::time::timeout(deadline, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(ApiError {
            what,
            failure: failure(&error),
            message: words(&error),
        }),
        Err(_) => Err(ApiError {
            what,
            failure: Failure::Timeout,
            message: format!("no answer within {} s", deadline.as_secs_f64()),
        }),
    }
}

/// Whether the watch was refused for its credentials.
pub fn is_unauthorized(error: &kube::runtime::watcher::Error) -> bool {
    use kube::runtime::watcher::Error::{
        InitialListFailed, WatchError, WatchFailed, WatchStartFailed,
    };
    match error {
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => {
            failure(error) == Failure::Unauthorized
        }
        WatchError(status) => status.code == 401,
        _ => false,
    }
}

fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => cut(format!("{} {}", status.code, status.message), 400),
        error => chain(error),
    }
}

fn failure(error: &kube::Error) -> Failure {
    let kube::Error::Api(status) = error else {
        return Failure::Other;
    };
    match status.code {
        401 => Failure::Unauthorized,
        403 => Failure::Forbidden,
        404 => Failure::NotFound,
        409 => Failure::Conflict,
        422 => Failure::Invalid,
        429 => {
            // A header alone (`Retry-After: 1`, as flow control sends it) does not get through here.
            let told = status.details.as_ref().map(|d| d.retry_after_seconds);
            let told = told.filter(|seconds| *seconds > 0);
            Failure::Throttled(told.map(|seconds| Duration::from_secs(u64::from(seconds))))
        }
        _ => Failure::Other,
    }
}
