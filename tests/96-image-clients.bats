#!/usr/bin/env bats
# Client libraries, unmodified, on images and registries: docker-py and dockerode, at several versions of the API.

# bats file_tags=subids

load lib/moss
load lib/registry
load lib/clients

setup_file() {
  start_engine
  import_busybox
  start_registry closed --htpasswd ann:secret
  export CLOSED=$REGISTRY
  start_registry plain
  curl -sS --fail --unix-socket "$MOSS_SOCK" -o "$MOSS_DIR/box.tar" http://moss/images/busybox/get
  for tag in one two; do
    skopeo copy -q --dest-tls-verify=false "docker-archive:$MOSS_DIR/box.tar" "docker://$REGISTRY/lib/box:$tag"
  done
  start_site "$MOSS_DIR"
}
teardown_file() {
  stop_site
  stop_registries
  stop_engine
}
setup() { begin; }
teardown() { finish; }

@test "docker-py: pull" { each "1.24 1.21" docker_py Images.test_pull; }
@test "docker-py: pull of what is not there" { each "1.24 1.21" docker_py Images.test_pull_what_is_not_there; }
@test "docker-py: push" { each "1.24 1.21" docker_py Images.test_push; }
@test "docker-py: credentials" { each "1.24 1.21" docker_py Images.test_credentials; }
@test "docker-py: login" { each "1.24 1.21" docker_py Images.test_login; }
@test "docker-py: tag, history, inspect, remove" { each "1.24 1.22 1.21" docker_py Images.test_tag_history_inspect_remove; }
@test "docker-py: save and load" { each "1.24 1.22 1.21" docker_py Images.test_save_and_load; }
@test "docker-py: import" { each "1.24 1.21" docker_py Images.test_import; }
@test "docker-py: search" { each "1.24 1.21" docker_py Images.test_search; }

@test "dockerode: pull" { each "1.24 1.20" dockerode "images: pull"; }
@test "dockerode: push and credentials" { each "1.24 1.20" dockerode "images: push"; }
@test "dockerode: login" { each "1.24 1.20" dockerode "images: login"; }
@test "dockerode: tag, list, inspect, history, remove" { each "1.24 1.20" dockerode "images: tag"; }
@test "dockerode: save and load" { each "1.24 1.20" dockerode "images: save"; }
@test "dockerode: import" { each "1.24 1.20" dockerode "images: import"; }
@test "dockerode: search" { each "1.24 1.20" dockerode "images: search"; }
