#!/usr/bin/env bats
# One scenario of at least 25 steps for each client in use, unmodified: containers, images, exec, archive, networks, volumes,
# build, events, as far as the client and the version of the API have them.

# bats file_tags=subids,long

load lib/moss
load lib/registry
load lib/clients
load clients/scenarios/curl
load clients/scenarios/docker
load clients/scenarios/compose

setup_file() {
  start_engine
  import_busybox
  start_registry plain
  curl -sS --fail --unix-socket "$MOSS_SOCK" -o "$MOSS_DIR/box.tar" http://moss/images/busybox/get
  skopeo copy -q --dest-tls-verify=false "docker-archive:$MOSS_DIR/box.tar" "docker://$REGISTRY/lib/box:one"
}
teardown_file() {
  stop_registries
  stop_engine
}
setup() { begin; }
teardown() { finish; }

# python_scenario VERSION, in lib/clients, and node_scenario VERSION: the scenarios of libraries.
node_scenario() {
  NODE_PATH=$moss_top/.cache/clients/node_modules API_VERSION=$1 timeout --foreground 120 \
    node "$BATS_TEST_DIRNAME/clients/scenarios/dockerode.js" 2>&1
}

# go_client NAME VERSION: a program of tests/clients/go, which tests/run.sh builds.
go_client() {
  DOCKER_HOST=unix://$MOSS_SOCK DOCKER_CONFIG=$BATS_TEST_TMPDIR API_VERSION=${2:-} TMPDIR=$BATS_TEST_TMPDIR \
    TESTCONTAINERS_RYUK_DISABLED=true TESTCONTAINERS_HOST_OVERRIDE=127.0.0.1 \
    timeout --foreground 120 "$moss_top/.cache/bin/$1" 2>&1
}

@test "docker's command line" {
  docker_scenario 1.50
  enough_steps docker
}
@test "docker's command line at 1.24" {
  export DOCKER_API_VERSION=1.24
  docker_scenario 1.24
  enough_steps "docker 1.24"
}

@test "docker-compose" {
  [[ $(docker-compose version --short) == 1.* ]] || skip "docker-compose 1.x is not here: hack/install-deps.sh --for test, on Debian 12"
  compose_scenario 1.24
  enough_steps docker-compose
}

@test "docker-py at 1.41" { scenario "docker-py 1.41" python_scenario 1.41; }
@test "docker-py at 1.24" { scenario "docker-py 1.24" python_scenario 1.24; }
# bats test_tags=whole
@test "docker-py at 1.22" { scenario "docker-py 1.22" python_scenario 1.22; }
# bats test_tags=whole
@test "docker-py at 1.21" { scenario "docker-py 1.21" python_scenario 1.21; }
@test "dockerode at 1.51" { scenario "dockerode 1.51" node_scenario 1.51; }
@test "dockerode at 1.24" { scenario "dockerode 1.24" node_scenario 1.24; }
@test "dockerode at 1.20" { scenario "dockerode 1.20" node_scenario 1.20; }
@test "go-dockerclient at 1.40" { scenario "go-dockerclient 1.40" go_client dockerclient 1.40; }
@test "go-dockerclient at 1.24" { scenario "go-dockerclient 1.24" go_client dockerclient 1.24; }
# bats test_tags=whole
@test "go-dockerclient at 1.21" { scenario "go-dockerclient 1.21" go_client dockerclient 1.21; }
@test "go-dockerclient at 1.18" { scenario "go-dockerclient 1.18" go_client dockerclient 1.18; }
@test "testcontainers-go" { scenario testcontainers-go go_client testcontainers; }

at_curl() {
  curl_scenario "${1:+/v$1}"
  enough_steps "curl ${1:-without a version}"
}
@test "curl at 1.18" { at_curl 1.18; }
# bats test_tags=whole
@test "curl at 1.19" { at_curl 1.19; }
# bats test_tags=whole
@test "curl at 1.20" { at_curl 1.20; }
# bats test_tags=whole
@test "curl at 1.21" { at_curl 1.21; }
# bats test_tags=whole
@test "curl at 1.22" { at_curl 1.22; }
# bats test_tags=whole
@test "curl at 1.23" { at_curl 1.23; }
@test "curl at 1.24" { at_curl 1.24; }
# bats test_tags=whole
@test "curl at 1.32" { at_curl 1.32; }
# bats test_tags=whole
@test "curl at 1.44" { at_curl 1.44; }
@test "curl at 1.51" { at_curl 1.51; }
@test "curl without a version" { at_curl ""; }
