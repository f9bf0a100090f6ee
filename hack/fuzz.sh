#!/bin/bash
# fuzz.sh: runs every Fuzz function of the module for a while. Argument: how long each one (10s).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
time=${1:-10s}

failed=0
count=0
while IFS=: read -r file func; do
  count=$((count + 1))
  echo "== ./$(dirname "$file") $func"
  go test -run='^$' -fuzz="^$func\$" -fuzztime="$time" "./$(dirname "$file")" || failed=$((failed + 1))
done < <(grep -rnoE --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed -E 's|^\./||; s|:[0-9]+:func |:|' | sort -u)
echo "fuzz: $((count - failed)) of $count functions clean"
[ $failed = 0 ]
