#!/bin/bash
# jq.sh: builds the jq of the tests, .cache/bin/jq, from the module of tests/jq. Tests start it thousands of times, and it begins
# seven times faster than Debian 12's. It sorts the names of objects.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
CGO_ENABLED=0 go build -C tests/jq -trimpath -buildvcs=false -ldflags '-s -w' -o "$PWD/.cache/bin/jq" github.com/itchyny/gojq/cmd/gojq || {
  echo "jq.sh: tests/jq cannot be built: hack/install-deps.sh --for test gets its modules" >&2
  exit 1
}
