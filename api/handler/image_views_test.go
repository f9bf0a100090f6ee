package handler_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/image"
)

func TestImageHistory(t *testing.T) {
	a := newAPI(t)
	for _, tc := range []struct{ path, want string }{
		{"/images/127.0.0.1:5000/a/b:t/history", `[{"Id":"sha256:2","Created":1448064000,"CreatedBy":"CMD x","Tags":["a:b"],"Size":5,"Comment":"c"},` +
			`{"Id":"\u003cmissing>`},
		{"/v1.22/images/127.0.0.1:5000/a/b:t/history", `[{"Id":"sha256:2","Created":1448064000,"CreatedBy":"CMD x"},`},
	} {
		want := strings.ReplaceAll(tc.want, `\u003c`, "<")
		if status, body := a.ask("GET", tc.path, ""); status != 200 || !strings.HasPrefix(body, want) || a.images.said != "history 127.0.0.1:5000/a/b:t" {
			t.Errorf("%s = %d %q with call %q, want %q", tc.path, status, body, a.images.said, want)
		}
	}
	a.images.err = fault.NotFound("No such image: x")
	if status, _ := a.ask("GET", "/images/x/history", ""); status != 404 {
		t.Errorf("history of no image = %d, want 404", status)
	}
}

func TestImageTag(t *testing.T) {
	a := newAPI(t)
	a.images.ref, a.images.found = "img", &image.Image{ID: "sha256:1"}
	for _, tc := range []struct {
		name, path string
		holder     string // of the new name; empty: nobody
		status     int
		want       string
	}{
		{"1.24 moves a name", "/images/img/tag?repo=a&tag=b", "sha256:2", 201, "tag img a b"},
		{"1.22 moves a name", "/v1.22/images/img/tag?repo=a&tag=b", "sha256:2", 201, "tag img a b"},
		{"1.21 leaves it where it is", "/v1.21/images/img/tag?repo=a&tag=b", "sha256:2", 409, "Conflict: Tag a:b is already set to image sha256:2"},
		{"1.18 leaves it where it is", "/v1.18/images/img/tag?repo=a&tag=b&force=0", "sha256:2", 409, "please use -f option"},
		{"1.21 moves it by force", "/v1.21/images/img/tag?repo=a&tag=b&force=1", "sha256:2", 201, "tag img a b"},
		{"1.21 with its own name", "/v1.21/images/img/tag?repo=a&tag=b", "sha256:1", 201, "tag img a b"},
		{"1.21 with no name", "/v1.21/images/img/tag", "", 400, "invalid reference format"},
	} {
		a.images.said, a.images.other = "", nil
		if tc.holder != "" {
			a.images.other = &image.Image{ID: tc.holder}
		}
		status, body := a.ask("POST", tc.path, "")
		if status != tc.status || !strings.Contains(body+a.images.said, tc.want) || status == 201 && body != "" {
			t.Errorf("%s: %d %q with call %q, want %d %q", tc.name, status, body, a.images.said, tc.status, tc.want)
		}
	}
	a.images.other, a.images.err = nil, fault.NotFound("No such image: img")
	for _, version := range []string{"/v1.21", ""} {
		if status, _ := a.ask("POST", version+"/images/img/tag?repo=a", ""); status != 404 {
			t.Errorf("%s tag of no image = %d, want 404", version, status)
		}
	}
}

func TestImageSearch(t *testing.T) {
	a := newAPI(t)
	const found = `[{"name":"a/b","description":"d","is_official":true,"is_automated":false,"star_count":3}]`
	for _, tc := range []struct {
		path   string
		status int
		want   string
	}{
		{"/images/search?term=a", 200, "Limit:25 Filters:map[]"},
		{"/images/search?term=a&limit=7", 200, "Limit:7"},
		{"/images/search?term=a&limit=100", 200, "Limit:100"},
		{"/images/search?term=a&limit=0", 400, "Limit 0 is outside the range of [1, 100]"},
		{"/images/search?term=a&limit=101", 400, "outside the range"},
		{"/images/search?term=a&limit=x", 400, "want an integer"},
		{`/images/search?term=a&filters={"stars":["3"]}`, 200, "Filters:map[stars:[3]]"},
		{"/images/search?term=a&filters=x", 400, "invalid value for filters"},
		{`/v1.22/images/search?term=a&limit=7&filters={"stars":["3"]}`, 200, "Limit:25 Filters:map[]"},
		{"/images/search", 400, "term"},
		{"/v1.18/images/search?term=", 400, "term"},
	} {
		a.images.said = ""
		status, body := a.ask("GET", strings.NewReplacer("{", "%7B", "}", "%7D", `"`, "%22").Replace(tc.path), "")
		if status != tc.status || !strings.Contains(body+a.images.said, tc.want) || status == 200 && body != found+"\n" {
			t.Errorf("%s = %d %q with call %q, want %d %q", tc.path, status, body, a.images.said, tc.status, tc.want)
		}
	}
	later := newAPI(t)
	for version, want := range map[string]string{"1.44": `"is_automated":true`, "1.45": `"is_automated":false`} {
		later.images.automated = true
		if _, body := later.ask("GET", "/v"+version+"/images/search?term=a", ""); !strings.Contains(body, want) {
			t.Errorf("search at %s: %s, want %s", version, body, want)
		}
	}
	if _, _ = a.ask("GET", "/images/search?term=a", "", "X-Registry-Auth", encoded(`{"username":"u","password":"p"}`)); !strings.Contains(a.images.said, "Username:u Password:[hidden]") {
		t.Errorf("search with credentials: call %q", a.images.said)
	}
}

func TestImageSave(t *testing.T) {
	a := newAPI(t)
	for _, tc := range []struct {
		path, said, want string
		status           int
	}{
		{"/images/127.0.0.1:5000/a/b:t/get", `save ["127.0.0.1:5000/a/b:t"]`, "an archive", 200},
		{"/v1.18/images/a@sha256:12/get", `save ["a@sha256:12"]`, "an archive", 200},
		{"/images/get?names=a/b:t&names=c", `save ["a/b:t" "c"]`, "an archive", 200},
		{"/v1.18/images/get?names=a", `save ["a"]`, "an archive", 200},
		{"/images/get", "", "names", 400},
	} {
		a.images.said = ""
		resp := a.open("GET", tc.path, "") //nolint:bodyclose // The cleanup of open does.
		raw, err := io.ReadAll(resp.Body)
		if resp.StatusCode != tc.status || err != nil || a.images.said != tc.said || !strings.Contains(string(raw), tc.want) {
			t.Errorf("%s = %d %q, %v with call %q, want %d %q %q", tc.path, resp.StatusCode, raw, err, a.images.said, tc.status, tc.want, tc.said)
		}
		if got := resp.Header.Get("Content-Type"); tc.status == 200 && got != "application/x-tar" {
			t.Errorf("%s: Content-Type %q", tc.path, got)
		}
	}
	a.images.late = errors.New("disk broken")
	resp := a.open("GET", "/images/a/get", "") //nolint:bodyclose // The cleanup of open does.
	if raw, err := io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.HasPrefix(string(raw), "an archive") {
		t.Errorf("a failure midway = %d bytes, %v, want a broken answer", len(raw), err)
	}
	a.images.err = fault.NotFound("No such image: a")
	if status, body := a.ask("GET", "/images/a/get", ""); status != 404 || !strings.Contains(body, "No such image: a") {
		t.Errorf("save of no image = %d %q, want 404", status, body)
	}
}

func TestPruneAndUsage(t *testing.T) {
	a := newAPI(t)
	a.containers.record.Created = time.Unix(1448064000, 0)
	const filters = "?filters=%7B%22label%22%3A%5B%22a%22%5D%7D"
	for _, tc := range []struct{ method, path, want string }{
		{"POST", "/images/prune" + filters, `{"ImagesDeleted":[{"Untagged":"a:b"},{"Deleted":"sha256:1"}],"SpaceReclaimed":9}`},
		{"POST", "/v1.18/volumes/prune" + filters, `{"VolumesDeleted":["data"],"SpaceReclaimed":8}`},
		{"POST", "/v1.18/containers/prune" + filters, `{"ContainersDeleted":["4fa6"],"SpaceReclaimed":7}`},
	} {
		if status, body := a.ask(tc.method, tc.path, ""); status != 200 || body != tc.want+"\n" {
			t.Errorf("%s = %d %q, want %q", tc.path, status, body, tc.want)
		}
		if status, _ := a.ask(tc.method, strings.Split(tc.path, "?")[0]+"?filters=x", ""); status != 400 {
			t.Errorf("%s with bad filters = %d, want 400", tc.path, status)
		}
	}
	const want = "prune map[label:[a]]"
	if a.images.said != want || a.volumes.said != want || !strings.Contains(a.containers.said(), want) {
		t.Errorf("calls %q, %q, want %q", a.images.said, a.volumes.said, want)
	}
	status, body := a.ask("GET", "/system/df", "")
	if status != 200 || field(t, body, "LayersSize") != 30.0 || field(t, body, "LayersUsed") != 20.0 {
		t.Fatalf("df = %d %q", status, body)
	}
	for _, part := range []string{
		`"SharedSize":5,"UniqueSize":15,"Containers":2}`, `"UsageData":{"Size":11,"RefCount":2}`, `"SizeRw":10,"SizeRootFs":20`,
		`"Id":"sha256:1"`, `"Name":"data"`, `"Names":["/web"]`,
	} {
		if !strings.Contains(body, part) {
			t.Errorf("df has no %s: %s", part, body)
		}
	}
	a.images.err = errors.New("broken")
	for _, endpoint := range []string{"POST /images/prune", "GET /system/df"} {
		method, path, _ := strings.Cut(endpoint, " ")
		if status, _ := a.ask(method, path, ""); status != 500 {
			t.Errorf("%s of a broken store = %d, want 500", endpoint, status)
		}
	}
}

// TestImageErrors has every endpoint that answers at once meet each kind of error, in the forms of two versions.
func TestImageErrors(t *testing.T) {
	a := newAPI(t)
	for _, endpoint := range []string{
		"GET /images/json", "GET /images/x/json", "GET /images/x/history", "POST /images/x/tag?repo=a&force=1", "DELETE /images/x",
		"GET /images/search?term=x", "GET /images/x/get", "GET /images/get?names=x", "POST /images/prune",
	} {
		method, path, _ := strings.Cut(endpoint, " ")
		for _, tc := range []struct {
			err    error
			status int
		}{
			{fault.NotFound("why"), 404},
			{fault.Invalid("why"), 400},
			{fault.Conflict("why"), 409},
			{fault.Unauthorized("why"), 401},
			{errors.New("why"), 500},
		} {
			a.images.err = tc.err
			if status, body := a.ask(method, path, ""); status != tc.status || body != `{"message":"why"}`+"\n" {
				t.Errorf("%s with %v = %d %q, want %d", endpoint, tc.err, status, body, tc.status)
			}
			if status, body := a.ask(method, "/v1.18"+path, ""); status != tc.status || body != "why\n" {
				t.Errorf("%s at 1.18 with %v = %d %q, want %d", endpoint, tc.err, status, body, tc.status)
			}
		}
	}
}
