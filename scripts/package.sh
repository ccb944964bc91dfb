#!/usr/bin/env bash
# Builds packages of the static binary: `package.sh deb`, `package.sh rpm`, `package.sh image`, or
# several. TARGET selects another architecture, as for static.sh. The packages are in dist/, those of
# another architecture in dist/TARGET/. Two runs on the same commit produce equal files, because all
# timestamps are the time of the commit.
set -euo pipefail
cd "$(dirname "$0")/.."

SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.lock)}
export SOURCE_DATE_EPOCH
umask 022

host=$(rustc -vV | sed -n 's/^host: //p')
target=${TARGET:-$host}
# Where static.sh writes the binary, and what runs it here.
dist=dist
run=()
if [ "$target" != "$host" ]; then
    dist=dist/$target
    run=("qemu-${target%%-*}")
fi

say() { printf 'package: %s\n' "$*" >&2; }
has() { command -v "$1" >/dev/null 2>&1; }
version() { sed -n '/^\[workspace.package\]/,/^\[/ s/^version = "\(.*\)"/\1/p' Cargo.toml; }

# Runs the binary to generate the other files of a package: manual pages, completions, the unit.
share() {
    rm -rf dist/share
    mkdir -p dist/share/man dist/share/completions
    cp "$dist/noctule" dist/share/
    "${run[@]}" "$dist/noctule" man dist/share/man
    "${run[@]}" "$dist/noctule" completions bash >dist/share/completions/noctule.bash
    "${run[@]}" "$dist/noctule" completions zsh >dist/share/completions/_noctule
    "${run[@]}" "$dist/noctule" completions fish >dist/share/completions/noctule.fish
    gzip --best --no-name dist/share/man/*.1
    sed 's|/usr/local/bin|/usr/bin|' deploy/noctule.service >dist/share/noctule.service
    find dist/share -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

# Installs a cargo tool for the user if it is missing.
tool() {
    has "$1" || {
        say "installing $1 $2"
        cargo install --locked --version "$2" "$1"
    }
}

deb() {
    tool cargo-deb 3.8.0
    cargo deb --no-build --no-strip --package noctule --target "$target" --output "$dist/"
}

rpm() {
    tool cargo-generate-rpm 0.21.1
    cargo generate-rpm --package crates/noctule --arch "${target%%-*}" --output "$dist/" \
        --source-date "$SOURCE_DATE_EPOCH"
}

# Builds an OCI image with only the binary and its configuration: the layout noctule-image, and
# a single file for `podman load` or `skopeo copy oci-archive:`.
image() {
    has umoci || {
        say 'no umoci, which writes OCI images: install it (Debian: apt install umoci)'
        exit 1
    }
    local layout=$dist/noctule-image name=ghcr.io/noctule/noctule tag created
    tag=$(version)
    root=$(mktemp -d)
    trap 'rm -rf "$root" "$root.tar"' EXIT
    install -D -m 755 "$dist/noctule" "$root/usr/bin/noctule"
    install -D -m 644 deploy/noctule.toml "$root/etc/noctule/noctule.toml"
    install -D -m 644 LICENSE-APACHE "$root/usr/share/doc/noctule/LICENSE-APACHE"

    created=$(date --utc --date "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
    tar --create --file "$root.tar" --directory "$root" --sort=name --format=posix \
        --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime \
        --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner etc usr
    rm -rf "$layout"
    umoci init --layout "$layout"
    umoci new --image "$layout:$tag"
    umoci raw add-layer --image "$layout:$tag" --history.created "$created" \
        --history.created_by 'scripts/package.sh image' "$root.tar"
    umoci config --image "$layout:$tag" --no-history --created "$created" --os linux \
        --architecture "$(goarch)" \
        --config.entrypoint /usr/bin/noctule --config.cmd run --config.cmd --config \
        --config.cmd /etc/noctule/noctule.toml --config.exposedports 9470/tcp \
        --config.label org.opencontainers.image.title=noctule \
        --config.label "org.opencontainers.image.version=$tag" \
        --config.label org.opencontainers.image.licenses=Apache-2.0 \
        --config.label org.opencontainers.image.source=https://github.com/noctule/noctule
    umoci gc --layout "$layout"
    # `docker load` and `podman load` give the image this name.
    sed -i "s|\"org.opencontainers.image.ref.name\":\"$tag\"|&,\"io.containerd.image.name\":\"$name:$tag\"|" \
        "$layout/index.json"
    grep -q io.containerd.image.name "$layout/index.json"
    tar --create --file "$dist/noctule-$tag-$(goarch).oci.tar" --directory "$layout" --sort=name \
        --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner .
    say "$dist/noctule-$tag-$(goarch).oci.tar"
}

# Prints the architecture's name in OCI images.
goarch() {
    case ${target%%-*} in
    x86_64) echo amd64 ;;
    aarch64) echo arm64 ;;
    *) echo "${target%%-*}" ;;
    esac
}

usage() {
    echo 'usage: scripts/package.sh deb | rpm | image ...' >&2
    exit 2
}

[ $# -gt 0 ] || usage
for kind; do
    case $kind in deb | rpm | image) ;; *) usage ;; esac
done
scripts/static.sh
share
for kind; do "$kind"; done
