#!/bin/bash
# test-exec.sh: what `go test -exec` calls, so that unit tests run as an ordinary user when root runs them.
# The go command keeps test programs in a private folder: the user gets a copy. Arguments: PROGRAM [ARG]...
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ "$(id -u)" = 0 ] || exec "$@"

dir=$(mktemp -d /tmp/moss-unit.XXXXXX)
trap 'rm -rf "$dir"' EXIT
chmod 0755 "$dir"
program=$dir/$(basename "$1")
cp "$1" "$program"
shift
status=0
"$here/as-user.sh" "$program" "$@" || status=$?
exit $status
