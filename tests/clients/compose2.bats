#!/usr/bin/env bats
# docker-compose 2, a program of its own, unmodified. make compat-clients runs it.
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

@test "docker-compose 2" {
  compose2_scenario
  enough_steps "docker-compose 2"
}
