#!/usr/bin/env bash
# Installs missing dependencies of the build; with `test` or `bench` also the dependencies of the
# tests or the benchmarks. Uses apt on Debian and Ubuntu. On other distributions it prints what to
# install. If nothing is missing, it does nothing and needs no network.
set -euo pipefail

say() { printf 'deps: %s\n' "$*" >&2; }
has() { command -v "$1" >/dev/null 2>&1; }
# Administration tools are in directories that may be missing from a user's PATH.
has_tool() { PATH=$PATH:/usr/sbin:/sbin has "$1"; }
# A dynamically linked program would not run in an empty root file system.
is_static() {
    local program
    program=$(command -v "$1") && ! ldd "$program" >/dev/null 2>&1
}
has_header() { printf '#include <%s>\n' "$1" | cc -E -x c - >/dev/null 2>&1; }

# Each line prints the name of a Debian package, unless the package's contents are present.
missing_for_build() {
    has clang || echo clang
    has pkg-config || echo pkg-config
    has_header libelf.h || echo libelf-dev
    has_header zlib.h || echo zlib1g-dev
}

# `git` lists the files for `cargo xtask tidy`. The tests communicate with the other tools, or
# compare noctule with them.
missing_for_tests() {
    has git || echo git
    has runc || echo runc
    is_static busybox || echo busybox-static
    has promtool || echo prometheus
    has victoria-metrics || echo victoria-metrics
    has perf || echo linux-perf
    has tmux || echo tmux
    has chromium || echo chromium
    has chromedriver || echo chromium-driver
    has npm || echo npm
    has ip || echo iproute2
    has systemd-analyze || echo systemd
    has_tool tcpdump || echo tcpdump
    has dig || echo bind9-dnsutils
    "$(dirname "$0")/bpf-format.sh" --find >/dev/null || echo clang-format
}

# Tools and servers that the benchmarks measure for comparison. If one is missing, its figures are
# left out.
missing_for_bench() {
    has_tool execsnoop || echo libbpf-tools
    has bpftrace || echo bpftrace
    has perf || echo linux-perf
    has redis-server && has redis-benchmark || echo redis-server
    has_tool nginx || echo nginx
    has ab || echo apache2-utils
    has ip || echo iproute2
}

# For `cargo xtask vm`, which fetches the emulator and the kernels into the user's cache. Tests in
# the virtual machine use the tools that are installed here.
missing_for_machines() {
    # Without apt no kernels are fetched, and the keys are not needed.
    if has apt-get && ! compgen -G '/usr/share/keyrings/debian-archive-keyring.*' >/dev/null; then
        echo debian-archive-keyring
    fi
    has_tool mke2fs || echo e2fsprogs
    has_tool depmod || echo kmod
    has setpriv || echo util-linux
    has xz || echo xz-utils
    has zstd || echo zstd
}

# Checks the Rust toolchain. The script does not install it, because users choose how to do so.
check_toolchain() {
    local good=yes
    if ! has cargo; then
        say 'no cargo: install Rust, for example with rustup'
        good=no
    fi
    if ! has cc; then
        say 'no C compiler (cc), which rustc links with: install gcc'
        good=no
    fi
    if ! has make; then
        say 'no make, which builds libbpf: install make'
        good=no
    fi
    if [ "$1" = test ] && has cargo; then
        for component in fmt clippy; do
            if ! cargo "$component" --version >/dev/null 2>&1; then
                say "no cargo $component: rustup component add ${component/#fmt/rustfmt}"
                good=no
            fi
        done
    fi
    [ "$good" = yes ]
}

# Prints how to install the build dependencies on another distribution.
explain() {
    local like=' '
    # shellcheck disable=SC1091
    [ -r /etc/os-release ] && like=" $(. /etc/os-release && echo "${ID:-} ${ID_LIKE:-}") "
    say "missing here (by Debian's names): $*"
    case $like in
    *' fedora '* | *' rhel '*)
        say 'dnf install clang elfutils-libelf-devel zlib-devel pkgconf-pkg-config gcc make' ;;
    *' arch '*)
        say 'pacman -S clang libelf zlib pkgconf gcc make' ;;
    *' alpine '*)
        say 'apk add clang elfutils-dev zlib-dev pkgconf linux-headers musl-dev gcc make' ;;
    *)
        say 'install clang, pkg-config and the development files of libelf and zlib' ;;
    esac
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif has sudo; then
        sudo "$@"
    else
        say "not root, and no sudo: run as root: $*"
        exit 1
    fi
}

apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get "$@" </dev/null; }

install_packages() {
    say "installing $*"
    # The update may be necessary, because the package lists can be empty. If one source fails, the
    # others may suffice.
    apt update -q || say 'apt-get update failed; trying all the same'
    apt install -q -y --no-install-recommends "$@"
}

# Packages that would start a server and enable it at boot, although only their programs are needed.
has_service() { case $1 in prometheus | victoria-metrics | redis-server | nginx) ;; *) false ;; esac }

install_without_services() {
    local policy=/usr/sbin/policy-rc.d package
    if [ ! -e "$policy" ]; then
        trap 'as_root rm -f /usr/sbin/policy-rc.d' EXIT
        printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
        as_root chmod 755 "$policy"
    fi
    install_packages "$@"
    for package; do as_root update-rc.d "$package" disable; done
}

what=${1:-build}
check_toolchain "$what"
mapfile -t missing < <(
    missing_for_build
    case $what in
    test)
        missing_for_tests
        missing_for_machines
        ;;
    bench) missing_for_bench ;;
    esac
)
[ "${#missing[@]}" -gt 0 ] || exit 0

if ! has apt-get; then
    explain "${missing[@]}"
    exit 1
fi
services=() others=()
for package in "${missing[@]}"; do
    if has_service "$package"; then services+=("$package"); else others+=("$package"); fi
done
[ "${#others[@]}" = 0 ] || install_packages "${others[@]}"
[ "${#services[@]}" = 0 ] || install_without_services "${services[@]}"
