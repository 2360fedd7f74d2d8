# apt with directories of its own: the machine's sources, lists and packages stay as they are. Sourced.
for tool in apt-get dpkg; do
    command -v "$tool" >/dev/null || { echo "${0##*/}: no $tool here" >&2; exit 1; }
done

# mirror_of SUITE...: the first mirror of such a suite that the machine itself uses.
mirror_of() {
    apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
        awk -v suites=" $* " 'index(suites, " " $2 " ") && $3 == "main" && !uri { uri = $1 } END { print uri }'
}

# apt_aside DIR SOURCE...: reads the lists of sources (`mirror suite component`) into DIR. `in_aside apt-cache …` and
# `fetch_aside …`, which is apt-get, then see no others, and nothing as installed.
aside=()
again=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/again
apt_aside() {
    local dir=$1 key=/usr/share/keyrings/debian-archive-keyring.gpg source
    [ -r "$key" ] || { echo "${0##*/}: $key is missing (package debian-archive-keyring)" >&2; exit 1; }
    shift
    # apt reads archives as the user _apt, who must be able to walk in.
    chmod 755 "$dir"
    mkdir -p "$dir"/{lists/partial,cache/archives/partial,deb}
    : >"$dir/sources.list"
    for source in "$@"; do echo "deb [signed-by=$key] $source" >>"$dir/sources.list"; done
    : >"$dir/status"
    aside+=(-o "Dir::Etc::SourceList=$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null
        -o "Dir::State::Lists=$dir/lists" -o "Dir::State::Status=$dir/status"
        -o "Dir::Cache=$dir/cache" -o APT::Sandbox::User=root
        -o Acquire::Languages=none -o Acquire::Retries=3)
    fetch_aside -o APT::Update::Error-Mode=any update
}

in_aside() { local program=$1; shift; "$program" "${aside[@]}" "$@"; }
fetch_aside() { "$again" apt-get "${aside[@]}" -qq "$@"; }
