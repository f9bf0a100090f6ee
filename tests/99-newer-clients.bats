#!/usr/bin/env bats
# Clients that refuse to speak less than 1.40, or ask for what came later, unmodified: Docker's command line 29, act, which runs
# workflows in containers, the dev containers CLI, and testcontainers-node. Those that CI does not build are in tests/clients.

# bats file_tags=subids,long

load lib/moss
load lib/registry
load lib/clients
load clients/scenarios/docker
load clients/scenarios/devcontainers

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
  dir=$BATS_TEST_TMPDIR/project
  mkdir -p "$dir/.github/workflows"
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

@test "dev containers" {
  devcontainers_scenario
  enough_steps "dev containers"
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

# act ARG...: runs the workflows of $dir in busybox, without a network.
act() {
  (
    cd "$dir" || exit
    HOME=$BATS_TEST_TMPDIR XDG_CONFIG_HOME=$BATS_TEST_TMPDIR XDG_CACHE_HOME=$BATS_TEST_TMPDIR DOCKER_HOST=unix://$MOSS_SOCK DOCKER_CONFIG=$BATS_TEST_TMPDIR \
      timeout --foreground -k 2 180 "$moss_top/.cache/bin/act" push -P box=busybox:latest --pull=false --network none --container-daemon-socket - "$@"
  )
}

workflow() { cat >"$dir/.github/workflows/check.yml"; }

@test "act: variables and working folders of steps are those of the workflow" {
  workflow <<'YAML'
on: push
env: {TOP: of the workflow}
jobs:
  check:
    runs-on: box
    env: {JOB: of the job}
    defaults: {run: {shell: sh}}
    steps:
      - run: echo "1 $TOP, $JOB, ${STEP-none}"
      - working-directory: /tmp
        env: {STEP: of the step, JOB: replaced}
        run: echo "2 $(pwd), $TOP, $JOB, $STEP"
      - run: |
          echo "KEPT=with a space" >>"$GITHUB_ENV"
          echo "said=by a step" >>"$GITHUB_OUTPUT"
        id: says
      - run: echo "3 $KEPT, ${{ steps.says.outputs.said }}"
      - run: '[ "$(pwd)" = "$GITHUB_WORKSPACE" ] && echo "4 at home"'
YAML
  run act
  expect status 0
  expect contains "1 of the workflow, of the job, none" "2 /tmp, of the workflow, replaced, of the step" "3 with a space, by a step" "4 at home" \
    "Job succeeded"
}

@test "act: three jobs: outputs of one reach another, a matrix runs twice, the last waits for all" {
  workflow <<'YAML'
on: push
jobs:
  make:
    runs-on: box
    defaults: {run: {shell: sh}}
    outputs: {word: "${{ steps.pick.outputs.word }}"}
    steps:
      - id: pick
        run: echo "word=picked" >>"$GITHUB_OUTPUT"
      - run: echo private >/tmp/private
  check:
    needs: make
    runs-on: box
    container: {image: busybox, env: {INSIDE: "yes"}, options: --init --label scenario=act}
    strategy: {matrix: {part: [one, two]}}
    defaults: {run: {shell: sh}}
    steps:
      - run: echo "check ${{ matrix.part }} ${{ needs.make.outputs.word }} $INSIDE"
      - run: |
          [ ! -e /tmp/private ]
          [ ${{ matrix.part }} = one ]
  last:
    needs: [make, check]
    if: always()
    runs-on: box
    defaults: {run: {shell: sh}}
    steps:
      - run: echo "last ${{ needs.make.result }} ${{ needs.check.result }}"
YAML
  run act
  expect status 1
  expect contains "check one picked yes" "check two picked yes" "last success failure"
  left=$(moss ps -aq --filter name=act-) # of the job that failed: act leaves it to look into
  expect equal "$(moss inspect --format '{{.HostConfig.Init}} {{.Config.Labels.scenario}}' "$left")" "true act"
  moss rm -f "$left" >/dev/null
}

@test "act: a step that fails, or looks for what is not there, fails the job" {
  workflow <<'YAML'
on: push
jobs:
  check:
    runs-on: box
    defaults: {run: {shell: sh}}
    steps:
      - run: '[ "$(pwd)" = /tmp ]'
        working-directory: /var
YAML
  run act
  expect status 1
  expect contains "Job failed"
  expect lacks "Job succeeded"
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
