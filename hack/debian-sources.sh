#!/bin/sh
# debian-sources.sh: prints apt sources for a Debian suite: this machine's own where it runs that suite, so that
# its mirror is used, else the public ones. Argument: the suite (bookworm).
suite=${1:-bookworm}
file=/etc/apt/sources.list.d/debian.sources
if grep -qs "^Suites:.*$suite" $file; then
  cat $file
elif grep -qsE "^deb [^#]*debian[^ ]* $suite( |-)" /etc/apt/sources.list; then
  grep -E "^deb [^#]*debian[^ ]* $suite( |-|/)" /etc/apt/sources.list
else
  echo "deb http://deb.debian.org/debian $suite main"
  echo "deb http://deb.debian.org/debian $suite-updates main"
  echo "deb http://deb.debian.org/debian-security $suite-security main"
fi
