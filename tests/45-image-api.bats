#!/usr/bin/env bats
# The endpoints of images and registries as bytes: every parameter, field, status and message, at the versions of the
# API, with a real registry behind the engine.
# bats file_tags=subids,long

load lib/moss
load lib/registry

setup_file() {
  # What is on loopback is never reached through a proxy: the tests are not touched by these.
  HTTP_PROXY=http://127.0.0.1:1 HTTPS_PROXY=http://127.0.0.1:2 NO_PROXY=example.test \
    start_engine --registry-mirror https://mirror.example.test --insecure-registry 10.1.0.0/16 --insecure-registry plain.example.test:5000
  import_busybox
  start_registry plain
  export PLAIN=$REGISTRY
  start_registry closed --htpasswd ann:secret
  export CLOSED=$REGISTRY
  # A second image: one more layer, names of its own.
  moss run --name base busybox sh -c 'head -c 300000 /dev/urandom >/data'
  moss commit -m "a comment" -a "an author" -c 'LABEL kind=second' base second:one >/dev/null
  moss rm base >/dev/null
  # What the tests pull is put there by a program that shares nothing with the engine but the archive.
  curl -sS --fail --unix-socket "$MOSS_SOCK" -o "$MOSS_DIR/second.tar" http://moss/images/second:one/get
  for tag in one two; do
    skopeo copy -q --dest-tls-verify=false "docker-archive:$MOSS_DIR/second.tar" "docker://$PLAIN/lib/box:$tag"
  done
  skopeo copy -q --dest-tls-verify=false --dest-creds ann:secret "docker-archive:$MOSS_DIR/second.tar" "docker://$CLOSED/lib/box:one"
}
teardown_file() {
  stop_registries
  stop_engine
}
setup() {
  begin
  second_is_there
}
teardown() {
  if [ -n "${helper:-}" ]; then kill "$helper" 2>/dev/null || true; fi
  finish
}

versions="1.18 1.20 1.21 1.22 1.24"

# ask METHOD PATH [CURL-OPTION...]: one request. Prints its status and, behind it, media type of the answer; the body goes
# to $BATS_TEST_TMPDIR/body.
ask() {
  local method=$1 path=$2
  shift 2
  curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" -X "$method" "$@" -o "$BATS_TEST_TMPDIR/body" \
    -w '%{http_code} %{content_type}' "http://moss$path"
}
# answers WANT METHOD PATH [CURL-OPTION...]: such is the answer; WANT is a status, or more of what ask prints.
answers() {
  local want=$1 got
  shift
  got=$(ask "$@")
  [[ $got == "$want"* ]] || fail "$*: got $got, want $want" "$(body)"
}
# field FILTER WANT: what jq makes of the body.
field() { expect equal "$(in_body -rc "$1")" "$2"; }
json=(-H 'Content-Type: application/json')
auth() { echo "X-Registry-Auth: $(printf %s "$1" | base64 -w0 | tr '+/' '-_')"; }
# These leave the body of the last answer alone.
quietly() { curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" "$@"; }
id_of() { quietly "http://moss/images/$1/json" | jq -r .Id; }
gone() { [ "$(id_of "$1")" = null ]; }
drop() { quietly -X DELETE "http://moss/images/$1?force=1" >/dev/null; }
# second_is_there: tests take it away for a while.
second_is_there() { ! gone second:one || quietly -o /dev/null -T "$MOSS_DIR/second.tar" -X POST "http://moss/images/load?quiet=1"; }
# known VERSION FIELD SINCE: FIELD of the body is there from SINCE on and not before.
known() {
  if [ "${1#*.}" -ge "${3#*.}" ]; then field "$2 | type != \"null\"" true; else field "$2 | type" null; fi
}
# error_of VERSION TEXT: the body is an error in the form of the version.
error_of() {
  if [ "$1" = 1.24 ]; then
    expect --in "$(in_body -r .message)" contains "$2"
  else
    expect --in "$(body)" contains "$2"
    expect --in "$(body)" lacks '{'
  fi
}
# stored: the layers that the engine keeps, and what is half-made.
stored() {
  find "$MOSS_DATA/root" -maxdepth 4 -path '*overlay*' -not -path '*/l/*' -not -name 'volatile-layers.*' \
    -printf '%P\n' 2>/dev/null | sort
}
unchanged() { [ "$(stored)" = "$1" ]; }
# stall PORT DOWN UP: starts lib/stall.py before a registry and sets $through to its address. Its words go to $BATS_TEST_TMPDIR/stall.
stall() {
  rm -f "$BATS_TEST_TMPDIR/stall"
  python3 "$BATS_TEST_DIRNAME/lib/stall.py" "$@" >"$BATS_TEST_TMPDIR/stall" 3>&- &
  helper=$!
  eventually 10 file_has "$BATS_TEST_TMPDIR/stall" ''
  eventually 10 test -s "$BATS_TEST_TMPDIR/stall"
  through=127.0.0.1:$(head -n 1 "$BATS_TEST_TMPDIR/stall")
}
# web DIR: serves the files of a folder and sets $site to its address.
web() {
  rm -f "$BATS_TEST_TMPDIR/web"
  python3 -u -m http.server --bind 127.0.0.1 --directory "$1" 0 >"$BATS_TEST_TMPDIR/web" 2>&1 3>&- &
  helper=$!
  eventually 10 file_has "$BATS_TEST_TMPDIR/web" 'port '
  site=127.0.0.1:$(sed -nE 's/.* port ([0-9]+).*/\1/p' "$BATS_TEST_TMPDIR/web")
}

@test "images/json: entries, all, filter, digests and filters, in each version's form" {
  name=$(unique listed)
  second=$(id_of second:one)
  answers 201 POST "/images/second:one/tag?repo=127.0.0.1:5000/a/$name&tag=t"
  for v in $versions; do
    answers "200 application/json" GET "/v$v/images/json?filter=127.0.0.1:5000/a/$name"
    field length 1
    field '.[0].RepoTags[0]' "127.0.0.1:5000/a/$name:t"
    field '.[0].Id' "$second"
    field '.[0] | .Size == .VirtualSize and .Size > 300000 and (.Created | type) == "number"' true
    field '.[0].ParentId' "$(id_of busybox)"
    answers 200 GET "/v$v/images/json?filter=127.0.0.1:5000/*/$name"
    field '.[0].RepoTags' "[\"127.0.0.1:5000/a/$name:t\"]"
    known "$v" '.[0].Labels' 1.20
    known "$v" '.[0].RepoDigests' 1.22
    answers 200 GET "/v$v/images/json?digests=1&filter=busybox"
    field '.[0].RepoDigests | type' array
    answers 200 GET "/v$v/images/json" --get --data-urlencode 'filters={"label":["kind=second"]}'
    field 'map(.Id) | unique | length' 1
    field '.[0].Id' "$second"
    answers 200 GET "/v$v/images/json" --get --data-urlencode 'filters={"label":{"kind":true}}'
    field '.[0].Id' "$second"
    answers 200 GET "/v$v/images/json" --get --data-urlencode 'filters={"label":["kind=third"]}'
    field length 0
    answers 200 GET "/v$v/images/json" --get --data-urlencode 'filters={"before":["second:one"]}'
    field 'map(.RepoTags[]) | index("busybox:latest") != null' true
    answers 200 GET "/v$v/images/json" --get --data-urlencode 'filters={"since":["busybox"]}'
    field 'map(.Id) | index("'"$second"'") != null' true
    answers 200 GET "/v$v/images/json" --get --data-urlencode 'filters={"reference":["sec*:one"]}'
    field '.[0].RepoTags' '["second:one"]'
    answers 400 GET "/v$v/images/json" --get --data-urlencode 'filters={"color":["red"]}'
    error_of "$v" "Invalid filter 'color'"
    answers 400 GET "/v$v/images/json?filters=x"
  done
  drop "127.0.0.1:5000/a/$name:t"
}

@test "images/json: dangling ones and parents without a name" {
  name=$(unique dangling)
  moss run --name "$name" busybox touch /one
  parent=$(moss commit "$name")
  moss rm "$name" >/dev/null
  moss run --name "$name" "$parent" touch /two
  child=$(moss commit "$name")
  moss rm "$name" >/dev/null
  for v in $versions; do
    answers 200 GET "/v$v/images/json" --get --data-urlencode 'filters={"dangling":["true"]}'
    field 'map(.Id) | [index("'"$parent"'"), index("'"$child"'")] | map(. != null)' '[false,true]'
    field 'map(select(.Id == "'"$child"'"))[0].RepoTags' '["<none>:<none>"]'
    answers 200 GET "/v$v/images/json" --get --data-urlencode 'filters={"dangling":["false"]}'
    field 'map(.Id) | index("'"$child"'")' null
    answers 200 GET "/v$v/images/json?all=1"
    field 'map(.Id) | index("'"$parent"'") != null' true
    answers 200 GET "/v$v/images/json?all=0"
    field 'map(.Id) | index("'"$parent"'")' null
  done
  answers 200 DELETE "/images/$child"
  eventually 5 gone "$parent"
}

@test "inspect: every field, in the versions that have it" {
  for v in $versions; do
    answers "200 application/json" GET "/v$v/images/second:one/json"
    field .Id "$(id_of second:one)"
    field '.RepoTags | index("second:one") != null' true
    field '.RepoDigests | type' array
    field .Parent "$(moss image inspect busybox | jq -r '.[0].Id')"
    field '.Created | test("^20.*Z$")' true
    field .Comment "a comment"
    field .Author "an author"
    field '.Container | length' 64
    field '.ContainerConfig.Cmd | join(" ")' "sh -c head -c 300000 /dev/urandom >/data"
    field .ContainerConfig.Image busybox
    field .Config.Labels.kind second
    field '.Architecture, .Os | type' $'string\nstring'
    field .Os linux
    field '.EngineVersion == .DockerVersion and (.EngineVersion | length) > 0' true
    field '.Size == .VirtualSize and .Size > 300000' true
    known "$v" .GraphDriver 1.24
    known "$v" .RootFS 1.24
  done
  field '.GraphDriver.Name | length > 0' true
  field '.GraphDriver.Data | type' object
  field .RootFS.Type layers
  field '.RootFS.Layers | map(test("^sha256:[0-9a-f]{64}$"))' '[true,true]'
}

@test "images are found by name, tag, digest, id with and without sha256:, and any unique beginning" {
  id=$(id_of second:one)
  for ref in second:one docker.io/library/second:one "$id" "${id#sha256:}" "${id:7:12}" "sha256:${id:7:20}"; do
    answers 200 GET "/images/$ref/json"
    field .Id "$id"
  done
  for v in $versions; do
    for verb in json history; do
      answers 404 GET "/v$v/images/no/such/$verb"
      error_of "$v" "No such image: no/such"
    done
  done
}

@test "history: the newest step first, with more from 1.24 on" {
  for v in $versions; do
    answers "200 application/json" GET "/v$v/images/second:one/history"
    field length 2
    field '.[0].Id' "$(id_of second:one)"
    field 'map(.Created > 1700000000)' '[true,true]'
    field '.[0].CreatedBy | contains("head -c 300000")' true
    known "$v" '.[0].Tags' 1.24
    known "$v" '.[0].Size' 1.24
    known "$v" '.[0].Comment' 1.24
  done
  field '.[0].Tags | index("second:one") != null' true
  field '.[0].Size >= 300000' true
  field '.[0].Comment' "a comment"
}

@test "tag: a name is moved, up to 1.21 only by force" {
  for v in $versions; do
    name=$(unique "tag-${v#1.}")
    answers 201 POST "/v$v/images/second:one/tag?repo=127.0.0.1:5000/$name&tag=t"
    expect equal "$(body)" ""
    expect equal "$(id_of "127.0.0.1:5000/$name:t")" "$(id_of second:one)"
    answers 201 POST "/v$v/images/second:one/tag?repo=127.0.0.1:5000/$name&tag=t" # once more is no change
    if [ "${v#1.}" -le 21 ]; then
      answers 409 POST "/v$v/images/busybox/tag?repo=127.0.0.1:5000/$name&tag=t"
      error_of "$v" "Conflict: Tag 127.0.0.1:5000/$name:t is already set to image $(id_of second:one)"
      expect equal "$(id_of "127.0.0.1:5000/$name:t")" "$(id_of second:one)"
      answers 201 POST "/v$v/images/busybox/tag?repo=127.0.0.1:5000/$name&tag=t&force=1"
    else
      answers 201 POST "/v$v/images/busybox/tag?repo=127.0.0.1:5000/$name&tag=t"
    fi
    expect equal "$(id_of "127.0.0.1:5000/$name:t")" "$(id_of busybox)"
    answers 201 POST "/v$v/images/second:one/tag?repo=$name" # latest, without a tag
    expect equal "$(id_of "$name:latest")" "$(id_of second:one)"
    answers 404 POST "/v$v/images/no/such/tag?repo=$name"
    error_of "$v" "No such image: no/such"
    for bad in 'repo=UPPER' 'repo=a&tag=-x' 'repo=' 'repo=a%20b'; do
      answers 400 POST "/v$v/images/busybox/tag?$bad"
    done
    drop "$name:latest"
    drop "127.0.0.1:5000/$name:t"
  done
}

@test "DELETE: names and images, force, noprune, and what holds them" {
  for v in $versions; do
    name=$(unique "del-${v#1.}")
    moss run --name "$name" busybox touch "/$name"
    parent=$(moss commit "$name")
    moss rm "$name" >/dev/null
    moss run --name "$name" "$parent" touch /two
    moss commit "$name" "$name:a" >/dev/null
    moss rm "$name" >/dev/null
    child=$(id_of "$name:a")
    answers 201 POST "/v$v/images/$name:a/tag?repo=other-$name"
    answers 409 DELETE "/v$v/images/$child"
    error_of "$v" "(must be forced) - image is referenced in multiple repositories"
    answers "200 application/json" DELETE "/v$v/images/other-$name"
    field . "[{\"Untagged\":\"other-$name:latest\"}]"
    moss run -d --name "$name" "$name:a" sleep 1000 >/dev/null
    answers 409 DELETE "/v$v/images/$name:a"
    error_of "$v" "is using its referenced image"
    answers 409 DELETE "/v$v/images/$child?force=1"
    error_of "$v" "(cannot be forced) - image is being used by running container"
    moss rm -f "$name" >/dev/null
    answers 200 DELETE "/v$v/images/$child?noprune=1"
    field 'map(select(.Deleted == "'"$child"'")) | length' 1
    answers 200 GET "/v$v/images/$parent/json"
    answers 200 DELETE "/v$v/images/$parent"
    field 'map(has("Deleted")) | all' true
    answers 404 DELETE "/v$v/images/$parent"
    error_of "$v" "No such image"
  done
}

@test "search: the catalog of a registry; term, limit and filters by version" {
  for v in $versions; do
    answers "200 application/json" GET "/v$v/images/search?term=$PLAIN/box"
    field 'map(.name)' "[\"lib/box\"]"
    field '.[0] | [.description, .is_official, .is_automated, .star_count] | map(type)' '["string","boolean","boolean","number"]'
    answers 400 GET "/v$v/images/search"
    error_of "$v" term
    if [ "$v" = 1.24 ]; then
      for bad in limit=0 limit=101 limit=x 'filters=x' 'filters=%7B%22color%22%3A%5B%22red%22%5D%7D'; do
        answers 400 GET "/v$v/images/search?term=$PLAIN/box&$bad"
      done
    else
      answers 200 GET "/v$v/images/search?term=$PLAIN/box&limit=0"
    fi
  done
}

@test "search: an index, with stars, limit, filters" {
  mkdir -p "$BATS_TEST_TMPDIR/site/v1"
  cat >"$BATS_TEST_TMPDIR/site/v1/search" <<'JSON'
{"num_results": 3, "query": "word", "results": [
  {"name": "word", "description": "the first", "is_official": true, "is_automated": false, "star_count": 30},
  {"name": "ann/word", "description": "another", "is_official": false, "is_automated": true, "star_count": 20},
  {"name": "bob/word", "description": "a third", "is_official": false, "is_automated": false, "star_count": 1}]}
JSON
  web "$BATS_TEST_TMPDIR/site"
  answers 200 GET "/images/search?term=$site/word"
  field '.[0]' '{"description":"the first","is_automated":false,"is_official":true,"name":"word","star_count":30}'
  field length 3
  answers 200 GET "/images/search?term=$site/word&limit=2"
  field 'map(.name)' '["word","ann/word"]'
  for filter in 'stars 10 ["word","ann/word"]' 'is-official true ["word"]' 'is-automated true ["ann/word"]' 'is-official false ["ann/word","bob/word"]'; do
    read -r key value want <<<"$filter"
    answers 200 GET /images/search --get --data-urlencode "term=$site/word" --data-urlencode "filters={\"$key\":[\"$value\"]}"
    field 'map(.name)' "$want"
  done
  for key in stars is-official is-automated; do
    answers 400 GET /images/search --get --data-urlencode "term=$site/word" --data-urlencode "filters={\"$key\":[\"much\"]}"
  done
  answers 200 GET /v1.22/images/search --get --data-urlencode "term=$site/word" --data-urlencode 'filters={"stars":["10"]}'
  field length 3
}

@test "search: what cannot be reached or wants a login" {
  answers 500 GET "/images/search?term=127.0.0.1:1/word"
  error_of 1.24 127.0.0.1:1
  run ask GET "/images/search?term=$CLOSED/box"
  expect matches '^(401|403|404|500) '
  answers 200 GET "/images/search?term=$CLOSED/box" -H "$(auth '{"username":"ann","password":"secret"}')"
  field 'map(.name)' '["lib/box"]'
}

@test "pull: by tag, digest and without, at every version, with messages for each layer" {
  digest=$(skopeo inspect --tls-verify=false --format '{{.Digest}}' "docker://$PLAIN/lib/box:one")
  for v in $versions; do
    for query in "fromImage=$PLAIN/lib/box&tag=one" "fromImage=$PLAIN/lib/box:one" "fromImage=$PLAIN/lib/box&tag=$digest" \
      "fromImage=$PLAIN/lib/box@$digest" "fromImage=$PLAIN/lib/box&tag=one&platform=linux/$(go_arch)"; do
      answers "200 application/json" POST "/v$v/images/create?$query"
      field 'select(.error)' ""
      expect --in "$(in_body -r .status)" contains "Pulling from lib/box" "Digest: $digest" "Status: "
      ref=${query#fromImage=}
      ref=${ref%%&platform*}
      case $ref in *"&tag=sha256"*) ref=${ref/&tag=/@} ;; *) ref=${ref/&tag=/:} ;; esac
      ref=${ref%:one:one}
      expect --in "$(id_of "$ref")" matches '^sha256:'
      drop "$ref"
    done
    answers 200 POST "/v$v/images/create?fromImage=$PLAIN/lib/box" # no tag: all of them
    expect equal "$(id_of "$PLAIN/lib/box:one")" "$(id_of "$PLAIN/lib/box:two")"
    drop "$PLAIN/lib/box:one"
    drop "$PLAIN/lib/box:two"
  done
}
go_arch() { case $(uname -m) in x86_64) echo amd64 ;; aarch64) echo arm64 ;; *) uname -m ;; esac }

@test "pull: each layer's messages are those that clients draw" {
  drop second:one
  answers 200 POST "/images/create?fromImage=$PLAIN/lib/box&tag=one"
  cp "$BATS_TEST_TMPDIR/body" "$BATS_TEST_TMPDIR/pull"
  jq -es 'map(.id // "") as $ids | map(.status) as $all
    | ($all | index("Pulling from lib/box") != null) and ($all[-1] | startswith("Status: Downloaded newer image for"))
    and any(.[]; .status == "Pull complete" and (.id | test("^[0-9a-f]{12}$")))
    and any(.[]; .status == "Already exists" or .status == "Pulling fs layer")
    and all(.[]; has("progressDetail") == ((.id // "one") != "one"))' "$BATS_TEST_TMPDIR/pull"
  jq -es 'map(select(.progressDetail.total)) | all(.progressDetail.current <= .progressDetail.total and (.progress | test("^\\[=*>? *\\] .*B/")))' \
    "$BATS_TEST_TMPDIR/pull"
  answers 200 POST "/images/create?fromImage=$PLAIN/lib/box&tag=one"
  expect --in "$(body)" contains "Status: Image is up to date for $PLAIN/lib/box:one"
  drop "$PLAIN/lib/box:one"
}

# index_of TAG: names the index that has TAG's manifest for this machine.
index_of() {
  skopeo inspect --tls-verify=false --raw "docker://$PLAIN/lib/box:$1" >"$BATS_TEST_TMPDIR/manifest"
  jq -n --arg digest "sha256:$(sha256sum <"$BATS_TEST_TMPDIR/manifest" | cut -d' ' -f1)" --argjson size "$(wc -c <"$BATS_TEST_TMPDIR/manifest")" \
    --arg type "$(jq -r .mediaType "$BATS_TEST_TMPDIR/manifest")" --arg arch "$(go_arch)" '{schemaVersion: 2,
      mediaType: "application/vnd.docker.distribution.manifest.list.v2+json",
      manifests: [{mediaType: $type, digest: $digest, size: $size, platform: {os: "linux", architecture: $arch}}]}' >"$BATS_TEST_TMPDIR/index"
  curl -sS --fail -X PUT --data-binary @"$BATS_TEST_TMPDIR/index" "http://$PLAIN/v2/lib/box/manifests/index" \
    -H 'Content-Type: application/vnd.docker.distribution.manifest.list.v2+json'
}

@test "pull: platform picks from an index, and an image of another one is refused" {
  index_of one
  for v in $versions; do
    for query in tag=index "tag=index&platform=linux/$(go_arch)"; do
      answers 200 POST "/v$v/images/create?fromImage=$PLAIN/lib/box&$query"
      expect equal "$(id_of "$PLAIN/lib/box:index")" "$(id_of second:one)"
      drop "$PLAIN/lib/box:index"
    done
    answers 404 POST "/v$v/images/create?fromImage=$PLAIN/lib/box&tag=index&platform=linux/mips64"
    error_of "$v" "no matching manifest for linux/mips64"
    run ask POST "/v$v/images/create?fromImage=$PLAIN/lib/box&tag=one&platform=linux/mips64"
    expect --in "$(body)" contains "does not match the specified platform: wanted linux/mips64"
    gone "$PLAIN/lib/box:one"
    answers 400 POST "/v$v/images/create?fromImage=$PLAIN/lib/box&tag=one&platform=a/b/c/d"
  done
}

@test "save and others for a platform: each image that a name leads to counts, and no value is none" {
  name=$(unique app)
  moss tag busybox "$name:1"
  moss tag busybox "$name:2"
  platform() { jq -rn --arg arch "$1" '{os: "linux", architecture: $arch} | tojson | @uri'; }
  answers 200 GET "/images/get?names=$name&platform=$(platform "$(go_arch)")"
  expect equal "$(tar xOf "$BATS_TEST_TMPDIR/body" manifest.json | jq -c '.[0].RepoTags')" "[\"$name:1\",\"$name:2\"]"
  answers 404 GET "/images/get?names=$name&platform=$(platform mips64)"
  expect --in "$(in_body -r .message)" contains "$name:1 was found but does not match the specified platform: wanted linux/mips64"
  for path in "$name:1/json?manifests=1" "$name:1/history?" "$name:1/get?" "get?names=$name"; do
    answers 200 GET "/images/$path&platform="
  done
  moss rmi "$name:1" "$name:2"
}

@test "distribution: what a registry has under a name, of images and indexes; nothing is fetched" {
  index_of one
  digest=$(skopeo inspect --no-tags --tls-verify=false --format '{{.Digest}}' "docker://$PLAIN/lib/box:one")
  for name in "$PLAIN/lib/box:one" "$PLAIN/lib/box@$digest"; do
    answers "200 application/json" GET "/v1.24/distribution/$name/json"
    field '.Descriptor | [.Digest, .Size > 100, (.MediaType | test("manifest"))]' "[\"$digest\",true,true]"
    field .Platforms "[{\"Architecture\":\"$(go_arch)\",\"OS\":\"linux\"}]"
  done
  answers 200 GET "/v1.18/distribution/$PLAIN/lib/box:index/json"
  field '[(.Descriptor.MediaType | test("index|list")), (.Platforms | map(.Architecture) | index("'"$(go_arch)"'") != null)]' '[true,true]'
  gone "$PLAIN/lib/box:one"
  index=$(jq -c '.manifests[0].platform |= {os: "windows", architecture: "amd64", "os.version": "10.0.1", "os.features": ["win32k"]}' "$BATS_TEST_TMPDIR/index")
  curl -sS --fail -X PUT --data-binary "$index" "http://$PLAIN/v2/lib/box/manifests/windows" \
    -H 'Content-Type: application/vnd.docker.distribution.manifest.list.v2+json'
  answers 200 GET "/v1.39/distribution/$PLAIN/lib/box:windows/json"
  field .Platforms '[{"Architecture":"amd64","OS":"windows","OSFeatures":["win32k"],"OSVersion":"10.0.1"}]'
  answers 200 GET "/v1.51/distribution/$PLAIN/lib/box:windows/json"
  field .Platforms '[{"architecture":"amd64","os":"windows","os.features":["win32k"],"os.version":"10.0.1"}]'
  answers 404 GET "/v1.24/distribution/$PLAIN/lib/box:nope/json"
  answers 404 GET "/v1.24/distribution/$PLAIN/no/such/json"
  answers 401 GET "/v1.24/distribution/$CLOSED/lib/box:one/json"
  answers 200 GET "/v1.24/distribution/$CLOSED/lib/box:one/json" -H "$(auth '{"username":"ann","password":"secret"}')"
  answers 400 GET "/v1.24/distribution/UPPER/json"
  answers 500 GET "/v1.24/distribution/127.0.0.1:1/a/json"
}

@test "pull: what fails before the first message is a status" {
  for v in $versions; do
    answers 404 POST "/v$v/images/create?fromImage=$PLAIN/no/such&tag=t"
    error_of "$v" "$PLAIN/no/such"
    answers 404 POST "/v$v/images/create?fromImage=$PLAIN/lib/box&tag=nope"
    error_of "$v" "manifest for $PLAIN/lib/box:nope not found"
    answers 404 POST "/v$v/images/create?fromImage=$PLAIN/lib/box&tag=sha256:$(printf '0%.0s' {1..64})"
    answers 400 POST "/v$v/images/create?fromImage=UPPER&tag=t"
    error_of "$v" "invalid reference format"
    answers 400 POST "/v$v/images/create?fromImage=a&tag=-x"
    answers 400 POST "/v$v/images/create"
    answers 500 POST "/v$v/images/create?fromImage=127.0.0.1:1/a&tag=t"
  done
}

@test "X-Registry-Auth: every way to write it, at every version, and none that works" {
  good='{"username":"ann","password":"secret","serveraddress":"'"$CLOSED"'"}'
  both='{"auth":"'$(printf ann:secret | base64)'"}'
  for v in $versions; do
    for config in "$good" "$both" '{"username":"ann","password":"secret","email":"ann@example.test"}'; do
      plain=$(printf %s "$config" | base64 -w0)
      for value in "$plain" "${plain%%=*}" "$(tr '+/' '-_' <<<"$plain")" "$(tr '+/' '-_' <<<"${plain%%=*}")"; do
        answers 200 POST "/v$v/images/create?fromImage=$CLOSED/lib/box&tag=one" -H "X-Registry-Auth: $value"
        expect --in "$(body)" contains "Status: "
      done
    done
    drop "$CLOSED/lib/box:one"
    for value in '%%%' "$(printf 'ann:secret' | base64)" "$(printf '{}' | base64)" "$(printf '{"username":"ann","password":"wrong"}' | base64)"; do
      run ask POST "/v$v/images/create?fromImage=$CLOSED/lib/box&tag=one" -H "X-Registry-Auth: $value"
      expect matches '^(401|404|500) '
    done
    run ask POST "/v$v/images/create?fromImage=$CLOSED/lib/box&tag=one"
    expect matches '^(401|404) '
  done
  expect lacks secret
  ! grep -q -e secret -e "$(printf 'ann:secret' | base64)" "$MOSS_DIR/mossd.log" || fail "the engine's log has a password"
}

@test "import: from the body and from a URL, with repo, tag, message and changes, at every version" {
  web "$MOSS_DIR"
  for v in $versions; do
    name=$(unique "import-${v#1.}")
    what="repo=$name&tag=t&message=words&changes=CMD+x&changes=ENV+A=b"
    answers "200 application/json" POST "/v$v/images/create?fromSrc=-&$what" -T "$MOSS_DIR/busybox.tar" -H 'Content-Type: application/x-tar'
    expect equal "$(in_body -r .status | tail -n 1)" "$(id_of "$name:t")"
    answers 200 GET "/images/$name:t/json"
    field '[.Comment, .Config.Cmd[-1], .Config.Env[-1]]' '["words","x","A=b"]'
    drop "$name:t"
    answers "200 application/json" POST "/v$v/images/create?fromSrc=http://$site/busybox.tar&$what"
    expect equal "$(in_body -r .status | tail -n 1)" "$(id_of "$name:t")"
    expect --in "$(body)" contains "Downloading from http://$site/busybox.tar"
    drop "$name:t"
    answers 400 POST "/v$v/images/create?fromSrc=-&repo=UPPER" -T "$MOSS_DIR/busybox.tar"
    error_of "$v" "invalid reference format"
    answers 400 POST "/v$v/images/create?fromSrc=-&changes=RUN+x" -T "$MOSS_DIR/busybox.tar"
    run ask POST "/v$v/images/create?fromSrc=http://$site/no.tar"
    expect matches '^(400|404|500) '
  done
}

@test "push: progress, digest and size; the registry has the very same image" {
  for v in $versions; do
    repo=$PLAIN/push/$(unique "v${v#1.}")
    answers 201 POST "/images/second:one/tag?repo=$repo&tag=t"
    answers "200 application/json" POST "/v$v/images/$repo/push?tag=t" -H "$(auth '{}')"
    digest=$(skopeo inspect --tls-verify=false --format '{{.Digest}}' "docker://$repo:t")
    expect --in "$(in_body -r .status)" contains "The push refers to repository [$repo]" "t: digest: $digest size: "
    expect --in "$(in_body -r 'select(.aux).aux | "\(.Tag) \(.Digest)"')" contains "t $digest"
    expect equal "$(skopeo inspect --tls-verify=false --raw "docker://$repo:t" | jq -r .config.digest)" "$(id_of second:one)"
    # The name may hold the tag, and the credentials may come as the body.
    answers 200 POST "/v$v/images/$repo:t/push" "${json[@]}" -d '{}'
    expect --in "$(in_body -r .status)" contains "Layer already exists"
    answers 400 POST "/v$v/images/$repo/push?tag=t"
    error_of "$v" "Bad parameters and missing X-Registry-Auth"
    run ask POST "/v$v/images/$repo/push?tag=nope" -H "$(auth '{}')"
    expect matches '^404 '
    error_of "$v" "$repo"
    answers 404 POST "/v$v/images/$PLAIN/no/such/push" -H "$(auth '{}')"
    drop "$repo:t"
  done
}

@test "push: without a tag all of the repository's; with credentials where they are needed" {
  repo=$PLAIN/push/$(unique all)
  for tag in one two; do answers 201 POST "/images/second:one/tag?repo=$repo&tag=$tag"; done
  answers 200 POST "/images/$repo/push" -H "$(auth '{}')"
  expect --in "$(in_body -r 'select(.aux).aux.Tag' | sort | xargs)" contains "one two"
  closed=$CLOSED/push/$(unique closed)
  answers 201 POST "/images/second:one/tag?repo=$closed"
  run ask POST "/images/$closed/push?tag=latest" -H "$(auth '{}')"
  expect lacks "aux"
  expect --in "$(body)" lacks aux
  answers 200 POST "/images/$closed/push?tag=latest" -H "$(auth '{"username":"ann","password":"secret"}')"
  expect --in "$(body)" contains '"aux"'
  answers 200 POST "/v1.18/images/$closed/push?tag=latest" "${json[@]}" -d '{"username":"ann","password":"secret","email":"e"}'
  expect --in "$(body)" contains '"aux"'
  for ref in "$repo:one" "$repo:two" "$closed"; do drop "$ref"; done
}

@test "get and load: one image and several, at every version, quiet or not" {
  second=$(id_of second:one)
  for v in $versions; do
    answers "200 application/x-tar" GET "/v$v/images/second:one/get"
    cp "$BATS_TEST_TMPDIR/body" "$BATS_TEST_TMPDIR/one.tar"
    expect equal "$(tar -xOf "$BATS_TEST_TMPDIR/one.tar" repositories | jq -r 'keys[0]')" second
    answers "200 application/x-tar" GET "/v$v/images/get?names=second:one&names=busybox"
    cp "$BATS_TEST_TMPDIR/body" "$BATS_TEST_TMPDIR/two.tar"
    expect equal "$(tar -xOf "$BATS_TEST_TMPDIR/two.tar" manifest.json | jq -c 'map(.RepoTags[0]) | sort')" '["busybox:latest","second:one"]'
    answers "200 application/x-tar" GET "/v$v/images/$second/get"
    expect --in "$(tar -tf "$BATS_TEST_TMPDIR/body")" lacks repositories
    answers 404 GET "/v$v/images/no/such/get"
    error_of "$v" "No such image: no/such"
    answers 404 GET "/v$v/images/get?names=busybox&names=no/such"
    answers 400 GET "/v$v/images/get"
    drop second:one
    gone second:one
    answers 200 POST "/v$v/images/load" -T "$BATS_TEST_TMPDIR/one.tar" -H 'Content-Type: application/x-tar'
    if [ "$v" = 1.24 ]; then
      expect --in "$(in_body -r '.stream // empty')" contains "Loaded image: second:one"
      expect --in "$(body)" contains '"status":"Loading layer"' '"progressDetail"'
    else
      expect equal "$(body)" ""
    fi
    expect equal "$(id_of second:one)" "$second"
    answers 200 POST "/v$v/images/load?quiet=1" -T "$BATS_TEST_TMPDIR/two.tar"
    expect --in "$(body)" lacks '"status"' '"progressDetail"'
    if [ "${v#1.}" -lt 23 ]; then
      answers 500 POST "/v$v/images/load" --data-binary 'no archive'
      error_of "$v" ""
    else
      answers 200 POST "/v$v/images/load" --data-binary 'no archive'
      expect --in "$(in_body -r .error)" contains archive
    fi
  done
}

@test "the tarball: a folder for each layer with VERSION, json and layer.tar, whiteouts, repositories for names" {
  name=$(unique tarball)
  moss run --name "$name" busybox sh -c 'echo new >/new && rm /etc/group && rm -r /var/www && mkdir /var/www'
  moss commit "$name" "$name:t" >/dev/null
  moss rm "$name" >/dev/null
  id=$(id_of "$name:t")
  for path in "/images/$name:t/get" "/v1.18/images/$name:t/get" "/images/get?names=$name:t" "/images/get?names=$id"; do
    rm -rf "$BATS_TEST_TMPDIR/tree"
    mkdir "$BATS_TEST_TMPDIR/tree"
    answers 200 GET "$path"
    tar -C "$BATS_TEST_TMPDIR/tree" -xf "$BATS_TEST_TMPDIR/body"
    cd "$BATS_TEST_TMPDIR/tree"
    expect equal "$(cat ./*/VERSION)" 1.01.0
    expect equal "$(find . -mindepth 1 -maxdepth 1 -type d | wc -l)" 2
    top='' base=''
    for dir in */; do
      dir=${dir%/}
      expect --in "$dir" matches '^[0-9a-f]{64}$'
      expect equal "$(jq -r .id "$dir/json")" "$dir"
      if tar -tf "$dir/layer.tar" | grep -qE '^(\./)?new$'; then top=$dir; else base=$dir; fi
    done
    expect equal "$(jq -r .parent "$top/json")" "$base"
    files=$(tar -tf "$top/layer.tar" | sed 's|^\./||')
    expect --in "$files" matches '^etc/\.wh\.group$'
    expect --in "$files" matches '^var/www/\.wh\.(\.wh\.\.opq|index\.html)$'
    if [[ $path == *sha256* ]]; then
      [ ! -e repositories ] || fail "an id has repositories"
    else
      expect equal "$(jq -c . repositories)" "{\"$name\":{\"t\":\"$top\"}}"
    fi
    expect equal "$(jq -c 'map(.Layers)' manifest.json)" "[[\"$base/layer.tar\",\"$top/layer.tar\"]]"
    cd /
  done
  drop "$name:t"
}

@test "auth: good and bad credentials, and a registry that is not there" {
  for v in $versions; do
    answers "200 application/json" POST "/v$v/auth" "${json[@]}" \
      -d '{"username":"ann","password":"secret","email":"e","serveraddress":"'"$CLOSED"'"}'
    field .Status "Login Succeeded"
    known "$v" .IdentityToken 1.24
    answers 401 POST "/v$v/auth" "${json[@]}" -d '{"username":"ann","password":"wrong","serveraddress":"'"$CLOSED"'"}'
    error_of "$v" "unauthorized"
    answers 400 POST "/v$v/auth" "${json[@]}" -d '{"username":1}'
    answers 400 POST "/v$v/auth" -d 'username=ann'
    answers 400 POST "/v$v/auth" "${json[@]}" -d '{"username":"ann","password":"p","serveraddress":"ftp://x"}'
    run ask POST "/v$v/auth" "${json[@]}" -d '{"username":"ann","password":"p","serveraddress":"127.0.0.1:1"}'
    expect matches '^500 '
    expect --in "$(body)" lacks '"p"'
  done
  ! grep -q -e secret -e wrong "$MOSS_DIR/mossd.log" || fail "the engine's log has a password"
}

@test "info: what is known of registries" {
  for v in $versions; do
    answers 200 GET "/v$v/info"
    field .IndexServerAddress "https://index.docker.io/v1/"
    field '.RegistryConfig.InsecureRegistryCIDRs | index("127.0.0.0/8", "10.1.0.0/16") | type' $'number\nnumber'
    field '.RegistryConfig.IndexConfigs["docker.io"]' \
      '{"Mirrors":["https://mirror.example.test/"],"Name":"docker.io","Official":true,"Secure":true}'
    field '.RegistryConfig.IndexConfigs["plain.example.test:5000"]' \
      '{"Mirrors":[],"Name":"plain.example.test:5000","Official":false,"Secure":false}'
    field '[.HttpProxy, .HttpsProxy, .NoProxy]' '["http://127.0.0.1:1","http://127.0.0.1:2","example.test"]'
    field '.Images > 1' true
  done
}

@test "events: what happens to images, with load and save from 1.24 on" {
  name=$(unique events)
  from=$(date +%s.%N)
  answers 200 POST "/images/create?fromSrc=-&repo=$name" -T "$MOSS_DIR/busybox.tar"
  answers 201 POST "/images/$name/tag?repo=$PLAIN/$name"
  answers 200 POST "/images/$PLAIN/$name/push?tag=latest" -H "$(auth '{}')"
  answers 200 GET "/images/$PLAIN/$name/get"
  cp "$BATS_TEST_TMPDIR/body" "$BATS_TEST_TMPDIR/$name.tar"
  answers 200 DELETE "/images/$PLAIN/$name"
  answers 200 POST "/images/load" -T "$BATS_TEST_TMPDIR/$name.tar"
  answers 200 POST "/images/create?fromImage=$PLAIN/$name&tag=latest"
  answers 200 DELETE "/images/$PLAIN/$name"
  id=$(id_of "$name")
  answers 200 DELETE "/images/$name"
  for v in $versions; do
    answers 200 GET "/v$v/events?since=$from&until=$(date +%s.%N)" --get --data-urlencode 'filters={"type":["image"]}'
    seen=$(in_body -r .status)
    for action in import tag push untag pull delete; do expect --in "$seen" matches "^$action\$"; done
    if [ "$v" = 1.24 ]; then
      for action in load save; do expect --in "$seen" matches "^$action\$"; done
    else
      expect --in "$seen" lacks load save
    fi
  done
  jq -es 'map(select(.Type == "image")) | length > 8 and all(.Action == .status and (.Actor.Attributes.name | length) > 0 and .time > 0 and .timeNano > .time)' \
    "$BATS_TEST_TMPDIR/body"
  expect --in "$(in_body -r 'select(.status == "delete").Actor.ID')" contains "$id"
  expect --in "$(in_body -r 'select(.status == "pull").id')" contains "$PLAIN/$name:latest"
  expect --in "$(in_body -r 'select(.status == "push").id')" contains "$PLAIN/$name"
}

@test "a pull ends with its client: nothing is fetched any more, nothing stays" {
  stall "${PLAIN##*:}" 100000 1000000
  drop second:one
  before=$(stored)
  curl -sS -N --unix-socket "$MOSS_SOCK" -X POST "http://moss/images/create?fromImage=$through/lib/box&tag=one" \
    >"$BATS_TEST_TMPDIR/pull" 2>&1 3>&- &
  client=$!
  eventually 20 file_has "$BATS_TEST_TMPDIR/stall" stalled
  kill "$client"
  eventually 10 file_has "$BATS_TEST_TMPDIR/stall" left
  eventually 10 unchanged "$before"
  gone "$through/lib/box:one"
}

@test "a push ends with its client: nothing is sent any more, the image stays" {
  stall "${PLAIN##*:}" 1000000 100000
  repo=$through/push/$(unique gone)
  answers 201 POST "/images/second:one/tag?repo=$repo&tag=t"
  before=$(stored)
  curl -sS -N --unix-socket "$MOSS_SOCK" -X POST -H "$(auth '{}')" "http://moss/images/$repo/push?tag=t" \
    >"$BATS_TEST_TMPDIR/push" 2>&1 3>&- &
  client=$!
  eventually 20 file_has "$BATS_TEST_TMPDIR/stall" stalled
  kill "$client"
  eventually 10 file_has "$BATS_TEST_TMPDIR/stall" left
  expect equal "$(stored)" "$before"
  expect equal "$(id_of "$repo:t")" "$(id_of second:one)"
  drop "$repo:t"
  run skopeo inspect --tls-verify=false "docker://$PLAIN/push/${repo##*/}:t"
  [ "$status" -ne 0 ]
}

engine_files() { find "/proc/$(inner_pid)/fd" -mindepth 1 2>/dev/null | wc -l; }
files_back() { [ "$(engine_files)" -le "$1" ]; }

@test "a save ends with its client, and a load with a broken archive leaves nothing" {
  before=$(stored)
  files=$(engine_files)
  curl -sS -N --unix-socket "$MOSS_SOCK" "http://moss/images/get?names=second:one&names=busybox" 2>/dev/null | head -c 20000 >/dev/null || true
  eventually 10 files_back "$files"
  expect equal "$(stored)" "$before"
  drop second:one
  without=$(stored)
  python3 "$BATS_TEST_DIRNAME/lib/raw.py" "$MOSS_SOCK" send /images/load 200000 <"$MOSS_DIR/second.tar"
  eventually 10 unchanged "$without"
  gone second:one
}

@test "a failure in the middle of an archive is noticed: the answer breaks off" {
  name=$(unique torn)
  moss run --name "$name" busybox sh -c 'head -c 20000000 /dev/urandom >/data'
  moss commit "$name" "$name" >/dev/null
  moss rm "$name" >/dev/null
  layer=$(find "$MOSS_DATA/root" -path '*/diff/data' -size +10M 2>/dev/null | head -n 1)
  [ -n "$layer" ]
  truncate -s 1000 "$layer"
  run curl -sS --unix-socket "$MOSS_SOCK" -o "$BATS_TEST_TMPDIR/torn" -w '%{http_code}' "http://moss/images/$name/get"
  [ "$status" -ne 0 ] || fail "curl took it for a whole answer: $output"
  drop "$name"
}

@test "df and prune: at every version, with exact sizes" {
  for v in $versions; do
    name=$(unique "df-${v#1.}")
    moss run --name "$name" busybox sh -c 'head -c 1000 /dev/zero >/data' # 1000 bytes and no more
    answers "200 application/json" GET "/v$v/system/df"
    field '.Containers | map(select(.Names == ["/'"$name"'"]))[0].SizeRw' 1000
    field '.LayersUsed == (.Images | map(select(.RepoTags == ["busybox:latest"]))[0].Size)' true
    field '.LayersSize == (.Images | map(.UniqueSize) | add) + (.Images | map(select(.RepoTags == ["busybox:latest"]))[0].Size)' true
    field '.Images | map(select(.RepoTags | index("second:one") != null))[0] | .Size == .SharedSize + .UniqueSize and .UniqueSize >= 300000' true
    answers 200 POST "/v$v/containers/prune" --get --data-urlencode 'filters={"label":["no-such"]}'
    field .SpaceReclaimed 0
    answers 400 POST "/v$v/containers/prune" --get --data-urlencode 'filters={"color":["red"]}'
    answers "200 application/json" POST "/v$v/containers/prune"
    field '[(.ContainersDeleted | length), .SpaceReclaimed]' '[1,1000]'
    moss run --name "$name" busybox sh -c 'head -c 2000 /dev/zero >/data'
    image=$(moss commit "$name")
    moss rm "$name" >/dev/null
    answers 200 GET "/v$v/images/json"
    size=$(in_body 'map(select(.Id == "'"$image"'"))[0].Size - map(select(.RepoTags | index("busybox:latest")))[0].Size')
    [ "$size" -ge 2000 ]
    answers "200 application/json" POST "/v$v/images/prune"
    field '[(.ImagesDeleted | map(.Deleted) | index("'"$image"'") != null), .SpaceReclaimed]' "[true,$size]"
    moss volume create "$name" >/dev/null
    moss run --rm -v "$name:/v" busybox sh -c 'head -c 3000 /dev/zero >/v/data; ln /v/data /v/again'
    answers 200 GET "/v$v/system/df"
    field '.Volumes | map(select(.Name == "'"$name"'"))[0].UsageData' '{"RefCount":0,"Size":3000}'
    answers "200 application/json" POST "/v$v/volumes/prune"
    field . '{"SpaceReclaimed":3000,"VolumesDeleted":["'"$name"'"]}'
  done
}
