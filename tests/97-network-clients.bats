#!/usr/bin/env bats
# Client libraries, unmodified, on networks, ports, names and volumes: docker-py and dockerode, at several versions of the API.

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

# docker_py VERSION TEST: some tests of tests/clients/docker_py.py. Python is the system's: the library is its package.
docker_py() {
  DOCKER_HOST=unix://$MOSS_SOCK API_VERSION=$1 timeout --foreground 120 \
    /usr/bin/python3 "$BATS_TEST_DIRNAME/clients/docker_py.py" -v "$2" 2>&1
}

# dockerode VERSION NAME: the tests of tests/clients/dockerode.js whose name begins with NAME.
dockerode() {
  NODE_PATH=$moss_top/.cache/clients/node_modules API_VERSION=$1 timeout --foreground 120 \
    node --test --test-name-pattern "^$2" "$BATS_TEST_DIRNAME/clients/dockerode.js" 2>&1
}

# each VERSIONS CLIENT PART: the part passes at every version.
each() {
  local v
  for v in $1; do
    run "$2" "$v" "$3"
    expect status 0
    expect lacks "Ran 0 tests" "# tests 0"
  done
}

@test "docker-py: a network's life" { each "1.24 1.22 1.21" docker_py Networks.test_life; }
@test "docker-py: names, connect and disconnect" { each "1.24 1.22" docker_py Networks.test_names_and_connect; }
@test "docker-py: fixed addresses and aliases" { each "1.24 1.22" docker_py Networks.test_addresses; }
@test "docker-py: published ports" { each "1.24 1.21" docker_py Networks.test_ports; }
@test "docker-py: a volume's life" { each "1.24 1.22 1.21" docker_py Volumes.test_life; }
@test "docker-py: mounts of all kinds" { each "1.24 1.22" docker_py Volumes.test_mounts_of_all_kinds; }

@test "dockerode: a network's life" { each "1.24 1.22" dockerode "networks: create"; }
@test "dockerode: connect and disconnect, names and addresses" { each "1.24 1.21" dockerode "networks: connect"; }
@test "dockerode: published ports" { each "1.24 1.21" dockerode "networks: published"; }
@test "dockerode: a volume's life, and mounts" { each "1.24 1.21" dockerode "volumes:"; }
