#!/usr/bin/env bats
# POST /build and POST /build/prune as bytes: every parameter and header has its effect or is refused in words, at the
# versions of the API, with what clients parse of the stream, and errors before and in it.

# bats file_tags=subids,long

load lib/moss
load lib/registry

setup_file() {
  start_engine
  import_busybox
  start_registry closed --htpasswd ann:secret
  export CLOSED=$REGISTRY
  moss save -o "$MOSS_DIR/box.tar" busybox
  skopeo copy -q --dest-tls-verify=false --dest-creds ann:secret "docker-archive:$MOSS_DIR/box.tar" "docker://$CLOSED/lib/box:one"
}
teardown_file() {
  stop_registries
  stop_engine
}
setup() { begin; }
teardown() {
  if [ -n "${helper:-}" ]; then kill "$helper" 2>/dev/null || true; fi
  finish
}

versions="1.18 1.19 1.20 1.21 1.22 1.23 1.24"

# context [DOCKERFILE-LINE...]: a folder with a Dockerfile of these lines; its path is in $dir.
context() {
  dir=$(mktemp -d "$BATS_TEST_TMPDIR/context.XXXXXX")
  [ $# = 0 ] || printf '%s\n' "$@" >"$dir/Dockerfile"
}

# build QUERY [CURL-OPTION...]: one build of $dir with this query, at the version $version. The status goes to $code, the
# body to $BATS_TEST_TMPDIR/body, its texts to $text, and the image's id to $id.
build() {
  local query=$1
  shift
  tar -C "$dir" -cf "$BATS_TEST_TMPDIR/context.tar" .
  post "$query" --data-binary "@$BATS_TEST_TMPDIR/context.tar" "$@"
}
# post QUERY [CURL-OPTION...]: the same without a context of its own.
post() {
  local query=$1
  shift
  code=$(curl -sS -g --max-time 180 --unix-socket "$MOSS_SOCK" -X POST -H 'Content-Type: application/x-tar' "$@" \
    -o "$BATS_TEST_TMPDIR/body" -w '%{http_code}' "http://moss/v${version:-1.24}/build?$query")
  text=$(in_body -rj '.stream // empty | gsub("\u001b\\[[0-9]+m"; "")' 2>/dev/null || true) # without the colours of errors
  id=$(in_body -r '.aux.ID // empty' 2>/dev/null || true)
}
# built QUERY...: a build that succeeds.
built() {
  build "$@"
  if [ "$code" != 200 ] || [ -z "$id" ]; then fail "build $1: $code, id '$id'" "$(body)"; fi
}
# refused STATUS WORDS QUERY [CURL-OPTION...]: a build that is answered with a status and with words in its message.
refused() {
  local status=$1 words=$2
  shift 2
  build "$@"
  [ "$code" = "$status" ] || fail "build $1: $code, want $status" "$(body)" || return 1
  expect --in "$(body)" contains "$words"
}
# breaks WORDS QUERY [CURL-OPTION...]: a build that fails in the stream, with words in its last message.
breaks() {
  local words=$1
  shift
  build "$@"
  if [ "$code" != 200 ] || [ -n "$id" ]; then fail "build $1: $code, id '$id'" "$(body)" || return 1; fi
  last=$(body | tail -n 1)
  expect --in "$(jq -r .error <<<"$last")" contains "$words" || return 1
  expect equal "$(jq -r .errorDetail.message <<<"$last")" "$(jq -r .error <<<"$last")"
}
quietly() { curl -sS -g --max-time 180 --unix-socket "$MOSS_SOCK" "$@"; }
urlencode() { jq -rn --arg s "$1" '$s | @uri'; }
inspect() { quietly "http://moss/images/$1/json" | jq -rc "$2"; }
header() { printf '%s: %s' "$1" "$(base64 -w0 | tr '+/' '-_')"; }
containers() { quietly "http://moss/containers/json?all=1" | jq -rc "[.[] | .Id[:12]]"; }

@test "build: what clients parse, at every version" {
  for version in $versions; do
    context "FROM busybox" "RUN echo $version-out" "CMD [\"$version\"]"
    name=$(unique "at$version")
    built "t=$name:one"
    expect --in "$(head -n 1 "$BATS_TEST_TMPDIR/body")" contains '{"stream":"Step 1/3 : FROM busybox'
    expect --in "$text" contains "Step 2/3 : RUN echo $version-out" "$version-out" "Step 3/3 : CMD [\"$version\"]"
    expect --in "$text" matches '^ ---> [0-9a-f]{12}$'
    expect --in "$text" matches '^ ---> Running in [0-9a-f]{12}$'
    expect --in "$text" matches '^Removing intermediate container [0-9a-f]{12}$'
    expect --in "$text" matches "^Successfully built ${id:7:12}$"
    expect --in "$text" matches "^Successfully tagged $name:one$"
    expect equal "$(inspect "$name:one" '[.Id, .Config.Cmd]')" "[\"$id\",[\"$version\"]]"
    expect equal "$(in_body -c 'keys' | sort -u | tr '\n' ' ')" '["aux"] ["stream"] '
    built "t=$name:two"
    expect --in "$text" contains ' ---> Using cache'
    expect --in "$text" lacks 'Running in'
    expect equal "$(inspect "$name:two" .Id)" "$(inspect "$name:one" .Id)"
  done
}

@test "build: the answer's head, and messages that come as they happen" {
  before=$(containers)
  context "FROM busybox" "RUN echo first; cat /dev/zero | head -c 1 >/dev/null; sleep 1000"
  tar -C "$dir" -cf "$BATS_TEST_TMPDIR/context.tar" .
  curl -sSN -i --unix-socket "$MOSS_SOCK" -X POST --data-binary "@$BATS_TEST_TMPDIR/context.tar" "http://moss/build?nocache=1" \
    >"$BATS_TEST_TMPDIR/live" 3>&- &
  eventually 20 file_has "$BATS_TEST_TMPDIR/live" '"first\n"' # of a build that does not end by itself
  kill $!
  expect --in "$(cat "$BATS_TEST_TMPDIR/live")" contains 'HTTP/1.1 200 OK' 'Content-Type: application/json'
  as_before() { [ "$(containers)" = "$before" ]; }
  eventually 10 as_before
}

@test "build: the context plain and compressed in every way" {
  context "FROM busybox" "COPY data /" "CMD [\"x\"]"
  head -c 100000 /dev/urandom >"$dir/data"
  built ""
  want=$id
  for program in gzip bzip2 xz zstd; do
    for version in 1.18 1.24; do
      tar -C "$dir" -c . | $program -c >"$BATS_TEST_TMPDIR/packed"
      post "" --data-binary "@$BATS_TEST_TMPDIR/packed"
      expect equal "$code $id" "200 $want"
      expect --in "$text" contains 'Using cache'
    done
  done
  # In chunks, with more behind the archive's end, and as another media type.
  { cat "$BATS_TEST_TMPDIR/context.tar" && head -c 1000000 /dev/zero; } >"$BATS_TEST_TMPDIR/long"
  post "" -H 'Transfer-Encoding: chunked' --data-binary "@$BATS_TEST_TMPDIR/long"
  expect equal "$code $id" "200 $want"
  post "" -H 'Content-Type: application/tar' --data-binary "@$BATS_TEST_TMPDIR/context.tar"
  expect equal "$code $id" "200 $want"
}

@test "build: a file dockerfile counts where there is no Dockerfile" {
  context
  printf 'FROM busybox\nLABEL from=lower\n' >"$dir/dockerfile"
  printf 'FROM busybox\nLABEL from=container\n' >"$dir/Containerfile"
  for query in "" dockerfile=Dockerfile; do
    built "$query"
    expect equal "$(inspect "$id" .Config.Labels.from)" lower
  done
  printf 'FROM busybox\nLABEL from=usual\n' >"$dir/Dockerfile"
  built ""
  expect equal "$(inspect "$id" .Config.Labels.from)" usual
}

@test "build: dockerfile and enginefile name the file" {
  context
  mkdir "$dir/sub"
  echo 'FROM busybox
LABEL from=usual' >"$dir/Dockerfile"
  echo 'FROM busybox
LABEL from=sub' >"$dir/sub/web"
  built ""
  expect equal "$(inspect "$id" .Config.Labels.from)" usual
  for query in dockerfile=sub/web enginefile=sub/web dockerfile=./sub/web "dockerfile=nothing&enginefile=sub/web"; do
    for version in 1.18 1.24; do
      built "$query"
      expect equal "$(inspect "$id" .Config.Labels.from)" sub
    done
  done
  refused 400 nothing "dockerfile=nothing"
  for climbing in ../../etc/passwd /etc/passwd; do
    build "dockerfile=$climbing"
    expect equal "$code" 400
    expect --in "$(body)" lacks root:
  done
  rm "$dir/Dockerfile"
  refused 400 Dockerfile ""
  echo 'FROM busybox
LABEL from=container' >"$dir/Containerfile"
  built ""
  expect equal "$(inspect "$id" .Config.Labels.from)" container
}

@test "build: t, as often as wanted, and wrong ones before anything runs" {
  a=$(unique a) b=$(unique b)
  context "FROM busybox" "LABEL x=$a"
  built "t=$a&t=$b:v1&t=localhost:5000/$a:v2"
  expect --in "$text" contains "Successfully tagged $a:latest" "Successfully tagged $b:v1" "Successfully tagged localhost:5000/$a:v2"
  for name in "$a:latest" "$b:v1" "localhost:5000/$a:v2"; do expect equal "$(inspect "$name" .Id)" "$id"; done
  # A name moves to the new image.
  context "FROM busybox" "LABEL x=$b"
  built "t=$a"
  expect equal "$(inspect "$a" .Id)" "$id"
  refused 400 "invalid reference format" "t=$(urlencode 'a b')"
  refused 400 "" "t=$(urlencode 'UPPER:x')"
  refused 400 "" "t=a@sha256:$(printf %064d 0)"
}

@test "build: q leaves the id alone, and all of it when it fails" {
  context "FROM busybox" "RUN echo shown"
  build "q=1&nocache=1"
  expect equal "$code" 200
  expect --in "$text" matches '^sha256:[0-9a-f]{64}$'
  expect equal "$(in_body -r '.stream // empty' | wc -l)" 2 # and its line end
  inspect "$text" .Id
  for q in 0 false False; do
    built "q=$q"
    expect --in "$text" contains 'Step 1/2'
  done
  context "FROM busybox" "RUN echo shown; exit 3"
  breaks "returned a non-zero code: 3" "q=1"
  expect --in "$text" contains shown
}

@test "build: nocache does every step anew, pull looks for the base" {
  context "FROM busybox" "RUN head -c 100 /dev/urandom | sha256sum >/random"
  built ""
  first=$id
  built ""
  expect equal "$id" "$first"
  built "nocache=1"
  expect --in "$text" lacks 'Using cache'
  [ "$id" != "$first" ]
  # The base of a registry: pull asks it again, and without pull nothing does.
  auth=$(header X-Registry-Config <<<"{\"$CLOSED\":{\"username\":\"ann\",\"password\":\"secret\"}}")
  context "FROM $CLOSED/lib/box:one" "CMD [\"x\"]"
  built "" -H "$auth"
  built ""
  breaks "" "pull=1"
  built "pull=1" -H "$auth"
  quietly -X DELETE "http://moss/images/$CLOSED/lib/box:one?force=1" >/dev/null
}

@test "build: rm and forcerm say what becomes of containers" {
  mark=$(unique mark)
  context "FROM busybox" "RUN echo $mark-good" "RUN echo $mark-bad; exit 4"
  left() { quietly "http://moss/containers/json?all=1" | jq -r --arg m "$mark" '.[] | select(.Command | contains($m)) | .Command' | grep -o "$mark-[a-z]*" | sort | tr '\n' ' '; }
  drop() { quietly "http://moss/containers/json?all=1" | jq -r --arg m "$mark" '.[] | select(.Command | contains($m)) | .Id' | while read -r c; do moss rm -f "$c"; done; }
  breaks "code: 4" "nocache=1"
  expect --in "$text" contains 'Removing intermediate container'
  expect equal "$(left)" "$mark-bad "
  drop
  breaks "code: 4" "nocache=1&rm=0"
  expect --in "$text" lacks 'Removing intermediate container'
  expect equal "$(left)" "$mark-bad $mark-good "
  drop
  for query in "forcerm=1" "rm=0&forcerm=1" "rm=1&forcerm=true"; do
    breaks "code: 4" "nocache=1&$query"
    expect equal "$(left)" ""
  done
}

@test "build: memory, cpus and the like are the container's, or warned of; wrong ones are refused before the first byte" {
  context "FROM busybox" "RUN grep 'Max open files' /proc/self/limits; df -k /dev/shm | tail -n 1; cat /etc/hosts; ls /sys/class/net"
  ulimits=$(urlencode '[{"Name":"nofile","Soft":321,"Hard":654}]')
  for version in 1.18 1.24; do
    built "nocache=1&ulimits=$ulimits&shmsize=16777216&extrahosts=one.test:10.9.8.7&extrahosts=two.test:10.9.8.6&networkmode=none"
    expect --in "$text" matches 'Max open files +321 +654'
    expect --in "$text" matches '^shm +16384 '
    expect --in "$text" matches '^10\.9\.8\.7[[:space:]]+one\.test'
    expect --in "$text" matches '^10\.9\.8\.6[[:space:]]+two\.test'
    expect --in "$text" matches '^lo$'
    expect --in "$text" lacks eth0
  done
  # What takes cgroups is applied where there are some, and told of where there are none.
  context "FROM busybox" "RUN true"
  for limit in memory=8388608 "memory=8388608&memswap=16777216" cpushares=512 "cpuperiod=50000&cpuquota=25000" cpusetcpus=0 cpusetmems=0 cgroupparent=/x; do
    built "nocache=1&$limit"
    [ "$(quietly http://moss/info | jq .MemoryLimit)" = true ] || expect --in "$text" matches '^\[Warning\] '
  done
  for wrong in memory=x memory=1 memswap=5 memswap=x cpushares=x cpushares=-1 cpuperiod=1 cpuperiod=x cpuquota=1 cpuquota=x cpusetcpus=a cpusetmems=a \
    shmsize=x shmsize=-1 "ulimits=$(urlencode '[{"Name":"nothing","Soft":1,"Hard":1}]')" ulimits=x "extrahosts=x" cgroupparent=../x isolation=hyperv \
    securityopt=nothing; do
    build "$wrong"
    [ "$code" = 400 ] || [ "$code" = 501 ] || fail "$wrong: $code" "$(body)"
    expect --in "$(body)" lacks '"stream"'
  done
  built "isolation=default&securityopt=no-new-privileges"
  built "memory=0&memswap=0&cpushares=0&shmsize=0&ulimits=null&labels=null&buildargs=null&cachefrom=null&networkmode=&extrahosts=&t=&target="
}

@test "build: networkmode: none, default, a network and a container's; never the host's" {
  net=$(unique net) box=$(unique box)
  moss network create "$net"
  moss run -d --name "$box" --network "$net" --hostname thebox busybox sleep 100
  context "FROM busybox" "RUN hostname; ls /sys/class/net; nslookup $box 2>&1; true"
  built "nocache=1&networkmode=$net"
  expect --in "$text" contains eth0
  address=$(moss inspect "$box" | jq -r ".[0].NetworkSettings.Networks.\"$net\".IPAddress")
  expect --in "$text" contains "$address"
  context "FROM busybox" "RUN ip -4 addr show eth0"
  built "nocache=1&networkmode=container:$box"
  expect --in "$text" contains "$address"
  for mode in default bridge; do
    built "nocache=1&networkmode=$mode"
    expect --in "$text" contains 'inet '
  done
  build "networkmode=host"
  [ "$code" != 200 ] || [ -z "$id" ] || fail "networkmode=host: $(body)"
  expect --in "$(body)" contains host
  build "nocache=1&networkmode=nothing-like-it"
  [ -z "$id" ]
  expect --in "$(body)" contains nothing-like-it
  moss rm -f "$box"
  moss network rm "$net"
}

@test "build: buildargs, with values, without, and not consumed" {
  context "FROM busybox" "ARG A=default" "ARG B" "ARG C=kept" "RUN echo A=\$A B=\$B C=\$C"
  for version in 1.18 1.24; do
    built "nocache=1&buildargs=$(urlencode '{"A":"one two","B":"b","C":null,"Nobody":"x"}')"
    expect --in "$text" matches '^A=one two B=b C=kept$'
    expect --in "$text" contains '[Warning] One or more build-args [Nobody] were not consumed'
  done
  # Another value is another step; the same is not.
  built "buildargs=$(urlencode '{"A":"one two","B":"b"}')"
  built "buildargs=$(urlencode '{"A":"one two","B":"b"}')"
  expect --in "$text" lacks 'Running in'
  built "buildargs=$(urlencode '{"A":"other","B":"b"}')"
  expect --in "$text" matches '^A=other B=b C=kept$'
  refused 400 "invalid value for buildargs" "buildargs=A"
  refused 400 "invalid value for buildargs" "buildargs=$(urlencode '{"A":1}')"
}

@test "build: labels are the image's" {
  context "FROM busybox" "LABEL a=file b=file"
  for version in 1.18 1.24; do
    built "labels=$(urlencode '{"b":"query","c":"with \"quotes\" and $dollar"}')"
    expect equal "$(inspect "$id" '[.Config.Labels.a, .Config.Labels.b, .Config.Labels.c]')" '["file","query","with \"quotes\" and $dollar"]'
  done
  refused 400 "invalid value for labels" "labels=$(urlencode '[]')"
}

@test "build: target builds a stage, and nothing that it does not need" {
  context "FROM busybox AS one" "LABEL stage=one" "FROM busybox AS two" "RUN exit 5" "FROM one" "LABEL stage=three"
  for version in 1.18 1.24; do
    for target in one ONE 0; do
      built "target=$target"
      expect equal "$(inspect "$id" .Config.Labels.stage)" one
    done
    built ""
    expect equal "$(inspect "$id" .Config.Labels.stage)" three
  done
  refused 400 "failed to reach build target nothing in Dockerfile" "target=nothing"
  breaks "code: 5" "target=two"
}

@test "build: cachefrom takes only the steps of these images for done" {
  mark=$(unique mark)
  context "FROM busybox" "RUN echo $mark >/file" "RUN echo more >>/file"
  built "t=$mark"
  first=$id
  for version in 1.18 1.24; do
    built "cachefrom=$(urlencode "[\"$mark\"]")"
    expect equal "$id" "$first"
    expect --in "$text" lacks 'Running in'
    built "cachefrom=$(urlencode '["busybox"]')"
    expect --in "$text" contains 'Running in'
  done
  built "cachefrom=$(urlencode '["there/is:none"]')"
  refused 400 "invalid value for cachefrom" "cachefrom=x"
}

@test "build: platform picks the base" {
  arch=$(inspect busybox .Architecture)
  context "FROM busybox" "ARG TARGETPLATFORM" "RUN echo on \$TARGETPLATFORM"
  built "platform=linux/$arch"
  expect --in "$text" contains "on linux/$arch"
  own=$id
  for platform in "$arch" "linux/$(uname -m)" linux ""; do
    built "platform=$platform"
    expect equal "$id" "$own"
  done
  context "FROM scratch" "LABEL a=b"
  name=$(unique other)
  built "platform=aarch64&t=$name"
  expect equal "$(inspect "$id" '[.Os,.Architecture]|join("/")')" linux/arm64
  moss rmi "$name"
  for platform in plan9 windows/amd64; do
    refused 400 "image operating system \\\"${platform%/*}\\\" cannot be used" "platform=$platform"
  done
  context "FROM --platform=windows/amd64 scratch"
  build ""
  [ -z "$id" ] || fail "$(body)"
  expect --in "$(body)" contains 'image operating system'
  context "FROM busybox"
  build "platform=$(urlencode 'a/b/c/d')"
  [ -z "$id" ]
  expect --in "$(body)" contains 'is no platform'
}

@test "build: what belongs to another builder is refused in words" {
  context "FROM busybox"
  for version in 1.18 1.24; do
    refused 501 BuildKit version=2
    refused 400 "invalid value for version" version=7
    refused 501 squash squash=1
    refused 501 session session=abc
    refused 501 buildid buildid=abc
    refused 501 outputs "outputs=$(urlencode '[{"Type":"tar"}]')"
    built "version=1&squash=0&session=&outputs="
  done
}

@test "build: remote: a tarball, a Dockerfile alone, and what is not there" {
  context "FROM busybox" "COPY file /" "CMD [\"cat\", \"/file\"]"
  mkdir "$BATS_TEST_TMPDIR/www"
  echo from remote >"$dir/file"
  tar -C "$dir" -czf "$BATS_TEST_TMPDIR/www/context.tgz" .
  printf 'FROM busybox\nCOPY Dockerfile /\nLABEL remote=text\n' >"$BATS_TEST_TMPDIR/www/text"
  (cd "$BATS_TEST_TMPDIR/www" && exec python3 -u -m http.server --bind 127.0.0.1 0 >"$BATS_TEST_TMPDIR/www.log" 2>&1 3>&- 4>&-) &
  helper=$!
  eventually 20 file_has "$BATS_TEST_TMPDIR/www.log" 'Serving HTTP'
  port=$(grep -oE 'port [0-9]+' "$BATS_TEST_TMPDIR/www.log" | grep -oE '[0-9]+')
  for version in 1.18 1.24; do
    post "remote=$(urlencode "http://127.0.0.1:$port/context.tgz")"
    expect equal "$code" 200
    expect equal "$(inspect "$id" .Config.Cmd)" '["cat","/file"]'
    post "remote=$(urlencode "http://127.0.0.1:$port/text")&dockerfile=ignored"
    expect equal "$code" 200
    expect equal "$(inspect "$id" .Config.Labels.remote)" text
  done
  post "remote=$(urlencode "http://127.0.0.1:$port/nothing")"
  expect --in "$(body)" contains 404
  [ -z "$id" ]
  for wrong in "http://127.0.0.1:1/" "ftp://127.0.0.1/x" "file:///etc/passwd" "/etc/passwd" "-x" "ext::sh -c id"; do
    post "remote=$(urlencode "$wrong")"
    [ -z "$id" ]
    expect --in "$(body)" contains message
    expect --in "$(body)" lacks root:
  done
}

@test "build: X-Registry-Config: every way to write it, at every version, and none that works" {
  context "FROM $CLOSED/lib/box:one"
  good="{\"https://other.test/v1/\":{\"username\":\"x\",\"password\":\"y\"},\"$CLOSED\":{\"username\":\"ann\",\"password\":\"secret\"}}"
  file="{\"auths\":{\"$CLOSED\":{\"auth\":\"$(printf ann:secret | base64)\"}},\"credsStore\":\"none\"}"
  for version in $versions; do
    for config in "$good" "$file" "${file/auths/configs}" "{\"http://$CLOSED/v2/\":{\"username\":\"ann\",\"password\":\"secret\"}}"; do
      built "pull=1" -H "$(header X-Registry-Config <<<"$config")"
      quietly -X DELETE "http://moss/images/$CLOSED/lib/box:one?force=1" >/dev/null
    done
  done
  built "pull=1" -H "X-Registry-Config: $(base64 -w0 <<<"$good")"
  quietly -X DELETE "http://moss/images/$CLOSED/lib/box:one?force=1" >/dev/null
  for config in '{}' '%%%' null "{\"other.test\":{\"username\":\"ann\",\"password\":\"secret\"}}" "{\"$CLOSED\":{\"username\":\"ann\",\"password\":\"wrong-secret\"}}"; do
    build "pull=1" -H "$(header X-Registry-Config <<<"$config")"
    [ -z "$id" ] || fail "$config pulls"
    expect --in "$(body)" lacks wrong-secret
  done
  if grep -q -e wrong-secret -e 'ann:secret' "$MOSS_DIR/mossd.log"; then fail "the log tells a password"; fi
}

@test "build: X-Build-Secrets are seen by the step that asks and leave nothing" {
  context "FROM busybox" "RUN --mount=type=secret,id=token cat /run/secrets/token | tr a-z A-Z" "RUN ls /run/secrets 2>&1; true"
  mark=sw0rdf1sh
  secrets=$(printf '{"token":"%s"}' "$(printf %s "$mark" | base64)")
  built "nocache=1" -H "$(header X-Build-Secrets <<<"$secrets")"
  expect --in "$text" contains SW0RDF1SH
  expect --in "$text" lacks "$mark"
  expect --in "$(quietly "http://moss/images/$id/history")" lacks "$mark"
  quietly "http://moss/images/get?names=$id" >"$BATS_TEST_TMPDIR/image.tar"
  if grep -q "$mark" "$MOSS_DIR/mossd.log" "$BATS_TEST_TMPDIR/image.tar"; then fail "the secret stays"; fi
  refused 400 "invalid value for X-Build-Secrets" "" -H "X-Build-Secrets: %%%"
  context "FROM busybox" "RUN --mount=type=secret,id=token,required=true cat /run/secrets/token"
  build "nocache=1"
  [ -z "$id" ]
  expect --in "$(body)" contains token
}

@test "build: errors before the first byte are statuses, with the line of a Dockerfile that does not parse" {
  for version in $versions; do
    context "FROM busybox" "RUN true" "FOO bar"
    refused 400 "dockerfile parse error" ""
    expect --in "$(body)" contains "line 3: unknown instruction: FOO"
    case $version in
      1.24) expect equal "$(in_body -r 'keys | join(",")')" message ;;
      *) expect --in "$(body)" matches '^dockerfile parse error' ;;
    esac
  done
  version=
  context "FROM busybox" "FROM nothing AS x" "COPY --from=3 / /"
  refused 400 "" ""
  context "RUN before"
  refused 400 "" ""
  context ""
  refused 400 "" ""
  dir=$BATS_TEST_TMPDIR
  post "" --data-binary "this is no tar archive, and it is longer than one block of one would be: $(printf %0600d 0)"
  expect equal "$code" 400
  post "" --data-binary ""
  expect equal "$code" 400
  head -c 700 "$BATS_TEST_TMPDIR/context.tar" >"$BATS_TEST_TMPDIR/cut"
  post "" --data-binary "@$BATS_TEST_TMPDIR/cut"
  expect equal "$code" 400
}

@test "build: errors in the stream: the exit code of a RUN, an image and a file that are not there" {
  for version in 1.18 1.24; do
    context "FROM busybox" "RUN echo said; exit 3"
    breaks "The command '/bin/sh -c echo said; exit 3' returned a non-zero code: 3" "nocache=1&forcerm=1"
    expect equal "$(jq -c .errorDetail.code <<<"$last")" 3
    expect --in "$text" contains said
    context "FROM there.is.none.test/at/all"
    build ""
    [ -z "$id" ]
    context "FROM busybox" "COPY nothing /"
    breaks "nothing" ""
    expect --in "$last" contains "COPY failed"
    expect equal "$(jq -c .errorDetail.code <<<"$last")" null
  done
  ping_ok
}

@test "build: a client that hangs up ends the build at once and leaves nothing" {
  mark=$(unique mark)
  before=$(containers)
  images=$(quietly "http://moss/images/json?all=1" | jq length)
  context "FROM busybox" "RUN echo $mark >/file; echo running; sleep 4791"
  tar -C "$dir" -cf "$BATS_TEST_TMPDIR/context.tar" .
  curl -sSN --unix-socket "$MOSS_SOCK" -X POST --data-binary "@$BATS_TEST_TMPDIR/context.tar" "http://moss/build" >"$BATS_TEST_TMPDIR/live" 3>&- &
  client=$!
  eventually 20 file_has "$BATS_TEST_TMPDIR/live" '"running\n"'
  [ "$(containers)" != "$before" ]
  kill -9 "$client"
  as_before() { [ "$(containers)" = "$before" ] && [ "$(quietly "http://moss/images/json?all=1" | jq length)" = "$images" ]; }
  eventually 10 as_before
  if pgrep -f "sleep 4791" -u "$(id -u)" >/dev/null; then fail "the command lives on"; fi
  # Before the context is there, too.
  mkfifo "$BATS_TEST_TMPDIR/context"
  curl -sS --unix-socket "$MOSS_SOCK" -X POST -T "$BATS_TEST_TMPDIR/context" "http://moss/build" >/dev/null 3>&- &
  client=$!
  exec {half}>"$BATS_TEST_TMPDIR/context"
  head -c 2000 "$BATS_TEST_TMPDIR/context.tar" >&"$half"
  kill -9 "$client"
  exec {half}>&-
  eventually 10 as_before
  ping_ok
}

@test "build: steps tells of each step under aux" {
  context "FROM busybox AS base" "RUN echo out" "FROM base" "CMD [\"x\"]"
  built "steps=1&nocache=1"
  steps=$(in_body -c 'select(.aux.Number) | .aux | {Stage, StageName, Number, Total, Instruction, State}')
  expect --in "$steps" contains '{"Instruction":"RUN echo out","Number":2,"Stage":0,"StageName":"base","State":"started","Total":4}' \
    '{"Instruction":"RUN echo out","Number":2,"Stage":0,"StageName":"base","State":"done","Total":4}'
  expect equal "$(in_body -r 'select(.stream == "out\n") | .id')" 0
  built "steps=1"
  expect --in "$(in_body -c 'select(.aux.Number) | .aux.State' | sort -u | tr '\n' ' ')" contains '"cached"'
}

@test "build/prune and system/df: what builds leave goes when it is asked for" {
  for version in 1.18 1.24; do
    mark=$(unique mark)
    context "FROM busybox" "RUN head -c 1000000 /dev/urandom >/$mark" "RUN echo $mark"
    built ""
    expect --in "$(quietly "http://moss/v$version/system/df" | jq -c '[.BuildCache[] | select(.Description | contains("'"$mark"'")) | {Type, InUse}]')" contains regular
    quietly -X DELETE "http://moss/images/$id?noprune=1" >/dev/null
    gone=$(quietly -X POST "http://moss/v$version/build/prune?all=1")
    expect equal "$(jq -r 'keys | join(",")' <<<"$gone")" CachesDeleted,SpaceReclaimed
    [ "$(jq .SpaceReclaimed <<<"$gone")" -ge 1000000 ] || fail "$gone"
    expect equal "$(quietly "http://moss/system/df" | jq -c '[.BuildCache[] | select(.Description | contains("'"$mark"'"))]')" '[]'
  done
  # What a name needs stays; until and keep-storage leave things.
  name=$(unique kept)
  context "FROM busybox" "RUN echo $name >/x" "RUN echo more"
  built "t=$name"
  quietly -X POST "http://moss/build/prune?all=1" >/dev/null
  expect equal "$(inspect "$name" .Id)" "$id"
  built ""
  expect --in "$text" lacks 'Running in'
  mark=$(unique mark)
  context "FROM busybox" "RUN echo $mark >/x"
  built ""
  quietly -X DELETE "http://moss/images/$id?noprune=1" >/dev/null
  there() { [ "$(quietly "http://moss/system/df" | jq -c '[.BuildCache[] | select(.Description | contains("'"$mark"'"))] | length')" -ge 1 ]; }
  expect equal "$(quietly -X POST "http://moss/build/prune?all=1&filters=$(urlencode '{"until":["1h"]}')" | jq -c .CachesDeleted)" null
  expect equal "$(quietly -X POST "http://moss/build/prune?all=1&filters=$(urlencode '{"label":["x"]}')" | jq -c .CachesDeleted)" null
  expect equal "$(quietly -X POST "http://moss/build/prune?all=1&keep-storage=1000000000000" | jq -c .CachesDeleted)" null
  # Folders of cache mounts count as well, and go without all where a filter names them.
  folder=$(unique folder)
  context "FROM busybox" "RUN --mount=type=cache,id=$folder,target=/c head -c 1000000 /dev/urandom >/c/x"
  built ""
  holds() { quietly http://moss/system/df | jq -e '[.BuildCache[] | select(.Type == "exec.cachemount" and (.Description | contains("'"$folder"'")))] | length == 1' >/dev/null; }
  eventually 10 holds
  expect equal "$(quietly -X POST "http://moss/build/prune?all=1&keep-storage=1000000000000" | jq -c .CachesDeleted)" null
  quietly -X POST http://moss/build/prune >/dev/null
  holds
  [ "$(quietly -X POST "http://moss/build/prune?filters=$(urlencode '{"type":["exec.cachemount"]}')" | jq .SpaceReclaimed)" -ge 1000000 ] || fail "the folder stays"
  if holds; then fail "the folder is listed"; fi
  for wrong in keep-storage=x keep-storage=-1 filters=x "filters=$(urlencode '{"until":["x"]}')" "filters=$(urlencode '{"bogus":["x"]}')"; do
    expect equal "$(quietly -o /dev/null -w '%{http_code}' -X POST "http://moss/build/prune?$wrong")" 400
  done
}
