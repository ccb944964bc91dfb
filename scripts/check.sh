#!/usr/bin/env bash
# Runs the checks and tests in stages, and prints the time of each stage. Cheap checks run first,
# and their first failure ends the run. Test stages run concurrently: all of them finish, and each
# prints its output when it ends.
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
# A stage that skips something appends a line to the first file. Tests that failed and then passed
# alone are listed in the second.
export NOCTULE_NOT_RUN=$scratch/not-run NOCTULE_FLAKY=$scratch/flaky
declare -A running=()
# The kernels to boot, the kernels that were booted, and whether to test the laboratory.
KERNELS=() KERNELS_RUN='' LAB=''

clean_up() {
    local pid
    # Each stage is a process group.
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

# Starts a stage in the background.
beside() {
    local name=$1
    # With job control the stage gets its own process group, which clean_up signals.
    set -m
    stage "$@" >"$scratch/$name" 2>&1 </dev/null &
    set +m
    running[$!]=$name
}

# Waits for all background stages, and prints the output of each when it ends.
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

# Runs a command that may run at the same time as tests that share the machine. Tests that need the
# machine alone wait for the command, because they lock the same directory
# (tests/support/machine.rs).
sharing() { ( flock --shared 9 && "$@" ) 9</tmp; }

lint() {
    stage 'format of Rust' cargo fmt --all --check
    stage 'format of the laboratory' cargo fmt --all --check --manifest-path lab/Cargo.toml
    stage 'format of BPF C' scripts/bpf-format.sh --check
    stage clippy cargo clippy --workspace --all-targets --locked -- -D warnings
    stage tidy cargo xtask tidy
    stage 'generated files' cargo xtask gen --check
    stage 'tests and types of the page' scripts/page.sh
    stage 'chart and notes of a release' scripts/release.sh --check
}

tests_of_the_libraries() {
    # The tests of the binary crate get the features of the whole workspace, with which it was
    # built.
    cargo test --workspace --exclude noctule --locked && cargo test --workspace --bin noctule --locked
}

# Checks and tests the laboratory, which is a separate workspace. Then runs a minute of process
# churn, during which no resource of the agent may grow and nothing may be lost.
laboratory() {
    local in_lab=(--manifest-path lab/Cargo.toml) target=${CARGO_TARGET_DIR:-target}/debug
    cargo clippy --workspace --all-targets --locked "${in_lab[@]}" -- -D warnings
    cargo test --workspace --locked "${in_lab[@]}"
    local soak=("${CARGO_TARGET_DIR:-lab/target}/debug/noctule-lab" soak --short --binary "$target/noctule")
    if [ "$(id -u)" = 0 ]; then "${soak[@]}"; else sudo "${soak[@]}"; fi
}

# The kernels come from Debian. apt fetches them into the user's cache, which does not need root.
has_other_kernels() {
    local keys=(/usr/share/keyrings/debian-archive-keyring.*)
    command -v apt-get >/dev/null && [ -e "${keys[0]}" ]
}

# Fetches and builds the files for the virtual machines, at idle priority. The tests of the binary
# wait for much of their time, during which the CPU is idle.
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

# `make test` boots the newest kernel and one other kernel: the one in KERNEL, or otherwise one that
# changes daily.
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
    # The tests on 5.10 take the least time, which leaves time for the laboratory.
    [ "$other" != 5.10 ] || LAB=yes
}

everything() {
    stage dependencies scripts/deps.sh test
    # Cargo builds the tests of the binary as the user, and sudo runs them as root. sudo asks for
    # the password here, at the start of the run.
    [ "$(id -u)" = 0 ] || stage 'rights of root' sudo --validate
    lint
    stage 'programs of the tests' cargo test --workspace --locked --no-run
    beside 'tests of the binary' cargo xtask blackbox
    [ -z "$LAB" ] || beside laboratory sharing laboratory
    beside documentation sharing \
        env RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps --locked
    beside 'tests of the libraries' sharing tests_of_the_libraries
    beside 'programs of others' sharing scripts/readers.sh "${CARGO_TARGET_DIR:-target}/debug/noctule"
    beside 'chart under Helm' scripts/chart.sh
    beside 'kernels and programs of the machines' sharing prepare_other_kernels
    await_all
    # Not in the background: two virtual machines occupy both CPUs of a small host, and other tests
    # would be too slow.
    stage 'tests on other kernels' other_kernels
}

# Checks and tests that need neither root nor a particular kernel.
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
    KERNELS=("${ALL_KERNELS[@]}") LAB=yes
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
# Prints a title and the lines of a file, if it has any.
remark() { [ ! -s "$2" ] || printf '; %s: %s' "$1" "$(paste -sd ';' "$2" | sed 's/;/; /g')"; }
printf '\nall passed in %s%s%s%s\n' "$(seconds_since "$began")" \
    "${KERNELS_RUN:+; kernels: $KERNELS_RUN}" "$(remark flaky "$NOCTULE_FLAKY")" "$(remark 'not run' "$NOCTULE_NOT_RUN")"
