//! From a cgroup path to the pod and container (kubernetes pkg/kubelet/cm: cgroup_manager_linux.go,
//! pod_container_manager_linux.go).
//!
//! | driver | path |
//! |---|---|
//! | systemd | `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid_>.slice/cri-containerd-<id>.scope` |
//! | cgroupfs | `/kubepods/burstable/pod<uid>/<id>` |
//! | systemd, runtime on cgroupfs | `/system.slice/containerd.service/kubepods-burstable-pod<uid_>.slice:cri-containerd:<id>` |
//!
//! From within a cgroup namespace (cgroup v2, a container's default) paths begin at the reader's own
//! place: `/../../kubepods-burstable-pod….slice/…`. So only the pod's own component counts, and not
//! what stands before it.

/// Whose a process is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// UID of the pod, with dashes; of a static pod, its hash.
    pub pod: String,
    /// Container id, where the path tells one.
    pub container: Option<String>,
}

/// The pod behind `/proc/[pid]/cgroup` (cgroups(7)): `id:controllers:path` a line, one line with
/// cgroup v2. The first line that names a pod counts: with v1, controllers that the kubelet does
/// not manage stay at the root.
pub fn place(text: &str) -> Option<Place> {
    text.lines()
        .filter_map(|line| line.splitn(3, ':').nth(2))
        .find_map(of_path)
}

/// The outermost pod in a path: a cluster in a pod has pods of its own further in.
fn of_path(path: &str) -> Option<Place> {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    while let Some(part) = parts.next() {
        let mut pieces = part.split(':');
        let Some(pod) = pieces.next().and_then(pod_uid) else {
            continue;
        };
        let container = match pieces.next_back() {
            Some(id) => container_id(id),
            None => parts.next().and_then(container_id),
        };
        return Some(Place { pod, container });
    }
    None
}

/// `kubepods-burstable-pod<uid_>.slice`, or `pod<uid>`.
fn pod_uid(part: &str) -> Option<String> {
    let uid = match part.strip_suffix(".slice") {
        // The uid's own dashes are written `_`, so that the last dash ends the parents' names.
        Some(slice) => slice.rsplit_once('-')?.1.strip_prefix("pod")?,
        None => part.strip_prefix("pod")?,
    };
    let uid = uid.replace('_', "-");
    is_uid(&uid).then_some(uid)
}

/// A UUID, or a static pod's hash: 32 hexadecimal digits.
fn is_uid(uid: &str) -> bool {
    let digits = uid.bytes().filter(u8::is_ascii_hexdigit).count();
    let dashes: Vec<usize> = uid.match_indices('-').map(|(at, _)| at).collect();
    digits == 32
        && uid.len() == digits + dashes.len()
        && (dashes.is_empty() || dashes == [8, 13, 18, 23])
}

/// `cri-containerd-<id>.scope`, `crio-<id>.scope`, `docker-<id>.scope` or the id alone. The scope of
/// `crio-conmon-<id>` is the runtime's own process.
fn container_id(part: &str) -> Option<String> {
    let name = part.strip_suffix(".scope").unwrap_or(part);
    let (runtime, id) = name.rsplit_once('-').unwrap_or(("", name));
    let is_id = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_id && !runtime.ends_with("conmon")).then(|| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UID: &str = "0a1b2c3d-1111-2222-3333-444455556666";
    const ID: &str = "4f5e6d7c4f5e6d7c4f5e6d7c4f5e6d7c4f5e6d7c4f5e6d7c4f5e6d7c4f5e6d7c";

    #[test]
    fn paths_of_every_kind() {
        let hash = "0123456789abcdef0123456789abcdef";
        for (path, want) in [
            // systemd: each QoS class, each runtime.
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podUID_.slice/cri-containerd-ID.scope",
                Some((UID, true)),
            ),
            (
                "/kubepods.slice/kubepods-podUID_.slice/cri-containerd-ID.scope",
                Some((UID, true)),
            ),
            (
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podUID_.slice/crio-ID.scope",
                Some((UID, true)),
            ),
            (
                "/kubepods.slice/kubepods-podUID_.slice/crio-ID.scope/container",
                Some((UID, true)),
            ),
            (
                "/kubepods.slice/kubepods-podUID_.slice/crio-conmon-ID.scope",
                Some((UID, false)),
            ),
            (
                "/kubepods.slice/kubepods-podUID_.slice/docker-ID.scope",
                Some((UID, true)),
            ),
            ("/kubepods.slice/kubepods-podUID_.slice", Some((UID, false))),
            // kind.
            (
                "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podUID_.slice/cri-containerd-ID.scope",
                Some((UID, true)),
            ),
            // cgroupfs.
            ("/kubepods/burstable/podUID/ID", Some((UID, true))),
            ("/kubepods/podUID/ID/init.scope", Some((UID, true))),
            ("/kubepods/besteffort/podUID/crio-ID", Some((UID, true))),
            ("/docker/ID/kubelet/kubepods/podUID/ID", Some((UID, true))),
            // The runtime does not speak systemd.
            (
                "/system.slice/containerd.service/kubepods-burstable-podUID_.slice:cri-containerd:ID",
                Some((UID, true)),
            ),
            // From within a cgroup namespace.
            (
                "/../../kubepods-burstable-podUID_.slice/cri-containerd-ID.scope",
                Some((UID, true)),
            ),
            ("/../../podUID/ID", Some((UID, true))),
            // A static pod.
            ("/kubepods/burstable/podHASH/ID", Some((hash, true))),
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podHASH.slice/ID",
                Some((hash, true)),
            ),
            // A cluster in a pod: the outer one is this node's.
            (
                "/kubepods/podUID/ID/kubepods/podffffffff-1111-2222-3333-444455556666/ID",
                Some((UID, true)),
            ),
            // None.
            ("/", None),
            ("/system.slice/kubelet.service", None),
            ("/kubepods.slice/kubepods-burstable.slice", None),
            ("/user.slice/podman-12.scope", None),
            ("/machine.slice/libpod-ID.scope", None),
            ("/podrick/ID", None),
            ("/kubepods/pod0a1b2c3d/ID", None),
            ("/../cri-containerd-ID.scope", None),
        ] {
            let path = path
                .replace("UID_", &UID.replace('-', "_"))
                .replace("UID", UID)
                .replace("HASH", hash)
                .replace("ID", ID);
            let want = want.map(|(pod, container)| Place {
                pod: pod.into(),
                container: container.then(|| ID.into()),
            });
            assert_eq!(place(&format!("0::{path}\n")), want, "{path}");
        }
    }

    #[test]
    fn several_hierarchies() {
        let text = format!(
            "12:rdma:/\n11:cpu,cpuacct:/kubepods/burstable/pod{UID}/{ID}\n1:name=systemd:/x\n0::/\n"
        );
        assert_eq!(place(&text).unwrap().pod, UID);
        assert_eq!(place("12:rdma:/\n0::/system.slice/sshd.service\n"), None);
        assert_eq!(place(""), None);
    }

    proptest! {
        #[test]
        fn any_text(text in "(.|\n|/pod|kubepods-pod|[0-9a-f_-]|\\.slice|:){0,80}") {
            if let Some(place) = place(&text) {
                prop_assert!(is_uid(&place.pod));
            }
        }
    }
}
