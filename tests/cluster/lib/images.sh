# Images without a registry. Uses $D, $CLUSTER_DIR.

# image_of BINARY TAG OUT: one static binary, its name the entrypoint.
image_of() {
    local work layer name
    name=$(basename "$1")
    work=$(mktemp -d "$D/image.XXXXXX") || return 1
    mkdir "$work/root" && install -m 0755 "$1" "$work/root/$name"
    tar --format=ustar --mtime=@0 --owner=0 --group=0 -C "$work/root" -cf "$work/layer.tar" "$name" || return 1
    layer=$(sha256sum "$work/layer.tar" | cut -d ' ' -f 1)
    printf '{"architecture":"amd64","os":"linux","config":{"Entrypoint":["/%s"]},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
        "$name" "$layer" >"$work/config.json"
    printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$2" >"$work/manifest.json"
    tar -C "$work" -cf "$3" manifest.json config.json layer.tar || return 1
    rm -rf "$work"
}

build_podtool() {
    quietly gcc -Os -static -Wall -Wextra -Werror -o "$D/podtool" "$CLUSTER_DIR/tools/podtool.c" ||
        die "tools/podtool.c does not compile"
    image_of "$D/podtool" pause:test "$D/podtool.tar" || die "no image of podtool"
}

import_image() { # TAR
    quietly node_ctr images import "$1" || die "containerd does not take $1"
}
