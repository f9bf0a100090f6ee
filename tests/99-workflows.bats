#!/usr/bin/env bats
# Clients of 1.41 and later that run whole projects in containers, unmodified: act, which runs workflows, and the dev containers
# CLI, by Docker's command line 29.

# bats file_tags=subids,whole

load lib/moss
load lib/clients
load clients/scenarios/devcontainers

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() {
  begin
  export DOCKER_CLI=$moss_top/.cache/bin/docker29
  dir=$BATS_TEST_TMPDIR/project
  mkdir -p "$dir/.github/workflows"
}
teardown() { finish; }

@test "dev containers" {
  devcontainers_scenario
  enough_steps "dev containers"
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
