package handler_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/volume"
)

// volumes is a fake that records the last call.
type volumes struct {
	said string
	err  error
	rest error // of a prune that has removed something
}

func (f *volumes) one() *volume.Volume {
	return &volume.Volume{
		Name: "data", Driver: "local", Mountpoint: "/v/data/_data", Labels: map[string]string{"a": "1"},
		Options: map[string]string{"type": "tmpfs"}, CreatedAt: time.Unix(1448064000, 0),
	}
}

func (f *volumes) List(filters map[string][]string) ([]*volume.Volume, error) {
	f.said = fmt.Sprintf("list %v", filters)
	return []*volume.Volume{f.one()}, f.err
}

func (f *volumes) Create(_ context.Context, opt volume.CreateOptions) (*volume.Volume, error) {
	f.said = fmt.Sprintf("create %+v", opt)
	return f.one(), f.err
}

func (f *volumes) Usage(context.Context) ([]volume.Usage, error) {
	return []volume.Usage{{Volume: f.one(), Size: 11, Users: 2}}, f.err
}

func (f *volumes) Prune(_ context.Context, filters map[string][]string) ([]string, int64, error) {
	f.said = fmt.Sprintf("prune %v", filters)
	if f.err != nil {
		return nil, 0, f.err
	}
	return []string{"data"}, 8, f.rest
}

func (f *volumes) Get(name string) (*volume.Volume, error) {
	f.said = "get " + name
	return f.one(), f.err
}

func (f *volumes) Remove(_ context.Context, name string) error {
	f.said = "remove " + name
	return f.err
}

func TestVolumes(t *testing.T) {
	const (
		whole = `{"Name":"data","Driver":"local","Mountpoint":"/v/data/_data","Status":{"type":"tmpfs"},"Labels":{"a":"1"},"Scope":"local"}`
		short = `{"Name":"data","Driver":"local","Mountpoint":"/v/data/_data"}`
	)
	for _, tc := range []struct {
		method, path, body string
		status             int
		said, answer       string
	}{
		{http.MethodGet, "/v1.24/volumes", "", 200, "list map[]", `{"Volumes":[` + whole + `],"Warnings":[]}`},
		{http.MethodGet, "/v1.22/volumes", "", 200, "list map[]", `{"Volumes":[` + short + `],"Warnings":[]}`},
		{http.MethodGet, "/v1.21/volumes", "", 200, "list map[]", `{"Volumes":[` + short + `]}`},
		{http.MethodGet, `/v1.24/volumes?filters=%7B%22name%22%3A%5B%22x%22%5D%7D`, "", 200, "list map[name:[x]]", ""},
		{http.MethodGet, `/v1.23/volumes?filters=%7B%22dangling%22%3A%7B%22true%22%3Atrue%7D%7D`, "", 200, "list map[dangling:[true]]", ""},
		{http.MethodGet, `/v1.23/volumes?filters=%7B%22name%22%3A%5B%22x%22%5D%7D`, "", 500, "", "Invalid filter 'name' at version 1.23: it is there from 1.24 on\n"},
		{http.MethodGet, "/v1.24/volumes?filters=x", "", 500, "", ""},
		{http.MethodGet, "/v1.20/volumes", "", 404, "", ""},
		{
			http.MethodPost, "/v1.24/volumes/create", `{"Name":"data","Driver":"local","DriverOpts":{"o":"x"},"Labels":{"a":"1"}}`, 201,
			"create {Name:data Driver:local Options:map[o:x] Labels:map[a:1] Anonymous:false}", whole,
		},
		{http.MethodPost, "/v1.23/volumes/create", `{"Name":"data","Labels":{"a":"1"}}`, 201, "create {Name:data Driver: Options:map[] Labels:map[] Anonymous:false}", short},
		{http.MethodPost, "/v1.24/volumes/create", "", 201, "create {Name: Driver: Options:map[] Labels:map[] Anonymous:false}", whole},
		{http.MethodPost, "/v1.24/volumes/create", `{"Name":[]}`, 500, "", ""},
		{http.MethodPost, "/v1.20/volumes/create", `{}`, 404, "", ""},
		{http.MethodGet, "/v1.24/volumes/data", "", 200, "get data", whole},
		{http.MethodGet, "/v1.20/volumes/data", "", 404, "", ""},
		{http.MethodDelete, "/v1.24/volumes/data", "", 204, "remove data", ""},
		{http.MethodDelete, "/v1.20/volumes/data", "", 404, "", ""},
	} {
		a := newAPI(t)
		status, answer := a.ask(tc.method, tc.path, tc.body)
		if status != tc.status || a.volumes.said != tc.said || tc.answer != "" && strings.TrimSpace(answer) != strings.TrimSpace(tc.answer) {
			t.Errorf("%s %s: %d %s, asked for %q; want %d %s, %q", tc.method, tc.path, status, answer, a.volumes.said, tc.status, tc.answer, tc.said)
		}
	}
}

func TestVolumeErrors(t *testing.T) {
	a := newAPI(t)
	for _, tc := range []struct {
		err    error
		status int
	}{
		{fault.Conflict("remove data: volume is in use - [c]"), 409},
		{volume.NoSuch("data"), 404},
		{fault.Internal("broken"), 500},
	} {
		a.volumes.err = tc.err
		for _, call := range [][3]string{
			{http.MethodGet, "/v1.24/volumes"},
			{http.MethodPost, "/v1.24/volumes/create", "{}"},
			{http.MethodGet, "/v1.24/volumes/data"},
			{http.MethodDelete, "/v1.24/volumes/data"},
			{http.MethodDelete, "/v1.24/volumes/data?force=0"},
		} {
			status, answer := a.ask(call[0], call[1], call[2])
			if status != tc.status || field(t, answer, "message") != tc.err.Error() {
				t.Errorf("%s %s: %d %s, want %d", call[0], call[1], status, answer, tc.status)
			}
		}
		want := tc.status
		if want == 404 { // force is for what is gone, not for what is in use
			want = 204
		}
		if status, answer := a.ask(http.MethodDelete, "/v1.24/volumes/data?force=1", ""); status != want {
			t.Errorf("DELETE with force: %d %s, want %d", status, answer, want)
		}
	}
}

// TestClusterVolume: a volume is that of one machine.
func TestClusterVolume(t *testing.T) {
	a := newAPI(t)
	if status, body := a.ask("PUT", "/volumes/data?version=1", "{}"); status != 501 || !strings.Contains(body, "cluster volumes are not there") {
		t.Errorf("update of a volume = %d %s", status, body)
	}
}

// TestVolumesPruneByVersion: from 1.42 on only volumes that nobody named go, unless the filter all says otherwise.
func TestVolumesPruneByVersion(t *testing.T) {
	a := newAPI(t)
	for path, want := range map[string]string{
		"/v1.41/volumes/prune": "prune map[]",
		"/v1.42/volumes/prune": "prune map[label:[com.docker.volume.anonymous]]",
		"/v1.42/volumes/prune?filters=" + url.QueryEscape(`{"label":["a"]}`):  "prune map[label:[a com.docker.volume.anonymous]]",
		"/v1.42/volumes/prune?filters=" + url.QueryEscape(`{"all":["true"]}`): "prune map[]",
		"/v1.42/volumes/prune?filters=" + url.QueryEscape(`{"all":["0"]}`):    "prune map[label:[com.docker.volume.anonymous]]",
	} {
		if status, body := a.ask("POST", path, ""); status != 200 || a.volumes.said != want {
			t.Errorf("%s = %d %s with %q, want %q", path, status, body, a.volumes.said, want)
		}
	}
	a.volumes.rest = errors.New("a disk does not answer")
	if status, body := a.ask("POST", "/v1.42/volumes/prune", ""); status != 200 || !strings.Contains(body, `"VolumesDeleted":["data"]`) {
		t.Errorf("a prune that went on after an error = %d %s, want 200 and what went", status, body)
	}
	a.volumes.err = errors.New("a disk does not answer")
	if status, _ := a.ask("POST", "/v1.42/volumes/prune", ""); status != 500 {
		t.Errorf("a prune that removed nothing = %d, want 500", status)
	}
	a.volumes.err = nil
	for _, wrong := range []string{"/v1.42/volumes/prune?filters=" + url.QueryEscape(`{"all":["perhaps"]}`), "/v1.41/volumes/prune?filters=" + url.QueryEscape(`{"all":["1"]}`)} {
		if status, _ := a.ask("POST", wrong, ""); status != 400 {
			t.Errorf("%s: %d, want 400", wrong, status)
		}
	}
}
