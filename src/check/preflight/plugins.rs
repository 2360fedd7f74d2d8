//! Shared libraries: libibverbs, and NCCL's network plugin.

use super::{Checked, Item, PodFabric, PodView};
use crate::observe::{Environment, Library};

/// Why nothing is said about libraries in a static tool's image.
pub(super) const OTHER_IMAGE: &str = "this image has no dynamic loader, so NCCL cannot run in it: run preflight in the training image to check this";

const TOO_SLOW: &str = "the image's libraries could not be searched in time";

/// What NCCL tries if no plugin is configured.
const DEFAULT: &str = "libnccl-net.so";

/// What NCCL opens for InfiniBand and RoCE.
pub(super) const VERBS: &str = "libibverbs.so.1";

/// Plugins that NCCL reads of a list at most.
const MAX_PLUGINS: usize = 14;

/// Plugins that `NCCL_NET_PLUGIN` lists; `None` if it is unset. `none` stands for an empty list.
pub(super) fn configured(environment: &Environment) -> Option<Vec<&str>> {
    let value = environment.nccl("NCCL_NET_PLUGIN")?.value;
    let names = value.split(',').filter(|name| !name.is_empty());
    Some(match value.eq_ignore_ascii_case("none") {
        true => Vec::new(),
        false => names.take(MAX_PLUGINS).collect(),
    })
}

/// Libraries that NCCL would try as its network plugin, in its order (`openPluginLib`,
/// src/plugin/plugin_open.cc).
pub(super) fn candidates(environment: &Environment) -> Vec<String> {
    let files_of = |plugin: &str| {
        let is_library = plugin.starts_with("lib") && plugin.ends_with(".so");
        let is_short = !plugin.contains('/') && !is_library;
        let library = is_short.then(|| format!("libnccl-net-{plugin}.so"));
        [plugin.to_string()].into_iter().chain(library)
    };
    let plugins = configured(environment).unwrap_or(vec![DEFAULT]);
    plugins.into_iter().flat_map(files_of).collect()
}

/// Libraries that the items need to know about.
pub(crate) fn libraries_wanted(environment: &Environment) -> Vec<String> {
    let mut names = candidates(environment);
    names.push(VERBS.into());
    names
}

/// Judges libibverbs, which NCCL opens by name.
pub(super) fn libibverbs(context: &PodView<'_>) -> Checked {
    let is_verbs = context.fabric == PodFabric::Verbs;
    Item::skipped("this container has no InfiniBand or RoCE device").when(!is_verbs)?;
    Item::skipped(OTHER_IMAGE).when(!context.facts.has_loader)?;
    Ok(match context.facts.libraries.get(VERBS) {
        Some(Library::Usable { path }) => Item::ok(path).with("path", path.as_str()),
        Some(Library::Unusable { path, why }) => {
            Item::failing("LibibverbsMissing", format!("{path}: {why}"))
                .fix("install libibverbs1 and ibverbs-providers for this machine in the image")
        }
        Some(Library::Missing) => {
            let message = format!("{VERBS} is not where the loader looks: NCCL will use TCP");
            Item::failing("LibibverbsMissing", message)
                .fix("install libibverbs1 and ibverbs-providers in the image, or add their directory to LD_LIBRARY_PATH")
        }
        None => Item::unknown("LibraryUnreadable", TOO_SLOW),
    })
}

/// The fabric, or without a device the one that the settings imply.
fn intended(context: &PodView<'_>) -> PodFabric {
    match context.fabric {
        PodFabric::None if context.efa.is_some() && context.tcp.is_none() => PodFabric::Efa,
        fabric => fabric,
    }
}

/// Why the fabric needs a plugin; `None` if it does not.
fn needed_by(fabric: PodFabric) -> Option<&'static str> {
    match fabric {
        PodFabric::Efa => Some("EFA works only with the aws-ofi-nccl plugin"),
        PodFabric::TcpRails => Some("this platform's rails work only with its plugin"),
        _ => None,
    }
}

const GET_EFAS: &str = "put aws-ofi-nccl and libfabric into the image, or mount them (`volumes`, /opt/amazon), and add the directory to LD_LIBRARY_PATH; or NCCL_NET_PLUGIN: the library's full path";
const GET_GOOGLES: &str = "mount the node's plugin (`volumes: hostPath: /home/kubernetes/bin/nvidia/lib64` at /usr/local/nvidia/lib64) and add it to LD_LIBRARY_PATH";
const GET_ANOTHER: &str = "NCCL_NET_PLUGIN: unset it for NCCL's own transport; or put the library where LD_LIBRARY_PATH points, or give its full path";

/// How the plugin gets into the container.
fn remedy(fabric: PodFabric) -> &'static str {
    match fabric {
        PodFabric::Efa => GET_EFAS,
        PodFabric::TcpRails => GET_GOOGLES,
        _ => GET_ANOTHER,
    }
}

/// Whether libfabric's filter of providers allows EFA: names, or after `^` exclusions
/// (fi_fabric(7)).
fn allows_efa(filter: &str) -> bool {
    let mut names = filter.trim_start_matches('^').split(',');
    names.any(|name| name.starts_with("efa")) != filter.starts_with('^')
}

/// Judges the network plugin.
pub(super) fn net_plugin(context: &PodView<'_>) -> Checked {
    let environment = &context.facts.environment;
    let fabric = intended(context);
    let provider = environment.get("FI_PROVIDER").unwrap_or("efa");
    let message = format!("FI_PROVIDER={provider}: libfabric may not use EFA");
    let item = context.if_rdma_matters(Item::failing("OfiProvider", message));
    item.when(fabric == PodFabric::Efa && !allows_efa(provider))?;
    if configured(environment).is_some_and(|plugins| plugins.is_empty()) {
        let message = "NCCL_NET_PLUGIN disables plugins";
        return Ok(match needed_by(fabric) {
            Some(why) => context.if_rdma_matters(
                Item::failing("PluginMissing", format!("{message}, and {why}"))
                    .fix("NCCL_NET_PLUGIN: unset it"),
            ),
            None => Item::ok(message),
        });
    }
    Item::skipped(OTHER_IMAGE).when(!context.facts.has_loader)?;
    if let Some(path) = context.plugin() {
        let message = format!("{path}; NCCL checks its version only when it loads it");
        return Ok(Item::ok(message).with("path", path));
    }
    let (names, libraries) = (candidates(environment), &context.facts.libraries);
    let is_unread = names.iter().any(|name| !libraries.contains_key(name));
    Item::unknown("LibraryUnreadable", TOO_SLOW).when(is_unread)?;
    let broken = names.iter().find_map(|name| match libraries.get(name)? {
        Library::Unusable { path, why } => Some(format!("{path}: {why}")),
        _ => None,
    });
    Ok(missing(context, &names, broken))
}

/// NCCL finds no plugin: whether it needs one.
fn missing(context: &PodView<'_>, names: &[String], broken: Option<String>) -> Item {
    let fabric = intended(context);
    let is_wrong = broken.is_some() || configured(&context.facts.environment).is_some();
    let what = broken.unwrap_or_else(|| {
        let names = names.join(", ");
        format!("{names}: not where the loader looks (an rpath is unknown here)")
    });
    let is_plugins = |value: &str| !["ib", "socket"].contains(&value.to_ascii_lowercase().as_str());
    let net = context.nccl("NCCL_NET").filter(|net| is_plugins(net.value));
    let failing = |because: String| {
        Item::failing("PluginMissing", format!("{what}; {because}")).fix(remedy(fabric))
    };
    match (net, needed_by(fabric), context.without_rdma()) {
        (Some(net), _, _) => failing(format!("{net} needs it: NCCL ends")),
        (None, Some(_), Some(why)) => Item::skipped(format!("{what}; {why}")),
        (None, Some(why), None) => failing(format!("{why}: NCCL will use TCP")),
        (None, None, _) if is_wrong => {
            let message = format!("{what}; NCCL continues with its own transport");
            Item::degraded("PluginMissing", message).fix(remedy(fabric))
        }
        _ if fabric == PodFabric::Verbs && context.tcp.is_none() => {
            Item::ok("no plugin: NCCL's own transport")
        }
        _ => Item::skipped("no plugin, and none is configured"),
    }
}

#[cfg(test)]
mod tests;
