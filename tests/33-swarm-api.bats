#!/usr/bin/env bats
# A swarm of one node by the API: init and leave, the swarm itself, its node, services and tasks, field by field.
# bats file_tags=subids

load lib/moss
load lib/ports
load lib/swarm-api

setup_file() {
  MOSS_SWARM_DATA_PORT=$(free_port)
  export MOSS_SWARM_DATA_PORT
  start_engine
  import_busybox
  SWARM_ADDR=127.0.0.1:$(free_port 2)
  export SWARM_ADDR
}
teardown_file() {
  api POST '/swarm/leave?force=1' >/dev/null
  stop_engine
}
setup() {
  begin
  name=$(unique web)
}
teardown() {
  api DELETE "/services/$name" >/dev/null
  [ -z "${second-}" ] || kill "$second" 2>/dev/null || true
  finish
}

@test "init: the node's id, a manager in info, nodes and the swarm's record; a second time 406" {
  api POST '/swarm/leave?force=1' >/dev/null
  expect equal "$(show /info '.Swarm|[.LocalNodeState,.NodeID,.NodeAddr,.ControlAvailable,.Error,.RemoteManagers]')" '["inactive","","",false,"",null]'
  run init ''
  expect line -1 200
  node=$(jq -r . <<<"${lines[0]}")
  expect --in "$node" matches '^[a-z0-9]{25}$'
  expect equal "$(show /info '.Swarm|[.LocalNodeState,.NodeID,.NodeAddr,.ControlAvailable,.Error]')" "[\"active\",\"$node\",\"127.0.0.1\",true,\"\"]"
  expect equal "$(show /info .Swarm.RemoteManagers)" "[{\"Addr\":\"$SWARM_ADDR\",\"NodeID\":\"$node\"}]"
  expect equal "$(show /nodes '[.[]|[.ID,.ManagerStatus.Addr,.ManagerStatus.Leader]]')" "[[\"$node\",\"$SWARM_ADDR\",true]]"
  expect --in "$(show /swarm .ID)" matches '^"[a-z0-9]{25}"$'
  expect --in "$(show /swarm .CreatedAt)" matches '^"20'
  run init ''
  expect line -1 406
  expect contains "This node is already part of a swarm"
}

@test "the swarm's specification: every field is read, shown and kept" {
  in_swarm
  expect equal "$(show /swarm '.Spec|[.Name,.Orchestration.TaskHistoryRetentionLimit,.Raft.SnapshotInterval,.Raft.LogEntriesForSlowFollowers,.Raft.HeartbeatTick,.Raft.ElectionTick,.Dispatcher.HeartbeatPeriod,.CAConfig.NodeCertExpiry]')" \
    '["default",5,10000,500,1,10,5000000000,7776000000000000]'
  before=$(index /swarm)
  spec='{"Name":"default","Labels":{"a":"1"},"Orchestration":{"TaskHistoryRetentionLimit":2},"Raft":{"SnapshotInterval":9000,"KeepOldSnapshots":1,"LogEntriesForSlowFollowers":400,"HeartbeatTick":1,"ElectionTick":10},"Dispatcher":{"HeartbeatPeriod":6000000000},"CAConfig":{"NodeCertExpiry":7200000000000,"ExternalCAs":[{"Protocol":"cfssl","URL":"https://ca.example","Options":{"k":"v"}}]},"TaskDefaults":{"LogDriver":{"Name":"json-file","Options":{"max-size":"1m"}}},"EncryptionConfig":{"AutoLockManagers":false}}'
  answers 200 POST "/swarm/update?version=$before" "$spec"
  expect equal "$(show /swarm '.Spec|del(.EncryptionConfig)')" "$(jq -c 'del(.EncryptionConfig)' <<<"$spec")"
  [ "$(index /swarm)" -gt "$before" ] || fail "the version stays at $before"
  expect --in "$(show /swarm '.UpdatedAt > .CreatedAt')" matches true
  answers 400 POST /swarm/update "$spec"
  answers 500 POST "/swarm/update?version=$before" "$spec"
  expect contains "update out of sequence"
  answers 400 POST "/swarm/update?version=$(index /swarm)" '{"Name":"other"}'
  expect contains Name
  answers 200 POST "/swarm/update?version=$(index /swarm)" '{"Name":"default","Labels":{},"Orchestration":{"TaskHistoryRetentionLimit":5},"Dispatcher":{"HeartbeatPeriod":5000000000},"CAConfig":{"NodeCertExpiry":7776000000000000},"TaskDefaults":{}}'
}

@test "join tokens and the key: rotated one by one; the key is empty without a lock" {
  in_swarm
  worker=$(show /swarm .JoinTokens.Worker) manager=$(show /swarm .JoinTokens.Manager)
  expect --in "$worker$manager" matches '^"SWMTKN-1-[a-z0-9-]+""SWMTKN-1-[a-z0-9-]+"$'
  update() { answers 200 POST "/swarm/update?version=$(index /swarm)$1" "$(get /swarm | jq -c "$2")"; }
  update '&rotateWorkerToken=1' .Spec
  [ "$(show /swarm .JoinTokens.Worker)" != "$worker" ] || fail "the worker's token stays"
  expect equal "$(show /swarm .JoinTokens.Manager)" "$manager"
  worker=$(show /swarm .JoinTokens.Worker)
  update '&rotateManagerToken=1' .Spec
  [ "$(show /swarm .JoinTokens.Manager)" != "$manager" ] || fail "the manager's token stays"
  expect equal "$(show /swarm .JoinTokens.Worker)" "$worker"
  expect equal "$(show /swarm/unlockkey .UnlockKey)" '""'
  update '' '.Spec|.EncryptionConfig.AutoLockManagers=true'
  expect equal "$(show /swarm .Spec.EncryptionConfig.AutoLockManagers)" true
  eventually 10 eval '[[ $(show /swarm/unlockkey .UnlockKey) == \"SWMKEY-1-* ]]'
  key=$(show /swarm/unlockkey .UnlockKey)
  update '&rotateManagerUnlockKey=1' .Spec
  [ "$(show /swarm/unlockkey .UnlockKey)" != "$key" ] || fail "the key stays"
  update '' '.Spec|.EncryptionConfig.AutoLockManagers=false'
  expect equal "$(show /swarm/unlockkey .UnlockKey)" '""'
}

@test "a node's record, and what an update changes of it" {
  in_swarm
  node=$(show /info .Swarm.NodeID | jq -r .)
  for ref in "$node" "$(uname -n)" "${node:0:12}"; do expect equal "$(show "/nodes/$ref" .ID)" "\"$node\""; done
  expect equal "$(show "/nodes/$node" '[.Spec,.Description.Hostname,.Description.Platform.OS,.Status,.ManagerStatus]')" \
    "[{\"Availability\":\"active\",\"Labels\":{},\"Role\":\"manager\"},\"$(uname -n)\",\"linux\",{\"Addr\":\"127.0.0.1\",\"State\":\"ready\"},{\"Addr\":\"$SWARM_ADDR\",\"Leader\":true,\"Reachability\":\"reachable\"}]"
  expect equal "$(show "/nodes/$node" '[(.CreatedAt|length>20),(.Description.Platform.Architecture|length>0),.Description.Resources.NanoCPUs>=1000000000,.Description.Resources.MemoryBytes>1000000]')" '[true,true,true,true]'
  expect equal "$(show "/nodes/$node" .Description.Engine.EngineVersion)" "$(show /info .ServerVersion)"
  expect --in "$(show "/nodes/$node" '.Description.Engine.Plugins')" contains '{"Name":"bridge","Type":"Network"}' '{"Name":"local","Type":"Volume"}'
  before=$(index "/nodes/$node")
  spec='{"Name":"desk","Labels":{"gpu":"yes"},"Role":"manager","Availability":"pause"}'
  answers 200 POST "/nodes/$node/update?version=$before" "$spec"
  expect equal "$(show "/nodes/$node" .Spec)" "$(jq -c . <<<"$spec")"
  expect equal "$(show "/nodes/$node" '.UpdatedAt > .CreatedAt')" true
  for bad in '"Role":"boss"' '"Availability":"off"'; do
    answers 400 POST "/nodes/$node/update?version=$(index "/nodes/$node")" "{$bad}"
  done
  answers 200 POST "/nodes/$node/update?version=$(index "/nodes/$node")" '{"Role":"manager","Availability":"active"}'
  expect equal "$(show "/nodes/$node" .Spec)" '{"Availability":"active","Labels":{},"Role":"manager"}'
}

@test "nodes: each filter picks what it says; 404, a stale version, remove" {
  in_swarm
  node=$(show /info .Swarm.NodeID | jq -r .)
  for one in "id ${node:0:9}" "name $(uname -n)" "role manager" "membership accepted"; do expect equal "$one $(count nodes "$one")" "$one 1"; done
  for none in "id xyz" "name xyz" "role worker" "membership pending" "label a=b"; do expect equal "$none $(count nodes "$none")" "$none 0"; done
  for bad in '{"role":["boss"]}' '{"membership":["x"]}' '{"what":["x"]}' '{'; do
    answers 400 GET "/nodes?filters=$(jq -rn --arg f "$bad" '$f|@uri')"
  done
  for call in "GET /nodes/none" "DELETE /nodes/none" "POST /nodes/none/update?version=1"; do
    run api "${call% *}" "${call#* }" '{"Role":"worker","Availability":"active"}'
    expect line -1 404
    expect contains none
  done
  answers 500 POST "/nodes/$node/update?version=1" '{"Role":"manager","Availability":"active"}'
  expect contains "update out of sequence"
  answers 400 POST "/nodes/$node/update" '{"Role":"manager","Availability":"active"}'
  for force in '' '?force=1'; do # it is up, and the last manager
    answers 400 DELETE "/nodes/$node$force"
  done
}

@test "a service's record shows every field of its specification" {
  in_swarm
  mounts='[{"Type":"volume","Source":"v","Target":"/v","ReadOnly":true,"VolumeOptions":{"NoCopy":true,"Labels":{"a":"1"},"DriverConfig":{"Name":"local","Options":{"type":"tmpfs","device":"tmpfs"}}}},{"Type":"bind","Source":"/srv","Target":"/b","Consistency":"cached","BindOptions":{"Propagation":"rprivate","NonRecursive":true,"CreateMountpoint":true}},{"Type":"bind","Source":"/srv","Target":"/c","ReadOnly":true,"BindOptions":{"Propagation":"rprivate","ReadOnlyNonRecursive":true}},{"Type":"tmpfs","Target":"/t","TmpfsOptions":{"SizeBytes":1048576,"Mode":448}},{"Type":"volume","Source":"w","Target":"/w","VolumeOptions":{"Subpath":"s"}}]'
  spec="{\"Name\":\"$name\",\"Labels\":{\"l\":\"1\"},\"TaskTemplate\":{\"ContainerSpec\":{\"Image\":\"busybox:latest\",\"Labels\":{\"c\":\"2\"},\"Command\":[\"sleep\"],\"Args\":[\"1000\"],\"Hostname\":\"h\",\"Env\":[\"A=1\"],\"Dir\":\"/tmp\",\"User\":\"1:2\",\"Groups\":[\"3\"],\"StopSignal\":\"INT\",\"TTY\":true,\"OpenStdin\":true,\"ReadOnly\":true,\"Mounts\":$mounts,\"StopGracePeriod\":2000000000,\"Healthcheck\":{\"Test\":[\"CMD\",\"true\"],\"Interval\":1000000000,\"Timeout\":2000000000,\"StartPeriod\":3000000000,\"Retries\":4},\"Hosts\":[\"10.0.0.9 db\"],\"DNSConfig\":{\"Nameservers\":[\"10.0.0.1\"],\"Search\":[\"lan\"],\"Options\":[\"ndots:2\"]}},\"Resources\":{\"Limits\":{\"NanoCPUs\":500000000,\"MemoryBytes\":67108864},\"Reservations\":{\"NanoCPUs\":1000000,\"MemoryBytes\":4194304}},\"RestartPolicy\":{\"Condition\":\"on-failure\",\"Delay\":1000000000,\"MaxAttempts\":3,\"Window\":60000000000},\"Placement\":{\"Constraints\":[\"node.role==worker\"]},\"LogDriver\":{\"Name\":\"json-file\",\"Options\":{\"max-size\":\"1m\"}},\"ForceUpdate\":7},\"Mode\":{\"Replicated\":{\"Replicas\":2}},\"UpdateConfig\":{\"Parallelism\":2,\"Delay\":3000000000,\"FailureAction\":\"continue\"},\"EndpointSpec\":{\"Mode\":\"dnsrr\"}}"
  run api POST /services/create "$spec"
  expect line -1 201
  id=$(jq -r .ID <<<"${lines[0]}")
  expect equal "$(diff <(show "/services/$id" .Spec | jq .) <(jq . <<<"$spec"))" ""
  expect equal "$(show "/services/$id" '[.ID,(.CreatedAt|length>20),.Version.Index>0]')" "[\"$id\",true,true]"
  answers 200 DELETE "/services/$id"
  make ',"Mode":{"Global":{}}'
  expect equal "$(show "/services/$id" .Spec.Mode)" '{"Global":{}}'
}

@test "a service that asks for little has the defaults" {
  in_swarm
  run api POST /services/create '{"TaskTemplate":{"ContainerSpec":{"Image":"busybox","Command":["sleep","1000"]}}}'
  expect line -1 201
  id=$(jq -r .ID <<<"${lines[0]}")
  expect equal "$(show "/services/$id" '[(.Spec.Name|length>0),.Spec.Mode,.Endpoint,.UpdateStatus]')" '[true,{"Replicated":{"Replicas":1}},{"Spec":{}},null]'
  eventually 20 runs "$id" 1
  answers 200 DELETE "/services/$id"
}

@test "services: each filter picks what it says; names and ids, 404 and 409" {
  in_swarm
  make ',"Labels":{"stage":"test","x":""}'
  for one in "id ${id:0:9}" "name $name" "name ${name:0:9}" "label stage" "label stage=test"; do expect equal "$one $(count services "$one")" "$one 1"; done
  for none in "id xyz" "name xyz" "label stage=x" "label y"; do expect equal "$none $(count services "$none")" "$none 0"; done
  for bad in '{"what":["x"]}' '{"mode":["global"]}' '{'; do answers 400 GET "/services?filters=$(jq -rn --arg f "$bad" '$f|@uri')"; done
  expect --in "$(show /services '[.[].ID]')" contains "$id"
  for ref in "$id" "$name" "${id:0:12}"; do expect equal "$(show "/services/$ref" .ID)" "\"$id\""; done
  answers 409 POST /services/create "$(service_body)"
  expect contains "name conflicts with an existing object"
  answers 404 GET /services/none
  expect contains "none"
  answers 404 DELETE /services/none
  run api DELETE "/services/$name"
  expect output $'\n200'
  answers 404 GET "/services/$name"
}

@test "an update needs the version of the record, and keeps the name" {
  in_swarm
  make ',"UpdateConfig":{"Parallelism":0}'
  eventually 20 runs "$id" 1
  before=$(index "/services/$id")
  answers 400 POST "/services/$id/update" "$(service_body)"
  answers 500 POST "/services/$id/update?version=1" "$(service_body)"
  expect contains "update out of sequence"
  answers 404 POST "/services/none/update?version=1" "$(service_body)"
  run curl -sS --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: text/plain' -d "$(service_body)" -o /dev/null -w '%{http_code}' "http://moss/services/$id/update?version=$before"
  expect output 400
  answers 501 POST "/services/$id/update?version=$before" "$(service_body | sed "s/$name/other/")"
  expect contains "renaming services is not supported"
  first=$(tasks "service $id" '.[0].ID')
  version() { index "/services/$id"; }
  run api POST "/services/$id/update?version=$(version)" "$(service_body ',"Mode":{"Replicated":{"Replicas":1}}' ',"ForceUpdate":1' ',"Env":["A=1"]')"
  expect output $'{}\n\n200'
  eventually 20 eval 'runs "$id" 1 && [ "$(tasks "service $id" "[.[]|select(.DesiredState==\"running\")][0].ID")" != '"'$first'"' ]'
  expect equal "$(show "/services/$id" '[.Spec.TaskTemplate.ContainerSpec.Env,.UpdatedAt>.CreatedAt]')" '[["A=1"],true]'
  expect --in "$(show "/services/$id" '.UpdateStatus|[.State,.Message,.StartedAt]')" matches '^\["(updating|completed)","update [a-z ]+","20'
  run curl -sS --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/json' -H 'X-Registry-Auth: bm90IEpTT04=' -d "$(service_body)" -o /dev/null -w '%{http_code}' "http://moss/services/$id/update?version=$(version)"
  expect output 400
}

@test "what a service cannot have is refused with its status, and nothing is made" {
  in_swarm
  refused() {
    answers "$1" POST /services/create "$(service_body "$3" "$4" "$5")"
    expect --in "$2 ${lines[0]}" contains "$2"
    answers 404 GET "/services/$name"
  }
  refused 400 EndpointSpec.Mode ',"EndpointSpec":{"Mode":"x"}'
  refused 400 Mode ',"Mode":{"Global":{},"Replicated":{}}'
  refused 400 UpdateConfig.Delay ',"UpdateConfig":{"Delay":-1}'
  refused 400 Parallelism ',"UpdateConfig":{"Parallelism":-1}'
  refused 400 FailureAction ',"UpdateConfig":{"FailureAction":"x"}'
  refused 400 Condition '' ',"RestartPolicy":{"Condition":"always"}'
  refused 400 Constraints '' ',"Placement":{"Constraints":["node.role=manager"]}'
  refused 400 NanoCPUs '' ',"Resources":{"Limits":{"NanoCPUs":1}}'
  refused 400 MemoryBytes '' ',"Resources":{"Reservations":{"MemoryBytes":1}}'
  refused 400 Mounts '' '' ',"Mounts":[{"Type":"what","Target":"/x"}]'
  refused 400 Mounts '' '' ',"Mounts":[{"Type":"volume","Target":"x"}]'
  refused 400 Mounts '' '' ',"Mounts":[{"Type":"image","Source":"busybox","Target":"/x","ImageOptions":{"Subpath":"s"}}]'
  refused 400 Mounts '' '' ',"Mounts":[{"Type":"cluster","Source":"v","Target":"/x","ClusterOptions":{}}]'
  refused 400 Propagation '' '' ',"Mounts":[{"Type":"bind","Source":"/a","Target":"/x","BindOptions":{"Propagation":"far"}}]'
  answers 400 POST /services/create '{"Name":"'"$name"'","TaskTemplate":{"ContainerSpec":{}}}'
  expect contains Image
  answers 400 POST /services/create "$(service_body | sed "s/$name/a_/")"
  expect contains Name
  for header in 'Content-Type: text/plain' 'X-Registry-Auth: bm90IEpTT04='; do
    run curl -sS --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/json' -H "$header" -d "$(service_body)" -o /dev/null -w '%{http_code}' http://moss/services/create
    [[ $header != X-* ]] || expect output 400
  done
  run curl -sS --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: text/plain' -d "$(service_body)" -o /dev/null -w '%{http_code}' http://moss/services/create
  expect output 400
}

@test "a task's record: its place, its states, its container" {
  in_swarm
  make
  eventually 20 runs "$id" 1
  task=$(tasks "service $id" '.[0].ID' | jq -r .)
  expect --in "$task" matches '^[a-z0-9]{25}$'
  node=$(show /info .Swarm.NodeID)
  expect equal "$(show "/tasks/$task" '[.ID,.ServiceID,.Slot,.NodeID,.DesiredState,.Status.State,.Name,.NetworksAttachments]')" \
    "[\"$task\",\"$id\",1,$node,\"running\",\"running\",null,null]"
  expect equal "$(show "/tasks/$task" .Spec)" "$(show "/services/$id" .Spec.TaskTemplate)"
  expect equal "$(show "/tasks/$task" '[(.CreatedAt|length>20),.UpdatedAt>=.CreatedAt,.Version.Index>0,(.Status.Timestamp|length>20),.Status.Message]')" '[true,true,true,true,"started"]'
  ctr=$(show "/tasks/$task" .Status.ContainerStatus.ContainerID | jq -r .)
  expect equal "$(show "/containers/$ctr/json" '[.Name,.State.Pid]')" "[\"/$name.1.$task\",$(show "/tasks/$task" .Status.ContainerStatus.PID)]"
  expect equal "$(show "/tasks/${task:0:12}" .ID)" "\"$task\""
  # One that fails says why.
  api DELETE "/services/$name" >/dev/null
  make ',"Mode":{"Replicated":{"Replicas":1}}' ',"RestartPolicy":{"Condition":"none"}' ',"Args":["x"]'
  eventually 20 eval '[ "$(tasks "service $id" "[.[]|[.Status.State,.DesiredState,.Status.ContainerStatus.ExitCode]]")" = "[[\"failed\",\"shutdown\",1]]" ]'
  expect --in "$(tasks "service $id" '.[0].Status.Err')" matches 'exit'
}

@test "tasks: each filter picks what it says; 404" {
  in_swarm
  make ',"Labels":{"own":"'"$name"'"},"Mode":{"Replicated":{"Replicas":2}}'
  eventually 20 runs "$id" 2
  task=$(tasks "service $name" '.[0].ID' | jq -r .)
  for two in "service $id" "service $name" "label own=$name" "name $name"; do expect equal "$two $(count tasks "$two")" "$two 2"; done
  expect equal "$(tasks "id ${task:0:12}" length)" 1
  for all in "node $(uname -n)" "node $(show /info .Swarm.NodeID | jq -r .)" "desired-state running"; do
    expect --in "$(tasks "$all" '[.[].ID]')" contains "$task"
  done
  expect --in "$(tasks "desired-state shutdown" '[.[].ID]')" lacks "$task"
  expect equal "$(tasks "desired-state accepted" length)" 0
  for none in "id xyz" "name xyz" "label own=x"; do expect equal "$none $(count tasks "$none")" "$none 0"; done
  for bad in '{"desired-state":["x"]}' '{"what":["x"]}' '{'; do answers 400 GET "/tasks?filters=$(jq -rn --arg f "$bad" '$f|@uri')"; done
  answers 404 GET /tasks/none
  expect contains none
}

@test "a task's container has what its template asks for" {
  in_swarm
  make '' ',"Resources":{"Limits":{"NanoCPUs":500000000,"MemoryBytes":67108864}},"LogDriver":{"Name":"json-file","Options":{"max-size":"1m"}}' \
    ',"Labels":{"own":"1"},"Env":["A=1"],"Dir":"/tmp","User":"1:2","Groups":["3"],"Hostname":"h","StopSignal":"INT","TTY":true,"OpenStdin":true,"ReadOnly":true,"Mounts":[{"Type":"volume","Source":"'"$name"'","Target":"/v","ReadOnly":true}],"Hosts":["10.0.0.9 db"],"DNSConfig":{"Nameservers":["10.0.0.1"],"Search":["lan"],"Options":["ndots:2"]},"Healthcheck":{"Test":["CMD","true"],"Interval":1000000000}'
  eventually 30 runs "$id" 1
  ctr=$(tasks "service $id" '.[0].Status.ContainerStatus.ContainerID' | jq -r .)
  expect equal "$(show "/containers/$ctr/json" '.Config|[.Image,.Entrypoint,.Labels.own,.Env[0],.WorkingDir,.User,.Hostname,.StopSignal,.Tty,.OpenStdin,.Healthcheck.Test]')" \
    '["busybox:latest",["sleep","1000"],"1","A=1","/tmp","1:2","h","INT",true,true,["CMD","true"]]'
  expect equal "$(show "/containers/$ctr/json" '.HostConfig|[.GroupAdd,.ReadonlyRootfs,.ExtraHosts,.Dns,.DnsSearch,.DnsOptions,.LogConfig,.Memory,.RestartPolicy.Name]')" \
    '[["3"],true,["db:10.0.0.9"],["10.0.0.1"],["lan"],["ndots:2"],{"Config":{"max-size":"1m"},"Type":"json-file"},67108864,"no"]'
  expect equal "$(show "/containers/$ctr/json" '[.HostConfig.CpuQuota/.HostConfig.CpuPeriod,[.Mounts[]|[.Type,.Name,.Destination,.RW]]]')" "[0.5,[[\"volume\",\"$name\",\"/v\",false]]]"
  expect --in "$(show "/containers/$ctr/json" .Config.Labels)" contains "\"com.docker.swarm.service.id\":\"$id\"" "\"com.docker.swarm.service.name\":\"$name\"" com.docker.swarm.task.id com.docker.swarm.node.id
  api DELETE "/services/$name" >/dev/null
  eventually 20 eval '[ "$(api GET "/containers/'"$ctr"'/json" | tail -n 1)" = 404 ]'
  api DELETE "/volumes/$name" >/dev/null
}

@test "join and unlock: what cannot be is refused with its reason" {
  in_swarm
  join() { echo "{\"ListenAddr\":\"$SWARM_ADDR\",\"AdvertiseAddr\":\"$SWARM_ADDR\",\"RemoteAddrs\":[\"127.0.0.1:1\"],\"JoinToken\":\"SWMTKN-1-x\"$1}"; }
  answers 406 POST /swarm/join "$(join)"
  expect contains "already part of a swarm"
  answers 409 POST /swarm/unlock '{"UnlockKey":"SWMKEY-1-x"}'
  api POST '/swarm/leave?force=1' >/dev/null
  answers 406 POST /swarm/unlock '{"UnlockKey":"SWMKEY-1-x"}'
  for bad in ',"DataPathAddr":"127.0.0.1:1"' ',"DataPathAddr":"0.0.0.0"' ',"DataPathAddr":"nowhere"' ',"Availability":"off"' ',"RemoteAddrs":[]' ',"JoinToken":""' ',"JoinToken":"nothing"' ',"ListenAddr":"nowhere.invalid:1"'; do
    run api POST /swarm/join "$(join "$bad")"
    expect line -1 400
    expect lacks SWMTKN
    [[ $bad != *DataPathAddr* ]] || expect contains DataPathAddr
    expect equal "$bad $(show /info .Swarm.LocalNodeState)" "$bad \"inactive\""
  done
  for bad in ',"DataPathAddr":"127.0.0.1:1"' ',"DataPathAddr":"0.0.0.0"' ',"DataPathAddr":"nowhere"' ',"Availability":"off"' ',"Spec":{"Raft":{"ElectionTick":-1}}' ',"ListenAddr":"nowhere.invalid:1"'; do
    run init "$bad"
    expect line -1 400
    [[ $bad != *DataPathAddr* ]] || expect contains DataPathAddr
    expect equal "$bad $(show /info .Swarm.LocalNodeState)" "$bad \"inactive\""
  done
  run init ',"DataPathAddr":"127.0.0.1"'
  expect line -1 200
}

@test "a locked manager waits for its key after a restart" {
  in_swarm
  answers 200 POST "/swarm/update?version=$(index /swarm)" "$(get /swarm | jq -c '.Spec|.EncryptionConfig.AutoLockManagers=true')"
  eventually 10 eval '[[ $(show /swarm/unlockkey .UnlockKey) == \"SWMKEY-1-* ]]'
  key=$(show /swarm/unlockkey .UnlockKey | jq -r .)
  halt_engine
  spawn_engine
  eventually 20 eval '[ "$(show /info .Swarm.LocalNodeState)" = "\"locked\"" ]'
  answers 406 GET /services
  answers 400 POST /swarm/unlock '{"UnlockKey":"SWMKEY-1-0000000000000000000000000000000000000000000"}'
  answers 200 POST /swarm/unlock "{\"UnlockKey\":\"$key\"}"
  eventually 20 eval '[ "$(show /info .Swarm.LocalNodeState)" = "\"active\"" ]'
  eventually 20 eval '[ "$(api GET /services | tail -n 1)" = 200 ]'
  answers 200 POST "/swarm/update?version=$(index /swarm)" "$(get /swarm | jq -c '.Spec|.EncryptionConfig.AutoLockManagers=false')"
}

@test "a second node joins as a worker, runs tasks and leaves" {
  in_swarm
  two=$MOSS_DIR/two.sock
  "$moss_bin/mossd" --root "$MOSS_DATA/two" --run-dir "$MOSS_DIR/two" --host "unix://$two" --swarm-data-port "$(free_port)" >>"$MOSS_DIR/mossd.log" 2>&1 3>&- 4>&- &
  second=$!
  on_two() { timeout 120 "$moss_bin/moss" --host "unix://$two" "$@"; }
  eventually 20 eval 'on_two version >/dev/null 2>&1'
  moss save busybox | on_two load >/dev/null
  port=$(free_port)
  get /swarm | jq -r .JoinTokens.Worker >"$BATS_TEST_TMPDIR/token"
  run on_two swarm join --listen-addr "127.0.0.1:$port" --advertise-addr "127.0.0.1:$port" --token-file "$BATS_TEST_TMPDIR/token" "$SWARM_ADDR"
  expect output "This node joined a swarm as a worker."
  eventually 20 eval '[ "$(show /nodes "[.[]|select(.Status.State==\"ready\")]|length")" = 2 ]'
  worker=$(show /nodes '[.[]|select(.Spec.Role=="worker")][0].ID' | jq -r .)
  expect equal "$(on_two info --format '{{.Swarm.NodeID}} {{.Swarm.ControlAvailable}}')" "$worker false"
  run on_two node ls
  expect status 1
  expect contains "This node is not a swarm manager"
  make ',"Mode":{"Replicated":{"Replicas":2}}' ',"Placement":{"Constraints":["node.role==worker"]}' ',"Args":["1000"]'
  eventually 30 runs "$id" 2
  expect equal "$(tasks "service $id" "[.[].NodeID]|unique")" "[\"$worker\"]"
  expect equal "$(on_two ps -q | wc -l)" 2
  run moss service logs "$name"
  expect contains "$name.1 ($(uname -n))"
  run on_two swarm leave
  expect output "Node left the swarm."
  eventually 20 eval '[ -z "$(on_two ps -aq)" ]'
  eventually 30 eval '[ "$(show "/nodes/$worker" .Status.State)" = "\"down\"" ]'
  run api DELETE "/nodes/$worker"
  expect output $'\n200'
  kill "$second"
  eventually 20 ended "$second"
  second=
  wipe "$MOSS_DATA/two"
}

@test "leave: a manager by force only; then all is 406 again" {
  in_swarm
  make
  eventually 20 runs "$id" 1
  answers 503 POST /swarm/leave
  expect contains "--force"
  run api POST '/swarm/leave?force=1'
  expect output $'\n200'
  expect equal "$(show /info .Swarm.LocalNodeState)" '"inactive"'
  for call in "GET /swarm" "GET /swarm/unlockkey" "POST /swarm/update?version=1" "POST /swarm/leave" "GET /nodes" "GET /nodes/x" "DELETE /nodes/x" \
    "POST /nodes/x/update?version=1" "GET /services" "POST /services/create" "GET /services/x" "DELETE /services/x" "POST /services/x/update?version=1" \
    "GET /tasks" "GET /tasks/x"; do
    run api "${call% *}" "${call#* }"
    expect line -1 406
    expect contains "This node is not part of a swarm"
  done
  eventually 20 eval '[ "$(show "/containers/json?all=1" length)" = 0 ]'
}
