#!/usr/bin/env bats
# Clients that refuse to speak less than 1.40, or ask for what came later, unmodified: Docker's command line 29 and
# testcontainers-node. act and the dev containers CLI are in 99-workflows.bats, those that no run builds in tests/clients.

# bats file_tags=subids,long

load lib/moss
load lib/registry
load lib/clients
load clients/scenarios/docker

setup_file() {
  start_engine
  import_busybox
  start_registry plain
}
teardown_file() {
  stop_registries
  stop_engine
}
setup() {
  begin
  export DOCKER_CLI=$moss_top/.cache/bin/docker29
}
teardown() { finish; }

@test "docker's command line 29" {
  docker_scenario 1.51
  enough_steps "docker 29"
}

@test "testcontainers-node" {
  run testcontainers_node
  expect status 0
  expect matches '^steps: [0-9]+$'
}

testcontainers_node() {
  NODE_PATH=$moss_top/.cache/clients/node_modules DOCKER_HOST=unix://$MOSS_SOCK DOCKER_CONFIG=$BATS_TEST_TMPDIR HOME=$BATS_TEST_TMPDIR \
    TESTCONTAINERS_RYUK_DISABLED=true TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1 timeout --foreground 180 \
    node "$BATS_TEST_DIRNAME/clients/scenarios/testcontainers.js" 2>&1
}

# The reaper's own image, testcontainers/ryuk, is not to be had here: moss in its place does what the reaper asks for.
@test "testcontainers' reaper: a container with the engine's socket removes what has the label of its session" {
  local label name before
  name=$(unique session) label=org.testcontainers.sessionId=$name
  moss network create --label "$label" "$name" >/dev/null
  moss volume create --label "$label" "$name" >/dev/null
  printf 'FROM busybox\nLABEL %s\n' "$label" | moss build -t "$name" - >/dev/null
  moss run -d --label "$label" --network "$name" -v "$name:/data" -v /anonymous "$name" sleep 1000 >/dev/null
  moss run -d --name "$name-stays" busybox sleep 1000 >/dev/null
  before=$(moss volume ls -q | wc -l)
  run moss run --rm -v "$MOSS_SOCK:/var/run/docker.sock" -v "$moss_bin/moss:/bin/moss:ro" -e DOCKER_HOST=unix:///var/run/docker.sock \
    -e LABEL="$label" busybox sh -ec '
      moss rm -f -v $(moss ps -aq --filter "label=$LABEL")
      for kind in network volume; do moss $kind rm $(moss $kind ls -q --filter "label=$LABEL"); done
      moss rmi $(moss images -q --filter "label=$LABEL")'
  expect status 0
  expect equal "$(moss ps -aq --filter "label=$label")$(moss network ls -q --filter "label=$label")$(moss images -q --filter "label=$label")" ""
  expect equal "$(moss volume ls -q | wc -l)" "$((before - 2))"
  expect equal "$(state "$name-stays")" running
}

# replay NAME: what a client asked that CI does not build. tests/clients writes it down anew, with MOSS_RECORD.
replay() {
  run "$moss_top/.cache/bin/replay" play "$MOSS_SOCK" "$BATS_TEST_DIRNAME/clients/recorded/$1.jsonl"
  expect status 0
  [ "${output% requests}" -ge 100 ] || fail "replay of $1: $output"
  expect equal "$(moss ps -aq --filter "label=com.docker.compose.project")" ""
}

@test "docker-compose 2, recorded" { replay compose2; }
@test "docker-compose 5, recorded" { replay compose5; }
