#!/usr/bin/env bats
# Networks and published ports of a swarm of one node by the API, field by field, and what they carry.
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
  net=$(unique net)
  in_swarm
}
teardown() {
  local item
  [ -z "${second-}" ] || kill "$second" 2>/dev/null || true
  for item in "$name" "$name-2"; do api DELETE "/services/$item" >/dev/null; done
  for item in $(show /networks '.[]|select(.Name|startswith("'"$net"'")).Id' | jq -r .); do eventually 30 removes "$item"; done
  finish
}

removes() { [[ $(api DELETE "/networks/$1" | tail -n 1) =~ ^(200|404)$ ]]; }
# network FIELDS: a body of a network of that name, with fields beside the name. created NAME [FIELDS]: makes one, and prints its id.
network() { echo "{\"Name\":\"$net\",\"CheckDuplicate\":true,\"Driver\":\"overlay\"${1-}}"; }
created() { api POST /networks/create "{\"Name\":\"$1\",\"Driver\":\"overlay\"${2-}}" | sed '$d' | jq -re .Id; }
# refused STATUS TEXT METHOD PATH [BODY]: so it is, and the message has the text.
refused() {
  local code=$1 text=$2
  shift 2
  answers "$code" "$@"
  expect --in "$* says $(jq -r .message <<<"${lines[0]}")" contains "$text"
}
# listed JSON: the networks of this test that pass the filters, in one line.
listed() { show "/networks?filters=$(jq -rn --arg f "$1" '$f|@uri')" '[.[].Name|select(startswith("'"$net"'"))[('"${#net}"'):]]|join(" ")'; }
# container: the id of the service's container.
container() { tasks "service $id" '[.[]|select(.Status.State=="running")][0].Status.ContainerStatus.ContainerID' | jq -r .; }
# web: the field Args of tasks that tell the client's address over HTTP, at port 80.
web() {
  local cgi='mkdir -p /w/cgi-bin && printf "%s\n" "#!/bin/sh" "echo; echo \$REMOTE_ADDR" >/w/cgi-bin/who && chmod +x /w/cgi-bin/who'
  jq -cn --arg run "$cgi && exec httpd -f -h /w" '{Command:["sh","-c",$run]}' | sed 's/^{/,/; s/}$//'
}

@test "a network of the swarm: every field is read, shown by inspect and list, and kept" {
  run api POST /networks/create "$(network ',"Internal":true,"EnableIPv4":true,"EnableIPv6":false,"Scope":"swarm","Attachable":false,"Ingress":false,"ConfigOnly":false,"Options":{"encrypted":"","own":"1"},"Labels":{"a":"1"},"IPAM":{"Driver":"default","Options":{"k":"v"},"Config":[{"Subnet":"10.213.8.0/24","IPRange":"10.213.8.128/25","Gateway":"10.213.8.9"}]}')"
  expect line -1 201
  net_id=$(jq -r .Id <<<"${lines[0]}")
  expect --in "$net_id" matches '^[a-z0-9]{25}$'
  expect equal "$(jq -r .Warning <<<"${lines[0]}")" "The driver overlay has no option own: kept and of no effect; The IPAM driver default has no option k: kept and of no effect"
  want='["'$net'","'$net_id'","swarm","overlay",false,true,{"Config":[{"Gateway":"10.213.8.9","IPRange":"10.213.8.128/25","Subnet":"10.213.8.0/24"}],"Driver":"default","Options":{"k":"v"}},{},{"encrypted":"","own":"1"},{"a":"1"}]'
  fields='[.Name,.Id,.Scope,.Driver,.EnableIPv6,.Internal,.IPAM,.Containers,.Options,.Labels]'
  for ref in "$net" "$net_id" "${net_id:0:9}" "$net?scope=swarm" "$net?scope=swarm&verbose=false" "$net?scope="; do
    expect equal "$(show "/networks/$ref" "$fields")" "$want"
  done
  expect equal "$(show /networks ".[]|select(.Id==\"$net_id\")|$fields")" "$want"
  expect --in "$(show "/networks/$net" .Created)" matches '^"20[0-9-]+T[0-9:.]+Z"$'
  eventually 30 removes "$net"
  # What is not asked for is chosen.
  net_id=$(created "$net")
  expect --in "$(show "/networks/$net_id" '[.IPAM,.Internal,.Options,.Labels]')" matches '^\[\{"Config":\[\{"Gateway":"10\.2[0-9]+\.[0-9]+\.1","Subnet":"10\.2[0-9]+\.[0-9]+\.0/24"\}\],"Driver":"default","Options":\{\}\},false,\{\},\{\}\]$'
}

@test "a network of the swarm: what cannot be is refused with the field, and nothing is left" {
  while IFS='|' read -r code text fields; do
    refused "$code" "$text" POST /networks/create "$(network ",$fields")"
    refused 404 "$net" GET "/networks/$net"
  done <<'EOF'
400|Name|"Name":"a b"
400|Name|"Name":"a.b"
400|Name|"Name":""
403|predefined bridge network|"Name":"bridge"
403|predefined ingress network|"Name":"ingress"
501|EnableIPv6|"EnableIPv6":true
501|EnableIPv4|"EnableIPv4":false
400|Scope|"Scope":"local"
501|Attachable|"Attachable":true
501|Ingress|"Ingress":true
501|ConfigOnly|"ConfigOnly":true
501|ConfigFrom|"ConfigFrom":{"Network":"x"}
400|Labels|"Labels":{"":"x"}
400|Options|"Options":{"":"x"}
400|com.docker.network.bridge.name|"Options":{"com.docker.network.bridge.name":"x"}
404|plugin "dhcp" not found|"IPAM":{"Driver":"dhcp"}
400|IPAM.Config[0].AuxAddress|"IPAM":{"Config":[{"Subnet":"10.213.8.0/24","AuxiliaryAddresses":{"a":"10.213.8.2"}}]}
400|invalid subnet "ten"|"IPAM":{"Config":[{"Subnet":"ten"}]}
400|did you mean 10.213.8.0/24|"IPAM":{"Config":[{"Subnet":"10.213.8.1/24"}]}
400|IPv4 addresses only|"IPAM":{"Config":[{"Subnet":"fd00:8::/64"}]}
400|between 12 and 29 bits|"IPAM":{"Config":[{"Subnet":"10.213.8.0/30"}]}
400|one subnet|"IPAM":{"Config":[{"Subnet":"10.213.8.0/24"},{"Subnet":"10.213.9.0/24"}]}
400|needs a subnet|"IPAM":{"Config":[{"Gateway":"10.213.8.1"}]}
400|invalid range|"IPAM":{"Config":[{"Subnet":"10.213.8.0/24","IPRange":"10.213.9.0/25"}]}
400|invalid gateway|"IPAM":{"Config":[{"Subnet":"10.213.8.0/24","Gateway":"10.213.9.1"}]}
409|the uplink of the nodes|"IPAM":{"Config":[{"Subnet":"10.0.2.0/24"}]}
EOF
  created "$net-a" ',"IPAM":{"Config":[{"Subnet":"10.213.8.0/24"}]}' >/dev/null
  refused 409 "network $net-a" POST /networks/create "$(network ',"IPAM":{"Config":[{"Subnet":"10.213.8.128/25"}]}')"
  refused 409 "$net-a already exists" POST /networks/create "$(network | sed "s/$net/$net-a/")"
  refused 409 "$net-a already exists" POST /networks/create "{\"Name\":\"$net-a\",\"Driver\":\"bridge\"}"
  answers 201 POST /networks/create "{\"Name\":\"$net-b\"}"
  refused 409 "$net-b already exists" POST /networks/create "$(network | sed "s/$net/$net-b/")"
  run curl -sS --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: text/plain' -d "$(network)" -o /dev/null -w '%{http_code}' http://moss/v1.24/networks/create
  expect output 500
  refused 404 "$net" GET "/networks/$net"
}

@test "networks: filters and ?scope pick those of the swarm, remove and prune take them, and events tell of it" {
  since=$(date +%s.%N)
  net_id=$(created "$net-s" ',"Labels":{"own":"'"$net"'"}')
  answers 201 POST /networks/create "{\"Name\":\"$net-l\",\"Labels\":{\"own\":\"$net\"}}"
  while IFS='|' read -r filter want; do expect equal "$filter $(listed "$filter")" "$filter \"$want\""; done <<EOF
{"scope":["swarm"]}|-s
{"scope":["local"]}|-l
{"scope":["swarm","local"]}|-l -s
{"scope":["global"]}|
{"driver":["overlay"]}|-s
{"driver":["bridge"]}|-l
{"label":["own=$net"]}|-l -s
{"name":["$net-s"]}|-s
{"id":["${net_id:0:12}"]}|-s
{"type":["custom"]}|-l -s
{"type":["builtin"]}|
{"scope":["swarm"],"label":["own=x"]}|
EOF
  answers 500 GET "/v1.23/networks?filters=$(filters scope swarm)"
  expect equal "$(show '/networks/ingress?scope=swarm' '[.Scope,.Driver]')" '["swarm","overlay"]'
  for there in "$net-s swarm" "$net-l local" "$net_id swarm"; do answers 200 GET "/networks/${there% *}?scope=${there#* }"; done
  for gone in "$net-s local" "$net-l swarm" "bridge swarm" "ingress local"; do answers 404 GET "/networks/${gone% *}?scope=${gone#* }"; done
  # A service keeps its network.
  make '' ",\"Networks\":[{\"Target\":\"$net-s\"}]"
  eventually 30 runs "$id" 1
  # Containers that clients make are not in it.
  refused 403 "$net-s not manually attachable" POST "/containers/create?name=$name" "{\"Image\":\"busybox\",\"Cmd\":[\"true\"],\"HostConfig\":{\"NetworkMode\":\"$net-s\"}}"
  moss run -d --name "$name" busybox sleep 1000 >/dev/null
  refused 403 "$net-s not manually attachable" POST "/networks/$net-s/connect" "{\"Container\":\"$name\"}"
  moss rm -f "$name" >/dev/null
  refused 409 "$name" DELETE "/networks/$net-s"
  answers 200 POST "/networks/prune?filters=$(filters label "own=$net")"
  expect --in "${lines[0]}" contains "$net-l"
  expect --in "${lines[0]}" lacks "$net-s"
  answers 200 DELETE "/services/$name"
  eventually 30 pruned "$net-s"
  refused 404 "$net-s" DELETE "/networks/$net-s"
  refused 403 ingress DELETE /networks/ingress
  answers 200 POST /networks/prune
  answers 200 GET /networks/ingress
  eventually 10 told "connect $net_id $net-s overlay" "create $net_id $net-s overlay" "destroy $net_id $net-s overlay" "disconnect $net_id $net-s overlay"
}
# told EVENT...: are these the events of the network since then, sorted?
told() {
  [ "$(get "/events?since=$since&until=$(date +%s.%N)&filters=$(filters network "$net_id")" |
    jq -r '"\(.Action) \(.Actor.ID) \(.Actor.Attributes.name) \(.Actor.Attributes.type)"' | sort -u)" = "$(printf '%s\n' "$@")" ]
}
pruned() { api POST "/networks/prune?filters=$(filters label "own=$net")" | head -n 1 | jq -e --arg n "$1" '.NetworksDeleted|index($n)' >/dev/null; }

@test "a service in networks: its addresses, its task's places with every field, and its names" {
  one=$(created "$net-1" ',"Labels":{"a":"1"},"Options":{"own":"1"},"IPAM":{"Options":{"k":"v"},"Config":[{"Subnet":"10.213.16.0/24","IPRange":"10.213.16.128/25","Gateway":"10.213.16.1"}]}')
  two=$(created "$net-2" ',"Internal":true')
  make ",\"Networks\":[\"$net-1\"]" # as the documents have it: names
  expect equal "$(show "/services/$id" '[.Spec.Networks,.Spec.TaskTemplate.Networks]')" "[[{\"Target\":\"$one\"}],null]"
  api DELETE "/services/$name" >/dev/null
  make '' ",\"Networks\":[{\"Target\":\"$net-1\",\"Aliases\":[\"db\",\"store\"]},{\"Target\":\"${two:0:12}\"}]" "$(web)"
  expect equal "$(show "/services/$id" .Spec.TaskTemplate.Networks)" "[{\"Aliases\":[\"db\",\"store\"],\"Target\":\"$one\"},{\"Target\":\"$two\"}]"
  eventually 30 runs "$id" 1
  expect equal "$(show "/services/$id" '.Endpoint|[.Ports,[.VirtualIPs[].NetworkID]]')" "[null,[\"$one\",\"$two\"]]"
  vip=$(show "/services/$id" '.Endpoint.VirtualIPs[0].Addr' | jq -r .)
  expect --in "$vip" matches '^10\.213\.16\.[0-9]+/24$'
  task=$(tasks "service $id" '.[0].ID' | jq -r .)
  expect equal "$(show "/tasks/$task" '[.NetworksAttachments[].Network.ID]')" "[\"$one\",\"$two\"]"
  pool='{"Gateway":"10.213.16.1","Range":"10.213.16.128/25","Subnet":"10.213.16.0/24"}'
  expect equal "$(show "/tasks/$task" '.NetworksAttachments[0].Network|[.Spec,.DriverState,.IPAMOptions]')" \
    "[{\"DriverConfiguration\":{\"Name\":\"overlay\",\"Options\":{\"own\":\"1\"}},\"IPAMOptions\":{\"Configs\":[$pool],\"Driver\":{\"Name\":\"default\",\"Options\":{\"k\":\"v\"}}},\"Labels\":{\"a\":\"1\"},\"Name\":\"$net-1\"},{\"Name\":\"overlay\"},{\"Configs\":[$pool],\"Driver\":{\"Name\":\"default\"}}]"
  expect equal "$(show "/tasks/$task" '.NetworksAttachments[]|[.Network.Version.Index>0,(.Network.CreatedAt|length>20),.Network.UpdatedAt>=.Network.CreatedAt,(.Addresses|length)]')" $'[true,true,true,1]\n[true,true,true,1]'
  expect equal "$(show "/tasks/$task" '.NetworksAttachments[1].Network.Spec.Internal')" true
  # The container has these places, and no other: what it does not have leads to the outside by its node.
  addr=$(show "/tasks/$task" '.NetworksAttachments[0].Addresses[0]' | jq -r .)
  expect --in "$addr" matches '^10\.213\.16\.(1[3-9]|2)[0-9]/24$'
  ctr=$(container)
  expect equal "$(show "/containers/$ctr/json" '.NetworkSettings.Networks|[keys,.["'"$net-1"'"].IPAddress,.["'"$net-1"'"].NetworkID]')" "[[\"$net-1\",\"$net-2\"],\"${addr%/*}\",\"$one\"]"
  expect equal "$(show "/networks/$net-1" ".Containers[\"$ctr\"]|[.Name,.IPv4Address]")" "[\"$name.1.$task\",\"$addr\"]"
  # A task of another service finds it by its names and by its address.
  first=$id
  api POST /services/create "$(service_body '' ",\"Networks\":[{\"Target\":\"$one\"}]" | sed "s/$name/$name-2/")" >/dev/null
  id=$name-2
  eventually 30 runs "$id" 1
  other=$(container)
  for host in "$name" "$name.$net-1" db store "tasks.$name" "${vip%/*}" "${addr%/*}"; do
    run moss exec "$other" timeout 60 wget -qO- "http://$host/cgi-bin/who"
    expect status 0
    expect matches '^\[::ffff:10\.213\.16\.'
  done
  for lookup in "$name ${vip%/*}" "db ${vip%/*}" "tasks.$name ${addr%/*}"; do
    run moss exec "$other" nslookup "${lookup% *}"
    expect contains "Address: ${lookup#* }"
  done
  # By an update it comes out of one: a task of another template.
  id=$first
  answers 200 POST "/services/$id/update?version=$(index "/services/$id")" "$(service_body '' ",\"Networks\":[{\"Target\":\"$net-2\"}]")"
  eventually 30 eval '[ "$(show "/services/$id" "[.Endpoint.VirtualIPs[].NetworkID]")" = "[\"$two\"]" ] && [ "$(tasks "service $id" "[.[]|select(.Status.State==\"running\")|.NetworksAttachments[].Network.ID]")" = "[\"$two\"]" ]'
}

@test "networks of a service: what cannot be is refused with its status, and nothing is made" {
  net_id=$(created "$net-1")
  while IFS='|' read -r code text networks; do
    for body in "$(service_body ",\"Networks\":$networks")" "$(service_body '' ",\"Networks\":$networks")"; do
      refused "$code" "$text" POST /services/create "$body"
      answers 404 GET "/services/$name"
    done
  done <<EOF
403|network bridge is not eligible for services|["bridge"]
403|network bridge is not eligible for services|[{"Target":"bridge"}]
403|network host is not eligible for services|[{"Target":"host"}]
403|network ingress is not eligible for services|["ingress"]
404|network none-such not found|["none-such"]
400|Networks[0].Target|[""]
400|Networks[0].Target|[{"Aliases":["a"]}]
400|Networks[1].Aliases|["$net-1",{"Target":"x","Aliases":["a b"]}]
400|is there twice|["$net-1","$net_id"]
EOF
  make '' ",\"Networks\":[{\"Target\":\"$net-1\"}]"
  refused 404 none-such POST "/services/$id/update?version=$(index "/services/$id")" "$(service_body '' ',"Networks":[{"Target":"none-such"}]')"
}

@test "published ports: every field is shown, given where it is open, and leads to the task on all addresses of the node" {
  port=$(free_port)
  make ",\"EndpointSpec\":{\"Mode\":\"vip\",\"Ports\":[{\"Name\":\"http\",\"Protocol\":\"tcp\",\"TargetPort\":80,\"PublishedPort\":$port,\"PublishMode\":\"ingress\"},{\"Protocol\":\"udp\",\"TargetPort\":53}]}" '' "$(web)"
  eventually 30 runs "$id" 1
  asked="{\"Name\":\"http\",\"Protocol\":\"tcp\",\"PublishMode\":\"ingress\",\"PublishedPort\":$port,\"TargetPort\":80}"
  expect equal "$(show "/services/$id" .Spec.EndpointSpec)" "{\"Mode\":\"vip\",\"Ports\":[$asked,{\"Protocol\":\"udp\",\"PublishMode\":\"ingress\",\"TargetPort\":53}]}"
  expect equal "$(show "/services/$id" '.Endpoint.Spec==.Spec.EndpointSpec')" true
  given=$(show "/services/$id" '.Endpoint.Ports[1].PublishedPort')
  { [ "$given" -ge 30000 ] && [ "$given" -le 32767 ]; } || fail "the port that was given is $given"
  expect equal "$(show "/services/$id" .Endpoint.Ports)" "[$asked,{\"Protocol\":\"udp\",\"PublishMode\":\"ingress\",\"PublishedPort\":$given,\"TargetPort\":53}]"
  ingress=$(show /networks/ingress .Id)
  expect equal "$(show "/services/$id" '[.Endpoint.VirtualIPs[].NetworkID]')" "[$ingress]"
  expect equal "$(tasks "service $id" '[.[0].NetworksAttachments[].Network|[.ID,.Spec.Name]]')" "[[$ingress,\"ingress\"]]"
  for host in 127.0.0.1 "$(hostname -I | cut -d' ' -f1)" '[::1]'; do
    [ "$host" != '[::1]' ] || [ -e /proc/net/if_inet6 ] || continue
    eventually 20 eval 'curl -gfsS --max-time 5 "http://$host:$port/cgi-bin/who" >/dev/null 2>&1'
  done
  # A client on the loopback is the node, by its address in the network that carries ports.
  subnet=$(show /networks/ingress '.IPAM.Config[0].Subnet' | jq -r .)
  expect --in "$(curl -fsS --max-time 60 "http://127.0.0.1:$port/cgi-bin/who")" contains "[::ffff:${subnet%.*}."
  run moss service ls --filter "name=$name" --format '{{.Ports}}'
  expect output "*:$port->80/tcp, *:$given->53/udp"
  run dock service ls --filter "name=$name" --format '{{.Ports}}'
  expect contains "*:$port->80/tcp"
  # Without the port nobody listens.
  answers 200 POST "/services/$id/update?version=$(index "/services/$id")" "$(service_body '' '' "$(web)")"
  eventually 30 eval '! curl -fsS --max-time 5 "http://127.0.0.1:$port/" >/dev/null 2>&1'
  expect equal "$(show "/services/$id" .Endpoint.Ports)" null
  # The names of one with dnsrr lead to its tasks.
  answers 200 DELETE "/services/$name"
  net_id=$(created "$net")
  make ',"EndpointSpec":{"Mode":"dnsrr"}' ",\"Networks\":[{\"Target\":\"$net\"}]"
  eventually 30 runs "$id" 1
  expect equal "$(show "/services/$id" '[.Endpoint.Spec.Mode,.Endpoint.VirtualIPs]')" '["dnsrr",null]'
  addr=$(tasks "service $id" '.[0].NetworksAttachments[0].Addresses[0]' | jq -r .)
  leads() { [[ $(moss exec "$(container)" nslookup "$name" 2>&1) == *"Address: ${addr%/*}"* ]]; }
  eventually 10 leads
}

@test "published ports: what cannot be is refused with the field, and so is a port of another service" {
  port=$(free_port)
  while IFS='|' read -r code text ports; do
    refused "$code" "$text" POST /services/create "$(service_body ",\"EndpointSpec\":{$ports}")"
    answers 404 GET "/services/$name"
  done <<EOF
400|EndpointSpec.Ports[0].Protocol|"Ports":[{"Protocol":"sctp","TargetPort":80}]
400|EndpointSpec.Ports[0].TargetPort|"Ports":[{"PublishedPort":80}]
400|EndpointSpec.Ports[0].TargetPort|"Ports":[{"TargetPort":65536}]
400|EndpointSpec.Ports[1].PublishedPort|"Ports":[{"TargetPort":80},{"TargetPort":80,"PublishedPort":65536}]
400|EndpointSpec.Ports[1].PublishedPort|"Ports":[{"TargetPort":80,"PublishedPort":$port},{"TargetPort":81,"PublishedPort":$port}]
400|EndpointSpec.Ports[0].PublishMode|"Ports":[{"TargetPort":80,"PublishMode":"x"}]
501|EndpointSpec.Ports[0].PublishMode|"Ports":[{"TargetPort":80,"PublishMode":"host"}]
400|EndpointSpec.Ports|"Mode":"dnsrr","Ports":[{"TargetPort":80}]
EOF
  make ",\"EndpointSpec\":{\"Ports\":[{\"TargetPort\":80,\"PublishedPort\":$port}]}"
  other=$(service_body ",\"EndpointSpec\":{\"Ports\":[{\"TargetPort\":80,\"PublishedPort\":$port}]}" | sed "s/$name/$name-2/")
  refused 400 "$port" POST /services/create "$other"
  answers 404 GET "/services/$name-2"
}

@test "a worker shows the networks of its tasks, and makes none of the swarm" {
  two=$MOSS_DIR/two.sock
  "$moss_bin/mossd" --root "$MOSS_DATA/two" --run-dir "$MOSS_DIR/two" --host "unix://$two" --swarm-data-port "$(free_port)" \
    >>"$MOSS_DIR/mossd.log" 2>&1 3>&- 4>&- &
  second=$!
  on_two() { timeout 120 "$moss_bin/moss" --host "unix://$two" "$@"; }
  ask_two() { MOSS_SOCK=$two answers "$@"; }
  eventually 20 eval 'on_two version >/dev/null 2>&1'
  moss save busybox | on_two load >/dev/null
  get /swarm | jq -r .JoinTokens.Worker >"$BATS_TEST_TMPDIR/token"
  on_two swarm join --listen-addr "127.0.0.1:$(free_port 2)" --advertise-addr 127.0.0.1 --token-file "$BATS_TEST_TMPDIR/token" "$SWARM_ADDR" >/dev/null
  eventually 20 eval '[ "$(show /nodes "[.[]|select(.Status.State==\"ready\")]|length")" = 2 ]'
  worker=$(show /nodes '[.[]|select(.Spec.Role=="worker")][0].ID' | jq -r .)
  created "$net-1" >/dev/null
  net_id=$(created "$net-2")
  make '' ",\"Networks\":[{\"Target\":\"$net-2\"}],\"Placement\":{\"Constraints\":[\"node.role==worker\"]}" "$(web)"
  api POST /services/create "$(service_body '' ",\"Networks\":[{\"Target\":\"$net-2\"}],\"Placement\":{\"Constraints\":[\"node.role==manager\"]}" | sed "s/$name/$name-2/")" >/dev/null
  eventually 30 runs "$id" 1
  eventually 30 runs "$name-2" 1
  expect equal "$(on_two network ls --filter scope=swarm --filter "name=$net" --format '{{.ID}} {{.Name}} {{.Driver}} {{.Scope}}')" "${net_id:0:12} $net-2 overlay swarm"
  expect equal "$(listed '{"scope":["swarm"]}')" '"-1 -2"'
  MOSS_SOCK=$two expect equal "$(show "/networks/$net-2?scope=swarm" '[.Id,.IPAM.Config,(.Containers|length)]')" "$(show "/networks/$net-2" '[.Id,.IPAM.Config,(.Containers|length)]')"
  ask_two 404 GET "/networks/$net-1"
  for call in "POST /networks/create" "DELETE /networks/$net-2"; do
    ask_two 406 "${call% *}" "${call#* }" "$(network)"
    expect contains "not a swarm manager"
  done
  # The task on the other node is reached by its name.
  other=$(tasks "service $name-2" '.[0].Status.ContainerStatus.ContainerID' | jq -r .)
  asks_web() { moss exec "$other" timeout 10 wget -qO- "http://$name/cgi-bin/who" >/dev/null 2>&1; }
  eventually 20 asks_web
  on_two swarm leave >/dev/null
  eventually 30 eval '[ "$(show "/nodes/$worker" .Status.State)" = "\"down\"" ]'
  answers 200 DELETE "/nodes/$worker"
  eventually 20 eval '[ -z "$(on_two network ls -q --filter scope=swarm)" ]'
  kill "$second"
  eventually 20 ended "$second"
  second=
  wipe "$MOSS_DATA/two"
}

@test "networks on a node that is in no swarm any more: none is left, and overlay is 404" {
  net_id=$(created "$net")
  make '' ",\"Networks\":[{\"Target\":\"$net\"}]"
  eventually 30 runs "$id" 1
  answers 200 POST '/swarm/leave?force=1'
  eventually 20 eval '[ "$(show "/networks?filters=$(filters scope swarm)" length)" = 0 ]'
  refused 404 'plugin "overlay" not found' POST /networks/create "$(network)"
  refused 404 "$net" DELETE "/networks/$net"
  answers 201 POST /networks/create "{\"Name\":\"$net\"}"
}
