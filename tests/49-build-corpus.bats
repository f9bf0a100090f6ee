#!/usr/bin/env bats
# The corpus of Dockerfiles: each is built by moss through the docker command line, and by buildah. Every file and every
# setting of the two images must be the same, unless tests/build/differences.txt has the reason why not.

# bats file_tags=subids,whole

load lib/moss
load lib/corpus

setup_file() {
  start_engine
  open_corpus
}
teardown_file() {
  close_corpus
  stop_engine
}
setup() { begin; }
teardown() { finish; }

# Every case belongs to one of these tests.
groups="add- arg- cmd- copy- directive- env- from- heredoc- ignore- meta- mount- real- run- trigger-"

@test "ARG and ENV" { corpus arg- env-; }
@test "CMD, ENTRYPOINT, SHELL" { corpus cmd-; }
@test "settings: labels, ports, volumes, users, folders, health" { corpus meta-; }
@test "RUN" { corpus run-; }
@test "RUN --mount" { corpus mount-; }
@test "COPY" { corpus copy-; }
@test "ADD" { corpus add-; }
@test "stages" { corpus from-; }
@test "ONBUILD" { corpus trigger-; }
@test ".dockerignore" { corpus ignore-; }
@test "directives" { corpus directive-; }
@test "heredocs" { corpus heredoc-; }
@test "services in Go, Node and Python, a site, Debian with apt" { corpus real-; }

@test "the corpus is whole" {
  names=$(python3 "$BATS_TEST_DIRNAME/build/corpus.py" list)
  [ "$(wc -l <<<"$names")" -ge 60 ] || fail "there are $(wc -l <<<"$names") cases"
  for name in $names; do
    [[ " $groups " == *" ${name%%-*}- "* ]] || fail "$name is in no test"
  done
  # A table of differences for cases that are not there would never be seen.
  while read -r name; do
    grep -qxF -- "$name" <<<"$names" || fail "differences.txt: there is no case $name"
  done < <(sed -nE 's/^([^#|]*[^#| ]) *\|.*/\1/p' "$BATS_TEST_DIRNAME/build/differences.txt")
}
