#!/bin/bash
# run.sh: runs tests/*.bats as an ordinary user (as the test user when root calls it).
#
#   tests/run.sh [--no-subids] [--cgroups] [FILE...]
#
# --no-subids takes a user without sub-ids and leaves out the tests with the tag "subids": those that need them, and those
# for which they make no difference.
# --cgroups delegates cgroups to the user; without it tests with the tag "cgroups" are left out. Without a FILE it runs
# those and the ones with the tag "cgroups-too" alone.
# The last line is "bats: N passed, N failed, N skipped". MOSS_BIN names another folder with the programs,
# KEEP_TAP one where the results are kept.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

user=(hack/as-user.sh)
tags=()
title=bats
while [ $# -gt 0 ]; do
  case $1 in
    --no-subids)
      user+=(--no-subids)
      tags+=('!subids')
      title=bats-no-subids
      ;;
    --cgroups)
      user+=(--cgroups)
      title=bats-cgroups
      ;;
    --) ;;
    -*)
      sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
      exit 2
      ;;
    *) break ;;
  esac
  shift
done
alternatives=('')
if [[ " ${user[*]} " != *" --cgroups "* ]]; then
  tags+=('!cgroups')
elif [ $# = 0 ]; then
  mapfile -t tagged < <(grep -lE '^# bats (test|file)_tags=.*cgroups' tests/*.bats)
  set -- "${tagged[@]}"
  alternatives=(cgroups cgroups-too)
fi
[ $# -gt 0 ] || set -- tests/*.bats

if [ "$(id -u)" != 0 ] && [ $title = bats-no-subids ] && grep -qsE "^($(id -un)|$(id -u)):" /etc/subuid; then
  echo "$title: left out: $(id -un) has sub-ids. Run it as root, which makes a user without any."
  exit 0
fi
filter=()
for tag in "${alternatives[@]}"; do
  all=(${tag:+"$tag"} "${tags[@]}")
  if [ ${#all[@]} -gt 0 ]; then filter+=(--filter-tags "$(IFS=, && echo "${all[*]}")"); fi
done

# The token server that tests/lib/registry.bash starts, the peer of the tests of published ports, and the fuzzer of the API.
for helper in tokend peerd apifuzz; do
  if ! CGO_ENABLED=0 go build -buildvcs=false -o .cache/bin/$helper ./tests/$helper && [ ! -x .cache/bin/$helper ]; then
    echo "run.sh: no .cache/bin/$helper: go build -o .cache/bin/$helper ./tests/$helper" >&2
    exit 1
  fi
done

# The images that tests/49-build-corpus.bats builds upon: made here, where .cache can be written to.
if [[ " $* " == *49-build-corpus* ]] && [ $title = bats ]; then tests/build/bases.sh .cache/build >/dev/null; fi

# What is a module of its own, which moss does not depend on, is made only for the tests that use it: the clients in Go, and
# what holds answers against the OpenAPI document.
# module FILE DIR OUT PACKAGE...: builds those packages of the module in DIR as .cache/bin/OUT if FILE is among the tests.
files=" $* "
module() {
  local file=$1 dir=$2 out=$3
  shift 3
  if [[ $files != *"$file"* ]] || [ $title != bats ]; then return 0; fi
  if ! CGO_ENABLED=0 go build -C "$dir" -buildvcs=false -o "$PWD/.cache/bin/$out" "$@"; then
    echo "run.sh: the programs of $dir cannot be built: hack/install-deps.sh --for test gets their modules" >&2
    exit 1
  fi
}
module 93-openapi hack/openapi/check openapicheck .
module 94-scenarios tests/clients/go '' ./dockerclient ./testcontainers

export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-180}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
"${user[@]}" bats --formatter tap --timing --print-output-on-failure "${filter[@]}" "$@" </dev/null | tee "$log" || status=$?

skipped=$(grep -cE '^ok .*# skip' "$log" || true)
passed=$(($(grep -cE '^ok ' "$log" || true) - skipped))
failed=$(grep -cE '^not ok ' "$log" || true)
grep -E '^not ok ' "$log" || true
# bats fails without a failed test where a setup_file or teardown_file does: that is a failure too.
if [ $status != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
if [ "$passed" = 0 ] && [ "$failed" = 0 ]; then
  echo "$title: no test ran" >&2
  status=1
fi
echo "$title: $passed passed, $failed failed, $skipped skipped"
if [ -n "${KEEP_TAP:-}" ]; then mkdir -p "$KEEP_TAP" && cp "$log" "$KEEP_TAP/$title.tap"; fi
exit $status
