package handler_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"moss/engine/build"
	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/image"
)

// builds is a fake that keeps the request.
type builds struct {
	req     build.Request
	body    string
	err     error
	late    error
	emitted []image.Progress
	work    func(ctx context.Context, emit func(image.Progress)) error

	pruning build.PruneOptions
	pruned  build.Pruned
	cache   []build.CacheRecord
}

func (f *builds) Build(ctx context.Context, req build.Request, emit func(image.Progress)) (string, error) {
	f.req = req
	if f.err != nil {
		return "", f.err
	}
	raw, err := io.ReadAll(req.Context)
	if err != nil {
		return "", err
	}
	f.body = string(raw)
	if f.work != nil {
		return "", f.work(ctx, emit)
	}
	for _, p := range f.emitted {
		emit(p)
	}
	return "sha256:9f86", f.late
}

func (f *builds) Prune(_ context.Context, opts build.PruneOptions) (build.Pruned, error) {
	f.pruning = opts
	return f.pruned, f.err
}

func (f *builds) Usage(context.Context) ([]build.CacheRecord, error) { return f.cache, f.err }

// TestBuildParameters has every parameter reach the field that it is for, and the defaults, at the oldest version too.
func TestBuildParameters(t *testing.T) {
	one := "1"
	plain := build.Request{Remove: true}
	for _, tc := range []struct {
		query string
		want  func(r *build.Request)
	}{
		{"", func(*build.Request) {}},
		{"dockerfile=a/Dockerfile", func(r *build.Request) { r.Dockerfile = "a/Dockerfile" }},
		{"enginefile=b", func(r *build.Request) { r.Dockerfile = "b" }},
		{"t=a:1&t=&t=b", func(r *build.Request) { r.Tags = []string{"a:1", "b"} }},
		{"t=", func(*build.Request) {}},
		{"remote=https://example.test/c.tar", func(r *build.Request) { r.Remote = "https://example.test/c.tar" }},
		{"q=1", func(r *build.Request) { r.Quiet = true }},
		{"q=False", func(*build.Request) {}},
		{"nocache=true", func(r *build.Request) { r.NoCache = true }},
		{"pull=1", func(r *build.Request) { r.Pull = true }},
		{"rm=0", func(r *build.Request) { r.Remove = false }},
		{"rm=", func(*build.Request) {}},
		{"rm=0&forcerm=1", func(r *build.Request) { r.ForceRemove = true }},
		{"target=base", func(r *build.Request) { r.Target = "base" }},
		{"platform=linux/arm64", func(r *build.Request) { r.Platform = "linux/arm64" }},
		{"steps=1", func(r *build.Request) { r.Steps = true }},
		{`buildargs={"A":"1","B":null}`, func(r *build.Request) { r.Args = map[string]*string{"A": &one, "B": nil} }},
		{"buildargs=null", func(*build.Request) {}},
		{`labels={"a":"b"}`, func(r *build.Request) { r.Labels = map[string]string{"a": "b"} }},
		{`cachefrom=["a","b:1"]`, func(r *build.Request) { r.CacheFrom = []string{"a", "b:1"} }},
		{"memory=4194304", func(r *build.Request) { r.Host.Memory = 4 << 20 }},
		{"memswap=-1", func(r *build.Request) { r.Host.MemorySwap = -1 }},
		{"shmsize=1048576", func(r *build.Request) { r.Host.ShmSize = 1 << 20 }},
		{"cpushares=5", func(r *build.Request) { r.Host.CPUShares = 5 }},
		{"cpuperiod=50000", func(r *build.Request) { r.Host.CPUPeriod = 50000 }},
		{"cpuquota=1000", func(r *build.Request) { r.Host.CPUQuota = 1000 }},
		{"cpusetcpus=0-1", func(r *build.Request) { r.Host.CpusetCpus = "0-1" }},
		{"cpusetmems=0", func(r *build.Request) { r.Host.CpusetMems = "0" }},
		{"cgroupparent=/x", func(r *build.Request) { r.Host.CgroupParent = "/x" }},
		{"isolation=default", func(r *build.Request) { r.Host.Isolation = "default" }},
		{"networkmode=none", func(r *build.Request) { r.Host.NetworkMode = "none" }},
		{"extrahosts=a:1.2.3.4&extrahosts=b:::1", func(r *build.Request) { r.Host.ExtraHosts = []string{"a:1.2.3.4", "b:::1"} }},
		{"securityopt=no-new-privileges", func(r *build.Request) { r.Host.SecurityOpt = []string{"no-new-privileges"} }},
		{`ulimits=[{"Name":"nofile","Soft":5,"Hard":6}]`, func(r *build.Request) {
			r.Host.Ulimits = []container.Ulimit{{Name: "nofile", Soft: 5, Hard: 6}}
		}},
		{"version=1&squash=0&outputs=[]&buildid=&session=", func(*build.Request) {}},
	} {
		for _, version := range []string{"/v1.18", "/v1.24", ""} {
			a := newAPI(t)
			want := plain
			tc.want(&want)
			status, _ := a.ask("POST", version+"/build?"+escaped(tc.query), "tar")
			got := a.builds.req
			got.Context = nil
			if status != 200 || !reflect.DeepEqual(got, want) || (want.Remote == "") != (a.builds.body == "tar") {
				t.Errorf("%s %s = %d, %+v with body %q, want %+v", version, tc.query, status, got, a.builds.body, want)
			}
		}
	}
}

// escaped writes a query as clients do.
func escaped(query string) string {
	var parts []string
	for part := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(part, "=")
		parts = append(parts, key+"="+url.QueryEscape(value))
	}
	return strings.Join(parts, "&")
}

func TestBuildRefuses(t *testing.T) {
	for _, tc := range []struct {
		query, want string
		status      int
	}{
		{"version=2", "BuildKit", 501},
		{"version=3", `invalid value for version: got "3"`, 400},
		{"squash=1", "squash is not there", 501},
		{"session=x", "sessions are not there", 501},
		{"buildid=x", "hanging up", 501},
		{`outputs=[{"Type":"local"}]`, "outputs are not there", 501},
		{"memory=much", `invalid value for memory: got "much", want an integer`, 400},
		{"memswap=1.5", "invalid value for memswap", 400},
		{"shmsize=64m", "invalid value for shmsize", 400},
		{"cpushares=x", "invalid value for cpushares", 400},
		{"cpuperiod=x", "invalid value for cpuperiod", 400},
		{"cpuquota=x", "invalid value for cpuquota", 400},
		{"buildargs=A", "invalid value for buildargs: want a JSON map of strings", 400},
		{`buildargs={"A":1}`, "invalid value for buildargs: got number, want a JSON map of strings", 400},
		{"labels=[]", "invalid value for labels: got array, want a JSON map of strings", 400},
		{"cachefrom={}", "invalid value for cachefrom: got object, want a JSON list of strings", 400},
		{"ulimits=nofile=5", "invalid value for ulimits: want a JSON list of objects with Name, Soft and Hard", 400},
	} {
		a := newAPI(t)
		status, body := a.ask("POST", "/build?"+escaped(tc.query), "tar")
		if status != tc.status || !strings.Contains(body, strings.ReplaceAll(tc.want, `"`, `\"`)) || a.builds.req.Context != nil {
			t.Errorf("%s = %d %q, want %d %q and no build", tc.query, status, body, tc.status, tc.want)
		}
	}
}

// TestBuildHeaders has credentials in both forms, every alphabet of base64, and secrets, none of which shows itself.
func TestBuildHeaders(t *testing.T) {
	whole := map[string]image.RegistryAuth{
		"reg:5000":                    {Username: "u?>", Password: "p~~", ServerAddress: "s"},
		"https://index.docker.io/v1/": {IdentityToken: "i"},
	}
	const auths = `{"reg:5000":{"username":"u?>","password":"p~~","serveraddress":"s"},"https://index.docker.io/v1/":{"identitytoken":"i"}}`
	split := `{"auths":{"reg:5000":{"auth":"` + base64.StdEncoding.EncodeToString([]byte("u?>:p~~")) + `","serveraddress":"s"},` +
		`"https://index.docker.io/v1/":{"identitytoken":"i"}},"credsStore":"x"}`
	for _, tc := range []struct {
		name, value string
		want        map[string]image.RegistryAuth
	}{
		{"for URLs, padded", base64.URLEncoding.EncodeToString([]byte(auths)), whole},
		{"for URLs, bare", base64.RawURLEncoding.EncodeToString([]byte(auths)), whole},
		{"standard, padded", base64.StdEncoding.EncodeToString([]byte(auths)), whole},
		{"standard, bare", base64.RawStdEncoding.EncodeToString([]byte(auths)), whole},
		{"a configuration file", encoded(split), whole},
		{"one entry of the wrong type", encoded(`{"a":1,"b":null,"c":{"username":"u"}}`), map[string]image.RegistryAuth{"c": {Username: "u"}}},
		{"a configuration file of old", encoded(strings.Replace(split, `"auths"`, `"configs"`, 1)), whole},
		{"both forms in one", encoded(`{"auths":{},"r":{"username":"u","password":"p"}}`), map[string]image.RegistryAuth{"r": {Username: "u", Password: "p"}}},
		{"a registry of the name auths", encoded(`{"auths":{"username":"u","password":"p"}}`), map[string]image.RegistryAuth{}},
		{"nothing", "", nil},
		{"an empty map", encoded("{}"), map[string]image.RegistryAuth{}},
		{"null", encoded("null"), map[string]image.RegistryAuth{}},
		{"no base64", "%%%", nil},
		{"no JSON", encoded("user:password"), nil},
	} {
		a := newAPI(t)
		status, _ := a.ask("POST", "/build", "tar", "X-Registry-Config", tc.value)
		if got := a.builds.req.Auths; status != 200 || len(got) != len(tc.want) || len(got) > 0 && !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s = %d, %d credentials, want %d", tc.name, status, len(got), len(tc.want))
		}
		if shown := fmt.Sprintf("%+v", a.builds.req.Auths); strings.Contains(shown, "p~~") {
			t.Errorf("%s: the password shows itself: %s", tc.name, shown)
		}
	}
	a := newAPI(t)
	content := "s3cret\n\x00\xff"
	value := encoded(`{"id":"` + base64.StdEncoding.EncodeToString([]byte(content)) + `","empty":""}`)
	status, _ := a.ask("POST", "/build", "tar", "X-Build-Secrets", value)
	if want := map[string]image.Secret{"id": image.Secret(content), "empty": ""}; status != 200 || !reflect.DeepEqual(a.builds.req.Secrets, want) {
		t.Errorf("secrets = %d, %d of them", status, len(a.builds.req.Secrets))
	}
	for _, wrong := range []string{"%%%", encoded("s3cret"), encoded(`{"id":1}`), encoded(`{"id":"%s3cret"}`), encoded(`{"":"YQ=="}`)} {
		status, body := a.ask("POST", "/build", "tar", "X-Build-Secrets", wrong)
		if status != 400 || !strings.Contains(body, "invalid value for X-Build-Secrets") || strings.Contains(body, "s3cret") {
			t.Errorf("secrets %q = %d %q", wrong, status, body)
		}
	}
}

// TestBuildStream has what clients parse, at every version, and errors before and in the stream.
func TestBuildStream(t *testing.T) {
	a := newAPI(t)
	a.builds.emitted = []image.Progress{
		{Stream: "Step 1/1 : FROM x\n"},
		{Stream: "0%", ID: "0", Aux: build.Step{Number: 1, Total: 2, State: build.StepDone, Seconds: 0.5}},
		{Aux: map[string]string{"ID": "sha256:9f86"}},
		{Stream: "Successfully built 9f86\n"},
	}
	const want = `{"stream":"Step 1/1 : FROM x\n"}` + "\n" +
		`{"stream":"0%","progressDetail":{},"id":"0","aux":{"Stage":0,"StageName":"","Number":1,"Total":2,"Instruction":"","State":"done","Image":"","Seconds":0.5}}` + "\n" +
		`{"aux":{"ID":"sha256:9f86"}}` + "\n" + `{"stream":"Successfully built 9f86\n"}` + "\n"
	for minor := 18; minor <= 24; minor++ {
		resp := a.open("POST", "/v1."+strconv.Itoa(minor)+"/build", "tar") //nolint:bodyclose // The cleanup of open does.
		raw, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || string(raw) != want || resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("1.%d: %d %v %q, %v, want %q", minor, resp.StatusCode, resp.Header, raw, err, want)
		}
	}
	for _, tc := range []struct {
		err    error
		status int
	}{
		{fault.Invalid("dockerfile parse error line 3: unknown instruction: FOO"), 400},
		{fault.NotFound("no such image"), 404},
		{fault.Unauthorized("no"), 401},
		{fault.Unsupported("no"), 501},
		{errors.New("no"), 500},
	} {
		a.builds.err = tc.err
		for version, want := range map[string]string{"/v1.18": tc.err.Error() + "\n", "": `{"message":"` + tc.err.Error() + `"}` + "\n"} {
			if status, body := a.ask("POST", version+"/build", strings.Repeat("tar", 1<<20)); status != tc.status || body != want {
				t.Errorf("%s %v = %d %q, want %d %q", version, tc.err, status, body, tc.status, want)
			}
		}
	}
	a.builds.err, a.builds.emitted = nil, a.builds.emitted[:1]
	a.builds.late = fmt.Errorf("step: %w", &build.ExitError{Command: "/bin/sh -c exit 3", Code: 3})
	status, body := a.ask("POST", "/build", "tar")
	const failed = `{"errorDetail":{"code":3,"message":"step: The command '/bin/sh -c exit 3' returned a non-zero code: 3"},` +
		`"error":"step: The command '/bin/sh -c exit 3' returned a non-zero code: 3"}` + "\n"
	if status != 200 || !strings.HasSuffix(body, failed) {
		t.Errorf("a RUN that fails = %d %q, want %q at the end", status, body, failed)
	}
	a.builds.emitted, a.builds.late = nil, nil
	if status, body := a.ask("POST", "/build?q=1", "tar"); status != 200 || body != "" {
		t.Errorf("a build without a word = %d %q", status, body)
	}
}

// TestBuildHangUp has clients leave in the middle of a build, with bodies of every kind.
func TestBuildHangUp(t *testing.T) {
	for _, tc := range []struct{ name, request string }{
		{"a body of known length", "POST /build HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\ntar"},
		{"a body in chunks", "POST /build HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntar\r\n0\r\n\r\n"},
		{"no body", "POST /build?remote=git://example.test/a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"},
		{"remote and a body", "POST /build?remote=git://example.test/a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\ntar"},
	} {
		for _, first := range []bool{true, false} {
			a := newAPI(t)
			ended, begun := make(chan error, 1), make(chan struct{})
			a.builds.work = func(ctx context.Context, emit func(image.Progress)) error {
				if first {
					emit(image.Progress{Stream: "Step 1/1 : FROM x\n"})
				}
				close(begun)
				<-ctx.Done()
				ended <- ctx.Err()
				return ctx.Err()
			}
			c := a.dial()
			if _, err := io.WriteString(c, tc.request); err != nil {
				t.Fatal(err)
			}
			<-begun
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("%s: the build ended with %v, want context.Canceled", tc.name, err)
			}
		}
	}
}

// TestBuildWaitsForItsClient has a client that takes nothing: a build that writes without end comes to a halt, goes on
// when the client reads, loses nothing, and ends with the client.
func TestBuildWaitsForItsClient(t *testing.T) {
	a := newAPI(t)
	line := strings.Repeat("x", 1023) + "\n"
	moved, ended := make(chan int, 1<<20), make(chan int, 1)
	a.builds.work = func(ctx context.Context, emit func(image.Progress)) error {
		n := 0
		for ; ctx.Err() == nil; n++ {
			emit(image.Progress{Stream: line})
			moved <- n
		}
		ended <- n
		return ctx.Err()
	}
	c := a.dial()
	if _, err := io.WriteString(c, "POST /build HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\ntar"); err != nil {
		t.Fatal(err)
	}
	last := settle(moved, -1)
	if last > 16<<10 {
		t.Fatalf("%d KiB are out and nobody reads", last)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // The connection breaks off.
	decoder := json.NewDecoder(resp.Body)
	for i := range last + 2000 {
		var message struct{ Stream string }
		if err := decoder.Decode(&message); err != nil || message.Stream != line {
			t.Fatalf("message %d: %.20q, %v", i, message.Stream, err)
		}
	}
	if again := settle(moved, last); again <= last {
		t.Errorf("the build stands at %d after the client has read", again)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	<-ended
}

// settle returns the last number that comes before there is none for a while: that a writer stands still shows in nothing
// but time. One that does not halt never settles, or beyond the limit.
func settle(moved <-chan int, last int) int {
	for {
		select {
		case last = <-moved:
		case <-time.After(300 * time.Millisecond):
			return last
		}
	}
}

func TestBuildPrune(t *testing.T) {
	a := newAPI(t)
	if status, body := a.ask("POST", "/v1.18/build/prune", ""); status != 200 || body != `{"CachesDeleted":null,"SpaceReclaimed":0}`+"\n" {
		t.Errorf("prune of nothing = %d %q", status, body)
	}
	a.builds.pruned = build.Pruned{Deleted: []string{"sha256:1", "c"}, Bytes: 9}
	status, body := a.ask("POST", "/build/prune?all=1&keep-storage=5&filters="+url.QueryEscape(`{"until":["24h"]}`), "")
	want := build.PruneOptions{All: true, Keep: 5, Filters: map[string][]string{"until": {"24h"}}}
	if status != 200 || body != `{"CachesDeleted":["sha256:1","c"],"SpaceReclaimed":9}`+"\n" || !reflect.DeepEqual(a.builds.pruning, want) {
		t.Errorf("prune = %d %q with %+v, want %+v", status, body, a.builds.pruning, want)
	}
	a.ask("POST", "/build/prune?reserved-space=5&max-used-space=7&min-free-space=9", "")
	if want := (build.PruneOptions{Keep: 5, MaxUsed: 7, MinFree: 9, Filters: map[string][]string{}}); !reflect.DeepEqual(a.builds.pruning, want) {
		t.Errorf("prune with bounds asks for %+v, want %+v", a.builds.pruning, want)
	}
	for _, query := range []string{"keep-storage=x", "keep-storage=-1", "filters=x", "reserved-space=-1", "max-used-space=x", "min-free-space=-5"} {
		if status, _ := a.ask("POST", "/build/prune?"+query, ""); status != 400 {
			t.Errorf("prune ?%s = %d, want 400", query, status)
		}
	}
	a.builds.err = fault.Invalid("no such filter")
	if status, body := a.ask("POST", "/build/prune", ""); status != 400 || !strings.Contains(body, "no such filter") {
		t.Errorf("prune that fails = %d %q", status, body)
	}
}

func TestBuildCacheUsage(t *testing.T) {
	a := newAPI(t)
	if _, body := a.ask("GET", "/system/df", ""); !strings.Contains(body, `"BuildCache":[]`) {
		t.Errorf("df without a cache: %s", body)
	}
	at := time.Unix(1448064000, 0).UTC()
	a.builds.cache = []build.CacheRecord{
		{ID: "sha256:1", Parent: "sha256:0", Type: "regular", Description: "RUN x", InUse: true, Shared: true, Size: 5, Created: at, LastUsed: at, Used: 2},
		{ID: "c", Type: "exec.cachemount", Created: at},
	}
	_, body := a.ask("GET", "/v1.20/system/df", "")
	const want = `"BuildCache":[{"ID":"sha256:1","Parent":"sha256:0","Type":"regular","Description":"RUN x","InUse":true,"Shared":true,"Size":5,` +
		`"CreatedAt":"2015-11-21T00:00:00Z","LastUsedAt":"2015-11-21T00:00:00Z","UsageCount":2},` +
		`{"ID":"c","Type":"exec.cachemount","Description":"","InUse":false,"Shared":false,"Size":0,"CreatedAt":"2015-11-21T00:00:00Z","LastUsedAt":null,"UsageCount":0}]`
	if !strings.Contains(body, want) {
		t.Errorf("df: %s, want %s", body, want)
	}
	later := newAPI(t)
	later.builds.cache = slices.Concat(a.builds.cache, []build.CacheRecord{{ID: "sha256:2", Parent: "sha256:1", Type: "regular", Size: 7}})
	for path, want := range map[string][]string{
		"/v1.41/system/df": {`"BuilderSize":7`, `"Parent":"sha256:0"`}, "/v1.42/system/df": {`"Parents":["sha256:0"]`},
	} {
		_, body := later.ask("GET", path, "")
		for _, part := range want {
			if !strings.Contains(body, part) {
				t.Errorf("%s: %s, want %s", path, body, part)
			}
		}
		if both := strings.Contains(body, `"Parents"`) == strings.Contains(body, `"Parent"`); both {
			t.Errorf("%s: %s, want Parent or Parents", path, body)
		}
	}
}

// TestBuildCancel: builds have no ids, and there is no BuildKit.
func TestBuildCancel(t *testing.T) {
	a := newAPI(t)
	if status, body := a.ask("POST", "/build/cancel?id=x", ""); status != 404 || !strings.Contains(body, "No such build") {
		t.Errorf("cancel = %d %s", status, body)
	}
	for _, path := range []string{"/session", "/grpc", "/v1.18/grpc"} {
		if status, body := a.ask("POST", path, "", "Connection", "Upgrade", "Upgrade", "h2c"); status != 501 || !strings.Contains(body, "BuildKit is not there") {
			t.Errorf("%s = %d %s", path, status, body)
		}
	}
}
