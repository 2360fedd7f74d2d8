//! Names under which NCCL searches for its network plugin.

use crate::observe::container::Environment;

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

/// Files that NCCL would try for one plugin, in its order (`openPluginLib`,
/// src/plugin/plugin_open.cc).
fn files_of(plugin: &str) -> Vec<String> {
    let mut names = vec![plugin.to_string()];
    let is_library = plugin.starts_with("lib") && plugin.ends_with(".so");
    if !plugin.contains('/') && !is_library {
        names.push(format!("libnccl-net-{plugin}.so"));
    }
    names
}

/// Libraries that NCCL would try as its network plugin.
pub(super) fn candidates(environment: &Environment) -> Vec<String> {
    match configured(environment) {
        Some(plugins) => plugins.into_iter().flat_map(files_of).collect(),
        None => vec![DEFAULT.into()],
    }
}

/// Libraries that the items need to know about.
pub(crate) fn libraries_wanted(environment: &Environment) -> Vec<String> {
    let mut names = candidates(environment);
    names.push(VERBS.into());
    names
}
