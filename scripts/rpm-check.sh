#!/usr/bin/env bash
# Tests an RPM package of noctule in a separate root directory: rpm installs, verifies, upgrades and
# erases it. Each step is checked, and nothing may be left at the end. The root contains a shell,
# and instead of systemd a helper that records the package's requests. Needs root, rpm (Debian: apt
# install rpm) and the output of `make rpm`, from which the newer packages are built.
# Usage: scripts/rpm-check.sh dist/noctule-VERSION.ARCH.rpm
set -euo pipefail
[ $# = 1 ] || { echo "usage: $0 PACKAGE.rpm" >&2; exit 2; }
package=$(realpath "$1")
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
root=$scratch/root
config=$root/etc/noctule/noctule.toml
trap 'rm -rf --one-file-system "$scratch"' EXIT
trap 'exit 130' INT TERM

fail() {
    printf 'rpm-check: FAILED: %s\n' "$*" >&2
    exit 1
}
step() { printf 'rpm-check: %s\n' "$*"; }
must_be() { [ "$2" = "$3" ] || fail "$1: '$2', not '$3'"; }
in_root() { rpm --root "$root" --dbpath /var/lib/rpm "$@"; }
# No package provides the shell in this root, hence --nodeps.
change() { in_root --nodeps "$@" 2>"$scratch/said" || fail "rpm $*: $(cat "$scratch/said")"; }

require() {
    local program
    [ "$(id -u)" = 0 ] || fail 'it needs root'
    for program in rpm cargo-generate-rpm; do
        command -v "$program" >/dev/null || fail "no $program"
    done
}

# Creates the root: a shell and `rmdir` with their libraries, the usual directories, and the helper.
make_root() {
    local file helper=$root/usr/lib/systemd/systemd-update-helper
    mkdir -p "$root"/{etc,var/lib/rpm,var/tmp,tmp,dev,usr/bin,usr/lib/systemd/system}
    mkdir -p "$root"/usr/share/{man/man1,doc,licenses,bash-completion/completions,zsh/site-functions}
    mkdir -p "$root/usr/share/fish/vendor_completions.d"
    for file in /bin/sh /bin/rmdir $(ldd /bin/sh /bin/rmdir | grep -o '/[^ :]*\.so[^ ]*' | sort -u); do
        install -D "$(realpath "$file")" "$root$file"
    done
    mknod -m 666 "$root/dev/null" c 1 3
    printf '#!/bin/sh\necho "$*" >>/asked\n' >"$helper"
    chmod 755 "$helper"
    in_root --initdb
}

# Prints the package's requests to systemd since the last call.
asked() {
    cat "$root/asked" 2>/dev/null || true
    rm -f "$root/asked"
}

# Lists all paths except those of rpm itself.
paths() { (cd "$root" && find . -path ./var/lib/rpm -prune -o -print | sort); }

# Builds a newer version of the package. If a line is given, it is added to the shipped
# configuration.
newer_package() {
    local version=$1 line=${2:-} tree=$scratch/tree
    mkdir "$tree"
    cp -r Cargo.toml Cargo.lock README.md LICENSE.md LICENSES dist deploy docs "$tree"
    mkdir -p "$tree/crates/noctule/src"
    cp crates/noctule/Cargo.toml "$tree/crates/noctule"
    touch "$tree/crates/noctule/src/main.rs"
    [ -z "$line" ] || echo "$line" >>"$tree/deploy/noctule.toml"
    (cd "$tree" && cargo generate-rpm --package crates/noctule --output "$scratch/$version.rpm" \
        --set-metadata "version = \"$version\"")
    rm -r "$tree"
}

installs() {
    step "rpm -i of $(basename "$package")"
    change -i "$package"
    must_be 'asked of systemd' "$(asked)" 'install-system-units noctule.service'
    must_be 'rpm -V' "$(in_root -V --nodeps noctule)" ''
    must_be 'configuration files' "$(in_root -qc noctule)" /etc/noctule/noctule.toml
    [ -x "$root/usr/bin/noctule" ] || fail 'no binary'
    grep -q '^ExecStart=/usr/bin/noctule ' "$root/usr/lib/systemd/system/noctule.service" || fail 'another binary in the unit'
    must_be 'what it needs' "$(rpm -qp --requires "$package" | grep -v -e '^rpmlib(' -e '^config(' -e '^/bin/sh')" ''
}

# An upgrade restarts the service. It keeps the administrator's configuration, even if the
# configuration in the package changed.
upgrades() {
    step 'upgrade with a configuration that was changed'
    sed -i 's/^#interval_seconds = 1.0/interval_seconds = 2.0/' "$config"
    cp "$config" "$scratch/mine"
    ! cmp -s "$config" deploy/noctule.toml || fail 'the configuration was not changed'
    newer_package 99.1
    change -U "$scratch/99.1.rpm"
    must_be 'asked of systemd' "$(asked)" 'mark-restart-system-units noctule.service'
    cmp -s "$config" "$scratch/mine" || fail 'the upgrade changed the configuration'
    [ ! -e "$config.rpmnew" ] || fail 'a configuration that is not new is beside it'

    newer_package 99.2 '# a new option'
    change -U "$scratch/99.2.rpm"
    cmp -s "$config" "$scratch/mine" || fail 'the second upgrade changed the configuration'
    grep -q 'a new option' "$config.rpmnew" || fail "the new configuration is not beside it: $(cat "$scratch/said")"
    asked >/dev/null
}

erases() {
    step 'erase'
    change -e noctule
    must_be 'asked of systemd' "$(asked)" 'remove-system-units noctule.service'
    # rpm keeps a changed configuration with the suffix .rpmsave.
    cmp -s "$config.rpmsave" "$scratch/mine" || fail "it took a changed configuration away: $(cat "$scratch/said")"
    rm -f "$config.rpmsave" "$config.rpmnew"
    rmdir "$root/etc/noctule" || fail 'more in /etc/noctule'

    step 'install and erase without a change'
    change -i "$package"
    change -e noctule
    asked >/dev/null
    paths >"$scratch/after"
    diff "$scratch/before" "$scratch/after" >"$scratch/left" || fail "left behind: $(cat "$scratch/left")"
}

require
make_root
paths >"$scratch/before"
installs
upgrades
erases
step 'installed, verified, upgraded and erased; nothing is left'
