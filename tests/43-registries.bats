#!/usr/bin/env bats
# Registries as they are: plain, with TLS and client certificates, with passwords, with token servers of both forms
# (API document 3, section 5). docker's command line and moss are the clients.

# shellcheck disable=SC2153 # REGISTRY and TOKEND come from lib/registry

load lib/moss
load lib/registry

setup_file() {
  export XDG_CONFIG_HOME=$BATS_FILE_TMPDIR/config
  start_engine
  export CERTS=$XDG_CONFIG_HOME/moss/certs.d
  start_registry plain
  export PLAIN=$REGISTRY
  put_image "$PLAIN/public/a" plain
  start_registry secure --tls
  export SECURE=$REGISTRY
  put_image "$SECURE/public/a" secure
  start_registry elsewhere --outside
  export ELSEWHERE=$REGISTRY
  put_image "$ELSEWHERE/public/a" public/a
  start_registry closed --htpasswd ann:secret
  export CLOSED=$REGISTRY
  put_image "$CLOSED/a" closed --dest-creds ann:secret
  start_tokend tokens
  export TOKENS=$TOKEND
  start_registry token --token "$TOKEND" tokens
  export TOKEN=$REGISTRY
  start_tokend old -post=off -expires 60
  start_registry get --token "$TOKEND" old
  export GET=$REGISTRY
  for registry in "$TOKEN" "$GET"; do
    for repo in public/a private/a private/b; do
      put_image "$registry/$repo" "$repo" --dest-creds ann:secret
    done
  done
}
teardown_file() {
  stop_registries
  stop_engine
}
setup() {
  begin
  # Credentials are this test's alone.
  export DOCKER_CONFIG=$BATS_TEST_TMPDIR/docker
  mkdir -p "$DOCKER_CONFIG"
}
teardown() { finish; }

dock() { DOCKER_HOST=unix://$MOSS_SOCK timeout --foreground -k 2 60 docker "$@"; }

# word_of IMAGE: what image_archive wrote into it.
word_of() {
  local name
  name=$(unique word)
  moss create --name "$name" "$1" >/dev/null
  moss cp "$name:/word" - | tar -xO
  moss rm "$name" >/dev/null
}

# log_in CLIENT USER PASSWORD REGISTRY, CLIENT being dock or moss.
log_in() { printf %s "$3" | "$1" login -u "$2" --password-stdin "$4"; }

# as USER:PASSWORD METHOD PATH: a request with credentials, in the header that clients use. The status comes last.
as() {
  local auth
  auth=$(jq -cn --arg u "${1%%:*}" --arg p "${1#*:}" '{username: $u, password: $p}' | base64 -w0 | tr '+/' '-_')
  curl -sS --max-time 60 --unix-socket "$MOSS_SOCK" -X "$2" -H "X-Registry-Auth: $auth" -w '\n%{http_code}\n' "http://moss$3"
}
pull_as() { as "$1" POST "/images/create?fromImage=$2&tag=latest"; }

# auth_of REGISTRY [FIELD]: what the client keeps.
auth_of() { jq -r --arg r "$1" ".auths[\$r]${2:+.$2}" "$DOCKER_CONFIG/config.json"; }

@test "a registry on loopback needs no TLS" {
  for client in dock moss; do
    run "$client" pull "$PLAIN/public/a"
    expect status 0
    expect equal "$(word_of "$PLAIN/public/a")" plain
    name=$PLAIN/$(unique "sent/$client")
    "$client" tag "$PLAIN/public/a" "$name"
    run "$client" push "$name"
    expect status 0
    expect contains "latest: digest: sha256:"
    "$client" rmi "$name" "$PLAIN/public/a"
    "$client" pull "$name"
    expect equal "$(word_of "$name")" plain
    moss rmi "$name"
  done
  # It has no users: it takes any.
  run log_in dock ann any "$PLAIN"
  expect status 0
}

@test "a registry elsewhere needs a certificate that is trusted" {
  for client in dock moss; do
    rm -rf "${CERTS:?}"
    run "$client" pull "$SECURE/public/a"
    expect status 1
    expect contains "$SECURE" "certificate signed by unknown authority"
    run log_in "$client" ann secret "$SECURE"
    expect status 1
    expect contains "$SECURE" "certificate signed by unknown authority"
    trust secure "$CERTS" "$SECURE"
    run "$client" pull "$SECURE/public/a"
    expect status 0
    expect equal "$(word_of "$SECURE/public/a")" secure
    name=$SECURE/$(unique "sent/$client")
    "$client" tag "$SECURE/public/a" "$name"
    "$client" push "$name"
    moss rmi "$name" "$SECURE/public/a"
    run log_in "$client" ann any "$SECURE"
    expect status 0
  done
}

@test "a registry elsewhere without TLS is refused" {
  run dock pull "$ELSEWHERE/public/a"
  expect status 1
  expect contains "does not speak TLS"
}

@test "settings: a registry without TLS, a mirror" {
  elsewhere=$ELSEWHERE
  put_image "$PLAIN/library/mirrored" mirror
  halt_engine
  spawn_engine --insecure-registry "$elsewhere" --registry-mirror "http://$PLAIN"
  run dock pull "$elsewhere/public/a"
  expect status 0
  run log_in moss ann any "$elsewhere"
  expect status 0
  run dock pull mirrored
  expect status 0
  expect contains "Pulling from library/mirrored" "Status: Downloaded newer image for mirrored:latest"
  expect equal "$(word_of mirrored)" mirror
  run dock info --format '{{json .RegistryConfig.Mirrors}} {{(index .RegistryConfig.IndexConfigs "'"$elsewhere"'").Secure}}'
  expect output "[\"http://$PLAIN/\"] false"
  moss rmi mirrored "$elsewhere/public/a"
  halt_engine
  spawn_engine
}

@test "registries.conf: another location, a mirror, an alias, no TLS, a blocked registry, a damaged file" {
  conf=$XDG_CONFIG_HOME/containers/registries.conf
  mkdir -p "$conf.d"
  cat >"$conf" <<EOF
unqualified-search-registries = ["$PLAIN"]
[[registry]]
prefix = "moved.example/team"
location = "$PLAIN/public"
[[registry]]
location = "gone.example"
[[registry.mirror]]
location = "$PLAIN"
[[registry]]
location = "$ELSEWHERE"
insecure = true
EOF
  cat >"$conf.d/more.conf" <<EOF
[[registry]]
location = "bad.example"
blocked = true
[aliases]
"nick" = "$PLAIN/public/a"
EOF
  for name in moved.example/team/a gone.example/public/a nick; do
    run dock pull "$name"
    expect status 0
    expect equal "$(word_of "$name")" plain
    moss rmi "$name"
  done
  name=$ELSEWHERE/$(unique sent)
  run dock pull "$ELSEWHERE/public/a"
  expect status 0
  moss tag "$ELSEWHERE/public/a" "$name"
  run moss push "$name"
  expect status 0
  moss tag "$name" bad.example/a
  for verb in pull push; do
    run dock $verb bad.example/a
    expect status 1
    expect contains "bad.example is blocked in $conf.d/more.conf"
  done
  # A file is read anew by each pull. The engine starts with a damaged one, too, and says so.
  echo '[[registry' >"$conf.d/more.conf"
  halt_engine
  spawn_engine
  grep -F 'pulls and pushes fail' "$MOSS_DIR/mossd.log" | grep -qF "$conf.d/more.conf"
  for verb in pull push; do
    run dock $verb "$name"
    expect status 1
    expect contains "$conf.d/more.conf"
  done
  rm -r "$conf" "$conf.d"
  run dock pull "$PLAIN/public/a"
  expect status 0
  moss rmi "$name" bad.example/a "$ELSEWHERE/public/a" "$PLAIN/public/a"
}

# lead TO: starts a registry that leads to TO who wants a blob (lib/leads.py), and sets LEADS to its address.
lead() {
  rm -f "$BATS_TEST_TMPDIR/leads" # what an earlier one has said
  python3 "$BATS_TEST_DIRNAME/lib/leads.py" "$PLAIN" "$1" >"$BATS_TEST_TMPDIR/leads" 2>&1 3>&- 4>&- &
  leads_pid=$!
  eventually 10 file_has "$BATS_TEST_TMPDIR/leads" 'ready '
  LEADS=127.0.0.1:$(sed -n 's/^ready //p' "$BATS_TEST_TMPDIR/leads")
}

@test "a redirect to another server on this machine or in a private network is refused, unless it is named" {
  start_registry inside
  inside=$REGISTRY
  put_image "$inside/public/a" plain
  for to in "$inside" "localhost:${inside##*:}" 10.255.255.1:1 '[fd00::1]:1'; do
    lead "$to"
    run dock pull "$LEADS/public/a"
    expect status 1
    expect contains "refused to be led to $to" "registry-redirect"
    kill "$leads_pid"
  done
  expect equal "$(registry_log inside | grep -c 'GET /v2/public/a/blobs')" 0
  halt_engine
  spawn_engine --registry-redirect "$inside"
  lead "$inside"
  run dock pull "$LEADS/public/a"
  expect status 0
  expect equal "$(word_of "$LEADS/public/a")" plain
  moss rmi "$LEADS/public/a"
  kill "$leads_pid"
  stop_registry inside
  halt_engine
  spawn_engine
}

@test "a registry on loopback may have a certificate that nobody knows" {
  start_registry self --tls --loopback
  put_image "$REGISTRY/public/a" self
  run dock pull "$REGISTRY/public/a"
  expect status 0
  expect equal "$(word_of "$REGISTRY/public/a")" self
  stop_registry self
  moss rmi "$REGISTRY/public/a"
}

@test "client certificates" {
  start_registry clients --tls --client-ca
  trust clients "$BATS_TEST_TMPDIR" "$REGISTRY" client
  put_image "$REGISTRY/public/a" clients --dest-cert-dir "$BATS_TEST_TMPDIR/$REGISTRY"
  trust clients "$CERTS" "$REGISTRY"
  run dock pull "$REGISTRY/public/a"
  expect status 1
  expect contains certificate
  trust clients "$CERTS" "$REGISTRY" client
  run dock pull "$REGISTRY/public/a"
  expect status 0
  run log_in moss ann any "$REGISTRY"
  expect status 0
  name=$REGISTRY/$(unique sent)
  dock tag "$REGISTRY/public/a" "$name"
  run dock push "$name"
  expect status 0
  stop_registry clients
  moss rmi "$name" "$REGISTRY/public/a"
}

@test "a registry with passwords" {
  for client in dock moss; do
    run "$client" pull "$CLOSED/a"
    expect status 1
    expect contains "pull access denied for $CLOSED/a"
    run log_in "$client" ann wrong "$CLOSED"
    expect status 1
    expect contains unauthorized
    run log_in "$client" ann secret "$CLOSED"
    expect status 0
    expect contains "Login Succeeded"
    expect equal "$(auth_of "$CLOSED" auth | base64 -d)" ann:secret
    run "$client" pull "$CLOSED/a"
    expect status 0
    name=$CLOSED/$(unique "sent/$client")
    "$client" tag "$CLOSED/a" "$name"
    run "$client" push "$name"
    expect status 0
    "$client" logout "$CLOSED"
    run "$client" push "$name"
    expect status 1
    expect contains denied
    moss rmi "$name" "$CLOSED/a"
  done
}

@test "token server: a password becomes a refresh token, and that serves the next repository" {
  forget_token_log tokens
  run pull_as bob:s3cret-of-bob "$TOKEN/private/a"
  expect line -1 200
  expect lacks '"error"'
  expect equal "$(token_log tokens '[.method, .grant_type, .access_type, .client_id, .service, .account, .scope]')" \
    '["POST","password","offline","moss","token","bob",["repository:private/a:pull"]]'
  run pull_as bob:s3cret-of-bob "$TOKEN/private/b"
  expect line -1 200
  expect equal "$(token_log tokens '[.method, .grant_type, .client_id, .service, .account, .scope]' | tail -n +2)" \
    '["POST","refresh_token","moss","token","bob",["repository:private/b:pull"]]'
  # What was got is used again.
  for repo in private/a private/b; do
    run pull_as bob:s3cret-of-bob "$TOKEN/$repo"
    expect line -1 200
    expect contains "Image is up to date"
  done
  expect equal "$(token_log tokens .method | wc -l)" 2
  # Another password gets nothing of it.
  run pull_as bob:wrong "$TOKEN/private/a"
  expect contains denied
  run grep -F s3cret-of-bob "$MOSS_DIR/mossd.log" "$(registry_dir tokens)/requests"
  expect status 1
  moss rmi "$TOKEN/private/a" "$TOKEN/private/b"
}

@test "token server: nobody pulls what is public, and not what is private" {
  forget_token_log tokens
  run dock pull "$TOKEN/public/a"
  expect status 0
  expect equal "$(token_log tokens '[.method, .basic, .account, .client_id, .scope]')" \
    '["GET",false,null,"moss",["repository:public/a:pull"]]'
  for client in dock moss; do
    run "$client" pull "$TOKEN/private/a"
    expect status 1
    expect contains "pull access denied for $TOKEN/private/a" denied
  done
  run api POST "/images/create?fromImage=$TOKEN/private/a&tag=latest"
  expect line -1 404
  name=$TOKEN/public/$(unique sent)
  dock tag "$TOKEN/public/a" "$name"
  run dock push "$name"
  expect status 1
  expect contains denied
  moss rmi "$name" "$TOKEN/public/a"
}

@test "token server: login keeps an identity token in the place of the password" {
  for client in dock moss; do
    forget_token_log tokens
    run log_in "$client" ann secret "$TOKEN"
    expect status 0
    expect contains "Login Succeeded"
    identity=$(auth_of "$TOKEN" identitytoken)
    [ "${#identity}" -gt 20 ] || fail "identity token: '$identity'"
    expect --in "$(auth_of "$TOKEN" auth | base64 -d)" lacks secret
    expect equal "$(token_log tokens '[.grant_type, .access_type, .client_id, .scope]')" '["password","offline","moss",null]'
    run "$client" pull "$TOKEN/private/a"
    expect status 0
    expect equal "$(word_of "$TOKEN/private/a")" private/a
    name=$TOKEN/private/$(unique "sent/$client")
    "$client" tag "$TOKEN/private/a" "$name"
    run "$client" push "$name"
    expect status 0
    if [ "$client" = moss ]; then # docker's asks for a name where it keeps an identity token
      run moss login "$TOKEN" </dev/null
      expect status 0
      expect contains "existing credentials" "Login Succeeded"
      expect equal "$(auth_of "$TOKEN" identitytoken)" "$identity"
    fi
    # From here on it was the identity token alone, and each list of scopes came in one parameter.
    expect equal "$(token_log tokens .grant_type | tail -n +2 | sort -u)" '"refresh_token"'
    expect equal "$(token_log tokens 'select(.scope) | .scope | length' | sort -u)" 1
    expect --in "$(token_log tokens .scope)" contains "\"repository:${name#*/}:pull,push\"" \
      "\"repository:private/a:pull repository:${name#*/}:pull,push\"" # the layer is mounted from there
    # After a revocation the client is told to log in.
    revoke_refresh_tokens tokens
    run "$client" pull "$TOKEN/private/b"
    expect status 1
    expect contains denied
    run grep -F "$identity" "$MOSS_DIR/mossd.log"
    expect status 1
    "$client" logout "$TOKEN"
    moss rmi "$name" "$TOKEN/private/a"
  done
}

@test "token server: a revoked refresh token gives way to the password" {
  run pull_as ann:secret "$TOKEN/private/a"
  expect line -1 200
  forget_token_log tokens
  revoke_refresh_tokens tokens
  run pull_as ann:secret "$TOKEN/private/b"
  expect line -1 200
  expect lacks '"error"'
  expect equal "$(token_log tokens '[.grant_type, .status]' | xargs)" '[refresh_token,400] [password,200]'
  moss rmi "$TOKEN/private/a" "$TOKEN/private/b"
}

@test "token server: a wrong password is refused" {
  for client in dock moss; do
    run log_in "$client" ann wrong "$TOKEN"
    expect status 1
    expect contains "unauthorized: incorrect username or password"
    expect lacks wrong
    [ ! -e "$DOCKER_CONFIG/config.json" ] || expect equal "$(auth_of "$TOKEN")" null
  done
  run api POST /auth "{\"username\":\"ann\",\"password\":\"wrong\",\"serveraddress\":\"$TOKEN\"}"
  expect line -1 401
  run api POST /auth "{\"serveraddress\":\"$TOKEN\"}"
  expect line -1 400
  run api POST /auth '{"username":"ann","password":"x","serveraddress":"file:///etc"}'
  expect line -1 400
  run api POST /v1.24/auth "{\"username\":\"ann\",\"password\":\"secret\",\"serveraddress\":\"http://$TOKEN/v1/\"}"
  expect line -1 200
  expect equal "$(head -n 1 <<<"$output" | jq -r '.Status, (.IdentityToken | length > 20)' | xargs)" "Login Succeeded true"
}

@test "token server that knows the old form only" {
  for client in dock moss; do
    forget_token_log old
    run log_in "$client" ann secret "$GET"
    expect status 0
    expect equal "$(auth_of "$GET" identitytoken)" null
    expect equal "$(auth_of "$GET" auth | base64 -d)" ann:secret
    run "$client" pull "$GET/private/a"
    expect status 0
    name=$GET/private/$(unique "sent/$client")
    "$client" tag "$GET/private/a" "$name"
    run "$client" push "$name"
    expect status 0
    expect equal "$(token_log old 'select(.method == "GET") | [.basic, .account, .client_id, .service, .status]' | sort -u)" \
      '[true,"ann","moss","get",200]'
    expect --in "$(token_log old 'select(.method == "GET") | .scope[]?' | sort -u)" contains \
      repository:private/a:pull "repository:${name#*/}:pull,push"
    run log_in "$client" ann wrong "$GET"
    expect status 1
    expect contains "unauthorized: incorrect username or password"
    "$client" logout "$GET"
    moss rmi "$name" "$GET/private/a"
  done
}

@test "tokens of one minute are used again within it" {
  run pull_as ann:secret "$GET/private/b"
  expect line -1 200
  forget_token_log old
  run pull_as ann:secret "$GET/private/b"
  expect line -1 200
  expect contains "Image is up to date"
  expect equal "$(token_log old)" ''
  moss rmi "$GET/private/b"
}

@test "a registry with TLS leads nobody to a token server without" {
  start_registry mixed --tls --certs-of secure --token "$TOKENS" tokens
  trust mixed "$CERTS" "$REGISTRY"
  forget_token_log tokens
  run log_in dock ann secret "$REGISTRY"
  expect status 1
  expect contains "$REGISTRY" "does not use TLS"
  run pull_as ann:secret "$REGISTRY/public/a"
  expect contains "does not use TLS"
  expect equal "$(token_log tokens)" ''
  stop_registry mixed
}

@test "a registry and a token server, both with TLS" {
  start_tokend both -tls
  start_registry tls-token --tls --certs-of both --token "$TOKEND" both
  trust tls-token "$CERTS" "$REGISTRY"
  put_image "$REGISTRY/private/a" both --dest-creds ann:secret
  run log_in dock ann secret "$REGISTRY"
  expect status 0
  run dock pull "$REGISTRY/private/a"
  expect status 0
  expect equal "$(word_of "$REGISTRY/private/a")" both
  stop_registry tls-token
  stop_registry both
  moss rmi "$REGISTRY/private/a"
}
