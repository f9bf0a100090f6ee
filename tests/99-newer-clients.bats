#!/usr/bin/env bats
# Clients that refuse to speak less than 1.40, or ask for what came later, unmodified: Docker's command line 29, act, which runs
# workflows in containers, and testcontainers-node. docker-compose 2 is in tests/clients: make compat-clients.

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

testcontainers_node() {
  NODE_PATH=$moss_top/.cache/clients/node_modules DOCKER_HOST=unix://$MOSS_SOCK DOCKER_CONFIG=$BATS_TEST_TMPDIR HOME=$BATS_TEST_TMPDIR \
    TESTCONTAINERS_RYUK_DISABLED=true TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1 timeout --foreground 180 \
    node "$BATS_TEST_DIRNAME/clients/scenarios/testcontainers.js" 2>&1
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
