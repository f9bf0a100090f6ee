package handler_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/image"
)

// encoded is a header's value as most clients write it.
func encoded(config string) string { return base64.URLEncoding.EncodeToString([]byte(config)) }

func TestPull(t *testing.T) {
	a := newAPI(t)
	for _, tc := range []struct{ query, want string }{
		{"fromImage=a&tag=t", "Repo:a Tag:t Platform:"},
		{"fromImage=a", "Repo:a Tag: Platform:"},
		{"fromImage=127.0.0.1:5000/a/b:t", "Repo:127.0.0.1:5000/a/b:t Tag: "},
		{"fromImage=a&tag=sha256:12", "Repo:a Tag:sha256:12 "},
		{"fromImage=a@sha256:12", "Repo:a@sha256:12 Tag: "},
		{"fromImage=a&tag=t&platform=linux/arm64/v8", "Platform:linux/arm64/v8"},
	} {
		for _, version := range []string{"/v1.18", ""} {
			status, body := a.ask("POST", version+"/images/create?"+tc.query, "")
			if status != 200 || body != `{"status":"Pulling from a","id":"b"}`+"\n" || !strings.Contains(a.images.said, tc.want) {
				t.Errorf("%s %s = %d %q with call %q, want %q", version, tc.query, status, body, a.images.said, tc.want)
			}
		}
	}
}

// TestTransferErrors has every verb with messages fail before and after the first of them.
func TestTransferErrors(t *testing.T) {
	for _, endpoint := range []string{
		"/images/create?fromImage=a", "/images/a/push", "/images/create?fromSrc=-", "/images/load?quiet=0",
	} {
		a := newAPI(t)
		auth := []string{"X-Registry-Auth", encoded("{}")}
		for _, tc := range []struct {
			err    error
			status int
		}{
			{fault.NotFound("no such"), 404},
			{fault.Invalid("no such"), 400},
			{fault.Unauthorized("no such"), 401},
			{errors.New("no such"), 500},
		} {
			a.images.err = tc.err
			newer, older, message := tc.status, tc.status, `{"message":"no such"}`
			if tc.status == 400 && strings.HasPrefix(endpoint, "/images/load") { // the documents list no 400
				newer, older, message = 200, 500, `{"errorDetail":{"message":"no such"},"error":"no such"}`
			}
			if status, body := a.ask("POST", endpoint, "", auth...); status != newer || body != message+"\n" {
				t.Errorf("%s failing at first = %d %q, want %d", endpoint, status, body, newer)
			}
			if status, body := a.ask("POST", "/v1.22"+endpoint, "", auth...); status != older || body != "no such\n" {
				t.Errorf("%s failing at first, 1.22 = %d %q, want %d", endpoint, status, body, older)
			}
		}
		a.images.err, a.images.late = nil, errors.New("line cut")
		status, body := a.ask("POST", endpoint, "", auth...)
		if first, last, _ := strings.Cut(body, "\n"); status != 200 || strings.Contains(first, "error") ||
			last != `{"errorDetail":{"message":"line cut"},"error":"line cut"}`+"\n" {
			t.Errorf("%s failing midway = %d %q", endpoint, status, body)
		}
	}
}

// TestCreateRefuses has parameters that do not go together.
func TestCreateRefuses(t *testing.T) {
	a := newAPI(t)
	for query, want := range map[string]string{
		"":                      "one of fromImage and fromSrc is needed",
		"fromImage=&fromSrc=":   "one of fromImage and fromSrc is needed",
		"fromImage=a&fromSrc=-": "fromImage and fromSrc exclude each other",
	} {
		if status, body := a.ask("POST", "/images/create?"+query, ""); status != 400 || !strings.Contains(body, want) || a.images.said != "" {
			t.Errorf("%s = %d %q with call %q, want 400 %q", query, status, body, a.images.said, want)
		}
	}
}

func TestRegistryAuth(t *testing.T) {
	a := newAPI(t)
	whole := `{"username":"u?>","password":"p~~","email":"e","serveraddress":"s"}`
	raw := []byte(whole)
	const said = "Auth:{Username:u?> Password:[hidden] IdentityToken: RegistryToken: ServerAddress:s}} p~~,,"
	const nobody = "Auth:{Username: Password: IdentityToken: RegistryToken: ServerAddress:}} ,,"
	for _, tc := range []struct{ name, version, header, want string }{
		{"for URLs, padded", "", base64.URLEncoding.EncodeToString(raw), said},
		{"for URLs, bare", "", base64.RawURLEncoding.EncodeToString(raw), said},
		{"standard, padded", "", base64.StdEncoding.EncodeToString(raw), said},
		{"standard, bare", "", base64.RawStdEncoding.EncodeToString(raw), said},
		{"1.18 with an email", "/v1.18", base64.URLEncoding.EncodeToString(raw), said},
		{"user and password as one", "", encoded(`{"auth":"` + base64.StdEncoding.EncodeToString([]byte("u:p:q")) + `"}`), "{Username:u Password:[hidden] IdentityToken: RegistryToken: ServerAddress:}} p:q,,"},
		{"identity token", "", encoded(`{"identitytoken":"i"}`), "IdentityToken:[hidden] RegistryToken: ServerAddress:}} ,i,"},
		{"identity token before 1.24", "/v1.22", encoded(`{"identitytoken":"i"}`), nobody},
		{"registry token", "", encoded(`{"registrytoken":"r"}`), "RegistryToken:[hidden] ServerAddress:}} ,,r"},
		{"nothing", "", "", nobody},
		{"an empty object", "", encoded("{}"), nobody},
		{"null", "", encoded("null"), nobody},
		{"no base64", "", "%%%", nobody},
		{"no JSON", "", encoded("user:password"), nobody},
		{"wrong type", "", encoded(`{"username":1}`), nobody},
	} {
		var header []string
		if tc.header != "" {
			header = []string{"X-Registry-Auth", tc.header}
		}
		if status, body := a.ask("POST", tc.version+"/images/create?fromImage=a", "", header...); status != 200 || !strings.HasSuffix(a.images.said, tc.want) {
			t.Errorf("%s: pull = %d %q with call %q, want %q", tc.name, status, body, a.images.said, tc.want)
		}
		if tc.header == "" {
			continue
		}
		if status, body := a.ask("POST", tc.version+"/images/a/push", "", header...); status != 200 || !strings.HasSuffix(a.images.said, tc.want) {
			t.Errorf("%s: push = %d %q with call %q, want %q", tc.name, status, body, a.images.said, tc.want)
		}
	}
}

func TestPush(t *testing.T) {
	a := newAPI(t)
	const done = `{"aux":{"Tag":"t","Digest":"sha256:1","Size":3}}` + "\n"
	status, body := a.ask("POST", "/images/127.0.0.1:5000/a/b/push?tag=t", "", "X-Registry-Auth", encoded("{}"))
	if status != 200 || body != done || !strings.HasPrefix(a.images.said, "{Repo:127.0.0.1:5000/a/b Tag:t ") {
		t.Errorf("push = %d %q with call %q", status, body, a.images.said)
	}
	for _, version := range []string{"/v1.18", "/v1.22", ""} {
		status, body = a.ask("POST", version+"/images/a:t/push", `{"username":"u","password":"p"}`)
		if status != 200 || body != done || !strings.HasPrefix(a.images.said, "{Repo:a:t Tag: ") || !strings.HasSuffix(a.images.said, " p,,") {
			t.Errorf("push with credentials as the body = %d %q with call %q", status, body, a.images.said)
		}
	}
	for _, body := range []string{"", "user", `"user"`} {
		a.images.said = ""
		status, answer := a.ask("POST", "/images/a/push", body)
		if status != 400 || !strings.Contains(answer, "Bad parameters and missing X-Registry-Auth") || a.images.said != "" {
			t.Errorf("push without credentials, body %q = %d %q", body, status, answer)
		}
	}
}

func TestLoad(t *testing.T) {
	a := newAPI(t)
	const layer = `{"status":"Loading layer","progressDetail":{"current":1,"total":2},"progress":"[=========================>                        ] 1 B/2 B","id":"0123456789ab"}` + "\n"
	const name = `{"stream":"Loaded image: a:b\n"}` + "\n"
	for _, tc := range []struct{ path, want string }{
		{"/images/load", layer + name},
		{"/images/load?quiet=0", layer + name},
		{"/images/load?quiet=1", name},
		{"/v1.23/images/load?quiet=true", name},
		{"/v1.22/images/load", ""},
		{"/v1.22/images/load?quiet=0", ""},
		{"/v1.18/images/load", ""},
	} {
		resp := a.open("POST", tc.path, "the archive", "Content-Type", "application/x-tar") //nolint:bodyclose // The cleanup of open does.
		raw, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK || string(raw) != tc.want || a.images.body != "the archive" {
			t.Errorf("%s = %d %q, %v, with %q sent, want %q", tc.path, resp.StatusCode, raw, err, a.images.body, tc.want)
		}
		if got := resp.Header.Get("Content-Type"); tc.want != "" && got != "application/json" {
			t.Errorf("%s: Content-Type %q, want application/json", tc.path, got)
		}
	}
	const arm = `{"os":"linux","architecture":"arm","variant":"v7"}`
	if a.ask("POST", "/images/load?platform="+url.QueryEscape(arm), "x"); a.images.opt.Platform != "linux/arm/v7" {
		t.Errorf("load for a platform asks for %+v", a.images.opt)
	}
	if status, body := a.ask("POST", "/images/load?platform="+url.QueryEscape(`{"os":"linux/amd64"}`), "x"); status != 400 {
		t.Errorf("load for a platform with a slash = %d %q", status, body)
	}
	for _, path := range []string{"/images/load", "/images/box/push"} {
		status, body := a.ask("POST", path+"?platform="+url.QueryEscape(arm)+"&platform="+url.QueryEscape(arm), "{}")
		if status != 400 || !strings.Contains(body, "there are 2 of them, want one") {
			t.Errorf("%s for two platforms = %d %q", path, status, body)
		}
	}
	if status, body := a.ask("POST", "/images/load?platform=linux", "x"); status != 400 || !strings.Contains(body, "invalid value for platform") {
		t.Errorf("load for a platform that is none = %d %q", status, body)
	}
	a.images.late = errors.New("bad layer")
	if status, body := a.ask("POST", "/v1.22/images/load", "x"); status != 500 || body != "bad layer\n" {
		t.Errorf("load at 1.22 failing midway = %d %q, want 500: there is no stream", status, body)
	}
}

// TestArchiveThatEndsEarly: a client that ends its side in the middle of an archive is told that this was wrong.
func TestArchiveThatEndsEarly(t *testing.T) {
	a := newAPI(t)
	for request, want := range map[string]int{"POST /v1.22/images/load HTTP/1.1": 500, "POST /images/load HTTP/1.1": 200} {
		c := a.dial()
		if _, err := io.WriteString(c, request+"\r\nHost: moss\r\nContent-Length: 100\r\n\r\nhalf"); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%s: %v", request, err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close() //nolint:errcheck // It was read.
		if err != nil || resp.StatusCode != want || !strings.Contains(string(body), "the body cannot be read: unexpected EOF") {
			t.Errorf("%s = %d %q, %v, want %d and the reason", request, resp.StatusCode, body, err, want)
		}
	}
}

func TestLogin(t *testing.T) {
	a := newAPI(t)
	a.images.login = image.Login{Status: "Login Succeeded", IdentityToken: "token"}
	const body = `{"username":"u","password":"p","email":"e","serveraddress":"s"}`
	for version, want := range map[string]string{
		"": `{"Status":"Login Succeeded","IdentityToken":"token"}`, "/v1.22": `{"Status":"Login Succeeded"}`, "/v1.18": `{"Status":"Login Succeeded"}`,
	} {
		status, answer := a.ask("POST", version+"/auth", body)
		if status != 200 || answer != want+"\n" || a.images.said != "{Username:u Password:[hidden] IdentityToken: RegistryToken: ServerAddress:s} p,," {
			t.Errorf("%s auth = %d %q with call %q, want %q", version, status, answer, a.images.said, want)
		}
	}
	a.images.err = fault.Unauthorized("unauthorized: incorrect username or password")
	if status, answer := a.ask("POST", "/auth", body); status != 401 || answer != `{"message":"unauthorized: incorrect username or password"}`+"\n" {
		t.Errorf("auth refused = %d %q", status, answer)
	}
	if status, answer := a.ask("POST", "/v1.22/auth", body); status != 401 || answer != "unauthorized: incorrect username or password\n" {
		t.Errorf("auth refused at 1.22 = %d %q", status, answer)
	}
	for _, wrong := range []string{"", "{", `{"username":1}`} {
		if status, _ := a.ask("POST", "/auth", wrong); status != 400 {
			t.Errorf("auth with body %q = %d, want 400", wrong, status)
		}
	}
}

// TestTransferHangUp has clients leave while a verb works for them.
func TestTransferHangUp(t *testing.T) {
	for _, tc := range []struct{ name, request string }{
		{"pull", "POST /images/create?fromImage=a HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"pull with a body", "POST /images/create?fromImage=a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"},
		{"push", "POST /images/a/push HTTP/1.1\r\nHost: x\r\nX-Registry-Auth: e30=\r\nContent-Length: 0\r\n\r\n"},
		{"push with credentials as the body", "POST /images/a/push HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n{}\n"},
		{"push with both", "POST /images/a/push HTTP/1.1\r\nHost: x\r\nX-Registry-Auth: e30=\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"},
		{"import from a URL", "POST /images/create?fromSrc=http://example.test/ HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"},
	} {
		for _, first := range []bool{true, false} {
			a := newAPI(t)
			ended, begun := make(chan error, 1), make(chan struct{})
			a.images.work = func(ctx context.Context, progress func(image.Progress)) error {
				if first {
					progress(image.Progress{Status: "Working"})
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
				t.Errorf("%s: the work ended with %v, want context.Canceled", tc.name, err)
			}
		}
	}
}

// TestSlowClient has a client that takes no message: the work goes on all the same, and others are served.
func TestSlowClient(t *testing.T) {
	a := newAPI(t)
	ended := make(chan struct{})
	a.images.work = func(_ context.Context, progress func(image.Progress)) error {
		for i := range int64(200_000) { // more than any socket holds
			progress(image.Progress{ID: "layer", Status: "Downloading", Current: i, Total: 200_000})
		}
		progress(image.Progress{Status: "done"})
		close(ended)
		return nil
	}
	c := a.dial()
	if _, err := io.WriteString(c, "POST /images/create?fromImage=a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-ended
	raw, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(raw), `{"status":"done"}`) || !strings.Contains(string(raw), `"current":199999`) {
		t.Errorf("%d bytes came without the last messages", len(raw))
	}
}
