//! Requests to the API server, each with a deadline.

use super::budget::{Ledger, Listed, ListedNodes};
use super::guarded_client::{TOO_LONG, guarded};
use super::reconcile::NodePatch;
use super::{
    ApiError, ApiResult, ClusterSettings, ErrorKind, NodeObject, NodeView, RateLimits, bounded,
    chain, is_dns_name, names, resource, text,
};
use crate::files::read_regular;
use crate::units::{REVISION, VERSION};
use hyper::header::{HeaderValue, USER_AGENT};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Selector;
use kube::{Api, Client, Config};
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, fmt::Debug, path::Path, time::Duration};

/// What errors call a write of the budget's ledger.
pub(super) const WRITE_LEDGER: &str = "write the budget";

/// Nodes a page: a Node with its images is some 20 KB, but annotations alone may be 256 KB, and a page
/// is held as a whole.
const PAGE: u32 = 25;

/// Whether there is an API server to talk to: a kubeconfig is set, or this is a pod.
pub fn is_in_cluster(settings: &ClusterSettings) -> bool {
    !settings.kubeconfig.is_empty() || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

/// A client from the configured kubeconfig, else from the pod's service account, else from kubectl's own
/// configuration (`context`, or the current one, of `KUBECONFIG` or `~/.kube/config`); and the namespace of the budget's Leases. Token
/// and CA files are read again as they change.
///
/// # Errors
/// Why the configuration cannot be used.
pub async fn connect(
    cluster: &ClusterSettings,
    limits: &RateLimits,
    context: Option<&str>,
) -> ApiResult<(Client, String)> {
    let failed = |error: String| ApiError::other("configure the API client", error);
    let in_pod = cluster.kubeconfig.is_empty() && is_in_cluster(cluster) && context.is_none();
    let options = KubeConfigOptions {
        context: context.map(str::to_string),
        ..KubeConfigOptions::default()
    };
    let config = match cluster.kubeconfig.as_str() {
        "" if in_pod => Config::incluster().map_err(|error| chain(&error)),
        "" => (Config::from_kubeconfig(&options).await).map_err(|error| chain(&error)),
        path => {
            let file = kubeconfig(Path::new(path)).map_err(failed)?;
            let config = Config::from_custom_kubeconfig(file, &options).await;
            config.map_err(|error| chain(&error))
        }
    };
    let mut config = config.map_err(failed)?;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(limits.idle);
    config.reset_reader_on_write = true;
    let agent = HeaderValue::from_str(&format!("selvage/{VERSION} ({REVISION})"));
    (config.headers).extend(agent.ok().map(|agent| (USER_AGENT, agent)));
    // The callers retry, each with its own backoff.
    config.default_retry = false;
    let namespace = match cluster.namespace.as_str() {
        "" if in_pod => config.default_namespace.clone(),
        "" => "selvage".into(),
        namespace => namespace.into(),
    };
    let client = Client::try_from(config).map_err(|error| failed(chain(&error)))?;
    Ok((guarded(client, limits.backoff), namespace))
}

/// Longest kubeconfig, and file that one names, in bytes.
const KUBECONFIG_MAX: u64 = 4 << 20;

/// Reads a kubeconfig. kube reads it, and the files that it names, to any length and waits for pipes:
/// each is checked first.
fn kubeconfig(path: &Path) -> Result<Kubeconfig, String> {
    let look = |path: &Path| match read_regular(path, KUBECONFIG_MAX) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    };
    look(path)?;
    let file = Kubeconfig::read_from(path)
        .map_err(|error| format!("{}: {}", path.display(), chain(&error)))?;
    let clusters = file.clusters.iter().filter_map(|of| of.cluster.as_ref());
    let users = (file.auth_infos.iter()).filter_map(|of| of.auth_info.as_ref());
    let named = clusters.map(|cluster| &cluster.certificate_authority);
    let named = named.chain(
        users.flat_map(|user| [&user.client_certificate, &user.client_key, &user.token_file]),
    );
    for named in named.flatten() {
        look(Path::new(named))?;
    }
    Ok(file)
}

/// The requests about one Node and its group.
#[derive(Clone)]
pub struct NodeApi {
    /// All Nodes.
    pub nodes: Api<NodeObject>,
    /// All Leases of the namespace.
    pub leases: Api<Lease>,
    /// Name of the Node.
    pub node: String,
    ledger_key: String,
    taint: String,
    limits: RateLimits,
}

impl NodeApi {
    /// The requests about `node`, by the settings.
    ///
    /// # Errors
    /// As [`connect`].
    pub async fn connect(
        settings: &ClusterSettings,
        node: &str,
        limits: RateLimits,
    ) -> ApiResult<Self> {
        let (client, namespace) = connect(settings, &limits, None).await?;
        Ok(NodeApi {
            nodes: Api::all_with(client.clone(), &resource()),
            leases: Api::namespaced(client, &namespace),
            node: node.to_string(),
            ledger_key: settings.own(names::LEDGER),
            taint: settings.taint(),
            limits,
        })
    }

    /// The same about another Node.
    #[must_use]
    pub fn for_node(&self, node: &str) -> Self {
        NodeApi {
            node: node.to_string(),
            ..self.clone()
        }
    }

    /// The Node as it is now.
    ///
    /// # Errors
    /// As any request.
    pub async fn get(&self) -> ApiResult<NodeView> {
        let request = self.nodes.get(&self.node);
        let node = bounded("read the Node", self.limits.deadline, request).await?;
        Ok(NodeView::of(&node))
    }

    /// Sends a patch. A failed `test` operation is a conflict.
    ///
    /// # Errors
    /// As any request.
    pub async fn patch(&self, patch: &NodePatch) -> ApiResult<NodeView> {
        const TAINT: &str = "write the taint";
        let own = PatchParams::apply(names::FIELD_MANAGER);
        let body = patch.body();
        let (what, params, request) = match patch {
            NodePatch::Labels(_) => ("write the labels", own.force(), Patch::Apply(body)),
            NodePatch::StrayLabels(_) => ("clean up labels", own, Patch::Merge(body)),
            NodePatch::Condition(_) => ("write the condition", own, Patch::Strategic(body)),
            NodePatch::Taints(_) => {
                let operations = serde_json::from_value(body);
                let operations = operations.map_err(|error| ApiError::other(TAINT, error))?;
                (TAINT, own, Patch::Json(operations))
            }
        };
        let (nodes, node) = (&self.nodes, &self.node);
        let send = async {
            match patch {
                NodePatch::Condition(_) => nodes.patch_status(node, &params, &request).await,
                _ => nodes.patch(node, &params, &request).await,
            }
        };
        let answer = bounded(what, self.limits.deadline, send).await;
        let node = answer.map_err(|error| match error.kind {
            // The server answers a failed test as an invalid request.
            ErrorKind::Invalid if what == TAINT => ApiError {
                kind: ErrorKind::Conflict,
                ..error
            },
            _ => error,
        })?;
        Ok(NodeView::of(&node))
    }

    /// The Lease of a group; `None` if it does not exist yet.
    ///
    /// # Errors
    /// As any request.
    pub async fn lease(&self, name: &str) -> ApiResult<Option<Lease>> {
        let request = self.leases.get_opt(name);
        bounded("read the budget", self.limits.deadline, request).await
    }

    /// The ledger in a Lease's annotation; empty without a Lease.
    pub fn ledger(&self, lease: Option<&Lease>) -> Ledger {
        let annotations = lease.and_then(|lease| lease.metadata.annotations.as_ref());
        let text = annotations.and_then(|all| all.get(&self.ledger_key));
        Ledger::parse(text.map(String::as_str))
    }

    /// Writes a ledger into the Lease that was read (`None`: there was none), unless that has changed
    /// since.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if it has; else as any request.
    pub async fn write_ledger(
        &self,
        name: &str,
        read: Option<&Lease>,
        ledger: &Ledger,
    ) -> ApiResult<Lease> {
        let mut lease = read.cloned().unwrap_or_default();
        lease.metadata.name = Some(name.to_string());
        lease.metadata.managed_fields = None;
        let annotations = lease.metadata.annotations.get_or_insert_with(BTreeMap::new);
        annotations.insert(self.ledger_key.clone(), ledger.to_text());
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        spec.holder_identity = Some(self.node.clone());
        spec.renew_time = Some(MicroTime(jiff::Timestamp::now()));
        let params = post_params();
        let write = async {
            match read {
                Some(_) => self.leases.replace(name, &params, &lease).await,
                None => self.leases.create(&params, &lease).await,
            }
        };
        bounded(WRITE_LEDGER, self.limits.deadline, write).await
    }

    /// The nodes of a group as they are now (not from a cache), and nodes that have an entry in its
    /// ledger without being listed: their labels may have changed.
    ///
    /// # Errors
    /// As any request.
    pub async fn list_group(&self, selector: &Selector, ledger: &Ledger) -> ApiResult<ListedNodes> {
        let mut group = ListedNodes::new();
        let params = ListParams::default().labels_from(selector).limit(PAGE);
        let take = |node: NodeObject| {
            let name = node.metadata.name.clone().unwrap_or_default();
            group.insert(name, self.listed(&node, true));
        };
        each("list the group", &self.nodes, params, self.limits, take).await?;
        for name in ledger.claims.keys().filter(|name| is_dns_name(name)) {
            if group.contains_key(name) {
                continue;
            }
            let request = self.nodes.get_opt(name);
            let node = bounded("look up a node", self.limits.deadline, request).await?;
            if let Some(node) = node {
                group.insert(name.clone(), self.listed(&node, false));
            }
        }
        Ok(group)
    }

    fn listed(&self, node: &NodeObject, counted: bool) -> Listed {
        let mut taints = node.spec.taints.iter().flatten();
        Listed {
            resource_version: node.metadata.resource_version.clone().unwrap_or_default(),
            tainted: taints.any(|taint| text(taint, "key") == self.taint),
            counted,
        }
    }
}

/// Creates and replaces as our field manager.
pub(super) fn post_params() -> PostParams {
    PostParams {
        field_manager: Some(names::FIELD_MANAGER.into()),
        ..PostParams::default()
    }
}

/// Lists objects page by page, holding one page at a time; a page that is longer than an answer may be
/// is asked for in halves.
///
/// # Errors
/// As any request.
pub(crate) async fn each<K: Clone + Debug + DeserializeOwned>(
    what: &'static str,
    api: &Api<K>,
    mut params: ListParams,
    limits: RateLimits,
    mut take: impl FnMut(K),
) -> ApiResult<()> {
    loop {
        let page = match bounded(what, limits.list_deadline, api.list(&params)).await {
            Err(error) if error.message.contains(TOO_LONG) && params.limit > Some(1) => {
                params.limit = params.limit.map(|limit| limit / 2);
                continue;
            }
            page => page?,
        };
        page.items.into_iter().for_each(&mut take);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}
