package main

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"moss/api/route"
)

func (w *worker) wrongActs() []act {
	return []act{
		{"wrong parameters", 20, w.wrongParams},
		{"wrong body", 25, w.wrongBody},
		{"wrong method", 4, w.wrongMethod},
		{"wrong path", 5, w.wrongPath},
		{"wrong type", 2, w.wrongType},
		{"wrong version", 3, w.wrongVersion},
		{"wrong archive", 4, w.wrongArchive},
		{"no HTTP", 3, w.noHTTP},
	}
}

// costly are the routes that junk must not reach: they remove what is not the worker's, or wait for other machines.
var costly = regexp.MustCompile(`prune$|^POST /images/:name/push$|^GET /images/search$|^GET /distribution/|^POST /auth$|^DELETE /images/|^DELETE /volumes/`)

// beginning is what may be the beginning of an id, or no name at all.
var beginning = regexp.MustCompile(`^(sha256:)?[0-9a-f]*$`)

// wrongParams makes a call of any route with values at random.
func (w *worker) wrongParams() {
	r := oneOf(w.rng, w.table.routes)
	name := r.Method + " " + r.Path
	if costly.MatchString(name) && (strings.HasSuffix(name, "prune") || !strings.Contains(name, ":")) {
		return
	}
	arg := oneOf(w.rng, junk)
	if !costly.MatchString(name) && chance(w.rng, 50) {
		arg = pick(strings.HasPrefix(r.Path, "/images"), w.base, oneOf(w.rng, w.shared))
	}
	if beginning.MatchString(arg) { // it could be how somebody's id begins
		arg = "nobody" + strings.TrimPrefix(arg, "sha256:")
	}
	c := w.newCall(name, arg)
	for _, p := range paramsOf(&r) {
		if chance(w.rng, 60) || p.Header {
			continue
		}
		value := oneOf(w.rng, junk)
		if p.Kind == route.Filters || p.Name == "filters" {
			value = oneOf(w.rng, junkFilters)
		}
		switch p.Name { // nothing asks for a host that is not this one
		case "fromImage":
			value = oneOf(w.rng, []string{"", "-", "UPPER", "127.0.0.1:1/x", "a b", "\x00"})
		case "remote", "fromSrc":
			value = oneOf(w.rng, []string{"", "-", "a b", "http://127.0.0.1:1/x", "\x00"})
		}
		c.query += "&" + p.Name + "=" + url.QueryEscape(value)
	}
	c.query = strings.TrimPrefix(c.query, "&")
	if c.route == "POST /containers/:id/stop" || c.route == "POST /containers/:id/restart" {
		c.query = "t=" + url.QueryEscape(oneOf(w.rng, []string{"x", "", "1.5", "99999999999999999999", "0"}))
	}
	if chance(w.rng, 5) {
		c.query += oneOf(w.rng, []string{"&%zz", "&;", "&a=%", "&=&=", "&" + strings.Repeat("a=b&", 2000)})
	}
	if chance(w.rng, 20) {
		junk := []string{"nonsense", "*/*;q=zz", ";;;", ",", "application/json;q=0", "text/html", strings.Repeat("x", 5000)}
		c.header = map[string]string{"Accept": oneOf(w.rng, junk)}
	}
	c.manner, c.linger = streaming, 200*time.Millisecond // some of them wait for what never comes
	if strings.HasSuffix(r.Path, "/wait") {
		c.manner = rude
	}
	w.cleanUp(c, w.tryCall(c))
}

// paramsOf returns the parameters of a route, some that many have when it tells of none.
func paramsOf(r *route.Route) []route.Param {
	if len(r.Shape.Params) > 0 {
		return r.Shape.Params
	}
	var list []route.Param
	for _, name := range []string{"all", "limit", "size", "filters", "since", "until", "path", "name", "t", "signal", "h", "w", "stdout", "stream", "logs", "tail", "detachKeys", "force", "repo", "tag"} {
		list = append(list, route.Param{Name: name})
	}
	return list
}

// withTag returns the name that a repository gets with a tag, which goes in the place of its own tag or digest.
func withTag(repo, tag string) string {
	if tag == "" {
		return repo
	}
	repo, _, _ = strings.Cut(repo, "@")
	if at := strings.LastIndexByte(repo, ':'); at > strings.LastIndexByte(repo, '/') {
		repo = repo[:at]
	}
	return repo + ":" + tag
}

// cleanUp removes what a wrong call made against expectation.
func (w *worker) cleanUp(c *call, a *answer) {
	if a.status != ok && a.status != made {
		return
	}
	v24 := func(name, arg string) *call {
		r := w.table.byName[name][0]
		return &call{method: r.Method, route: name, version: "1.24", path: fillPath(r.Path, []string{arg})}
	}
	switch c.route {
	case "POST /containers/create":
		w.wantStatus(v24("DELETE /containers/:id", a.fieldText("Id")).withQuery("v", "1", "force", "1"), "it was made just now", done)
	case "POST /networks/create":
		w.wantStatus(v24("DELETE /networks/:id", a.fieldText("Id")), "it was made just now", ok)
	case "POST /volumes/create":
		w.wantStatus(v24("DELETE /volumes/:name", a.fieldText("Name")), "it was made just now", done)
	case "POST /commit":
		w.wantStatus(v24("DELETE /images/:name", a.fieldText("Id")).withQuery("force", "1"), "it was made just now", ok)
	case "POST /images/:name/tag":
		q, _ := url.ParseQuery(c.query) // Its own encoding.
		w.wantStatus(v24("DELETE /images/:name", withTag(q.Get("repo"), q.Get("tag"))), "it was made just now", ok)
	case "POST /images/create":
		if id := importedID.FindString(string(a.body)); id != "" {
			w.wantStatus(v24("DELETE /images/:name", id).withQuery("force", "1"), "it was made just now", ok)
		}
	}
}

// importedID is how an import tells what it made.
var importedID = regexp.MustCompile(`sha256:[0-9a-f]{64}`)

// wrongBody makes a call with a document that something is wrong with.
func (w *worker) wrongBody() {
	type bodied struct {
		route string
		doc   map[string]any
	}
	shared := oneOf(w.rng, w.shared)
	b := oneOf(w.rng, []bodied{
		{"POST /containers/create", wholeCreate(w.base)},
		{"POST /containers/create", wholeCreate(w.base)},
		{"POST /containers/create", wholeCreate(w.base)},
		{"POST /containers/:id/exec", map[string]any{"Cmd": []string{"true"}, "AttachStdin": true, "AttachStdout": true, "Tty": false, "User": "0", "DetachKeys": "ctrl-p"}},
		{"POST /containers/:id/update", map[string]any{"Memory": 1 << 27, "CpuShares": 5, "RestartPolicy": map[string]any{"Name": "no"}}},
		{"POST /containers/:id/start", map[string]any{"Binds": []string{"/tmp:/x"}, "Memory": 1 << 27}},
		{"POST /containers/:id/copy", map[string]any{"Resource": "/etc"}},
		{"POST /exec/:id/start", map[string]any{"Detach": false, "Tty": true}},
		{"POST /networks/create", map[string]any{
			"Name": w.newName("wrong"), "Driver": "bridge", "CheckDuplicate": true, "Internal": true, "EnableIPv6": false, "Options": map[string]string{"a": "b"},
			"Labels": map[string]string{"a": "b"}, "IPAM": map[string]any{"Driver": "default", "Config": []map[string]any{{"Subnet": "10.99.0.0/16", "Gateway": "10.99.0.1"}}},
		}},
		{"POST /networks/:id/connect", map[string]any{"Container": shared, "EndpointConfig": map[string]any{"IPAMConfig": map[string]any{"IPv4Address": "10.1.1.1"}, "Aliases": []string{"a"}}}},
		{"POST /networks/:id/disconnect", map[string]any{"Container": "nobody", "Force": true}},
		{"POST /volumes/create", map[string]any{"Name": w.newName("wrong"), "Driver": "local", "DriverOpts": map[string]string{}, "Labels": map[string]string{"a": "b"}}},
		{"POST /commit", map[string]any{"Cmd": []string{"true"}, "Env": []string{"A=b"}, "Labels": map[string]string{"a": "b"}}},
	})
	arg := shared
	if strings.HasPrefix(b.route, "POST /networks/:id") {
		arg = "bridge"
	}
	c := w.newCall(b.route, arg)
	if b.route == "POST /commit" {
		c.withQuery("container", shared)
	}
	raw, err := json.Marshal(b.doc)
	if err != nil {
		panic(err)
	}
	for range 1 + w.rng.IntN(2) {
		raw = mutateJSON(w.rng, raw)
	}
	c.body, c.chunked = raw, chance(w.rng, 10)
	c.withHeader("Content-Type", oneOf(w.rng, []string{"application/json", "application/json", "application/json", "application/json; charset=utf-8", "application/json; charset=latin1"}))
	c.manner, c.linger = streaming, 200*time.Millisecond
	w.cleanUp(c, w.tryCall(c))
}

// wholeCreate returns a body that many fields of a create are in.
func wholeCreate(image string) map[string]any {
	return map[string]any{
		"Image": image, "Cmd": []string{"true"}, "Entrypoint": []string{"sh"}, "Env": []string{"A=b"}, "Labels": map[string]string{"a": "b"}, "Hostname": "h", "Domainname": "d", "User": "0:0",
		"WorkingDir": "/w", "Tty": false, "OpenStdin": true, "StdinOnce": true, "AttachStdin": true, "ExposedPorts": map[string]any{"80/tcp": map[string]any{}},
		"Volumes": map[string]any{"/v": map[string]any{}}, "StopSignal": "TERM", "MacAddress": "02:42:ac:11:00:09", "NetworkDisabled": false,
		"Healthcheck": map[string]any{"Test": []string{"CMD", "true"}, "Interval": 1000000000, "Retries": 3},
		"HostConfig": map[string]any{
			"Binds": []string{"named:/n:ro"}, "Memory": 1 << 26, "MemorySwap": -1, "CpuShares": 10, "CpusetCpus": "0", "PidsLimit": 20, "BlkioWeight": 300, "CapAdd": []string{"NET_ADMIN"}, "CapDrop": []string{"ALL"},
			"Dns": []string{"10.0.0.1"}, "DnsSearch": []string{"x"}, "ExtraHosts": []string{"a:10.0.0.1"}, "GroupAdd": []string{"0"}, "IpcMode": "private", "PidMode": "", "UTSMode": "",
			"LogConfig": map[string]any{"Type": "json-file", "Config": map[string]string{"max-size": "1m"}}, "NetworkMode": "bridge", "OomScoreAdj": 5, "Privileged": false, "ReadonlyRootfs": true,
			"PortBindings": map[string]any{"80/tcp": []map[string]string{{"HostIp": "127.0.0.1", "HostPort": ""}}}, "RestartPolicy": map[string]any{"Name": "on-failure", "MaximumRetryCount": 1},
			"SecurityOpt": []string{"no-new-privileges"}, "ShmSize": 1 << 20, "Sysctls": map[string]string{"net.ipv4.ip_forward": "1"}, "Tmpfs": map[string]string{"/t": "size=1m"}, "Ulimits": []map[string]any{{"Name": "nofile", "Soft": 10, "Hard": 20}},
			"VolumesFrom": []string{}, "Links": []string{}, "Devices": []any{}, "StorageOpt": map[string]string{}, "Isolation": "default",
		},
		"NetworkingConfig": map[string]any{"EndpointsConfig": map[string]any{"bridge": map[string]any{"Aliases": []string{}}}},
	}
}

// wrongMethod asks a path for what it does not do.
func (w *worker) wrongMethod() {
	r := oneOf(w.rng, w.table.routes)
	c := w.newCall(r.Method+" "+r.Path, "nobody")
	if r.Method == http.MethodDelete || strings.Contains(r.Path, "prune") {
		return
	}
	c.method = oneOf(w.rng, []string{"PATCH", "TRACE", "PUT", "DELETE", "BREW", "get", "CONNECT"})
	if w.table.hasRouteAt(c.method, c.path) || c.method == "CONNECT" || c.method == http.MethodDelete { // names may hold slashes
		return
	}
	c.route = ""
	a, refused := w.wantStatus(c, "the method is not there", http.StatusMethodNotAllowed)
	if allowed := a.header.Get("Allow"); refused && !strings.Contains(allowed, r.Method) {
		w.report.addFinding(w.number, "%s %s: Allow is %q and lacks %s", c.method, c.requestTarget(), allowed, r.Method)
	}
}

func (w *worker) wrongPath() {
	c := &call{method: oneOf(w.rng, []string{"GET", "POST", "PUT", "HEAD", "DELETE"}), version: oneOf(w.rng, []string{"", "1.18", "1.24", "1.40", "1.51"})}
	c.path = "/" + oneOf(w.rng, []string{
		"", "nope", "containers", "containers/", "containers/a/nope", "containers/a/b/c/d/json", "images", "images/a/nope", "exec", "exec/a", "networks/a/b/c", "%2e%2e/%2e%2e/etc/passwd", "../../etc/passwd",
		"containers/../info/nope", ".git/config", "v1.24/v1.24/info", "%00", "containers/%00/nope", "info%2f", "INFO", "_ping/x", "openapi", strings.Repeat("a/", 2000), strings.Repeat("b", 6000),
	})
	a := w.tryCall(c)
	w.expectStatus(c, a, "no such path", missing, bad, http.StatusMethodNotAllowed)
}

func (w *worker) wrongType() {
	c := w.newCall("POST /containers/create").withJSON(map[string]any{"Image": w.base, "Cmd": []string{"true"}})
	c.header["Content-Type"] = oneOf(w.rng, []string{"text/plain", "", "application/x-tar", "json", "application/jsonx", ";", "application/json, text/plain", "multipart/form-data"})
	w.wantStatus(c, "the body is no JSON", bad)
}

func (w *worker) wrongVersion() {
	c := &call{method: "GET", path: "/" + oneOf(w.rng, []string{"v1.17", "v1.52", "v0.0", "v2", "v2.0", "v1", "v1.24.5", "v1.", "v1.x", "v99999999999999999999.1", "v1.99999999999", "v01.24", "v1.024", "v1.-1"}) + "/info"}
	w.wantStatus(c, "no such version", bad, missing)
}

// wrongArchive sends what is no archive, or not all of one.
func (w *worker) wrongArchive() {
	whole := archiveOf("Dockerfile", "FROM "+w.base+"\nCOPY f /\n", "f", strings.Repeat("y", 3000), "../../escape", "x")
	c := w.newCall(oneOf(w.rng, []string{"POST /build", "POST /images/load", "POST /images/create", "PUT /containers/:id/archive"}), oneOf(w.rng, w.shared))
	switch c.route {
	case "POST /images/create":
		c.withQuery("fromSrc", "-")
	case "PUT /containers/:id/archive":
		c.withQuery("path", "/tmp")
	}
	c.withTar(slices.Clone(whole)[:w.rng.IntN(len(whole))])
	for range w.rng.IntN(5) {
		if len(c.body) > 0 {
			c.body[w.rng.IntN(len(c.body))] = byte(w.rng.IntN(256)) //nolint:gosec // below 256
		}
	}
	c.body = append([]byte(oneOf(w.rng, []string{"", "", "\x1f\x8b\x08\x00", "BZh9", "\xfd7zXZ\x00", "\x28\xb5\x2f\xfd"})), c.body...)
	if chance(w.rng, 30) {
		c.manner, c.cut = oneOf(w.rng, []manner{torn, short}), w.rng.IntN(len(c.body)+1)
		w.tryCall(c)
		return
	}
	w.cleanUp(c, w.tryCall(c))
}

// noHTTP sends what is no request, or one that no library would send.
func (w *worker) noHTTP() {
	c := &call{method: "GET", path: "/_ping"}
	switch w.rng.IntN(7) {
	case 0:
		c.method = oneOf(w.rng, []string{"", "G E T", "\x00", "\x16\x03\x01", strings.Repeat("G", 9000)})
	case 1:
		c.withHeader("X-Long", strings.Repeat("h", 1<<21))
	case 2:
		c.withHeader("Content-Length", oneOf(w.rng, []string{"-1", "x", "99999999999999999999"}))
	case 3:
		c.withHeader("Transfer-Encoding", "nope")
	case 4:
		c.withHeader("Host", oneOf(w.rng, []string{"", "a b", "evil.example", "\x00"}))
	case 5:
		c.path = oneOf(w.rng, []string{"*", "http://other/_ping", "_ping", "/_ping HTTP/9.9\r\nA: b", "/ping\x01"})
	default:
		c.withHeader("Expect", oneOf(w.rng, []string{"100-continue", "the worst"}))
		c.body = []byte("x")
	}
	c.manner = half
	a := w.tryCall(c)
	if a.status != 0 {
		w.expectStatus(c, a, "no proper request", ok, bad, missing, http.StatusMethodNotAllowed, 411, 413, 417, 431, 501, 505)
	}
}
