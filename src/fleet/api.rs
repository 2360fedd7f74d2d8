//! Requests of `selvage fleet`: lists and watches Nodes, asks an agent through the API server's pod proxy,
//! and writes the two annotations that agents read.

use super::{FleetNode, agent_client::PORT, mute};
use crate::cluster::{
    ApiError, ApiResult, ClusterSettings, ErrorKind, NodeObject, NodeView, RateLimits, bounded,
    each, names, resource,
};
use crate::report::Style;
use backon::{ConstantBuilder, Retryable};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use std::{collections::BTreeSet, time::Duration};

/// Nodes a page; fewer where that is longer than an answer may be.
const PAGE: u32 = 500;
/// Further writes of one annotation while others change the Node.
const RETRIES: usize = 4;
/// Who writes, for `metadata.managedFields`.
const MANAGER: &str = "selvage-fleet";
/// The agents' pods, by the shipped manifests.
const AGENTS: &str = "app.kubernetes.io/name=selvage,app.kubernetes.io/component=agent";

/// The Nodes of a cluster.
pub struct FleetApi {
    client: Client,
    /// All Nodes.
    pub nodes: Api<NodeObject>,
    settings: ClusterSettings,
    limits: RateLimits,
}

impl FleetApi {
    /// By a client and the settings that the agents have, too.
    pub fn new(client: Client, settings: &ClusterSettings, limits: RateLimits) -> Self {
        FleetApi {
            nodes: Api::all_with(client.clone(), &resource()),
            client,
            settings: settings.clone(),
            limits,
        }
    }

    /// A Node as a row of the table.
    pub fn row(&self, object: &NodeObject) -> FleetNode {
        FleetNode::of(NodeView::of(object), &self.settings)
    }

    /// The Nodes that a label selector matches, page by page.
    ///
    /// # Errors
    /// When the server refuses, or does not answer in time.
    pub async fn list(&self, selector: &str) -> ApiResult<Vec<FleetNode>> {
        let mut rows = Vec::new();
        let params = ListParams::default().labels(selector).limit(PAGE);
        let take = |node: NodeObject| rows.push(self.row(&node));
        each("list the nodes", &self.nodes, params, self.limits, take).await?;
        Ok(rows)
    }

    /// A node's report as its agent serves it, by way of the API server: JSON, or text where a
    /// style is given.
    ///
    /// # Errors
    /// As any request; [`ErrorKind::NotFound`] where no agent runs on the node.
    pub async fn report(
        &self,
        namespace: &str,
        node: &str,
        style: Option<Style>,
    ) -> ApiResult<String> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let params = ListParams::default().labels(AGENTS);
        let params = params.fields(&format!("spec.nodeName={node}"));
        let found = self.ask("find the agent's pod", pods.list(&params)).await?;
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        let mut pods = found.items.into_iter();
        let pod = pods.find(|pod| phase(pod).as_deref() == Some("Running"));
        let none = || format!("no agent runs on {node:?}, by the pods of namespace {namespace:?}");
        let pod =
            pod.ok_or_else(|| ApiError::new("find the agent's pod", ErrorKind::NotFound, none()))?;
        let form = style.map_or(String::new(), |style| format!("?{}", style.query()));
        let pod = address(&pod);
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/proxy/report{form}");
        const WHAT: &str = "ask the agent by the pod proxy";
        let request = hyper::Request::get(path).body(Vec::new());
        let request = request.map_err(|error| ApiError::other(WHAT, error))?;
        self.ask(WHAT, self.client.request_text(request)).await
    }

    /// Mutes checks or the taint until a moment, or no longer (`until` is `None`; with nothing named,
    /// everything). Gives what the annotation holds then.
    ///
    /// # Errors
    /// As any request, or an annotation that the agent would refuse.
    pub async fn mute(
        &self,
        node: &str,
        targets: Option<&BTreeSet<String>>,
        until: Option<Timestamp>,
    ) -> ApiResult<Option<String>> {
        const WHAT: &str = "write the mute annotation";
        let key = self.settings.own(names::MUTE);
        let attempt = async || {
            let found = self.ask("read the Node", self.nodes.get(node)).await?;
            let had = found.metadata.annotations.as_ref();
            let had = had.and_then(|all| all.get(&key));
            let edit = |targets| {
                let text = mute::edit(had.map(String::as_str), targets, until, Timestamp::now());
                text.map_err(|error| ApiError::other(WHAT, error))
            };
            let text = targets.map_or(Ok(None), edit)?;
            if text.as_ref() != had {
                let version = found.metadata.resource_version;
                let written = self.annotate(WHAT, node, &key, text.as_deref(), version);
                written.await?;
            }
            Ok(text)
        };
        let at_once = ConstantBuilder::new().with_delay(Duration::ZERO);
        let attempts = attempt.retry(at_once.with_max_times(RETRIES));
        attempts.when(ApiError::is_conflict).await
    }

    /// Accepts the machine as it is at a moment; a second after the last acceptance at the earliest, since
    /// agents ignore an older one: its writer's clock may have been ahead.
    ///
    /// # Errors
    /// When the server refuses, or does not answer in time.
    pub async fn accept(&self, node: &str, at: Timestamp) -> ApiResult<()> {
        const WHAT: &str = "write the accept annotation";
        let found = self.ask("read the Node", self.nodes.get(node)).await?;
        let key = self.settings.own(names::ACCEPT);
        let had = found.metadata.annotations;
        let had: Option<Timestamp> = had.and_then(|all| all.get(&key)?.parse().ok());
        let after = had.and_then(|had| had.checked_add(SignedDuration::from_secs(1)).ok());
        let text = after.map_or(at, |after| at.max(after)).to_string();
        self.annotate(WHAT, node, &key, Some(&text), None).await
    }

    async fn annotate(
        &self,
        what: &'static str,
        node: &str,
        key: &str,
        text: Option<&str>,
        version: Option<String>,
    ) -> ApiResult<()> {
        let params = PatchParams::apply(MANAGER);
        let mut patch = json!({"metadata": {"annotations": {key: text}}});
        if let (Some(version), Some(metadata)) = (version, patch.pointer_mut("/metadata")) {
            metadata["resourceVersion"] = version.into();
        }
        let patch = Patch::Merge(patch);
        let request = self.nodes.patch(node, &params, &patch);
        self.ask(what, request).await?;
        Ok(())
    }

    async fn ask<T>(
        &self,
        what: &'static str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> ApiResult<T> {
        bounded(what, self.limits.deadline, request).await
    }
}

/// A pod as the proxy wants it named: `[https:]NAME:PORT`.
fn address(pod: &Pod) -> String {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let agent: Option<&Container> = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    let port = agent.and_then(|agent| Some(agent.ports.as_ref()?.first()?.container_port));
    let probe = agent.and_then(|agent| agent.liveness_probe.as_ref()?.http_get.as_ref());
    let scheme = match probe.and_then(|get| get.scheme.as_deref()) {
        Some("HTTPS") => "https:",
        _ => "",
    };
    format!("{scheme}{name}:{}", port.unwrap_or(PORT.into()))
}
