//! The names that a request's `Host` may carry: protection against DNS rebinding. A foreign page that points its own
//! name at this server could read the answers, since the browser takes both for one origin; but
//! the browser sends the page's name.

use super::{Answer, plain};
use crate::glob::{Glob, any_matches};
use hyper::header::{self, HeaderMap};
use hyper::http::uri::Authority;
use hyper::{StatusCode, Uri};
use std::net::IpAddr;

/// Domains that no stranger can have a name in (RFC 6761 and 6762, ICANN's `internal`, Kubernetes).
const PRIVATE: [&str; 4] = ["localhost", "local", "internal", "svc"];

/// The proxies of the API server pass on the name by which *they* were asked, and say so with this.
const FORWARDED: &str = "x-forwarded-for";

/// The names that this server goes by.
#[derive(Debug, Clone, Default)]
pub struct Hosts {
    /// The node's name.
    node: String,
    /// Domains in which the node looks for short names.
    domains: Vec<String>,
    /// By the settings.
    configured: Vec<Glob>,
}

impl Hosts {
    /// `resolv_conf`: the node's /etc/resolv.conf, whose search domains are its own.
    pub fn new(node: &str, resolv_conf: &str, configured: Vec<Glob>) -> Self {
        let searched = resolv_conf.lines().flat_map(|line| {
            let mut words = line.split_whitespace();
            let searches = matches!(words.next(), Some("search" | "domain"));
            words.filter(move |_| searches)
        });
        let domains = searched.map(normal).filter(|domain| domain.contains('.'));
        Hosts {
            node: normal(node),
            domains: domains.collect(),
            configured: (configured.iter().map(|name| Glob(normal(&name.0)))).collect(),
        }
    }

    /// The answer to a request that was meant for another name.
    pub(super) fn refusal(&self, uri: &Uri, headers: &HeaderMap, from: IpAddr) -> Option<Answer> {
        let named = headers.get_all(header::HOST).iter();
        let named = named.map(|value| value.to_str().unwrap_or("?.").to_string());
        let mut named = named.chain(uri.authority().map(ToString::to_string));
        let forwarded = !from.is_loopback() && headers.contains_key(FORWARDED);
        let foreign = !forwarded && named.any(|name| !self.is_own(&name, from));
        let why = "the Host header is not a name of this node; serve.hosts allows more\n";
        foreign.then(|| plain(StatusCode::FORBIDDEN, why))
    }

    /// Whether a name, with or without a port, leads here. A stranger's page goes by neither an address nor
    /// a name without a dot.
    fn is_own(&self, host: &str, from: IpAddr) -> bool {
        let Ok(authority) = host.parse::<Authority>() else {
            return host.is_empty();
        };
        let name = normal(authority.host());
        let address = name.trim_start_matches('[').trim_end_matches(']');
        if !name.contains('.') || address.parse::<IpAddr>().is_ok() {
            return true;
        }
        let within = |domain: &str| {
            let front = name.strip_suffix(domain);
            front.is_some_and(|front| front.is_empty() || front.ends_with('.'))
        };
        // From elsewhere, where no more is shown than to anybody, the node's name in any domain will do.
        let first = |name: &str| name.split('.').next().unwrap_or_default().to_string();
        let node = match from.is_loopback() {
            true => name == self.node,
            false => first(&name) == first(&self.node),
        };
        node || PRIVATE.iter().any(|domain| within(domain))
            || self.domains.iter().any(|domain| within(domain))
            || any_matches(&self.configured, &name)
    }
}

fn normal(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn only_names_of_this_node_are_answered() {
        let resolv =
            "# by DHCP\nnameserver 10.0.0.10\nsearch selvage.svc.k8s.corp dc.example.com com\n";
        let allowed = vec![Glob::from("*.gpu.example.org")];
        let hosts = Hosts::new("gpu-1.rack7", resolv, allowed);
        let (near, far) = ("127.0.0.1", "10.2.3.4");
        for (host, from, want) in [
            // Scrapes and probes: by address, by Service, by the node's name.
            ("10.0.0.7:9949", far, true),
            ("[fd00::7]:9949", far, true),
            ("selvage.selvage.svc:9949", far, true),
            ("selvage.selvage.svc.cluster.local.", far, true),
            ("10-0-0-7.selvage.svc.k8s.corp", far, true),
            ("GPU-1:9949", far, true),
            ("gpu-1.rack7", near, true),
            ("gpu-2.dc.example.com", near, true),
            ("gpu-1.elsewhere.example:9949", far, true),
            ("a.gpu.example.org", near, true),
            // A port-forward.
            ("localhost:9949", near, true),
            ("127.0.0.1:9949", near, true),
            ("", near, true),
            // Pages of strangers.
            ("evil.example:9949", near, false),
            ("evil.example:9949", far, false),
            ("gpu-1.evil.example", near, false),
            ("notlocal", near, true),
            ("evil.notlocal", near, false),
            ("evildc.example.com", near, false),
            ("localhost.evil.example", near, false),
            ("127.0.0.1.evil.example", near, false),
            ("user@evil.example", near, false),
            ("ev il.example", near, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
            let uri = Uri::from_static("/report");
            let from: IpAddr = from.parse().unwrap();
            let refused = hosts.refusal(&uri, &headers, from).is_some();
            assert_eq!(!refused, want, "{host} from {from}");
        }
    }

    #[test]
    fn the_api_servers_proxy_passes_and_no_page_on_loopback_can_pose_as_one() {
        let mut headers = HeaderMap::new();
        let name = HeaderValue::from_static("api.cluster.example:6443");
        headers.insert(header::HOST, name);
        headers.insert(FORWARDED, HeaderValue::from_static("10.1.1.1"));
        let hosts = Hosts::default();
        for (from, passes) in [("10.0.0.1", true), ("127.0.0.1", false), ("::1", false)] {
            let from = from.parse().unwrap();
            let refusal = hosts.refusal(&Uri::from_static("/report"), &headers, from);
            assert_eq!(refusal.is_none(), passes, "{from}");
        }
        // Two names, or one in the request line: none may be foreign.
        headers.remove(FORWARDED);
        headers.insert(header::HOST, HeaderValue::from_static("localhost"));
        let uri = Uri::from_static("http://evil.example/report");
        assert!(
            hosts
                .refusal(&uri, &headers, [10, 0, 0, 1].into())
                .is_some()
        );
        headers.append(header::HOST, HeaderValue::from_static("evil.example"));
        let uri = Uri::from_static("/report");
        assert!(
            hosts
                .refusal(&uri, &headers, [10, 0, 0, 1].into())
                .is_some()
        );
    }
}
