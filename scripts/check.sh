#!/usr/bin/env bash
# Runs the checks and the tests stage by stage, with the time of each. Cheap checks come first, and the
# first that fails ends the run. The tests run beside each other: each stage is shown whole when it has
# ended, and all come to their end.
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
# A stage that leaves something out adds a line to the first; tests that failed and passed when they ran
# again alone are lines of the second.
export NOCTULE_NOT_RUN=$scratch/not-run NOCTULE_FLAKY=$scratch/flaky
declare -A running=()
# The kernels to boot, those that were booted, and whether the soak runs.
KERNELS=() KERNELS_RUN='' SOAK=''

clean_up() {
    local pid
    # Each is a process group.
    for pid in "${!running[@]}"; do kill -TERM -- "-$pid" 2>/dev/null || true; done
    rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

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

# Begins a stage that runs beside those that follow.
beside() {
    local name=$1
    # With job control it is a process group, and hears when somebody interrupts.
    set -m
    stage "$@" >"$scratch/$name" 2>&1 </dev/null &
    set +m
    running[$!]=$name
}

# Waits for every stage that runs, and shows each when it has ended.
await_all() {
    local pid status failed=()
    printf '\n== beside each other, each shown when it has ended (until then in %s):' "$scratch"
    printf '\n==     %s' "${running[@]}"
    printf '\n'
    while [ "${#running[@]}" -gt 0 ]; do
        status=0
        wait -n -p pid "${!running[@]}" || status=$?
        cat "$scratch/${running[$pid]}"
        [ "$status" = 0 ] || failed+=("${running[$pid]}")
        unset "running[$pid]"
    done
    [ "${#failed[@]}" = 0 ] || {
        printf '\n== FAILED: %s\n' "${failed[@]}"
        exit 1
    }
}

# Runs beside tests that share the machine; those that need it alone wait until it has ended. The
# folder is what they lock (tests/support/machine.rs).
sharing() { ( flock --shared 9 && "$@" ) 9</tmp; }

lint() {
    stage 'format of Rust' cargo fmt --all --check
    stage 'format of BPF C' scripts/bpf-format.sh --check
    stage clippy cargo clippy --workspace --all-targets --locked -- -D warnings
    stage tidy cargo xtask tidy
    stage 'generated files' cargo xtask gen --check
    stage 'tests and types of the page' scripts/page.sh
}

tests_of_the_libraries() {
    # What is in the binary comes with the features of the whole workspace, as it was built.
    cargo test --workspace --exclude noctule --locked && cargo test --workspace --bin noctule --locked
}

# A minute of churn: nothing that the agent holds may grow, and nothing may be lost.
a_minute_of_soak() {
    local target=${CARGO_TARGET_DIR:-target}/debug
    local soak=("$target/xtask" soak --short --binary "$target/noctule")
    if [ "$(id -u)" = 0 ]; then "${soak[@]}"; else sudo "${soak[@]}"; fi
}

# The kernels are Debian's, fetched by apt into the cache of the user: nothing of it needs root.
has_other_kernels() {
    local keys=(/usr/share/keyrings/debian-archive-keyring.*)
    command -v apt-get >/dev/null && [ -e "${keys[0]}" ]
}

# What the machines need is fetched and built in the time that the tests leave: those of the binary wait a good
# part of theirs.
prepare_other_kernels() { ! has_other_kernels || chrt --idle 0 cargo xtask vm --prepare "${KERNELS[@]/#/--kernel=}"; }

other_kernels() {
    if ! has_other_kernels; then
        echo 'not run: the kernels come by apt-get, with the keys of debian-archive-keyring'
        echo 'the tests on other kernels (no apt-get, or no debian-archive-keyring)' >>"$NOCTULE_NOT_RUN"
        return
    fi
    cargo xtask vm --machines 2 --usual-tests "${KERNELS[@]/#/--kernel=}"
    KERNELS_RUN=${KERNELS[*]}
}

# `make test` boots the newest kernel and one of the others: the one that KERNEL names, else that of the day.
IN_ROTATION=(5.10 6.1 6.12 6.12-arm64)
ALL_KERNELS=("${IN_ROTATION[@]}" newest)

choose_kernels() {
    local other=${KERNEL:-${IN_ROTATION[$(date +%s) / 86400 % ${#IN_ROTATION[@]}]}}
    if [[ " ${ALL_KERNELS[*]} " != *" $other "* ]]; then
        echo "KERNEL=$other: no such kernel; there are ${ALL_KERNELS[*]}" >&2
        exit 2
    fi
    KERNELS=("$other")
    [ "$other" = newest ] || KERNELS+=(newest)
    # The machine of 5.10 is the quickest: its turn has the time for the soak.
    [ "$other" != 5.10 ] || SOAK=yes
}

everything() {
    stage dependencies scripts/deps.sh test
    # The tests of the binary are built as the user and run as root; asked for here, where somebody
    # can answer.
    [ "$(id -u)" = 0 ] || stage 'rights of root' sudo --validate
    lint
    stage 'programs of the tests' cargo test --workspace --locked --no-run
    beside 'tests of the binary' cargo xtask blackbox
    [ -z "$SOAK" ] || beside 'a minute of soak' sharing a_minute_of_soak
    beside documentation sharing \
        env RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --locked
    beside 'tests of the libraries' sharing tests_of_the_libraries
    beside 'programs of others' sharing scripts/readers.sh "${CARGO_TARGET_DIR:-target}/debug/noctule"
    beside 'kernels and programs of the machines' sharing prepare_other_kernels
    await_all
    # Two machines take both CPUs of a small host, where tests are too slow beside them.
    stage 'tests on other kernels' other_kernels
}

# What needs neither root nor a particular kernel.
quick() {
    lint
    stage 'tests of the libraries' tests_of_the_libraries
}

began=$EPOCHREALTIME
case ${1:-} in
lint) lint ;;
quick) quick ;;
test)
    choose_kernels
    everything
    ;;
all)
    KERNELS=("${ALL_KERNELS[@]}") SOAK=yes
    everything
    ;;
kernels)
    KERNELS=("${ALL_KERNELS[@]}")
    scripts/deps.sh test
    stage 'tests on other kernels' other_kernels
    ;;
*)
    echo 'usage: scripts/check.sh lint | quick | test | all | kernels' >&2
    exit 2
    ;;
esac
# A title, and the lines of a file.
remark() { [ ! -s "$2" ] || printf '; %s: %s' "$1" "$(paste -sd ';' "$2" | sed 's/;/; /g')"; }
printf '\nall passed in %s%s%s%s\n' "$(seconds_since "$began")" \
    "${KERNELS_RUN:+; kernels: $KERNELS_RUN}" "$(remark flaky "$NOCTULE_FLAKY")" "$(remark 'not run' "$NOCTULE_NOT_RUN")"
