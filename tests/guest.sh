#!/bin/bash
# guest.sh: runs tests/guest/*.bats inside the virtual machine of hack/guest: systemd --user and cgroup v2.
# The machine is built when it is not there (root), started, and thrown away at the end. An ordinary user may run one whose
# folder (MOSS_GUEST_DIR) root has built and given away. Arguments: FILE...
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# -gt 0 ] || set -- tests/guest/*.bats

# shellcheck source=tests/lib/left-out.bash
. tests/lib/left-out.bash
# shellcheck source=hack/guest/lib.sh
. hack/guest/lib.sh
if [ "$(id -u)" != 0 ] && [ ! -r "$dir/stamp" ]; then
  left_out guest "only root builds the machine: there is none for $(id -un) in $dir (MOSS_GUEST_DIR)."
fi
guest=hack/guest/guest.sh
$guest build
folder=$(mktemp -d)
log=$(mktemp)
# shellcheck disable=SC2317 # called by a trap
cleanup() {
  $guest stop || true
  rm -rf "$folder" "$log"
}
trap cleanup EXIT
cp -r VERSION bin tests "$folder/"
mkdir "$folder/hack" "$folder/tools"
tests/lib/jq.sh
cp .cache/bin/jq "$folder/tools/"
cp -r hack/units "$folder/hack/"
rm -rf "$folder/bin/race"
$guest start "$folder"
# What a test writes into /run/clock is by how much the clock moves.
$guest root "systemd-run --quiet --unit=clock sh -c 'mkfifo -m 0666 /run/clock; while read -r by </run/clock; do date -s \"\$by\"; done'"

status=0
files=()
for f in "$@"; do files+=("/project/$f"); done
$guest run "PATH=/project/tools:\$PATH BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-600} MOSS_START_SECONDS=120 bats --formatter tap --timing --print-output-on-failure ${files[*]@Q}" </dev/null |
  tee "$log" || status=$?
skipped=$(grep -cE '^ok .*# skip' "$log" || true)
passed=$(($(grep -cE '^ok ' "$log" || true) - skipped))
failed=$(grep -cE '^not ok ' "$log" || true)
if [ $status != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
keep_tap guest "$log"
echo "guest: $passed passed, $failed failed, $skipped skipped"
[ "$passed" != 0 ] || status=1
exit $status
