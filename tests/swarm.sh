#!/bin/bash
# swarm.sh: runs tests/swarm/*.bats: several engines on this machine, each as a user of its own in a network namespace of its
# own (tests/lib/nodes.bash). Only root makes those. Arguments: [--test NAME] [FILE...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=tests/lib/left-out.bash
. tests/lib/left-out.bash
name=
if [ "${1:-}" = --test ]; then
  name=$2
  shift 2
fi
# Files of failures take longest.
if [ $# = 0 ]; then mapfile -t files < <(ls -r tests/swarm/*.bats) && set -- "${files[@]}"; fi
[ "$(id -u)" = 0 ] || left_out swarm 'only root makes users and network namespaces.'
# shellcheck source=tests/lib/nodes.bash
. tests/lib/nodes.bash

# The tests' jq, and the peer of the tests of published ports.
tests/lib/jq.sh
export PATH="$PWD/.cache/bin:$PATH"
CGO_ENABLED=0 go build -trimpath -buildvcs=false -o .cache/bin/peerd ./tests/peerd

# run_file FILE: runs one file on machines of its own.
run_file() {
  claim_nodes
  tests/lib/file.sh '!chance' "$name" "$1" 8>&-
}
# run_files FILE...: two at a time, since they wait as often as they compute. file.sh prints each in one piece.
run_files() {
  local file bad=0 running=0
  for file in "$@"; do
    if [ $running = 2 ]; then
      wait -n || bad=1
      running=1
    fi
    run_file "$file" &
    running=$((running + 1))
  done
  while [ $running -gt 0 ]; do
    wait -n || bad=1
    running=$((running - 1))
  done
  return $bad
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-600} # for a test that hangs
run_files "$@" | tee "$log" || status=1
skipped=$(grep -cE '^ok .*# skip' "$log" || true)
passed=$(($(grep -cE '^ok ' "$log" || true) - skipped))
failed=$(grep -cE '^not ok ' "$log" || true)
if [ $status != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
echo "bats-swarm: $passed passed, $failed failed, $skipped skipped"
keep_tap bats-swarm "$log"
exit $status
