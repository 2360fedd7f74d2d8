//! The list that a watch begins with.

use super::PodWatch;
use super::decode::{self, Place};
use super::split::{Part, Splitter};
use super::table::PodTable;
use super::watch::other;
use crate::cluster::api::{ApiError, Failure, bounded};
use futures::AsyncBufReadExt;
use kube::Client;
use kube::api::{ListParams, VersionMatch};
use serde::Deserialize;
use std::sync::Arc;

/// Pods a page.
const PAGE: u32 = 50;

/// Resumptions in a row that the server could not serve, after which its cache is not asked any more.
const STALE: u32 = 2;

const LIST: &str = "list the pods";

impl PodWatch {
    /// Lists all; what is known is replaced once the list is whole.
    pub(super) async fn list(&mut self, client: &Client) -> Result<(), ApiError> {
        let params = ListParams::default().fields(&self.only_this_node());
        let mut params = if self.stale < STALE {
            // Pages are of what is so now only: a cache answers with all at once.
            params.at("0").matching(VersionMatch::NotOlderThan)
        } else {
            params.limit(PAGE)
        };
        let mut listed = PodTable {
            health: self.table.health,
            error: self.table.error.clone(),
            skipped: self.table.skipped,
            left_out: self.table.left_out,
            ..PodTable::default()
        };
        loop {
            let page = self.page(client, &params, &mut listed);
            let page = tokio::time::timeout(self.limits.list_deadline, page).await;
            let page = page.unwrap_or_else(|_| {
                Err(ApiError {
                    what: LIST,
                    failure: Failure::Timeout,
                    message: "no whole answer in time".into(),
                })
            })?;
            match page.r#continue.filter(|token| !token.is_empty()) {
                Some(token) => {
                    params = params.limit(PAGE).continue_token(&token);
                }
                None => {
                    let version = page.resource_version.filter(|version| !version.is_empty());
                    let version =
                        version.ok_or_else(|| other("a list without a version".into()))?;
                    self.version = Some(version);
                    self.table = Arc::new(listed);
                    return Ok(());
                }
            }
        }
    }

    /// One page of the list; its pods are put into `listed` one by one as they arrive.
    async fn page(
        &self,
        client: &Client,
        params: &ListParams,
        listed: &mut PodTable,
    ) -> Result<PageMeta, ApiError> {
        let request = self.request().list(params);
        let request = request.map_err(|error| other(error.to_string()))?;
        let answer = client.request_stream(request);
        let answer = bounded(LIST, self.limits.list_deadline, answer).await?;
        let mut answer = std::pin::pin!(answer);
        let mut splitter = Splitter::default();
        let mut meta = None;
        let mut ended = false;
        loop {
            let bytes = answer.fill_buf().await;
            let bytes = bytes.map_err(|error| other(error.to_string()))?;
            if bytes.is_empty() {
                let whole = meta.filter(|_| ended);
                return whole.ok_or_else(|| other("the list is not whole".into()));
            }
            let fed = splitter.feed(bytes, &mut |part| match part {
                Part::Item(text) => take_pod(text, listed),
                Part::TooLong => listed.skipped += 1,
                Part::Member("metadata", text) => meta = serde_json::from_slice(text).ok(),
                Part::Member(..) => {}
                Part::End => ended = true,
            });
            let count = bytes.len();
            answer.consume_unpin(count);
            fed.map_err(|error| other(error.to_string()))?;
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PageMeta {
    resource_version: Option<String>,
    r#continue: Option<String>,
}

fn take_pod(text: &[u8], listed: &mut PodTable) {
    let place: Place = serde_json::from_slice(text).unwrap_or_default();
    match (place.key(), decode::pod(text)) {
        (Some(key), Ok(facts)) => {
            listed.put(key, facts);
        }
        _ => listed.skipped += 1,
    }
}
