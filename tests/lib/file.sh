#!/bin/bash
# file.sh: runs one file of tests and prints its results in one piece, beside others that do the same. tests/run.sh calls it.
#
#   tests/lib/file.sh TAGS NAME FILE
#
# TAGS are filters of bats, by spaces: a test must match one of them. NAME is the one test to run, or empty. After the second
# MOSS_LEAVE_OUT_AT of the clock the file is left out.
# Exit status: 0 all tests passed, 1 otherwise.
set -uo pipefail
name=$2 file=$3

if [ -n "${MOSS_LEAVE_OUT_AT:-}" ] && [ "$EPOCHSECONDS" -ge "$MOSS_LEAVE_OUT_AT" ]; then
  echo "# $file: left out"
  exit 0
fi
arguments=()
for alternative in $1; do arguments+=(--filter-tags "$alternative"); done
# bats takes a regular expression: what has a meaning there gets a backslash.
escaped=$(printf '%s' "$name" | sed 's/[][\.*^$+?(){}|]/\\&/g')
if [ -n "$name" ]; then arguments+=(--filter "^$escaped\$"); fi
results=$(mktemp)
trap 'rm -f "$results"' EXIT
status=0
TIMEFORMAT='%U %S'
cpu=$({ time bats --formatter tap --timing --print-output-on-failure "${arguments[@]}" "$file" </dev/null >"$results" 2>&1; } 2>&1) || status=$?

planned=$(sed -n '1s/^1\.\.//p' "$results")
told=$(grep -cE '^(not )?ok ' "$results")
if [ "$planned" = 0 ] && [ $status = 0 ]; then exit 0; fi
if [ "$told" != "$planned" ]; then
  echo "not ok 0 $file: $told results of ${planned:-no} tests" >>"$results"
  status=1
elif [ $status != 0 ] && ! grep -qE '^not ok ' "$results"; then # bats names no test where a setup_file or teardown_file fails
  echo "not ok 0 $file: setup_file or teardown_file failed with exit status $status" >>"$results"
fi
exec 9<"$0"
flock 9
printf '# %s: %s tests in %s s, CPU %.0f s\n' "$file" "$told" $SECONDS "$(awk '{print $1 + $2}' <<<"$cpu")"
cat "$results"
[ $status = 0 ]
