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

/// UID of the pod behind `/proc/[pid]/cgroup` (cgroups(7)), with dashes; of a static pod, its hash.
/// `id:controllers:path` a line, one line with cgroup v2. The first line that names a pod counts: with
/// v1, controllers that the kubelet does not manage stay at the root. The outermost pod in a path: a
/// cluster in a pod has pods of its own further in.
pub fn pod_of(text: &str) -> Option<String> {
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let mut parts = paths.flat_map(|path| path.split('/'));
    parts.find_map(|part| pod_uid(part.split(':').next()?))
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
                Some(UID),
            ),
            (
                "/kubepods.slice/kubepods-podUID_.slice/cri-containerd-ID.scope",
                Some(UID),
            ),
            (
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podUID_.slice/crio-ID.scope",
                Some(UID),
            ),
            (
                "/kubepods.slice/kubepods-podUID_.slice/crio-ID.scope/container",
                Some(UID),
            ),
            (
                "/kubepods.slice/kubepods-podUID_.slice/crio-conmon-ID.scope",
                Some(UID),
            ),
            (
                "/kubepods.slice/kubepods-podUID_.slice/docker-ID.scope",
                Some(UID),
            ),
            ("/kubepods.slice/kubepods-podUID_.slice", Some(UID)),
            // kind.
            (
                "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-podUID_.slice/cri-containerd-ID.scope",
                Some(UID),
            ),
            // cgroupfs.
            ("/kubepods/burstable/podUID/ID", Some(UID)),
            ("/kubepods/podUID/ID/init.scope", Some(UID)),
            ("/kubepods/besteffort/podUID/crio-ID", Some(UID)),
            ("/docker/ID/kubelet/kubepods/podUID/ID", Some(UID)),
            // The runtime does not speak systemd.
            (
                "/system.slice/containerd.service/kubepods-burstable-podUID_.slice:cri-containerd:ID",
                Some(UID),
            ),
            // From within a cgroup namespace.
            (
                "/../../kubepods-burstable-podUID_.slice/cri-containerd-ID.scope",
                Some(UID),
            ),
            ("/../../podUID/ID", Some(UID)),
            // A static pod.
            ("/kubepods/burstable/podHASH/ID", Some(hash)),
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podHASH.slice/ID",
                Some(hash),
            ),
            // A cluster in a pod: the outer one is this node's.
            (
                "/kubepods/podUID/ID/kubepods/podffffffff-1111-2222-3333-444455556666/ID",
                Some(UID),
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
            let got = pod_of(&format!("0::{path}\n"));
            assert_eq!(got.as_deref(), want, "{path}");
        }
    }

    #[test]
    fn several_hierarchies() {
        let text = format!(
            "12:rdma:/\n11:cpu,cpuacct:/kubepods/burstable/pod{UID}/{ID}\n1:name=systemd:/x\n0::/\n"
        );
        assert_eq!(pod_of(&text).unwrap(), UID);
        assert_eq!(pod_of("12:rdma:/\n0::/system.slice/sshd.service\n"), None);
        assert_eq!(pod_of(""), None);
    }

    proptest! {
        #[test]
        fn any_text(text in "(.|\n|/pod|kubepods-pod|[0-9a-f_-]|\\.slice|:){0,80}") {
            if let Some(pod) = pod_of(&text) {
                prop_assert!(is_uid(&pod));
            }
        }
    }
}
