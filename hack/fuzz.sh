#!/bin/bash
# fuzz.sh: runs every Fuzz function of the module for a while, one after the other, also after one has found something.
#
#   hack/fuzz.sh [TIME]      how long each one (10s)
#
# Go's fuzzing takes no seed: it writes the input that fails into testdata/fuzz/FuzzX of the package, where the unit tests run
# it from then on. The command that repeats it is shown with each finding and once more at the end. The last line is
# "fuzz: N functions, N clean, N findings: FuzzX/HASH ./PACKAGE, …".
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
time=${1:-10s}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
findings=() # each "FuzzX/HASH ./PACKAGE", without a hash where no input is to blame
count=0
# note FUNC PACKAGE: remembers what the log says that FUNC has found, and says how to repeat it.
note() {
  local what
  # "Failing input written to testdata/fuzz/FuzzX/HASH", or "--- FAIL: FuzzX/HASH" of an input that was there before.
  what=$(grep -oE "$1/[A-Za-z0-9_#.-]+" "$log" | head -n 1) || what=$1
  findings+=("$what $2")
  echo "to repeat: go test -run='^${what/\//\$/^}\$' $2"
}
while IFS=: read -r file func; do
  package=./$(dirname "$file")
  count=$((count + 1))
  echo "== $package $func"
  go test -run='^$' -fuzz="^$func\$" -fuzztime="$time" "$package" 2>&1 </dev/null | tee "$log" || note "$func" "$package"
done < <(grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed -E 's|^\./||; s|:[0-9]+:func |:|' | sort -u)

for finding in "${findings[@]}"; do
  read -r what package <<<"$finding"
  echo "to repeat: go test -run='^${what/\//\$/^}\$' $package"
done
list=$(printf ', %s' "${findings[@]}")
echo "fuzz: $count functions, $((count - ${#findings[@]})) clean, ${#findings[@]} findings${findings[*]:+: ${list#, }}"
[ ${#findings[@]} = 0 ]
