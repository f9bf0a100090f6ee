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
[ $# -gt 0 ] || set -- tests/swarm/*.bats
[ "$(id -u)" = 0 ] || left_out swarm 'only root makes users and network namespaces.'
# shellcheck source=tests/lib/nodes.bash
. tests/lib/nodes.bash
claim_nodes

# The peer of the tests of published ports.
CGO_ENABLED=0 go build -trimpath -buildvcs=false -o .cache/bin/peerd ./tests/peerd 8>&-

log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-600} # for a test that hangs
for file in "$@"; do tests/lib/file.sh '!chance' "$name" "$file" 8>&- | tee -a "$log" || status=1; done
skipped=$(grep -cE '^ok .*# skip' "$log" || true)
passed=$(($(grep -cE '^ok ' "$log" || true) - skipped))
failed=$(grep -cE '^not ok ' "$log" || true)
if [ $status != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
echo "bats-swarm: $passed passed, $failed failed, $skipped skipped"
keep_tap bats-swarm "$log"
exit $status
