#!/bin/bash
# flake.sh: repeats files of tests under load, where flakes show: a busy loop for each processor, and other files beside them.
#
#   hack/flake.sh COUNT FILE...
#
# Each FILE runs COUNT times; as many other files, drawn by chance, run beside them, and count too. RUN holds more options
# of tests/run.sh. The last lines are those of tests/run.sh: every failure, and how many passed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ $# -lt 2 ] || [[ $1 == *[!0-9]* ]]; then
  sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
count=$1
shift

loops=()
end_loops() { kill "${loops[@]}"; }
for _ in $(seq "$(nproc)"); do
  bash -c 'while :; do :; done' &
  loops+=($!)
done
trap end_loops EXIT

list=()
for _ in $(seq "$count"); do
  mapfile -t others < <(printf '%s\n' tests/*.bats | grep -vxF "$(printf '%s\n' "$@")" | shuf -n $#)
  list+=("$@" "${others[@]}")
done
read -ra run <<<"${RUN:-}"
KEEP_TAP='' tests/run.sh --jobs 6 "${run[@]}" "${list[@]}"
