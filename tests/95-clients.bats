#!/usr/bin/env bats
# Client libraries, unmodified: docker-py and dockerode, at the newest version of the API and at older ones.
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

@test "docker-py: attach" { each "1.24 1.22 1.21" docker_py Attach; }
@test "docker-py: exec" { each "1.24 1.22 1.21" docker_py Exec; }
@test "docker-py: stats" { each "1.24 1.21" docker_py Stats; }
@test "docker-py: archive, export, diff" { each "1.24 1.21" docker_py Archive; }
@test "docker-py: events" { each "1.24 1.22" docker_py Events; }
@test "docker-py: commit, update, top, pause, rename, kill, logs, list, volumes" { each "1.24 1.22 1.21" docker_py Verbs; }

@test "dockerode: attach" { each "1.24 1.20" dockerode "attach:"; }
@test "dockerode: exec" { each "1.24 1.20" dockerode "exec:"; }
@test "dockerode: stats" { each "1.24 1.20" dockerode "stats:"; }
@test "dockerode: archive" { each "1.24 1.20" dockerode "archive:"; }
@test "dockerode: events" { each "1.24" dockerode "events:"; }
@test "dockerode: top, changes, export, pause, rename, update, commit" { each "1.24 1.20" dockerode "verbs:"; }
