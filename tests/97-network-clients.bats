#!/usr/bin/env bats
# Client libraries, unmodified, on networks, ports, names and volumes: docker-py and dockerode, at several versions of the API.

# bats file_tags=subids

load lib/moss
load lib/clients

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() { begin; }
teardown() { finish; }

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
