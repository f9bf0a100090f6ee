#!/usr/bin/env bats
# Health checks: what create accepts, what inspect, lists and events show, and what ends them.
# bats file_tags=subids

load lib/moss

setup_file() {
  start_engine
  import_busybox
  # An image with a check of its own: made from the archive, with a Dockerfile's instruction.
  change=$(jq -rn '"HEALTHCHECK --interval=200ms --timeout=5s --retries=2 CMD test -e /tmp/ok"|@uri')
  curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/x-tar' --data-binary @"$MOSS_DIR/busybox.tar" \
    "http://moss/v1.24/images/create?fromSrc=-&repo=checked&tag=latest&changes=$change" >"$MOSS_DIR/checked"
}
teardown_file() { stop_engine; }
setup() {
  begin
  box=$(unique box)
}
teardown() {
  moss rm -f "$box" >/dev/null 2>&1 || true
  finish
}

loop='["sh","-c","trap \"exit 0\" TERM; while :; do sleep 0.1; done"]'
# checked HEALTHCHECK [IMAGE]: a running container named $box with a health check.
checked() {
  run api POST "/v1.24/containers/create?name=$box" "{\"Image\":\"${2:-busybox}\",\"Cmd\":$loop,\"Healthcheck\":$1}"
  [ "$(tail -n 1 <<<"$output")" = 201 ] || fail "create: $output" || return
  moss start "$box"
}
# health [JQ]: what inspect says of it.
health() { answer_of "/v1.24/containers/$box/json" -c ".State.Health | ${1:-.}"; }
health_is() { [ "$(health .Status)" = "\"$1\"" ]; }
checks() { health '.Log|length'; }
inside() { dock exec "$box" "$@"; }
sec=000000000
# gate: a command of the shell that ends once there is a file.
gate='until test -e /tmp/go; do sleep 0.05; done'

@test "starting, healthy, unhealthy and back, in inspect, lists, filter and events" {
  since=$(date +%s)
  # The first check lasts until the new container has been looked at.
  checked "{\"Test\":[\"CMD-SHELL\",\"$gate; echo looked; test -e /tmp/ok\"],\"Interval\":200000000,\"Timeout\":600$sec,\"Retries\":4}"
  expect equal "$(health '[.Status,.FailingStreak]')" '["starting",0]'
  run dock ps --filter "name=$box" --format '{{.Status}}'
  expect matches '^Up .* \(health: starting\)$'
  inside touch /tmp/ok /tmp/go
  eventually 10 health_is healthy
  expect equal "$(health '.Log[-1]|[.ExitCode,.Output]')" '[0,"looked\n"]'
  expect equal "$(health '.Log[-1]|(.Start < .End)')" true
  run dock ps --filter "name=$box" --format '{{.Status}}'
  expect matches '^Up .* \(healthy\)$'
  inside rm /tmp/ok
  eventually 10 health_is unhealthy
  run dock ps --filter "name=$box" --format '{{.Status}}'
  expect matches '^Up .* \(unhealthy\)$'
  expect equal "$(dock ps -q --no-trunc --filter "name=$box" --filter health=unhealthy | wc -l)" 1
  expect equal "$(dock ps -q --no-trunc --filter "name=$box" --filter health=healthy | wc -l)" 0
  [ "$(health .FailingStreak)" -ge 4 ] || fail "FailingStreak: $(health)"
  expect equal "$(health '.Log[-1].ExitCode')" 1
  sleep 0.5 # some more checks
  [ "$(checks)" -le 5 ] || fail "the log has $(checks) entries"
  inside touch /tmp/ok
  eventually 10 health_is healthy
  expect equal "$(health .FailingStreak)" 0
  run dock events --since "$since" --until "$(($(date +%s) + 1))" --filter "container=$box" --filter event=health_status --format '{{.Action}}'
  expect output "health_status: healthy
health_status: unhealthy
health_status: healthy"
}

@test "inspect before 1.24 has no health, and no container without a check has" {
  checked "{\"Test\":[\"CMD\",\"true\"],\"Interval\":100000000}"
  eventually 10 health_is healthy
  run jq -c '.State|has("Health")' < <(api GET "/v1.22/containers/$box/json" | head -n 1)
  expect output false
  moss rm -f "$box"
  moss run -d --name "$box" busybox sleep 100
  expect equal "$(health)" null
  run dock ps --filter "name=$box" --format '{{.Status}}'
  expect lacks health
}

@test "docker run's flags; the check runs as the container does" {
  dock run -d --name "$box" -e TOKEN=yes -w /var/www --health-interval 200ms --health-timeout 600s --health-retries 1 \
    --health-cmd 'echo $TOKEN; pwd; id -u' busybox sleep 100
  eventually 10 health_is healthy
  expect equal "$(health '.Log[0].Output')" '"yes\n/var/www\n0\n"'
  expect equal "$(moss inspect "$box" | jq -c '.[0].Config.Healthcheck')" \
    '{"Interval":200000000,"Retries":1,"Test":["CMD-SHELL","echo $TOKEN; pwd; id -u"],"Timeout":600'$sec'}'
}

@test "limits: below a millisecond, negative, of no kind" {
  refused() { # HEALTHCHECK TEXT
    run api POST "/v1.24/containers/create?name=$box" "{\"Image\":\"busybox\",\"Cmd\":$loop,\"Healthcheck\":$1}"
    expect contains "$2"
    expect equal "$(tail -n 1 <<<"$output")" 400
  }
  for field in Interval Timeout StartPeriod; do
    refused "{\"Test\":[\"CMD\",\"true\"],\"$field\":999999}" "$field in Healthcheck cannot be less than one millisecond: 999.999µs"
    refused "{\"$field\":-5}" "$field in Healthcheck"
  done
  refused '{"Test":["CMD","true"],"Retries":-1}' "Retries in Healthcheck cannot be negative: -1"
  refused '{"Test":["RUN","true"]}' "only NONE, CMD and CMD-SHELL are allowed"
  refused '{"Test":["CMD"]}' "no command after CMD"
  run api POST "/v1.24/containers/create?name=$box" "{\"Image\":\"busybox\",\"Cmd\":$loop,\"Healthcheck\":{\"Test\":[\"CMD\",\"true\"],\"Interval\":1000000}}"
  expect equal "$(tail -n 1 <<<"$output")" 201
}

@test "NONE turns it off; periods without a command are no check" {
  checked '{"Test":["NONE"]}'
  expect equal "$(health)" null
  moss rm -f "$box"
  checked '{"Interval":100000000}'
  expect equal "$(health)" null
}

@test "before 1.24 nobody can ask for one" {
  run api POST "/v1.23/containers/create?name=$box" "{\"Image\":\"busybox\",\"Cmd\":$loop,\"Healthcheck\":{\"Test\":[\"CMD\",\"true\"]}}"
  expect equal "$(tail -n 1 <<<"$output")" 201
  expect equal "$(moss inspect "$box" | jq -c '.[0].Config.Healthcheck')" null
}

@test "failures within the start period do not count" {
  since=$(date +%s)
  checked "{\"Test\":[\"CMD-SHELL\",\"test -e /tmp/ok\"],\"Interval\":100000000,\"StartPeriod\":3$sec,\"Retries\":1}"
  eventually 10 health_is unhealthy
  started=$(date -d "$(moss inspect "$box" | jq -r '.[0].State.StartedAt')" +%s%N)
  run dock events --since "$since" --until "$(($(date +%s) + 1))" --filter "container=$box" --filter event=health_status --format '{{.TimeNano}}'
  [ $((lines[0] - started)) -ge 3000000000 ] || fail "counted too early: $output, and the start at $started"
}

@test "a check that takes too long is killed and counts" {
  checked "{\"Test\":[\"CMD\",\"sleep\",\"1000\"],\"Interval\":100000000,\"Timeout\":300000000,\"Retries\":1}"
  eventually 10 health_is unhealthy
  expect equal "$(health '.Log[0].ExitCode')" -1
  expect --in "$(health '.Log[0].Output')" contains "Health check exceeded timeout (300ms)"
  moss inspect "$box" >/dev/null
  few() { [ "$(inside ps | grep -c '[s]leep 1000')" -le 1 ]; }
  eventually 5 few
}

@test "what a shell of a check has started is killed with it" {
  checked "{\"Test\":[\"CMD-SHELL\",\"sleep 1000; exit 1\"],\"Interval\":100000000,\"Timeout\":200000000,\"Retries\":3}"
  eventually 10 health_is unhealthy
  few() { [ "$(inside ps | grep -c '[s]leep 1000$')" -le 1 ]; }
  eventually 5 few
}

@test "a command that is not there, and one that prints much" {
  checked "{\"Test\":[\"CMD\",\"/no/such\"],\"Interval\":100000000,\"Retries\":1}"
  eventually 10 health_is unhealthy
  expect equal "$(health '.Log[0].ExitCode')" 127
  expect --in "$(health '.Log[0].Output')" contains /no/such
  moss rm -f "$box"
  checked "{\"Test\":[\"CMD-SHELL\",\"head -c 100000 /dev/zero | tr '\\\\\\\\0' x\"],\"Interval\":100000000}"
  eventually 10 health_is healthy
  expect equal "$(health '.Log[0].Output|length')" 4096
}

@test "nothing is checked while paused" {
  checked "{\"Test\":[\"CMD-SHELL\",\"echo x >>/tmp/seen\"],\"Interval\":100000000}"
  eventually 10 health_is healthy
  dock pause "$box"
  last=$(health '.Log[-1].End')
  sleep 1 # ten intervals
  after=$(health '.Log[-1]|[.End,.ExitCode]')
  run dock ps --filter "name=$box" --format '{{.Status}}'
  expect contains "(Paused)"
  dock unpause "$box"
  again() { [ "$(health '.Log[-1].End')" != "$last" ]; }
  eventually 10 again
  expect equal "$(health .Status)" '"healthy"'
  # One check may have been under way when the pause came; its result counts only as a good one.
  expect --in "$after" matches ',0\]$'
}

@test "the checks end with the container and begin anew with it" {
  checked "{\"Test\":[\"CMD-SHELL\",\"$gate; test -e /tmp/ok\"],\"Interval\":100000000,\"Timeout\":600$sec,\"Retries\":1}"
  inside touch /tmp/go
  eventually 10 health_is unhealthy
  inside rm /tmp/go # the first check of the next run lasts
  moss stop "$box"
  count=$(health '.Log[-1].End')
  sleep 0.5 # five intervals
  expect equal "$(health '.Log[-1].End')" "$count"
  moss start "$box"
  expect equal "$(health '[.Status,.FailingStreak]')" '["starting",0]'
  inside touch /tmp/ok /tmp/go
  eventually 10 health_is healthy
}

@test "a new engine goes on where the killed one was, and ends its checks" {
  checked "{\"Test\":[\"CMD-SHELL\",\"until test -e /tmp/ok; do sleep 0.05; done\"],\"Interval\":500000000,\"Timeout\":60$sec,\"Retries\":1}"
  inside touch /tmp/ok
  eventually 10 health_is healthy
  inside rm /tmp/ok
  hanging() { inside ps | awk '/until [t]est/ { print $1 }'; }
  hangs() { [ -n "$(hanging)" ]; }
  eventually 10 hangs
  left=$(hanging)
  old=$(inner_pid)
  kill -KILL "$old"
  eventually 20 another_engine "$old"
  expect equal "$(health '[.Status,(.Log|length > 0)]')" '["healthy",true]'
  ended_inside() { ! inside kill -0 "$left" 2>/dev/null; }
  eventually 10 ended_inside
  before=$(health '.Log[-1].End')
  inside touch /tmp/ok
  goes_on() { [ "$(health '.Log[-1].End')" != "$before" ]; }
  eventually 10 goes_on
  expect equal "$(health .Status)" '"healthy"'
  # Health checks are nobody's execs.
  expect equal "$(dock inspect --format '{{json .ExecIDs}}' "$box")" null
}

@test "the image's check: inherited, changed field by field, turned off" {
  checked '{"Retries":1}' checked
  eventually 10 health_is unhealthy
  expect equal "$(moss inspect "$box" | jq -c '.[0].Config.Healthcheck|[.Interval,.Retries]')" '[200000000,1]'
  moss rm -f "$box"
  checked '{"Test":["NONE"]}' checked
  expect equal "$(health)" null
}
