#!/bin/bash
# run.sh: runs tests/*.bats as an ordinary user (as the test user when root calls it), files side by side.
#
#   tests/run.sh [--whole] [--no-subids | --cgroups | --chance] [--jobs N] [--minutes N] [--test NAME] [FILE...]
#
# Without a FILE tests with the tag "whole", which take long, are left out, clients are tried at their newest version alone, and
# what is drawn in rounds has one of them. With --whole all of it runs.
# --no-subids takes a user without sub-ids, for the tests with the tag "nosub". With --whole it runs all the others too, but
# those with the tag "subids".
# --cgroups delegates cgroups to the user, for one file after the other; without it tests with the tag "cgroups" are left
# out. Without a FILE it runs those and the ones with the tag "cgroups-too" alone.
# --chance runs the tests with the tag "chance", which are left out otherwise, once for each seed of MOSS_SEEDS, from which
# they draw: numbers below 2^31, by spaces. Without it the seed is 1, with --whole 2 and 3 as well.
# --jobs is how many files run side by side (3), those with the tag "long" first. Files with the tag "alone" run before all of
# them, each by itself.
# --minutes is for slow machines: a file that has not begun by then is left out, and named. The order of the files is drawn
# from the commit, also of the long ones, so that it is not always the same ones.
# --test runs the test of exactly that name.
# The last line is "bats: N passed, N failed, N skipped". MOSS_BIN names another folder with the programs, KEEP_TAP one
# where the results are kept.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=tests/lib/left-out.bash
. tests/lib/left-out.bash

user=(hack/as-user.sh)
title=bats jobs=3 whole=no name='' minutes=''
need() { [ $# -gt 1 ] || usage; }
usage() {
  sed -n '2,21s/^# \{0,1\}//p' tests/run.sh >&2
  exit 2
}
while [ $# -gt 0 ]; do
  case $1 in
    --no-subids) title=bats-no-subids ;;
    --whole) whole=yes ;;
    --cgroups) title=bats-cgroups ;;
    --chance) title=bats-chance ;;
    --jobs | --minutes | --test)
      need "$@"
      case $1 in
        --jobs) jobs=$2 ;;
        --minutes) minutes=$2 ;;
        --test) name=$2 ;;
      esac
      shift
      ;;
    --) ;;
    -*) usage ;;
    *) break ;;
  esac
  shift
done

# tags are alternatives, by spaces: a test must match one of them. Within one, commas mean "and".
some=$#
more='!chance'
if [ $whole = yes ] || [ $some != 0 ]; then
  export MOSS_WHOLE=1
else
  more+=',!whole'
  export MOSS_CHANCE_ROUNDS=${MOSS_CHANCE_ROUNDS:-1}
fi
case $title in
  bats) tags="!cgroups,$more" ;;
  bats-chance) tags='chance,!cgroups' ;;
  bats-cgroups) if [ $some = 0 ]; then tags="cgroups,$more cgroups-too,$more"; else tags=$more; fi ;;
  bats-no-subids) if [ $whole = yes ] || [ $some != 0 ]; then tags="!subids,!cgroups,$more"; else tags="nosub,!subids,!cgroups,$more"; fi ;;
esac
# MOSS_RUN is what a failed test says of how to run it alone.
case $title in
  bats-no-subids) user+=(--no-subids) MOSS_RUN='--no-subids ' ;;
  bats-cgroups)
    user+=(--cgroups) MOSS_RUN='--cgroups '
    jobs=1 # there is one delegated group, and what is left in it is looked for
    ;;
  bats-chance)
    MOSS_RUN='--chance '
    BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-$((900 + 60 * ${MOSS_CHANCE_ROUNDS:-1}))} # a round of the slowest takes 40 s
    ;;
esac
export MOSS_RUN
[ $some != 0 ] || set -- tests/*.bats

if [ "$(id -u)" != 0 ] && [ $title = bats-no-subids ] && grep -qsE "^($(id -un)|$(id -u)):" /etc/subuid; then
  left_out $title "$(id -un) has sub-ids. Run it as root, which makes a user without any."
fi
if [ "$(id -u)" != 0 ] && [ $title = bats-cgroups ]; then
  left_out $title 'only root can delegate cgroups v1 to a user.'
fi

# runs FILE: FILE is among those of this run of bats, and not left out as a whole.
files=" $* "
runs() {
  [[ $title = bats && $files == *"$1"* ]] || return
  [[ $more != *whole* ]] || ! grep -qE '^# bats file_tags=(.*,)?whole$' "tests/$1.bats"
}

# The images that tests/49-build-corpus.bats builds upon: made here, where .cache can be written to, while the rest is built.
bases=
if runs 49-build-corpus; then
  tests/build/bases.sh .cache/build >/dev/null &
  bases=$!
fi

# Helpers: jq, the token server of tests/lib/registry.bash, the peer of the tests of published ports, the fuzzer of the API,
# what records clients and plays them again.
if ! tests/lib/jq.sh && [ ! -x .cache/bin/jq ]; then exit 1; fi
for helper in tokend peerd apifuzz replay attack/trees attack/badsector attack/hungdisk; do
  if ! CGO_ENABLED=0 go build -trimpath -buildvcs=false -o .cache/bin/$helper ./tests/$helper && [ ! -x .cache/bin/$helper ]; then
    echo "run.sh: no .cache/bin/$helper: go build -o .cache/bin/$helper ./tests/$helper" >&2
    exit 1
  fi
done

# What is a module of its own, which moss does not depend on, is made only for the tests that use it: the clients in Go, and
# what holds answers against the OpenAPI document.
# module FILE DIR OUT PACKAGE...: builds those packages of the module in DIR as .cache/bin/OUT if FILE is among the tests.
module() {
  local file=$1 dir=$2 out=$3
  shift 3
  runs "$file" || return 0
  if ! CGO_ENABLED=0 go build -C "$dir" -trimpath -buildvcs=false -o "$PWD/.cache/bin/$out" "$@"; then
    echo "run.sh: the programs of $dir cannot be built: hack/install-deps.sh --for test gets their modules" >&2
    exit 1
  fi
}
module 93-openapi hack/openapi/check openapicheck .
module 94-scenarios tests/clients/go '' ./dockerclient ./testcontainers
module 99-newer-clients tests/clients/docker docker29 github.com/docker/cli/cmd/docker
module 99-workflows tests/clients/act act github.com/nektos/act
module 99-workflows tests/clients/docker docker29 github.com/docker/cli/cmd/docker
module clients/compose tests/clients/compose docker-compose2 github.com/docker/compose/v2/cmd
module clients/compose tests/clients/compose5 docker-compose5 github.com/docker/compose/v5/cmd

[ -z "$bases" ] || wait "$bases"

# tagged TAG FILE...: the files with that tag, at the head or at one of their tests.
tagged() {
  local tag=$1
  shift
  grep -lE "^# bats (test|file)_tags=([a-z-]+, *)*$tag(,|\$)" "$@" || true
}
# with TAG: the alternatives, each with one more condition.
with() {
  local alternative
  for alternative in $tags; do printf '%s,%s ' "$alternative" "$1"; done
}
# Files without any test for this run are not started at all.
if [ $some = 0 ]; then
  case $tags in
    nosub* | chance*) mapfile -t files < <(tagged "${tags%%,*}" "$@") ;;
    cgroups*) mapfile -t files < <(tagged 'cgroups(-too)?' "$@") ;;
    *) files=("$@") ;;
  esac
else
  files=("$@")
fi
if [ -n "$minutes" ]; then
  export MOSS_LEAVE_OUT_AT=$(($(date +%s) + 60 * minutes))
  mapfile -t files < <(shuf -e --random-source=<(
    git -c safe.directory='*' rev-parse HEAD 2>/dev/null
    yes
  ) "${files[@]}")
else # long ones first, so that none of them runs alone at the end
  first=() rest=()
  for file in "${files[@]}"; do
    if [ -n "$(tagged long "$file")" ]; then first+=("$file"); else rest+=("$file"); fi
  done
  files=("${first[@]}" "${rest[@]}")
fi

export BATS_TEST_TIMEOUT=${BATS_TEST_TIMEOUT:-900} # for a test that hangs; most take a few seconds
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
# run_files JOBS TAG FILE...: runs those tests of the files that fulfil TAG as well, so many files at a time.
run_files() {
  local at_once=$1 tag=$2
  shift 2
  [ $# -gt 0 ] || return 0
  printf '%s\0' "$@" | "${user[@]}" xargs -0 -n 1 -P "$at_once" tests/lib/file.sh "$(with "$tag")" "$name" | tee -a "$log" || status=1
}
seeds=('')
if [ $title = bats-chance ]; then
  if [ $whole = yes ]; then MOSS_SEED=${MOSS_SEED:-1 2 3}; fi
  read -ra seeds <<<"${MOSS_SEEDS:-${MOSS_SEED:-1}}"
fi
mapfile -t single < <(tagged alone "${files[@]}")
for seed in "${seeds[@]}"; do
  if [ -n "$seed" ]; then
    export MOSS_SEED=$seed
    echo "# MOSS_SEED=$seed"
  fi
  run_files 1 alone "${single[@]}"
  run_files "$jobs" '!alone' "${files[@]}"
done

skipped=$(grep -cE '^ok .*# skip' "$log" || true)
passed=$(($(grep -cE '^ok ' "$log" || true) - skipped))
failed=$(grep -cE '^not ok ' "$log" || true)
grep -E '^not ok |^# alone: ' "$log" || true
if [ $status != 0 ] && [ "$failed" = 0 ]; then failed=1; fi
if [ "$passed" = 0 ] && [ "$failed" = 0 ]; then
  echo "$title: no test ran" >&2
  status=1
fi
keep_tap $title "$log"
late=$(grep -c '^# .*: left out$' "$log" || true)
if [ "$late" != 0 ]; then
  end="$late files left out, since $minutes minutes were over"
  keep_left $title "$end"
fi
echo "$title: $passed passed, $failed failed, $skipped skipped${end:+; $end}"
exit $status
