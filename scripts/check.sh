#!/usr/bin/env bash
# Every check and, with `test`, every test: stage by stage, with the time of each. The first that
# fails ends it. What is cheap comes first, the tests last.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds_since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f s", b - a }'; }

stage() {
    local name=$1 began=$EPOCHREALTIME status=0
    shift
    printf '\n== %s\n' "$name"
    "$@" || status=$?
    if [ "$status" != 0 ]; then
        printf '== %s: FAILED (status %s) after %s\n' "$name" "$status" "$(seconds_since "$began")"
        exit "$status"
    fi
    printf '== %s: %s\n' "$name" "$(seconds_since "$began")"
}

lint() {
    stage 'format of Rust' cargo fmt --all --check
    stage 'format of BPF C' scripts/bpf-format.sh --check
    stage clippy cargo clippy --workspace --all-targets --locked -- -D warnings
    stage tidy cargo xtask tidy
    stage 'generated files' cargo xtask gen --check
}

# The tests of the binary load BPF programs. Built as the user, run as root; one at a time, for the
# figures of one would show in another.
tests_of_the_binary() {
    if [ "$(id -u)" != 0 ]; then
        local host
        host=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
        local -x "CARGO_TARGET_${host}_RUNNER=sudo -E"
        echo 'they run as root, through sudo'
    fi
    cargo test --package noctule --locked -- --test-threads=1
}

# The kernels are Debian's, fetched by apt into the cache of the user: nothing of it needs root.
other_kernels() {
    local keys=(/usr/share/keyrings/debian-archive-keyring.*)
    if ! command -v apt-get >/dev/null || [ ! -e "${keys[0]}" ]; then
        echo 'not run: the kernels come by apt-get, with the keys of debian-archive-keyring'
        not_run=', but the tests on other kernels were NOT RUN'
        return
    fi
    cargo xtask vm --machines 2 -- "${ON_OTHER_KERNELS[@]}"
}

# With those of the environment, which load everything on each kernel: what depends most on the
# kernel, and takes seconds.
ON_OTHER_KERNELS=(
    accounting::moves::a_process accounting::moves::a_running hardware
    events::processes::cpu_time events::oom events::listen events::connect
    events::files::o events::files::reads events::scenarios::the_whole
    rights::memory_that types::page lockdown
)

everything() {
    stage dependencies scripts/deps.sh test
    lint
    stage documentation env RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --locked
    stage 'tests of the libraries' cargo test --workspace --exclude noctule --locked
    stage 'tests of the binary' tests_of_the_binary
    stage 'tests on other kernels' other_kernels
}

began=$EPOCHREALTIME not_run=
case ${1:-} in
lint) lint ;;
test) everything ;;
*)
    echo 'usage: scripts/check.sh lint | test' >&2
    exit 2
    ;;
esac
printf '\nall passed in %s%s\n' "$(seconds_since "$began")" "$not_run"
