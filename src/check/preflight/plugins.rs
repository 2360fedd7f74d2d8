//! Shared libraries: libibverbs, and NCCL's network plugin.

use super::Item;
use super::scene::{Fabric, Scene};
use crate::observe::container::{Environment, Library};

/// What NCCL opens for verbs.
const VERBS: &str = "libibverbs.so.1";

/// What NCCL tries where no plugin is named.
const DEFAULT: &str = "libnccl-net.so";

/// What stays open where a library was found.
const NOT_PROVEN: &str = "whether its version fits shows only when NCCL loads it";

/// Names of one plugin that NCCL tries, in its order (`openPluginLib`, src/plugin/plugin_open.cc).
fn names_of(plugin: &str) -> Vec<String> {
    let mut names = vec![plugin.to_string()];
    let is_library = plugin.starts_with("lib") && plugin.ends_with(".so");
    if !plugin.contains('/') && !is_library {
        names.push(format!("libnccl-net-{plugin}.so"));
    }
    names
}

/// Plugins that `NCCL_NET_PLUGIN` names; none where it is unset. `none` is none at all.
fn asked(environment: &Environment) -> Option<Vec<&str>> {
    let value = environment.nccl("NCCL_NET_PLUGIN")?.value;
    let value = if value.eq_ignore_ascii_case("none") {
        ""
    } else {
        value
    };
    Some(
        value
            .split(',')
            .filter(|name| !name.is_empty())
            .take(14)
            .collect(),
    )
}

/// Libraries that NCCL would try as its network plugin.
pub(super) fn candidates(environment: &Environment) -> Vec<String> {
    match asked(environment) {
        Some(plugins) => plugins.into_iter().flat_map(names_of).collect(),
        None => vec![DEFAULT.into()],
    }
}

/// Libraries that have to be looked for to answer the items.
pub fn libraries_wanted(environment: &Environment) -> Vec<String> {
    let mut names = candidates(environment);
    names.push(VERBS.into());
    names
}

/// What is said where a static tool's image is looked at.
pub(super) const OTHER_IMAGE: &str = "this image has no dynamic loader, so it is not the one that NCCL runs in: run preflight in the training image to have this looked at";

/// libibverbs, which NCCL opens by name.
pub(super) fn libibverbs(scene: &Scene<'_>) -> Item {
    const ID: &str = "libibverbs";
    if scene.fabric != Fabric::Verbs {
        return Item::skipped(ID, "there is no InfiniBand or RoCE device");
    }
    if !scene.facts.has_loader {
        return Item::skipped(ID, OTHER_IMAGE);
    }
    match scene.facts.libraries.get(VERBS) {
        Some(Library::Usable { path }) => Item::ok(ID, path.clone()).with("path", path.as_str()),
        Some(Library::Unusable { path, why }) => {
            let item = Item::failing(ID, "LibibverbsMissing", format!("{path}: {why}"))
                .fix("install libibverbs1 and ibverbs-providers in the image, for this machine");
            scene.if_it_matters(item)
        }
        Some(Library::Missing) => match scene.does_without() {
            Some(why) => Item::skipped(ID, format!("{VERBS} is not in the image; {why}")),
            None => Item::failing(
                ID,
                "LibibverbsMissing",
                format!("{VERBS} is nowhere where the loader looks: NCCL will use TCP"),
            )
            .fix("install libibverbs1 and ibverbs-providers in the image, or add their directory to LD_LIBRARY_PATH"),
        },
        None => Item::unknown(ID, "LibraryUnreadable", "the image's libraries could not be looked through in time"),
    }
}

/// What the rails are, or without a device are meant to be.
fn meant(scene: &Scene<'_>) -> Fabric {
    match scene.fabric {
        Fabric::None if scene.efa.is_some() && scene.tcp.is_none() => Fabric::Efa,
        fabric => fabric,
    }
}

/// What is needed of the plugin here.
fn needed_by(fabric: Fabric) -> Option<&'static str> {
    match fabric {
        Fabric::Efa => Some("EFA is reached by the aws-ofi-nccl plugin alone"),
        Fabric::TcpRails => Some("this platform's rails are reached by its plugin alone"),
        _ => None,
    }
}

/// How the plugin comes into the container.
fn mount(fabric: Fabric) -> &'static str {
    match fabric {
        Fabric::Efa => {
            "put aws-ofi-nccl and libfabric into the image, or mount them (`volumes`, /opt/amazon), and name the directory in LD_LIBRARY_PATH; or NCCL_NET_PLUGIN: the library's full path"
        }
        Fabric::TcpRails => {
            "mount the node's plugin (`volumes: hostPath: /home/kubernetes/bin/nvidia/lib64` at /usr/local/nvidia/lib64) and name it in LD_LIBRARY_PATH"
        }
        _ => {
            "NCCL_NET_PLUGIN: unset it for NCCL's own transport; or put the library where LD_LIBRARY_PATH points, or give its full path"
        }
    }
}

/// Whether libfabric's filter of providers leaves EFA: names, or after `^` what is left out
/// (fi_fabric(7)).
fn allows_efa(filter: &str) -> bool {
    let (excludes, names) = match filter.strip_prefix('^') {
        Some(names) => (true, names),
        None => (false, filter),
    };
    names.split(',').any(|name| name.starts_with("efa")) != excludes
}

/// The network plugin.
pub(super) fn net_plugin(scene: &Scene<'_>) -> Item {
    const ID: &str = "net_plugin";
    let environment = &scene.facts.environment;
    let fabric = meant(scene);
    if fabric == Fabric::Efa
        && let Some(provider) = environment.get("FI_PROVIDER")
        && !allows_efa(provider)
    {
        return Item::failing(
            ID,
            "OfiProvider",
            format!("FI_PROVIDER={provider}: libfabric is kept from EFA"),
        )
        .fix("FI_PROVIDER: efa, or unset it");
    }
    let plugins = asked(environment);
    let by_setting = plugins.as_ref().is_some_and(|plugins| !plugins.is_empty());
    let by_net = scene.nccl("NCCL_NET").filter(|asked| {
        !["ib", "socket"].contains(&asked.setting.value.to_ascii_lowercase().as_str())
    });
    if plugins.is_some() && !by_setting {
        return match needed_by(fabric) {
            Some(why) => Item::failing(
                ID,
                "PluginMissing",
                format!("NCCL_NET_PLUGIN switches plugins off, and {why}"),
            )
            .fix("NCCL_NET_PLUGIN: unset it"),
            None => Item::ok(ID, "NCCL_NET_PLUGIN switches plugins off"),
        };
    }
    if !scene.facts.has_loader {
        return Item::skipped(ID, OTHER_IMAGE);
    }
    if let Some(path) = scene.plugin() {
        return Item::ok(ID, format!("{path}; {NOT_PROVEN}")).with("path", path);
    }
    let names = candidates(environment);
    let found = || {
        names
            .iter()
            .filter_map(|name| scene.facts.libraries.get(name))
    };
    if found().count() < names.len() {
        return Item::unknown(
            ID,
            "LibraryUnreadable",
            "the image's libraries could not be looked through in time",
        );
    }
    let told = names.join(", ");
    let what = match found().find(|library| matches!(library, Library::Unusable { .. })) {
        Some(Library::Unusable { path, why }) => format!("{path}: {why}"),
        _ => format!("{told}: nowhere where the loader looks (an rpath is not known here)"),
    };
    let because = match (&by_net, needed_by(fabric)) {
        (Some(net), _) => Some(format!("{} counts on it: NCCL ends", net.told())),
        (None, Some(why)) => Some(format!("{why}: NCCL will use TCP")),
        _ => None,
    };
    let broken = found().any(|library| matches!(library, Library::Unusable { .. }));
    match because {
        Some(because) => match (fabric, scene.does_without()) {
            (Fabric::Efa | Fabric::TcpRails, Some(why)) if by_net.is_none() => {
                Item::skipped(ID, format!("{what}; {why}"))
            }
            _ => {
                Item::failing(ID, "PluginMissing", format!("{what}; {because}")).fix(mount(fabric))
            }
        },
        None if by_setting || broken => Item::degraded(
            ID,
            "PluginMissing",
            format!("{what}; NCCL goes on to its own transport"),
        )
        .fix(mount(fabric)),
        None if fabric == Fabric::Verbs && scene.tcp.is_none() => {
            Item::ok(ID, "no plugin: NCCL's own transport")
        }
        None => Item::skipped(ID, "no plugin, and none is asked for"),
    }
}

#[cfg(test)]
mod tests;
