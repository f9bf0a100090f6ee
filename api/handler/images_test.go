package handler_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/image"
)

func TestImages(t *testing.T) {
	a := newAPI(t)
	a.images.found = &image.Image{ID: "sha256:1", RepoTags: []string{"a/b:t"}, Created: time.Unix(5, 0)}
	for _, tc := range []struct {
		method, path, said, want string
		status                   int
	}{
		{"GET", "/images/json", "{All:false Name: Filters:map[]}", `"RepoTags":["a/b:t"],"RepoDigests":[]`, 200},
		{"GET", "/v1.21/images/json", "{All:false Name: Filters:map[]}", `"RepoDigests":null`, 200},
		{"GET", "/v1.21/images/json?digests=1", "{All:false Name: Filters:map[]}", `"RepoDigests":[]`, 200},
		{"GET", "/v1.40/images/json?all=1&filter=a&filters=%7B%22dangling%22%3A%5B%22true%22%5D%7D", "{All:true Name:a Filters:map[dangling:[true]]}", `"Id":"sha256:1"`, 200},
		{"GET", "/images/127.0.0.1:5000/a/b:t/json", "127.0.0.1:5000/a/b:t", `"GraphDriver":{"Name":"overlay"`, 200},
		{"DELETE", "/images/a/b:t?force=1&noprune=1", "a/b:t {Force:true NoPrune:true}", `[{"Untagged":"a/b:t"},{"Deleted":"sha256:1"}]`, 200},
		{"GET", "/images/json?filters=x", "", "want a JSON map", 400},
	} {
		a.images.said = ""
		status, body := a.ask(tc.method, tc.path, "")
		if status != tc.status || a.images.said != tc.said || !strings.Contains(body, tc.want) {
			t.Errorf("%s %s = %d %q with call %q, want %d, %q, %q", tc.method, tc.path, status, body, a.images.said, tc.status, tc.want, tc.said)
		}
	}
	a.images.found, a.images.err = nil, fault.NotFound("No such image: x")
	for _, endpoint := range []string{"GET /images/x/json", "DELETE /images/x"} {
		method, path, _ := strings.Cut(endpoint, " ")
		if status, body := a.ask(method, path, ""); status != 404 {
			t.Errorf("%s of no image = %d %q, want 404", endpoint, status, body)
		}
	}
	a.images.err = nil
	if _, body := a.ask("GET", "/images/json", ""); body != "[]\n" {
		t.Errorf("no images = %q, want []", body)
	}
}

func TestImport(t *testing.T) {
	a := newAPI(t)
	status, body := a.ask("POST", "/images/create?fromSrc=-&repo=a/b&tag=t&message=m&changes=CMD+x&changes=ENV+a=b&platform=linux/arm64", "the archive")
	want := `{"status":"Importing","progressDetail":{"current":1,"total":2},"progress":"[=========================>                        ] 1 B/2 B"}
{"status":"sha256:9f86"}
`
	if status != 200 || body != want {
		t.Errorf("import = %d %q, want %q", status, body, want)
	}
	if a.images.body != "the archive" || a.images.said != "{Source: Repo:a/b Tag:t Message:m Changes:[CMD x ENV a=b] Platform:linux/arm64}" {
		t.Errorf("import got %q, %q", a.images.body, a.images.said)
	}
	a.images.late = errors.New("disk full")
	status, body = a.ask("POST", "/images/create?fromSrc=-", "x")
	if status != 200 || !strings.HasSuffix(body, "\n"+`{"errorDetail":{"message":"disk full"},"error":"disk full"}`+"\n") {
		t.Errorf("a failure midway = %d %q", status, body)
	}
	a.images.err = fault.Invalid("not an archive")
	if status, body = a.ask("POST", "/images/create?fromSrc=-", "x"); status != 400 || !strings.Contains(body, "not an archive") {
		t.Errorf("a failure before the first message = %d %q, want 400", status, body)
	}
	if status, body := a.ask("POST", "/images/create", ""); status != 400 || !strings.Contains(body, "fromImage") {
		t.Errorf("create of nothing = %d %q, want 400", status, body)
	}
}

func TestImportFromURL(t *testing.T) {
	a := newAPI(t)
	status, body := a.ask("POST", "/images/create?fromSrc=http://example.test/a.tar&repo=a", "not the archive")
	if status != 200 || !strings.HasSuffix(body, `{"status":"sha256:9f86"}`+"\n") {
		t.Errorf("import = %d %q", status, body)
	}
	if a.images.body != "" || a.images.said != "{Source:http://example.test/a.tar Repo:a Tag: Message: Changes:[] Platform:}" {
		t.Errorf("import got %q, %q", a.images.body, a.images.said)
	}
}

// TestImportWhileSending has the first message come while the archive is still being sent.
func TestImportWhileSending(t *testing.T) {
	a := newAPI(t)
	c := a.dial()
	if _, err := io.WriteString(c, "POST /images/create?fromSrc=- HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("head = %v, %v, want 200 before the archive's end", resp, err)
	}
	defer resp.Body.Close() //nolint:errcheck // It is read below.
	messages := bufio.NewReader(resp.Body)
	if line, err := messages.ReadString('\n'); err != nil || !strings.Contains(line, "Importing") {
		t.Fatalf("first message = %q, %v", line, err)
	}
	big := strings.Repeat("x", 1<<20)
	if _, err := io.WriteString(c, "100000\r\n"+big+"\r\n0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := messages.ReadString('\n'); err != nil || !strings.Contains(line, "sha256:9f86") {
		t.Fatalf("last message = %q, %v", line, err)
	}
	if len(a.images.body) != 3+1<<20 {
		t.Errorf("import got %d bytes, want %d", len(a.images.body), 3+1<<20)
	}
}

// TestImportRefused has the engine refuse an archive at its beginning: the client can send the rest and gets the error.
func TestImportRefused(t *testing.T) {
	a := newAPI(t)
	a.images.err = fault.Invalid("not an archive")
	for range 2 {
		if status, body := a.ask("POST", "/images/create?fromSrc=-", strings.Repeat("x", 8<<20)); status != 400 || !strings.Contains(body, "not an archive") {
			t.Fatalf("import = %d %q, want 400", status, body)
		}
	}
}

// TestImagePlatforms: an image is for one platform, and another one is none that is there.
func TestImagePlatforms(t *testing.T) {
	a := newAPI(t)
	a.images.found = &image.Image{ID: "sha256:1"}
	for path, name := range map[string]string{
		"GET /images/box/json": "platform", "GET /images/box/history": "platform", "GET /images/box/get": "platform",
		"GET /images/get?names=box": "platform", "POST /images/box/push": "platform", "DELETE /images/box": "platforms",
	} {
		method, path, _ := strings.Cut(path, " ")
		join := "?"
		if strings.Contains(path, "?") {
			join = "&"
		}
		for value, want := range map[string]int{
			`{"os":"linux","architecture":"amd64"}`: 200, `{"os":"linux","architecture":"arm64","variant":"v8"}`: 404,
			`{"architecture":"amd64"}`: 400, `{"os":"linux"}`: 400, `linux`: 400, `{"os":"../x"}`: 400, `{"os":"linux/amd64"}`: 400, `{"os":"linux","architecture":"a b"}`: 400,
			`{`: 400, `[]`: 400, `null`: 400, `{"os":5}`: 400, `{"os":"linux"} x`: 400, `{"os":"` + strings.Repeat("x", 2000) + `"}`: 400,
		} {
			if status, body := a.ask(method, path+join+name+"="+url.QueryEscape(value), "{}"); status != want {
				t.Errorf("%s %s with %s=%s = %d %s, want %d", method, path, name, value, status, body, want)
			}
		}
	}
}

// TestLaterImages: sizes that are shared, users and the time of an image, as each version has them.
func TestLaterImages(t *testing.T) {
	a := newAPI(t)
	a.images.found = &image.Image{ID: "sha256:1", Size: 20, RepoTags: []string{"a:b"}, Created: time.Unix(1448064000, 0), Undated: true}
	for path, want := range map[string]string{
		"/v1.25/images/json":               `"SharedSize":-1,"Containers":-1`,
		"/v1.41/images/json?shared-size=1": `"SharedSize":-1,"Containers":-1`,
		"/v1.42/images/json?shared-size=1": `"SharedSize":5,"Containers":-1`,
		"/v1.51/images/json":               `"SharedSize":-1,"Containers":3`,
		"/v1.43/images/a/json":             `"Created":"2015-11-21T00:00:00Z"`,
		"/v1.45/images/a/json":             `"Comment":"","DockerVersion"`,
		"/v1.49/images/a/json":             `"Config":{"Hostname":""`,
		"/v1.50/images/a/json":             `"Config":{"User":"","Env"`,
	} {
		if status, body := a.ask("GET", path, ""); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s = %d %s, want %s", path, status, body, want)
		}
	}
	a.images.found.ID = "sha256:2" // serves others, and is not counted
	if _, body := a.ask("GET", "/v1.42/images/json?all=1&shared-size=1", ""); !strings.Contains(body, `"SharedSize":20`) {
		t.Errorf("of a parent: %s", body)
	}
	query := "?manifests=1&platform=" + url.QueryEscape(`{"os":"linux","architecture":"amd64"}`)
	if status, body := a.ask("GET", "/v1.49/images/a/json"+query, ""); status != 400 || !strings.Contains(body, "cannot both be set") {
		t.Errorf("manifests of a platform = %d %s", status, body)
	}
}

// TestAPlatformWithoutAValueIsNone: clients send the parameter so where they have nothing to say.
func TestAPlatformWithoutAValueIsNone(t *testing.T) {
	a := newAPI(t)
	a.images.found = &image.Image{ID: "sha256:1"}
	for _, call := range []string{
		"GET /v1.51/images/a/json?manifests=1&platform=", "GET /images/a/history?platform=", "GET /images/a/get?platform=",
		"GET /images/get?names=a&platform=", "POST /images/load?platform=", "POST /images/a/push?platform=",
	} {
		method, path, _ := strings.Cut(call, " ")
		if status, body := a.ask(method, path, "{}"); status != 200 {
			t.Errorf("%s = %d %s", call, status, body)
		}
	}
	if status, body := a.ask("DELETE", "/images/a?platforms=", ""); status != 400 {
		t.Errorf("removal of a platform without a value = %d %s, want 400: it would be the whole image", status, body)
	}
}

func TestDistribution(t *testing.T) {
	a := newAPI(t)
	for path, want := range map[string]string{
		"/v1.39/distribution/a/b:t/json": `{"Descriptor":{"MediaType":"m","Digest":"sha256:1","Size":5},"Platforms":[{"Architecture":"arm","OS":"linux","Variant":"v7","OSVersion":"10","OSFeatures":["f"]}]}`,
		"/v1.40/distribution/a/b:t/json": `{"Descriptor":{"mediaType":"m","digest":"sha256:1","size":5},"Platforms":[{"architecture":"arm","os":"linux","variant":"v7","os.version":"10","os.features":["f"]}]}`,
	} {
		if status, body := a.ask("GET", path, ""); status != 200 || strings.TrimSpace(body) != want || !strings.HasPrefix(a.images.said, "a/b:t") {
			t.Errorf("%s = %d %s for %q, want %s", path, status, body, a.images.said, want)
		}
	}
	a.images.err = fault.NotFound("no such manifest")
	if status, _ := a.ask("GET", "/v1.40/distribution/a/b:t/json", ""); status != 404 {
		t.Errorf("of none: %d, want 404", status)
	}
}
