#!/usr/bin/env bash
# Tests a Debian package of noctule in a separate Debian system, made by debootstrap and booted by
# systemd-nspawn. apt installs, upgrades, removes and purges the package. Each step is checked, and
# nothing may be left at the end. Needs root, debootstrap and systemd-container. Keeps the bare
# system in the user's cache (about 300 MB).
# Usage: scripts/package-check.sh dist/noctule_VERSION_ARCH.deb
set -euo pipefail
[ $# = 1 ] || { echo "usage: $0 PACKAGE.deb" >&2; exit 2; }
package=$(realpath "$1")

suite=bookworm
cache=${XDG_CACHE_HOME:-$HOME/.cache}/noctule/package-check
scratch=$(mktemp -d)
root=$scratch/root
nspawn=
# If nspawn uses the cgroups of this script, the two cgroups below which it creates others: one in
# the v2 hierarchy, and one in systemd's v1 hierarchy.
groups=()

fail() {
    printf 'package-check: FAILED: %s\n' "$*" >&2
    exit 1
}
step() { printf 'package-check: %s\n' "$*"; }

# Stops the container: its systemd ends together with systemd-nspawn.
stop_system() {
    [ -z "$nspawn" ] || { kill -TERM "$nspawn" && wait "$nspawn"; } 2>/dev/null || true
    nspawn=
    # Without a scope, no service manager removes the two cgroups that nspawn leaves in each
    # hierarchy.
    local group
    for group in "${groups[@]}"; do
        find "$group/payload" "$group/supervisor" -depth -type d -exec rmdir {} + 2>/dev/null || true
    done
}
clean_up() {
    stop_system
    rm -rf --one-file-system "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

require() {
    local program
    [ "$(id -u)" = 0 ] || fail 'it needs root'
    for program in debootstrap systemd-nspawn dpkg-deb; do
        command -v "$program" >/dev/null || fail "no $program: apt install debootstrap systemd-container"
    done
}

# Creates the bare system once. The final rename prevents use of an incomplete one.
make_system() {
    local bare=$cache/$suite.tar
    if [ ! -e "$bare" ]; then
        step "debootstrap of $suite"
        mkdir -p "$cache"
        debootstrap --variant=minbase --include=systemd-sysv,dbus,curl "$suite" "$scratch/bare" >"$scratch/log" ||
            fail "debootstrap: $(tail -n 3 "$scratch/log")"
        tar --create --file "$bare.new" --directory "$scratch/bare" .
        mv "$bare.new" "$bare"
        rm -rf --one-file-system "$scratch/bare"
    fi
    mkdir "$root"
    tar --extract --file "$bare" --directory "$root"
}

# Boots the system. The system has its own network, so its port cannot collide with another one. It
# gets the privileges that its service manager needs to start noctule, and that nspawn does not
# grant by default.
start_system() {
    local v1 options=(--quiet --register=no --console=pipe --private-network "--directory=$root"
        --capability=CAP_BPF,CAP_PERFMON,CAP_SYS_RESOURCE '--system-call-filter=bpf perf_event_open'
        --bind=/sys/kernel/tracing)
    # Without systemd on the host, as in some containers, nothing creates a scope.
    if [ ! -d /run/systemd/system ]; then
        options+=(--keep-unit)
        groups=("$(findmnt --noheadings --first-only --types cgroup2 --output TARGET)$(sed -n 's/^0:://p' /proc/self/cgroup)")
        v1=$(findmnt --noheadings --first-only --types cgroup --options name=systemd --output TARGET) || true
        [ -z "$v1" ] || groups+=("$v1$(sed -n 's/^[0-9]*:name=systemd://p' /proc/self/cgroup)")
    fi
    # tracefs is mounted in a private namespace if the host has not mounted it. The container uses
    # cgroup v2, whatever the host uses.
    SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 unshare --mount --propagation private sh -c '
        mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
        exec systemd-nspawn "$@" --boot' sh "${options[@]}" </dev/null >"$scratch/console" 2>&1 &
    nspawn=$!
    await 'systemd in the container' booted
}
booted() {
    local state
    state=$(inside systemctl is-system-running 2>/dev/null) || true
    [ "$state" = running ]
}

# Runs a command in the container.
inside() {
    local leader
    leader=$(pgrep --parent "$nspawn") || return 1
    nsenter --all --target "$leader" "$@"
}
apt_get() {
    inside env DEBIAN_FRONTEND=noninteractive apt-get --yes "$@" </dev/null >"$scratch/log" 2>&1 ||
        fail "apt-get $*: $(cat "$scratch/log")"
}

# Waits up to a minute until a command succeeds.
await() {
    local what=$1 i
    shift
    for ((i = 0; i < 120; i++)); do
        if "$@"; then return; fi
        sleep 0.5
    done
    fail "$what: not after a minute; $(tail -n 5 "$scratch/console"; inside journalctl -u noctule -n 20 || true)"
}

# Builds a newer version of the package. If a line is given, it is added to the shipped
# configuration.
newer_package() {
    local version=$1 line=${2:-} tree=$scratch/tree
    dpkg-deb --raw-extract "$package" "$tree"
    sed -i "s/^Version: .*/Version: $version/" "$tree/DEBIAN/control"
    [ -z "$line" ] || echo "$line" >>"$tree/etc/noctule/noctule.toml"
    dpkg-deb --build -Zgzip -z1 --root-owner-group "$tree" "$root/srv/noctule_$version.deb" >/dev/null
    rm -r "$tree"
}

# Lists all paths except those that apt, dpkg and the journal write for any package.
paths() {
    (cd "$root" && find . -xdev \
        \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./run -o -path ./tmp -o -path ./srv \
        -o -path ./var/lib/apt -o -path ./var/cache/apt -o -path ./var/lib/dpkg -o -path ./var/log/journal \) -prune \
        -o ! -path './var/log/apt*' ! -path './var/log/dpkg.log' ! -path './var/cache/*' -print | sort)
}

show() { inside systemctl show --property "$1" --value noctule; }
metrics() { inside curl --silent --fail "http://127.0.0.1:${1:-9470}/metrics"; }
serves() { metrics "$@" | grep '^noctule_node_cpu_seconds_total' >/dev/null; }
cpu_seconds() { metrics | sed -n 's/^noctule_node_cpu_seconds_total //p'; }
grows() { [ "$(cpu_seconds)" != "$1" ]; }
# Prints each feature with its status. self_cost is left out, because only CAP_SYS_ADMIN enables the
# statistics of BPF programs.
features() { metrics "$@" | grep '^noctule_self_feature' | grep -v '"self_cost"' | sort; }
must_be() { [ "$2" = "$3" ] || fail "$1: $2, not $3"; }

installs() {
    step "apt install of $(basename "$package")"
    cp "$package" "$root/srv/noctule.deb"
    apt_get install /srv/noctule.deb
    must_be 'the unit after the installation' "$(show ActiveState)" inactive
    must_be 'the unit at the next boot' "$(inside systemctl is-enabled noctule || true)" disabled
}

# With its own user and three capabilities, the service has every feature that it has as root.
starts() {
    local pid
    step 'systemctl enable --now'
    inside systemctl enable --quiet --now noctule
    await '/metrics' serves
    pid=$(show MainPID)
    ! inside grep -q '^Uid:.0' "/proc/$pid/status" || fail 'it runs as root'
    inside systemd-run --quiet --unit=as-root noctule run --config /etc/noctule/noctule.toml --listen 127.0.0.1:9999
    await '/metrics of one that is root' serves 9999
    features >"$scratch/features"
    diff "$scratch/features" <(features 9999) || fail 'features that it has as root'
    inside systemctl stop as-root

    await 'CPU time that grows' grows "$(cpu_seconds)"
    [ -n "$(inside journalctl --unit noctule --output cat "_PID=$pid")" ] || fail 'it logged nothing to the journal'
    inside systemd-analyze security --threshold=20 --no-pager noctule >"$scratch/log" ||
        fail "systemd-analyze security: $(tail -n 1 "$scratch/log")"
}

# The service may write to the directory of docs/tape.md, and the recording there can be read.
records() {
    local folder=/var/log/noctule/tape
    step 'a recording'
    cp "$root/etc/noctule/noctule.toml" "$scratch/config"
    sed -i "s|^#folder = \"\"|folder = \"$folder\"|" "$root/etc/noctule/noctule.toml"
    inside systemctl restart noctule
    await 'a batch in the recording' recorded "$folder"
    cp "$scratch/config" "$root/etc/noctule/noctule.toml"
    inside systemctl restart noctule
    await '/metrics after the recording' serves
}
recorded() { inside noctule tape info "$1" >"$scratch/log" 2>&1 && inside noctule stat --from "$1" >"$scratch/log" 2>&1; }

# An upgrade restarts the service. It keeps the administrator's configuration, even if the
# configuration in the package changed.
upgrades() {
    local config=$root/etc/noctule/noctule.toml before
    step 'upgrade with a configuration that was changed'
    sed -i 's/^#interval_seconds = 1.0/interval_seconds = 2.0/' "$config"
    cp "$config" "$scratch/mine"
    before=$(show MainPID)
    newer_package 99.1
    apt_get install /srv/noctule_99.1.deb
    cmp -s "$config" "$scratch/mine" || fail 'the upgrade changed the configuration'
    [ "$(show MainPID)" != "$before" ] || fail 'the upgrade did not restart it'
    await '/metrics after the upgrade' serves

    newer_package 99.2 '# a new option'
    apt_get --option Dpkg::Options::=--force-confold install /srv/noctule_99.2.deb
    cmp -s "$config" "$scratch/mine" || fail 'the second upgrade changed the configuration'
    grep -q 'a new option' "$config.dpkg-dist" || fail 'the new configuration is not beside it'
    await '/metrics after the second upgrade' serves

    step 'upgrade while it is stopped'
    inside systemctl stop noctule
    newer_package 99.3
    apt_get --option Dpkg::Options::=--force-confold install /srv/noctule_99.3.deb
    must_be 'the unit after an upgrade while it was stopped' "$(show ActiveState)" inactive
    inside systemctl start noctule
    await '/metrics after the third upgrade' serves
}

removes() {
    step 'remove'
    apt_get remove noctule
    [ -e "$root/etc/noctule/noctule.toml" ] || fail 'removal took the configuration away'
    [ ! -e "$root/usr/bin/noctule" ] || fail 'removal left the binary'
    ! inside sh -c 'grep -qx noctule /proc/[0-9]*/comm' || fail 'it runs after the removal'

    step 'purge'
    apt_get purge noctule
    # A dynamic user disappears with its service.
    must_be 'users' "$(inside getent passwd noctule || true)$(inside getent group noctule || true)" ''
    must_be 'units' "$(inside systemctl list-units --all --no-legend 'noctule*')" ''
    rm -f "$root"/srv/noctule*.deb
    paths >"$scratch/after"
    diff "$scratch/before" "$scratch/after" >"$scratch/left" || fail "left behind: $(cat "$scratch/left")"
}

require
make_system
start_system
paths >"$scratch/before"
installs
starts
records
upgrades
removes
step 'installed, started, upgraded, removed and purged; nothing is left'
