#!/usr/bin/env bats
# The endpoints of networks as bytes: every parameter, field, status and message, at the versions of the API.

# bats file_tags=subids,long

load lib/moss

setup_file() {
  start_engine
  import_busybox
}
teardown_file() { stop_engine; }
setup() {
  begin
  net=$(unique net)
  box=$(unique box)
}
teardown() {
  if [ -n "${listener:-}" ]; then kill "$listener" 2>/dev/null || true; fi
  # What a test has made, by the names that begin like its own.
  local left
  for left in $(quietly "http://moss/containers/json?all=1" | jq -r --arg n "$box" '.[] | select(.Names[0] | startswith("/" + $n)).Id'); do
    quietly -X DELETE "http://moss/containers/$left?force=1" >/dev/null
  done
  for left in $(quietly http://moss/networks | jq -r --arg n "$net" '.[] | select(.Name | startswith($n)).Id'); do
    quietly -X DELETE "http://moss/networks/$left" >/dev/null
  done
  finish
}

described="1.18 1.20 1.21 1.22 1.24"
versions="1.21 1.22 1.24" # that have networks

quietly() { curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" "$@"; }
# ask METHOD PATH [BODY]: one request. Prints its status and, behind it, media type of the answer; the body goes to
# $BATS_TEST_TMPDIR/body.
ask() {
  local args=(-X "$1")
  [ $# -lt 3 ] || args+=(-H 'Content-Type: application/json' --data-binary "$3")
  quietly "${args[@]}" -o "$BATS_TEST_TMPDIR/body" -w '%{http_code} %{content_type}' "http://moss$2"
}
# answers WANT METHOD PATH [BODY]: such is the answer; WANT is a status, or more of what ask prints.
answers() {
  local want=$1 got
  shift
  : >"$BATS_TEST_TMPDIR/body"
  got=$(ask "$@")
  [[ $got == "$want"* ]] || fail "$*: got $got, want $want" "$(body)"
}
# refused STATUS TEXT METHOD PATH [BODY]: so it is, and the message has the text.
refused() {
  local status=$1 text=$2
  shift 2
  answers "$status" "$@"
  expect --in "$(in_body -r .message)" contains "$text"
}
# field FILTER WANT: what jq makes of the body.
field() { expect equal "$(in_body -rc "$1")" "$2"; }
# known VERSION FIELD SINCE: FIELD of the body is there from SINCE on and not before.
known() {
  if [ "${1#*.}" -ge "${3#*.}" ]; then field "$2 | type != \"null\"" true; else field "$2 | type" null; fi
}
# created BODY: makes a network and prints its id.
created() { answers 201 POST /v1.24/networks/create "$1" && in_body -re .Id; }
# runs NAME NETWORK [ARG...]: a container that does nothing in the network.
runs() {
  local name=$1 in=$2
  shift 2
  moss run -d --name "$name" --network "$in" "$@" busybox sleep 1000 >/dev/null
}
# filtered JSON: the networks of this test that pass the filters, in one line.
filtered() {
  quietly --get --data-urlencode "filters=$1" http://moss/v1.24/networks | jq -r --arg n "$net" '[.[].Name | select(startswith($n))[($n|length):]] | join(" ")'
}
of_record() { quietly "http://moss/v1.24/networks/$1" | jq -rc "$2"; }
# inside NAME CMD...: what a command in the container says.
inside() { moss exec "$@"; }

@test "bridge, host and none are there, by name, id and the beginning of an id" {
  for v in $versions; do
    answers "200 application/json" GET "/v$v/networks"
    for name in bridge host none; do
      field "[.[] | select(.Name == \"$name\")] | length" 1
      id=$(in_body -r ".[] | select(.Name == \"$name\").Id")
      expect --in "$id" matches '^[0-9a-f]{64}$'
      for ref in "$name" "$id" "${id:0:12}"; do
        answers "200 application/json" GET "/v$v/networks/$ref"
        field '.Id' "$id"
        field '.Name' "$name"
        field '.Scope' local
      done
      answers 200 GET "/v$v/networks"
    done
  done
  expect equal "$(of_record bridge .Driver) $(of_record host .Driver) $(of_record none .Driver)" "bridge host null"
  answers 200 GET '/v1.24/networks/bridge?scope=local'
  answers 404 GET '/v1.24/networks/bridge?scope=swarm'
  answers 200 GET /v1.24/networks/bridge
  field '.IPAM.Driver' default
  field '.IPAM.Config | length' 1
  field '.Options["com.docker.network.bridge.default_bridge"]' true
  field '[.Internal, .EnableIPv6]' '[false,false]'
  answers 200 GET /v1.24/networks/none
  field '.IPAM.Config' '[]'
}

@test "networks are there from 1.21 on; prune, of 1.25, at every version" {
  for v in 1.18 1.20; do
    answers 404 GET "/v$v/networks"
    answers 404 GET "/v$v/networks/bridge"
    answers 404 POST "/v$v/networks/create" '{"Name":"x"}'
    answers 404 POST "/v$v/networks/bridge/connect" '{"Container":"x"}'
    answers 404 POST "/v$v/networks/bridge/disconnect" '{"Container":"x"}'
    answers 404 DELETE "/v$v/networks/bridge"
  done
  for v in $described; do
    answers "200 application/json" POST "/v$v/networks/prune?filters=%7B%22label%22%3A%5B%22$net%22%5D%7D"
    field . '{"NetworksDeleted":null}'
  done
}

@test "a record has every field from its version on, in inspect and in the list" {
  id=$(created '{"Name":"'"$net"'","Driver":"bridge","Internal":true,"EnableIPv6":true,"Options":{"com.docker.network.driver.mtu":"1400"},
    "Labels":{"tier":"web"},"IPAM":{"Driver":"default","Options":{"org.example":"x"},"Config":[{"Subnet":"10.213.1.0/24","IPRange":"10.213.1.128/25",
    "Gateway":"10.213.1.9","AuxAddress":{"router":"10.213.1.200"}},{"Subnet":"fd13:1::/64"}]}}')
  runs "$box" "$net"
  ctr=$(moss inspect "$box" | jq -r '.[0].Id')
  for v in $versions; do
    for path in networks networks/$id; do
      answers "200 application/json" GET "/v$v/$path"
      [ "$path" != networks ] || in_body --arg id "$id" '.[] | select(.Id == $id)' >"$BATS_TEST_TMPDIR/one"
      [ "$path" != networks ] || mv "$BATS_TEST_TMPDIR/one" "$BATS_TEST_TMPDIR/body"
      field '[.Name, .Id, .Scope, .Driver, .IPAM.Driver]' "[\"$net\",\"$id\",\"local\",\"bridge\",\"default\"]"
      field '.IPAM.Config[0] | [.Subnet, .IPRange, .Gateway, .AuxAddress.router, .AuxiliaryAddresses.router]' \
        '["10.213.1.0/24","10.213.1.128/25","10.213.1.9","10.213.1.200","10.213.1.200"]'
      field '.IPAM.Config[1].Subnet' fd13:1::/64
      field '.Options["com.docker.network.driver.mtu"]' 1400
      field '.Created | test("^20[0-9]{2}-")' true
      known "$v" .IPAM.Options 1.22
      known "$v" .EnableIPv6 1.24
      known "$v" .Internal 1.22
      known "$v" .Labels 1.24
      field ".Containers[\"$ctr\"].EndpointID | length" 64
      field ".Containers[\"$ctr\"].IPv4Address | test(\"^10[.]213[.]1[.][0-9]+/24\$\")" true
      field ".Containers[\"$ctr\"].IPv6Address | test(\"^fd13:1::.*/64\$\")" true
      field ".Containers[\"$ctr\"].MacAddress | test(\"^([0-9a-f]{2}:){5}[0-9a-f]{2}\$\")" true
      if [ "$path" = networks ]; then field ".Containers[\"$ctr\"].Name" null; else known "$v" ".Containers[\"$ctr\"].Name" 1.22; fi
    done
  done
  field '[.EnableIPv6, .Internal, .Labels.tier]' '[true,true,"web"]'
  field ".Containers[\"$ctr\"].Name" "$box"
  moss kill "$box" >/dev/null
  eventually 10 is_exited "$box"
  expect equal "$(of_record "$net" .Containers)" '{}'
}

@test "create: what is asked for is what containers get" {
  created '{"Name":"'"$net"'","Options":{"com.docker.network.driver.mtu":"1333"},"IPAM":{"Config":[{"Subnet":"10.213.2.0/24","IPRange":"10.213.2.64/29",
    "Gateway":"10.213.2.200","AuxiliaryAddresses":{"a":"10.213.2.65","b":"10.213.2.66"}}]}}' >/dev/null
  runs "$box" "$net"
  address=$(moss inspect "$box" | jq -r ".[0].NetworkSettings.Networks[\"$net\"].IPAddress")
  expect --in "$address" matches '^10\.213\.2\.(6[4789]|7[01])$'
  run inside "$box" ip addr show eth0
  expect contains "$address/24" "mtu 1333"
  run inside "$box" ip route
  expect contains "default via 10.213.2.200"
}

@test "create without a subnet: one that no other network and no route has; with EnableIPv6 a private one too" {
  first=$(created '{"Name":"'"$net"'-a","EnableIPv6":true}')
  second=$(created '{"Name":"'"$net"'-b","IPAM":{"Config":[{}]}}')
  one=$(of_record "$first" '.IPAM.Config[0].Subnet')
  two=$(of_record "$second" '.IPAM.Config[0].Subnet')
  default=$(of_record bridge '.IPAM.Config[0].Subnet')
  expect equal "$(printf '%s\n' "$one" "$two" "$default" | sort -u | wc -l)" 3
  expect --in "$(of_record "$first" '[.IPAM.Config[].Subnet] | join(" ")')" matches ' f[cd][0-9a-f]{2}:.*/64$'
  expect equal "$(of_record "$second" '.IPAM.Config | length')" 1
  expect --in "$(of_record "$first" '.IPAM.Config[0].Gateway')" matches '^[0-9.]+$'
}

@test "create: AuxAddress in the form of the documents, and under the name that clients send" {
  id=$(created '{"Name":"'"$net"'","IPAM":{"Config":[{"Subnet":"10.213.3.0/24","AuxAddress":"router:10.213.3.5","AuxiliaryAddresses":{"dns":"10.213.3.6"}}]}}')
  expect equal "$(of_record "$id" '.IPAM.Config[0].AuxAddress')" '{"dns":"10.213.3.6","router":"10.213.3.5"}'
  expect equal "$(of_record "$id" '.IPAM.Config[0].AuxiliaryAddresses')" '{"dns":"10.213.3.6","router":"10.213.3.5"}'
  refused 500 '"a"' POST /v1.24/networks/create '{"Name":"'"$net"'x","IPAM":{"Config":[{"Subnet":"10.213.4.0/24","AuxAddress":{"a":"10.213.4.5"},"AuxiliaryAddresses":{"a":"10.213.4.6"}}]}}'
}

@test "create: a subnet of IPv6 without EnableIPv6 is not used, with a warning" {
  for v in $versions; do
    answers 201 POST "/v$v/networks/create" '{"Name":"'"$net-$v"'","IPAM":{"Config":[{"Subnet":"fd13:5::/64"}]}}'
    field .Warning "The subnet fd13:5::/64 is not used: a network has IPv6 with EnableIPv6 only"
    answers 200 GET "/v1.24/networks/$net-$v"
    field '[.EnableIPv6, (.IPAM.Config | length), (.IPAM.Config[0].Subnet | test("^[0-9.]+/"))]' '[false,1,true]'
  done
}

@test "a network's name may have spaces" {
  answers 201 POST /v1.24/networks/create '{"Name":"'"$net"' of two"}'
  answers 200 GET "/v1.24/networks/$net%20of%20two"
  field .Name "$net of two"
  moss run -d --name "$box" --network "$net of two" busybox sleep 1000
  moss run --rm --network "$net of two" busybox sh -c "ping -c 1 $box && nslookup \$(ping -c 1 $box | sed -n '1s/.*(\(.*\)).*/\1/p')" >"$BATS_TEST_TMPDIR/out"
  expect --in "$(<"$BATS_TEST_TMPDIR/out")" contains "name = $box"
  answers 200 POST "/v1.24/networks/$net%20of%20two/disconnect" '{"Container":"'"$box"'"}'
  answers 200 POST "/v1.24/networks/$net%20of%20two/connect" '{"Container":"'"$box"'"}'
  moss rm -f "$box"
  answers 200 DELETE "/v1.24/networks/$net%20of%20two"
}

@test "create: fields of later versions are not read" {
  for v in $versions; do
    answers 201 POST "/v$v/networks/create" '{"Name":"'"$net-$v"'","Internal":true,"EnableIPv6":true,"Labels":{"a":"b"},"IPAM":{"Options":{"org.example":"x"}}}'
    answers 200 GET "/v1.24/networks/$net-$v"
    case $v in
      1.21) field '[.Internal, .EnableIPv6, .Labels, .IPAM.Options]' '[false,false,{},{}]' ;;
      1.22) field '[.Internal, .EnableIPv6, .Labels, .IPAM.Options]' '[true,false,{},{"org.example":"x"}]' ;;
      1.24) field '[.Internal, .EnableIPv6, .Labels, .IPAM.Options]' '[true,true,{"a":"b"},{"org.example":"x"}]' ;;
    esac
  done
}

@test "create answers Id and Warning: of a name that is there already, of options that nobody knows" {
  for v in $versions; do
    answers "201 application/json" POST "/v$v/networks/create" '{"Name":"'"$net-$v"'","Attachable":true,"ConfigOnly":false,"Scope":"","ConfigFrom":null,"IPAM":null,"Labels":null}'
    field 'keys' '["Id","Warning"]'
    field .Warning ''
  done
  answers 201 POST /v1.24/networks/create '{"Name":"'"$net"'","Options":{"org.example.a":"1"}}'
  field .Warning 'The driver bridge has no option org.example.a: kept and of no effect'
  expect equal "$(of_record "$net" .Options)" '{"org.example.a":"1"}'
  first=$(of_record "$net" .Id)
  answers 201 POST /v1.24/networks/create '{"Name":"'"$net"'"}'
  expect --in "$(in_body -r .Warning)" contains "already exists" "$first"
}

@test "create: CheckDuplicate is 409; without it a name has two networks and is ambiguous, their ids are not" {
  first=$(created '{"Name":"'"$net"'","CheckDuplicate":true}')
  refused 409 "network with name $net already exists" POST /v1.24/networks/create '{"Name":"'"$net"'","CheckDuplicate":true}'
  second=$(created '{"Name":"'"$net"'"}')
  refused 409 "ambiguous (2 matches found based on name)" GET "/v1.24/networks/$net"
  refused 409 ambiguous DELETE "/v1.24/networks/$net"
  answers 200 GET "/v1.24/networks/$second"
  answers 200 DELETE "/v1.24/networks/${second:0:20}"
  answers 200 GET "/v1.24/networks/$net"
  field .Id "$first"
}

@test "create: of many at once with one name and CheckDuplicate one is made" {
  pids=()
  for i in 1 2 3 4 5 6 7 8; do
    quietly -X POST -H 'Content-Type: application/json' -d '{"Name":"'"$net"'","CheckDuplicate":true}' -o /dev/null -w '%{http_code}\n' \
      http://moss/v1.24/networks/create >"$BATS_TEST_TMPDIR/status.$i" &
    pids+=($!)
  done
  wait "${pids[@]}"
  expect equal "$(sort "$BATS_TEST_TMPDIR"/status.* | uniq -c | xargs)" "1 201 7 409"
  expect equal "$(filtered '{}')" ""
  expect equal "$(quietly http://moss/v1.24/networks | jq --arg n "$net" '[.[] | select(.Name == $n)] | length')" 1
}

@test "create: a configuration network holds the settings of others, and no container is in it" {
  config="$net-config" front="$net-front"
  answers 201 POST "/containers/create?name=$box-early" '{"Image":"busybox","Cmd":["true"],"HostConfig":{"NetworkMode":"'"$config"'"}}' # not there yet
  answers 201 POST /v1.30/networks/create '{"Name":"'"$config"'","ConfigOnly":true,"Driver":"bridge","Labels":{"a":"b"},
    "IPAM":{"Config":[{"Subnet":"10.213.9.0/24","IPRange":"10.213.9.128/25"}]},"Options":{"com.docker.network.driver.mtu":"1400"}}'
  field .Warning ''
  settings='["null","local",true,"",{"a":"b"},[{"IPRange":"10.213.9.128/25","Subnet":"10.213.9.0/24"}],{"com.docker.network.driver.mtu":"1400"}]'
  what='[.Driver, .Scope, .ConfigOnly, .ConfigFrom.Network, .Labels, .IPAM.Config, .Options]'
  answers 200 GET "/v1.30/networks/$config"
  field "$what" "$settings"
  expect equal "$(filtered '{"driver":["null"]}')" -config

  refused 403 "configuration network: no container" POST /containers/create '{"Image":"busybox","Cmd":["true"],"HostConfig":{"NetworkMode":"'"$config"'"}}'
  refused 403 "configuration network: no container" POST "/containers/$box-early/start"
  runs "$box" bridge
  refused 403 "configuration network: no container" POST "/networks/$config/connect" '{"Container":"'"$box"'"}'
  moss rm -f "$box" "$box-early"

  answers 201 POST /v1.51/networks/create '{"Name":"'"$front"'","Internal":true,"Attachable":true,"EnableIPv4":true,"ConfigFrom":{"Network":"'"$config"'"},
    "IPAM":{"Driver":"default","Options":{},"Config":[]},"Labels":{},"Options":{}}'
  answers 200 GET "/v1.51/networks/$front"
  field "[.Internal, .Attachable], $what" "[true,true]
[\"bridge\",\"local\",false,\"$config\",{\"a\":\"b\"},[{\"Gateway\":\"10.213.9.1\",\"IPRange\":\"10.213.9.128/25\",\"Subnet\":\"10.213.9.0/24\"}],{\"com.docker.network.driver.mtu\":\"1400\"}]"
  runs "$box" "$front"
  expect equal "$(inside "$box" sh -c 'ip -o -4 addr show eth0; ip link show eth0' | grep -oE '10.213.9.[0-9]+/24|mtu [0-9]+' | xargs)" "10.213.9.128/24 mtu 1400"
  refused 409 overlaps POST /networks/create '{"Name":"'"$net-more"'","ConfigFrom":{"Network":"'"$config"'"}}'
  refused 403 "network $front has its settings" DELETE "/networks/$config"

  crash # both are the same for the next engine
  answers 200 GET "/v1.30/networks/$config"
  field "$what" "$settings"
  expect equal "$(of_record "$front" '[.ConfigFrom.Network, .Driver]')" '[null,"bridge"]'
  moss restart -t 0 "$box"
  moss rm -f "$box"
  moss network prune -f >/dev/null
  expect equal "$(filtered '{}')" -config
  answers 204 DELETE "/v1.51/networks/$config"
}

@test "create: what cannot be is refused with the field and the reason, and nothing is left" {
  before=$(quietly http://moss/v1.24/networks | jq -c '[.[].Id] | sort')
  while IFS='|' read -r status text rest; do
    refused "$status" "$text" POST /v1.24/networks/create "{$rest}"
  done <<LIST
500|name cannot be empty|"Driver":"bridge"
500|name cannot be empty|"Name":""
500|Invalid network name (a/b)|"Name":"a/b"
500|Invalid network name (.hidden)|"Name":".hidden"
500|Invalid network name (container:x)|"Name":"container:x"
500|invalid value for Name|"Name":7
500|invalid value for IPAM.Config|"Name":"$net","IPAM":{"Config":{}}
500|invalid value for CheckDuplicate|"Name":"$net","CheckDuplicate":"x"
403|operation is not permitted on predefined bridge network|"Name":"bridge"
403|operation is not permitted on predefined host network|"Name":"host"
403|operation is not permitted on predefined none network|"Name":"none","CheckDuplicate":true
403|operation is not permitted on predefined default network|"Name":"default"
403|only one instance of "host" network is allowed|"Name":"$net","Driver":"host"
403|only one instance of "null" network is allowed|"Name":"$net","Driver":"null"
404|plugin "overlay" not found|"Name":"$net","Driver":"overlay"
404|plugin "dhcp" not found|"Name":"$net","IPAM":{"Driver":"dhcp"}
500|cannot be without addresses|"Name":"$net","IPAM":{"Driver":"null"}
500|several IPAM configurations of one family|"Name":"$net","IPAM":{"Config":[{"Subnet":"10.213.5.0/24"},{"Subnet":"10.213.6.0/24"}]}
500|Invalid network name (a )|"Name":"a "
500|invalid subnet ten/8: invalid CIDR block notation|"Name":"$net","IPAM":{"Config":[{"Subnet":"ten/8"}]}
500|invalid subnet 10.213.5.0: invalid CIDR block notation|"Name":"$net","IPAM":{"Config":[{"Subnet":"10.213.5.0"}]}
500|invalid subnet 10.213.5.7/24: it should be 10.213.5.0/24|"Name":"$net","IPAM":{"Config":[{"Subnet":"10.213.5.7/24"}]}
500|invalid subnet 10.213.5.2/31|"Name":"$net","IPAM":{"Config":[{"Subnet":"10.213.5.2/31"}]}
500|127.0.0.0/8 are not for networks|"Name":"$net","IPAM":{"Config":[{"Subnet":"127.9.0.0/16"}]}
500|224.0.0.0/3 are not for networks|"Name":"$net","IPAM":{"Config":[{"Subnet":"239.0.0.0/16"}]}
500|need a Subnet|"Name":"$net","IPAM":{"Config":[{"Gateway":"10.213.5.1"}]}
500|invalid ip-range 10.213.6.0/25: parent subnet 10.213.5.0/24 doesn't contain ip-range|"Name":"$net","IPAM":{"Config":[{"Subnet":"10.213.5.0/24","IPRange":"10.213.6.0/25"}]}
500|invalid ip-range 10.213.0.0/16: CIDR block is bigger|"Name":"$net","IPAM":{"Config":[{"Subnet":"10.213.5.0/24","IPRange":"10.213.0.0/16"}]}
500|invalid ip-range x|"Name":"$net","IPAM":{"Config":[{"Subnet":"10.213.5.0/24","IPRange":"x"}]}
500|invalid gateway 10.213.6.1: parent subnet 10.213.5.0/24 doesn't contain this address|"Name":"$net","IPAM":{"Config":[{"Subnet":"10.213.5.0/24","Gateway":"10.213.6.1"}]}
500|invalid gateway x: invalid address|"Name":"$net","IPAM":{"Config":[{"Subnet":"10.213.5.0/24","Gateway":"x"}]}
500|invalid gateway 10.213.5.255|"Name":"$net","IPAM":{"Config":[{"Subnet":"10.213.5.0/24","Gateway":"10.213.5.255"}]}
500|invalid auxiliary address 10.213.6.1|"Name":"$net","IPAM":{"Config":[{"Subnet":"10.213.5.0/24","AuxAddress":{"a":"10.213.6.1"}}]}
500|it is that of the gateway|"Name":"$net","IPAM":{"Config":[{"Subnet":"10.213.5.0/24","AuxAddress":{"a":"10.213.5.1"}}]}
500|com.docker.network.bridge.name|"Name":"$net","Options":{"com.docker.network.bridge.name":"a-name-of-16-byte"}
500|com.docker.network.bridge.name|"Name":"$net","Options":{"com.docker.network.bridge.name":"a/b"}
500|68 to 65535|"Name":"$net","Options":{"com.docker.network.driver.mtu":"67"}
500|68 to 65535|"Name":"$net","Options":{"com.docker.network.driver.mtu":"65536"}
500|enable_icc|"Name":"$net","Options":{"com.docker.network.bridge.enable_icc":"perhaps"}
500|enable_ip_masquerade|"Name":"$net","Options":{"com.docker.network.bridge.enable_ip_masquerade":""}
500|host_binding_ipv4|"Name":"$net","Options":{"com.docker.network.bridge.host_binding_ipv4":"here"}
500|default_bridge|"Name":"$net","Options":{"com.docker.network.bridge.default_bridge":"true"}
500|com.docker.network.bridge.inhibit_ipv4|"Name":"$net","Options":{"com.docker.network.bridge.inhibit_ipv4":"true"}
403|cannot take its settings from another one|"Name":"$net","ConfigOnly":true,"ConfigFrom":{"Network":"x"}
403|Internal|"Name":"$net","ConfigOnly":true,"Internal":true
403|Attachable|"Name":"$net","ConfigOnly":true,"Attachable":true
403|EnableIPv6|"Name":"$net","ConfigFrom":{"Network":"x"},"EnableIPv6":true
403|Labels|"Name":"$net","ConfigFrom":{"Network":"x"},"Labels":{"a":"b"}
403|Options|"Name":"$net","ConfigFrom":{"Network":"x"},"Options":{"a":"b"}
403|IPAM.Options|"Name":"$net","ConfigFrom":{"Network":"x"},"IPAM":{"Options":{"a":"b"}}
403|IPAM.Config|"Name":"$net","ConfigFrom":{"Network":"x"},"IPAM":{"Config":[{"Subnet":"10.213.5.0/24"}]}
404|configuration network x not found|"Name":"$net","ConfigFrom":{"Network":"x"}
404|configuration network bridge not found|"Name":"$net","ConfigFrom":{"Network":"bridge"}
500|invalid subnet ten/8|"Name":"$net","ConfigOnly":true,"IPAM":{"Config":[{"Subnet":"ten/8"}]}
500|invalid value for ConfigFrom|"Name":"$net","ConfigFrom":"x"
501|Ingress|"Name":"$net","Ingress":true
501|Scope|"Name":"$net","Scope":"swarm"
501|EnableIPv4|"Name":"$net","EnableIPv4":false
LIST
  answers 500 POST /v1.24/networks/create '{"Name":'
  answers 500 POST /v1.24/networks/create
  expect equal "$(quietly http://moss/v1.24/networks | jq -c '[.[].Id] | sort')" "$before"
}

@test "create: a subnet or a device that another network has is 409, and nothing is left" {
  created '{"Name":"'"$net"'","IPAM":{"Config":[{"Subnet":"10.213.7.0/24"}]},"Options":{"com.docker.network.bridge.name":"mine0"}}' >/dev/null
  for subnet in 10.213.7.0/24 10.213.0.0/16 10.213.7.128/25; do
    refused 409 "Pool overlaps with other one on this address space" POST /v1.24/networks/create '{"Name":"'"$net"'x","IPAM":{"Config":[{"Subnet":"'$subnet'"}]}}'
  done
  refused 409 "Pool overlaps" POST /v1.24/networks/create '{"Name":"'"$net"'x","IPAM":{"Config":[{"Subnet":"'"$(of_record bridge '.IPAM.Config[0].Subnet')"'"}]}}'
  refused 409 mine0 POST /v1.24/networks/create '{"Name":"'"$net"'x","Options":{"com.docker.network.bridge.name":"mine0"}}'
  answers 404 GET "/v1.24/networks/${net}x"
  created '{"Name":"'"$net"'x","IPAM":{"Config":[{"Subnet":"10.213.8.0/24"}]}}' >/dev/null
}

@test "list: each filter picks what it says" {
  id=$(created '{"Name":"'"$net"'-red","Labels":{"tier":"web","keep":""}}')
  created '{"Name":"'"$net"'-red2","Labels":{"tier":"db"}}' >/dev/null
  expect equal "$(filtered '{}')" "-red -red2"
  expect equal "$(filtered '{"name":["'"${net#n}"'-re"]}')" "-red -red2"
  expect equal "$(filtered '{"name":["^'"$net"'-red$"]}')" "-red"
  expect equal "$(filtered '{"name":{"'"$net"'-red2":true}}')" "-red2"
  expect equal "$(filtered '{"id":["'"$id"'"]}')" "-red"
  expect equal "$(filtered '{"id":["'"${id:5:30}"'"]}')" "-red"
  expect equal "$(filtered '{"driver":["bridge"]}')" "-red -red2"
  expect equal "$(filtered '{"driver":["host","null"]}')" ""
  expect equal "$(filtered '{"label":["tier"]}')" "-red -red2"
  expect equal "$(filtered '{"label":["tier=web"]}')" "-red"
  expect equal "$(filtered '{"label":["tier","keep"]}')" "-red"
  expect equal "$(filtered '{"type":["custom"]}')" "-red -red2"
  expect equal "$(filtered '{"type":["builtin"]}')" ""
  expect equal "$(quietly --get --data-urlencode 'filters={"type":["builtin"]}' http://moss/v1.24/networks | jq -c '[.[].Name]')" '["bridge","host","none"]'
  expect equal "$(quietly --get --data-urlencode 'filters={"driver":["host","null"]}' http://moss/v1.24/networks | jq -c '[.[].Name]')" '["host","none"]'
}

@test "list filters come with their version, others are 500" {
  while read -r first key value; do
    query="filters=%7B%22$key%22%3A%5B%22$value%22%5D%7D"
    for v in $versions; do
      if [ "${v#*.}" -ge "${first#*.}" ]; then
        answers 200 GET "/v$v/networks?$query"
      else
        answers 500 GET "/v$v/networks?$query"
        expect --in "$(body)" contains "'$key'"
      fi
    done
  done <<'LIST'
1.21 name x
1.21 id x
1.22 type custom
1.24 driver bridge
1.24 label x
1.24 scope swarm
1.99 dangling true
LIST
  for filters in x '[]' '{"name":7}' '{"type":["swarm"]}' '{"name":["("]}'; do
    expect equal "$(quietly --get --data-urlencode "filters=$filters" -o /dev/null -w '%{http_code}' http://moss/v1.24/networks)" 500
  done
}

@test "404: no network of that name, for every endpoint, in the form of the version" {
  for v in $versions; do
    while read -r method path body; do
      answers 404 "$method" "/v$v/networks/$path" ${body:+"$body"}
      expect --in "$(body)" contains "network $net not found"
      if [ "$v" = 1.24 ]; then field .message "network $net not found"; else expect --in "$(body)" lacks '{'; fi
    done <<LIST
GET $net
POST $net/connect {"Container":"x"}
POST $net/disconnect {"Container":"x"}
DELETE $net
LIST
  done
  for path in connect disconnect; do
    refused 404 "No such container: $box" POST "/v1.24/networks/bridge/$path" '{"Container":"'"$box"'"}'
    refused 500 Container POST "/v1.24/networks/bridge/$path" '{}'
    answers 500 POST "/v1.24/networks/bridge/$path" '{"Container":'
  done
}

@test "connect and disconnect, running and at rest: 200 without a body, and the records show it" {
  created '{"Name":"'"$net"'","IPAM":{"Config":[{"Subnet":"10.213.10.0/24"}]}}' >/dev/null
  id=$(of_record "$net" .Id)
  runs "$box" bridge
  ctr=$(moss inspect "$box" | jq -r '.[0].Id')
  answers "200 text/plain" POST "/v1.24/networks/$net/connect" '{"Container":"'"$box"'","EndpointConfig":{"IPAMConfig":{"IPv4Address":"10.213.10.77"},"Aliases":["alias"]}}'
  expect equal "$(body)" ""
  expect equal "$(of_record "$net" ".Containers[\"$ctr\"].IPv4Address")" 10.213.10.77/24
  run inside "$box" ip addr show eth1
  expect contains 10.213.10.77/24
  answers 200 GET "/v1.24/containers/$box/json"
  field ".NetworkSettings.Networks[\"$net\"] | [.NetworkID, .IPAddress, .IPPrefixLen, .Gateway, .IPAMConfig.IPv4Address, .Aliases[0]]" \
    "[\"$id\",\"10.213.10.77\",24,\"10.213.10.1\",\"10.213.10.77\",\"alias\"]"
  field '.NetworkSettings.Networks | keys | length' 2
  answers 200 POST "/v1.21/networks/${id:0:12}/disconnect" '{"Container":"'"${ctr:0:12}"'"}'
  expect equal "$(of_record "$net" .Containers)" '{}'
  [ "$(inside "$box" ls /sys/class/net | xargs)" = "eth0 lo" ] || fail "the interface is still there"
  # At rest: what it is configured for, without addresses, and the next start has it.
  moss kill "$box" >/dev/null
  eventually 10 is_exited "$box"
  answers 200 POST "/v1.24/networks/$net/connect" '{"Container":"'"$box"'"}'
  for path in "/v1.24/containers/$box/json" "/v1.24/containers/json?all=1&filters=%7B%22name%22%3A%5B%22$box%22%5D%7D"; do
    answers 200 GET "$path"
    field "if type == \"array\" then .[0] else . end | .NetworkSettings.Networks[\"$net\"] | [.NetworkID, .EndpointID, .IPAddress, .IPPrefixLen, .MacAddress]" \
      "[\"$id\",\"\",\"\",0,\"\"]"
  done
  moss start "$box" >/dev/null
  expect --in "$(of_record "$net" ".Containers[\"$ctr\"].IPv4Address")" matches '^10\.213\.10\.'
  moss kill "$box" >/dev/null
  eventually 10 is_exited "$box"
  answers 200 POST "/v1.22/networks/$net/disconnect" '{"Container":"'"$box"'","Force":true}'
  answers 200 GET "/v1.24/containers/$box/json"
  field '.NetworkSettings.Networks | keys' '["bridge"]'
}

@test "a container's place as asked for at create: the process has it, inspect and lists show it, and others find its names" {
  id=$(created '{"Name":"'"$net"'","EnableIPv6":true,"IPAM":{"Config":[{"Subnet":"10.213.9.0/24"},{"Subnet":"fd13:9::/64"}]}}')
  runs "$box-db" "$net"
  answers 201 POST "/v1.24/containers/create?name=$box" '{"Image":"busybox","Cmd":["sleep","1000"],"HostConfig":{"NetworkMode":"'"$net"'"},
    "NetworkingConfig":{"EndpointsConfig":{"'"$net"'":{"IPAMConfig":{"IPv4Address":"10.213.9.44","IPv6Address":"fd13:9::44","LinkLocalIPs":["169.254.7.7"]},
    "Links":["'"$box"'-db:store"],"Aliases":["front"]}}}}'
  ctr=$(in_body -r .Id)
  networks='(if type == "array" then .[0] else . end).NetworkSettings.Networks["'"$net"'"]'
  asked='["10.213.9.44","fd13:9::44",["169.254.7.7"],["'"$box"'-db:store"],true,"'"$id"'"]'
  shown='[.IPAMConfig.IPv4Address, .IPAMConfig.IPv6Address, .IPAMConfig.LinkLocalIPs, .Links, (.Aliases | index("front") != null), .NetworkID]'
  for path in "/v1.24/containers/$box/json" "/v1.24/containers/json?all=1&filters=%7B%22id%22%3A%5B%22$ctr%22%5D%7D"; do
    answers 200 GET "$path"
    field "$networks | $shown" "$asked"
    field "$networks | [.IPAddress, .GlobalIPv6Address, .EndpointID]" '["","",""]'
  done
  for ref in "$net" "$id" "${id:0:12}"; do
    expect equal "$(quietly "http://moss/v1.24/containers/json?all=1&filters=%7B%22network%22%3A%5B%22$ref%22%5D%7D" | jq -c '[.[].Names[0]] | sort')" \
      "[\"/$box\",\"/$box-db\"]"
  done
  moss start "$box" >/dev/null
  for path in "/v1.24/containers/$box/json" "/v1.24/containers/json?filters=%7B%22id%22%3A%5B%22$ctr%22%5D%7D"; do
    answers 200 GET "$path"
    field "$networks | $shown" "$asked"
    field "$networks | [.IPAddress, .IPPrefixLen, .Gateway, .GlobalIPv6Address, .GlobalIPv6PrefixLen, .IPv6Gateway, (.EndpointID | length)]" \
      '["10.213.9.44",24,"10.213.9.1","fd13:9::44",64,"fd13:9::1",64]'
  done
  mac=$(in_body -r "$networks.MacAddress")
  run inside "$box" ip addr show eth0
  expect contains 10.213.9.44/24 fd13:9::44/64 169.254.7.7 "$mac"
  run inside "$box" ip -6 route
  expect contains "default via fd13:9::1"
  inside "$box" ping -c 1 -W 5 store >/dev/null
  inside "$box-db" ping -c 1 -W 5 front >/dev/null
  inside "$box-db" ping -c 1 -W 5 "${ctr:0:12}" >/dev/null
}

@test "EndpointConfig and Force are read from 1.22 on" {
  created '{"Name":"'"$net"'","IPAM":{"Config":[{"Subnet":"10.213.11.0/24"}]}}' >/dev/null
  runs "$box" bridge
  for v in $versions; do
    answers 200 POST "/v$v/networks/$net/connect" '{"Container":"'"$box"'","EndpointConfig":{"IPAMConfig":{"IPv4Address":"10.213.11.99"}}}'
    address=$(moss inspect "$box" | jq -r ".[0].NetworkSettings.Networks[\"$net\"].IPAddress")
    if [ "$v" = 1.21 ]; then expect equal "${address/10.213.11.99/}" "$address"; else expect equal "$address" 10.213.11.99; fi
    answers 200 POST "/v$v/networks/$net/disconnect" '{"Container":"'"$box"'"}'
    if [ "$v" = 1.21 ]; then want=404; else want=200; fi
    answers "$want" POST "/v$v/networks/$net/disconnect" '{"Container":"'"$box"'-none","Force":true}'
  done
}

@test "connect: what cannot be is refused, and all is as before" {
  created '{"Name":"'"$net"'","IPAM":{"Config":[{"Subnet":"10.213.12.0/24","AuxAddress":{"a":"10.213.12.9"}}]}}' >/dev/null
  created '{"Name":"'"$net"'-v6","EnableIPv6":true,"IPAM":{"Config":[{"Subnet":"fd13:12::/64"}]}}' >/dev/null
  runs "$box" "$net" --ip 10.213.12.50
  runs "$box-host" host
  runs "$box-other" bridge
  before=$(moss inspect "$box" "$box-host" "$box-other" | jq -c '[.[].NetworkSettings]')
  while IFS='|' read -r status text path rest; do
    refused "$status" "$text" POST "/v1.24/networks/$path/connect" "{$rest}"
  done <<LIST
403|endpoint with name $box already exists in network $net|$net|"Container":"$box"
500|host network|host|"Container":"$box-other"
500|host cannot be connected to any other network|$net|"Container":"$box-host"
500|private (none) mode|none|"Container":"$box-other"
500|no configured subnet or ip-range contain the IP address 10.213.99.1|$net|"Container":"$box-other","EndpointConfig":{"IPAMConfig":{"IPv4Address":"10.213.99.1"}}
500|invalid IPv4 address|$net|"Container":"$box-other","EndpointConfig":{"IPAMConfig":{"IPv4Address":"x"}}
500|no configured subnet or ip-range contain the IP address fd13:99::1|$net-v6|"Container":"$box-other","EndpointConfig":{"IPAMConfig":{"IPv6Address":"fd13:99::1"}}
409|Address already in use|$net|"Container":"$box-other","EndpointConfig":{"IPAMConfig":{"IPv4Address":"10.213.12.50"}}
409|Address already in use|$net|"Container":"$box-other","EndpointConfig":{"IPAMConfig":{"IPv4Address":"10.213.12.9"}}
409|Address already in use|$net|"Container":"$box-other","EndpointConfig":{"IPAMConfig":{"IPv4Address":"10.213.12.1"}}
500|invalid value for EndpointConfig.Aliases|$net|"Container":"$box-other","EndpointConfig":{"Aliases":"a"}
LIST
  expect equal "$(moss inspect "$box" "$box-host" "$box-other" | jq -c '[.[].NetworkSettings]')" "$before"
  refused 500 "user specified IP address is supported on user defined networks only" POST /v1.24/networks/bridge/connect \
    '{"Container":"'"$box"'","EndpointConfig":{"IPAMConfig":{"IPv4Address":"172.17.0.99"}}}'
  refused 500 "network-scoped alias is supported only for containers in user defined networks" POST /v1.24/networks/bridge/connect \
    '{"Container":"'"$box"'","EndpointConfig":{"Aliases":["x"]}}'
}

@test "disconnect: what cannot be is refused" {
  created '{"Name":"'"$net"'"}' >/dev/null
  runs "$box" bridge
  runs "$box-host" host
  refused 404 "container $box is not connected to network $net" POST "/v1.24/networks/$net/disconnect" '{"Container":"'"$box"'"}'
  refused 500 "container cannot be disconnected from host network" POST /v1.24/networks/host/disconnect '{"Container":"'"$box-host"'"}'
  expect equal "$(moss inspect "$box" | jq -c '.[0].NetworkSettings.Networks | keys')" '["bridge"]'
}

@test "remove: 200 and it is gone; 403 for the built-in ones; 409 while a container is in it" {
  id=$(created '{"Name":"'"$net"'"}')
  for name in bridge host none "$(of_record bridge .Id)"; do
    refused 403 "pre-defined network and cannot be removed" DELETE "/v1.24/networks/$name"
  done
  runs "$box" "$net"
  refused 409 "error while removing network: network $net id $id has active endpoints" DELETE "/v1.24/networks/$net"
  moss rm -f "$box" >/dev/null
  answers "200 text/plain" DELETE "/v1.24/networks/${id:0:12}"
  expect equal "$(body)" ""
  refused 404 "network $net not found" DELETE "/v1.24/networks/$net"
  # The subnet and the name are free again, and a container at rest does not keep it.
  created '{"Name":"'"$net"'","CheckDuplicate":true}' >/dev/null
  moss create --name "$box" --network "$net" busybox true >/dev/null
  answers 200 DELETE "/v1.21/networks/$net"
  run moss start "$box"
  [ "$status" -ne 0 ] || fail "started in a network that is not there"
  expect contains "network $net not found"
}

@test "prune removes what no container uses, by label and age, and never the built-in ones" {
  created '{"Name":"'"$net"'-a","Labels":{"'"$net"'":"a"}}' >/dev/null
  created '{"Name":"'"$net"'-b","Labels":{"'"$net"'":"b"}}' >/dev/null
  created '{"Name":"'"$net"'-used","Labels":{"'"$net"'":"a"}}' >/dev/null
  moss create --name "$box" --network "$net-used" busybox true >/dev/null
  prune() { quietly -X POST --get --data-urlencode "filters=$1" http://moss/v1.24/networks/prune; }
  expect equal "$(prune '{"label":["'"$net"'"],"until":["1h"]}')" '{"NetworksDeleted":null}'
  expect equal "$(prune '{"label":["'"$net"'=a"]}')" '{"NetworksDeleted":["'"$net"'-a"]}'
  expect equal "$(prune '{"label":["'"$net"'"],"label!":["'"$net"'=b"]}')" '{"NetworksDeleted":null}'
  expect equal "$(prune '{"label":["'"$net"'"]}')" '{"NetworksDeleted":["'"$net"'-b"]}'
  expect equal "$(filtered '{}')" "-used"
  refused 400 "Invalid filter 'name'" POST "/v1.24/networks/prune?filters=%7B%22name%22%3A%5B%22x%22%5D%7D"
  refused 400 until POST "/v1.24/networks/prune?filters=%7B%22until%22%3A%5B%22soon%22%5D%7D"
}

@test "events: create, connect, disconnect and destroy, with the network's id, its name and its type" {
  quietly --no-buffer --max-time 60 --get --data-urlencode "filters={\"type\":[\"network\"],\"network\":[\"$net\"]}" \
    "http://moss/v1.24/events" >"$BATS_TEST_TMPDIR/events" 3>&- &
  listener=$!
  eventually 10 listens
  id=$(created '{"Name":"'"$net"'"}')
  runs "$box" bridge
  ctr=$(moss inspect "$box" | jq -r '.[0].Id')
  answers 200 POST "/v1.24/networks/$net/connect" '{"Container":"'"$box"'"}'
  answers 200 POST "/v1.24/networks/$net/disconnect" '{"Container":"'"$box"'"}'
  answers 200 DELETE "/v1.24/networks/$net"
  eventually 10 file_has "$BATS_TEST_TMPDIR/events" destroy
  expect equal "$(jq -rc '[.Type, .Action, .Actor.ID, .Actor.Attributes.name, .Actor.Attributes.type, .Actor.Attributes.container]' "$BATS_TEST_TMPDIR/events" | tr '\n' ' ')" \
    "[\"network\",\"create\",\"$id\",\"$net\",\"bridge\",null] [\"network\",\"connect\",\"$id\",\"$net\",\"bridge\",\"$ctr\"] [\"network\",\"disconnect\",\"$id\",\"$net\",\"bridge\",\"$ctr\"] [\"network\",\"destroy\",\"$id\",\"$net\",\"bridge\",null] "
}
listens() { [ "$(quietly http://moss/v1.24/info | jq .NEventsListener)" -ge 1 ]; }

@test "inspect of what is not there ends as it should, of a network shows it" {
  created '{"Name":"'"$net"'"}' >/dev/null
  run dock inspect "$net-none"
  [ "$status" -ne 0 ] || fail "there is something"
  expect matches '[Nn]o such (object|network|container|image)'
  run moss inspect "$net-none"
  [ "$status" -ne 0 ] || fail "there is something"
  expect contains "no container, image, volume or network is named $net-none"
  run moss inspect --type network "$net"
  expect contains "\"$net\""
  run dock network inspect "$net-none"
  [ "$status" -ne 0 ] || fail "there is a network"
  expect matches "network $net-none not found|No such network: $net-none"
  run dock network inspect --format '{{.Name}} {{.Driver}} {{.Scope}}' "$net"
  expect output "$net bridge local"
  run dock inspect --format '{{.Name}}' "$net"
  expect output "$net"
  run dock network ls --filter "name=$net" --format '{{.Name}} {{.Driver}} {{.Scope}}'
  expect output "$net bridge local"
}

@test "networks and their subnets outlive the engine, killed or ended" {
  created '{"Name":"'"$net"'","EnableIPv6":true,"Internal":true,"Labels":{"a":"b"},"Options":{"com.docker.network.driver.mtu":"1400"}}' >/dev/null
  facts='[.[] | del(.Containers)] | sort_by(.Id)'
  before=$(quietly http://moss/v1.24/networks | jq -c "$facts")
  engine=$(inner_pid)
  kill -KILL "$engine"
  eventually 30 ended "$engine"
  eventually 30 ping_ok
  expect equal "$(quietly http://moss/v1.24/networks | jq -c "$facts")" "$before"
  halt_engine
  spawn_engine
  expect equal "$(quietly http://moss/v1.24/networks | jq -c "$facts")" "$before"
  runs "$box" "$net"
  expect equal "$(of_record "$net" '.Containers | length')" 1
}
