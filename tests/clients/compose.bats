#!/usr/bin/env bats
# docker-compose 2 and 5, programs of their own, unmodified. make clients runs them.
# bats file_tags=subids

load ../lib/moss
load ../lib/clients
load scenarios/compose2

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() {
  [ -z "${recorder:-}" ] || kill "$recorder" || true
  finish
}

# scenario_of RELEASE: with MOSS_RECORD, the name of a folder, it is written down there for tests/99-newer-clients.bats.
scenario_of() {
  export COMPOSE_CLI=$moss_top/.cache/bin/docker-compose$1
  if [ -n "${MOSS_RECORD:-}" ]; then
    export COMPOSE_SOCK=$MOSS_DIR/c$1
    "$moss_top/.cache/bin/replay" record "$COMPOSE_SOCK" "$MOSS_SOCK" "$MOSS_RECORD/compose$1.jsonl" 3>&- 4>&- &
    recorder=$!
    eventually 10 test -S "$COMPOSE_SOCK"
  fi
  compose2_scenario
  enough_steps "docker-compose $1"
}

@test "docker-compose 2" { scenario_of 2; }
@test "docker-compose 5" { scenario_of 5; }
