#!/usr/bin/env bash
# Makes all files of a release in dist/release: for each architecture an archive of the static
# binary, its debug file, a Debian package, an RPM package, an OCI image and an SBOM; the Helm chart,
# the release notes, and checksums. Two runs on one commit produce equal files.
# Usage: scripts/release.sh [--check]   (docs/release.md)
# --check makes only what needs no compiler: the chart and the notes.
set -euo pipefail
cd "$(dirname "$0")/.."

TARGETS=${TARGETS:-x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.lock)}
export SOURCE_DATE_EPOCH
umask 022
version=$(sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' Cargo.toml)
out=dist/release

fail() {
    printf 'release: %s\n' "$*" >&2
    exit 1
}

# Writes a compressed archive of a folder, with equal bytes for equal content.
archive() { # FILE FOLDER NAME
    tar --create --directory "$2" --dereference --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" \
        --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX "$3" | gzip --best --no-name >"$1"
}

check_versions() {
    local key
    for key in version appVersion; do
        grep -qx "$key: $version" deploy/helm/noctule/Chart.yaml ||
            fail "Cargo.toml has $version, but Chart.yaml has another $key"
    done
}

# The section of the changelog for this version; before the release, the section Unreleased.
changes() {
    local heading
    for heading in "$version" Unreleased; do
        if grep -q "^## $heading\b" CHANGELOG.md; then
            awk -v heading="^## $heading" '/^## /{on = $0 ~ heading; next} on' CHANGELOG.md
            return
        fi
    done
    fail "CHANGELOG.md has no section $version"
}

notes() {
    local text last
    text=$(changes)
    [ -n "${text//[[:space:]]/}" ] || fail 'CHANGELOG.md has nothing about this version'
    last=$(git describe --tags --abbrev=0 2>/dev/null || true)
    printf '# noctule %s\n\n%s\n\n' "$version" "$text"
    [ -z "$last" ] || printf 'Commits since %s: %s\n\n' "$last" "$(git rev-list --count "$last..HEAD")"
    cat <<-END
	## Installation

	- Debian: \`apt install ./noctule_$version-1_amd64.deb\`
	- Fedora, RHEL, openSUSE: \`dnf install ./noctule-$version-1.x86_64.rpm\`
	- Docker, Podman: \`docker load\` or \`podman load\` with \`noctule-$version-amd64.oci.tar\`
	- Kubernetes: create the namespace (docs/install.md), then
	  \`helm install noctule ./noctule-chart-$version.tgz --namespace noctule\`
	- Any other Linux: unpack \`noctule-$version-x86_64.tar.gz\`

	For arm64 the files are named \`arm64\` or \`aarch64\`. \`sha256sum -c SHA256SUMS\` checks all files.
	END
}

without_binaries() { # FOLDER
    check_versions
    archive "$1/noctule-chart-$version.tgz" deploy/helm noctule
    notes >"$1/RELEASE-NOTES.md"
    cp CHANGELOG.md "$1/"
}

# An archive for systems without packages. `tar -C / --strip-components=1` installs it.
binary() { # ARCHITECTURE FOLDER
    local stage name=noctule-$version-$1
    stage=$(mktemp -d)
    make --silent install BINARY="$2/noctule" DESTDIR="$stage/$name"
    cp LICENSE.md LICENSE-APACHE "$stage/$name/usr/local/share/doc/noctule/"
    archive "$out/$name.tar.gz" "$stage" "$name"
    rm -rf "$stage"
    cp "$2/noctule.debug" "$out/$name.debug"
}

everything() {
    local target architecture folder host
    host=$(rustc -vV | sed -n 's/^host: //p')
    rm -rf "$out"
    mkdir -p "$out"
    without_binaries "$out"
    for target in $TARGETS; do
        architecture=${target%%-*}
        folder=dist
        # What runs the binary here, for its manual and completions.
        export TARGET=$target RUN=
        [ "$target" = "$host" ] || folder=dist/$target RUN=qemu-$architecture
        rm -f "$folder"/*.deb "$folder"/*.rpm "$folder"/*.oci.tar
        scripts/package.sh deb rpm image
        binary "$architecture" "$folder"
        cp "$folder"/*.deb "$folder"/*.rpm "$folder"/*.oci.tar "$out/"
        cargo xtask sbom --static --target "$target" --output "$out/noctule-$version-$architecture.cdx.json"
    done
    (cd "$out" && sha256sum -- * >../SHA256SUMS && mv ../SHA256SUMS .)
    (cd "$out" && ls -l)
}

# Makes twice what needs no compiler.
check() {
    local scratch file
    scratch=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$scratch'" EXIT
    mkdir "$scratch/first" "$scratch/second"
    without_binaries "$scratch/first"
    without_binaries "$scratch/second"
    diff -r "$scratch/first" "$scratch/second" || fail 'two runs differ'
    tar --extract --gzip --file "$scratch/first/noctule-chart-$version.tgz" --directory "$scratch"
    diff -r "$scratch/noctule" deploy/helm/noctule || fail 'the archive of the chart lacks files'
    # The packages contain every dashboard and all rules.
    for file in deploy/grafana deploy/prometheus deploy/fleet; do
        [ "$(grep -c "\"\(\.\./\.\./\)\?$file/" crates/noctule/Cargo.toml)" -ge 2 ] ||
            fail "$file is not in both packages (crates/noctule/Cargo.toml)"
    done
}

case ${1:-} in
'') everything ;;
--check) check ;;
*)
    echo 'usage: scripts/release.sh [--check]' >&2
    exit 2
    ;;
esac
