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
teardown() { finish; }

# scenario_of RELEASE
scenario_of() {
  export COMPOSE_CLI=$moss_top/.cache/bin/docker-compose$1
  compose2_scenario
  enough_steps "docker-compose $1"
}

@test "docker-compose 2" { scenario_of 2; }
@test "docker-compose 5" { scenario_of 5; }
