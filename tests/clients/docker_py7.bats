#!/usr/bin/env bats
# docker-py 7, unmodified, at the version it speaks. Debian 12 has release 5: DOCKER_PY names a folder with a newer one, as that
# of the package of Debian 13. make clients runs it.
# bats file_tags=subids

load ../lib/moss
load ../lib/registry
load ../lib/clients

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
  [ -z "${DOCKER_PY:-}" ] || export PYTHONPATH=$DOCKER_PY
  release=$(/usr/bin/python3 -c 'import docker; print(docker.__version__)')
  [ "${release%%.*}" -ge 7 ] || skip "docker-py is $release here: DOCKER_PY is to name a folder with 7"
}
teardown() { finish; }

@test "docker-py 7 at 1.45" { scenario "docker-py 7 at 1.45" python_scenario 1.45; }
@test "docker-py 7 at 1.51" { scenario "docker-py 7 at 1.51" python_scenario 1.51; }
