package client_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"moss/api/client"
	"moss/api/client/clienttest"
	"moss/api/types"
)

func TestExec(t *testing.T) {
	engine := clienttest.New(t)
	engine.Process = func(stdin io.Reader, stdout, stderr io.Writer, _ <-chan string) int {
		_, _ = io.WriteString(stderr, "reading")
		_, _ = io.Copy(stdout, stdin)
		return 3
	}
	c, ctx := newClient(t, engine), t.Context()
	created, err := c.ExecCreate(ctx, "web", types.ExecCreate{AttachStdin: true, AttachStdout: true, AttachStderr: true, Cmd: []string{"cat"}, User: "www"})
	if err != nil || created.ID != clienttest.ExecID {
		t.Fatalf("create: %v, id %q", err, created.ID)
	}
	if record, err := c.ExecInspect(ctx, created.ID); err != nil || !record.Running || record.ExitCode != nil {
		t.Errorf("inspect before the start = %+v, %v, want running without an exit code", record, err)
	}
	stream, err := c.ExecStart(ctx, created.ID, false)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	defer func() { _ = stream.Close() }()
	if _, err := io.WriteString(stream, "input"); err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	if err := client.Demux(&stdout, &stderr, stream); err != nil || stdout.String() != "input" || stderr.String() != "reading" {
		t.Errorf("got %q and %q, %v", &stdout, &stderr, err)
	}
	record, err := c.ExecInspect(ctx, created.ID)
	for ; err == nil && record.Running; record, err = c.ExecInspect(ctx, created.ID) {
	}
	if err != nil || *record.ExitCode != 3 {
		t.Errorf("inspect = %+v, %v, want exit code 3", record, err)
	}
	if err := c.ExecResize(ctx, created.ID, 24, 80); err != nil {
		t.Errorf("resize: %v", err)
	}
	config, start := engine.Executed()
	wantConfig := map[string]any{"AttachStdin": true, "AttachStdout": true, "AttachStderr": true, "Cmd": []any{"cat"}, "User": "www"}
	if wantStart := map[string]any{"Detach": false, "Tty": false}; !reflect.DeepEqual(config, wantConfig) || !reflect.DeepEqual(start, wantStart) {
		t.Errorf("bodies %v and %v, want %v and %v", config, start, wantConfig, wantStart)
	}
	if err := c.ExecStartDetached(ctx, created.ID, true); err != nil {
		t.Errorf("detached start: %v", err)
	}
	if _, start := engine.Executed(); !reflect.DeepEqual(start, map[string]any{"Detach": true, "Tty": true}) {
		t.Errorf("body %v of a detached start", start)
	}
}

func TestExecStartFails(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["POST /exec/x/start"] = func(w http.ResponseWriter, _ *http.Request) {
		clienttest.Fail(w, http.StatusConflict, "container web is paused")
	}
	_, err := newClient(t, engine).ExecStart(t.Context(), "x", false)
	if client.StatusOf(err) != http.StatusConflict || err.Error() != "container web is paused" {
		t.Errorf("start = %v, want the engine's 409", err)
	}
	if _, err := newClient(t, engine).ExecStart(t.Context(), "", false); err == nil {
		t.Error("an empty id passes, want an error without a request")
	}
}

func TestStats(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /containers/web/stats"] = func(w http.ResponseWriter, r *http.Request) {
		for range map[string]int{"1": 2, "0": 1}[r.URL.Query().Get("stream")] {
			_, _ = io.WriteString(w, `{"read":"2026-01-02T03:04:05.000000006Z","pids_stats":{"current":2},"networks":{"eth0":{"rx_bytes":7,"tx_bytes":8}},
				"memory_stats":{"usage":18446744073709551615,"limit":10,"stats":{"rss":3}},"blkio_stats":{"io_service_bytes_recursive":[{"major":8,"minor":0,"op":"Read","value":5}]},
				"cpu_stats":{"cpu_usage":{"percpu_usage":[1,2],"total_usage":3},"system_cpu_usage":4,"throttling_data":{"periods":0}},"precpu_stats":{"cpu_usage":{"total_usage":1}}}`+"\n")
		}
	}
	for stream, want := range map[bool]int{true: 2, false: 1} {
		var got []types.Stats
		err := newClient(t, engine).ContainerStats(t.Context(), "web", stream, func(s types.Stats) error { got = append(got, s); return nil })
		if err != nil || len(got) != want {
			t.Fatalf("stream %t: %d samples, %v, want %d", stream, len(got), err, want)
		}
		s := got[0]
		if s.Read.Nanosecond() != 6 || s.PidsStats.Current != 2 || s.Networks["eth0"].TxBytes != 8 || s.MemoryStats.Usage != 1<<64-1 || s.MemoryStats.Stats["rss"] != 3 ||
			s.BlkioStats.IoServiceBytesRecursive[0].Value != 5 || s.CPUStats.CPUUsage.TotalUsage != 3 || len(s.CPUStats.CPUUsage.PercpuUsage) != 2 || s.CPUStats.SystemCPUUsage != 4 || s.PrecpuStats.CPUUsage.TotalUsage != 1 {
			t.Errorf("decoded %+v", s)
		}
	}
}

// TestRequestsOfData checks what the calls about a container's data, limits and volumes ask for.
func TestRequestsOfData(t *testing.T) {
	var body map[string]any
	for _, tc := range []struct {
		name   string
		call   func(c *client.Client) error
		answer string
		want   string
		body   map[string]any
	}{
		{"top", func(c *client.Client) error {
			top, err := c.ContainerTop(t.Context(), "web", "-o pid")
			return check(err, reflect.DeepEqual(top, types.Top{Titles: []string{"PID"}, Processes: [][]string{{"1"}}}), top)
		}, `{"Titles":["PID"],"Processes":[["1"]]}`, "GET /containers/web/top?ps_args=-o+pid", nil},
		{"changes", func(c *client.Client) error {
			changes, err := c.ContainerChanges(t.Context(), "web")
			return check(err, reflect.DeepEqual(changes, []types.ContainerChange{{Path: "/a", Kind: 2}}), changes)
		}, `[{"Path":"/a","Kind":2}]`, "GET /containers/web/changes", nil},
		{"no changes", func(c *client.Client) error {
			changes, err := c.ContainerChanges(t.Context(), "web")
			return check(err, len(changes) == 0, changes)
		}, `null`, "GET /containers/web/changes", nil},
		{"pause", func(c *client.Client) error { return c.ContainerPause(t.Context(), "web") }, ``, "POST /containers/web/pause", nil},
		{"unpause", func(c *client.Client) error { return c.ContainerUnpause(t.Context(), "web") }, ``, "POST /containers/web/unpause", nil},
		{"update", func(c *client.Client) error {
			warnings, err := c.ContainerUpdate(t.Context(), "web", types.ContainerUpdate{
				HostConfig: types.HostConfig{Memory: 5, CPUShares: 7}, RestartPolicy: types.RestartPolicy{Name: "always"},
			})
			return check(err, reflect.DeepEqual(warnings, []string{"w"}), warnings)
		}, `{"Warnings":["w"]}`, "POST /containers/web/update", map[string]any{"Memory": 5.0, "CpuShares": 7.0, "RestartPolicy": map[string]any{"Name": "always"}}},
		{"commit", func(c *client.Client) error {
			id, err := c.ContainerCommit(t.Context(), "web", client.Commit{Repo: "r:5000/a", Tag: "t", Comment: "c d", Author: "x", Changes: []string{"CMD a", "ENV b=c"}})
			return check(err, id == "sha256:1", id)
		}, `{"Id":"sha256:1"}`, "POST /commit?author=x&changes=CMD+a&changes=ENV+b%3Dc&comment=c+d&container=web&pause=0&repo=r%3A5000%2Fa&tag=t", nil},
		{"volumes", func(c *client.Client) error {
			list, warnings, err := c.Volumes(t.Context(), map[string][]string{"dangling": {"true"}})
			return check(err, len(list) == 1 && list[0].Name == "v" && list[0].Labels["a"] == "b" && len(warnings) == 1, list)
		}, `{"Volumes":[{"Name":"v","Labels":{"a":"b"}}],"Warnings":["w"]}`, `GET /volumes?filters=%7B%22dangling%22%3A%5B%22true%22%5D%7D`, nil},
		{"volume create", func(c *client.Client) error {
			v, err := c.VolumeCreate(t.Context(), types.VolumeCreate{Name: "v", DriverOpts: map[string]string{"type": "tmpfs"}})
			return check(err, v.Name == "v" && v.Mountpoint == "/m", v)
		}, `{"Name":"v","Mountpoint":"/m"}`, "POST /volumes/create", map[string]any{"Name": "v", "DriverOpts": map[string]any{"type": "tmpfs"}}},
		{"volume inspect", func(c *client.Client) error {
			raw, err := c.VolumeInspect(t.Context(), "v")
			return check(err, string(raw) == `{"Name":"v"}`, raw)
		}, `{"Name":"v"}`, "GET /volumes/v", nil},
		{"volume remove", func(c *client.Client) error { return c.VolumeRemove(t.Context(), "v", true) }, ``, "DELETE /volumes/v?force=1", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			engine := clienttest.New(t)
			path, _, _ := strings.Cut(tc.want, "?")
			engine.Override[path] = func(w http.ResponseWriter, r *http.Request) {
				body = nil
				if r.ContentLength != 0 {
					if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
						t.Error(err)
					}
				}
				_, _ = io.WriteString(w, tc.answer)
			}
			if err := tc.call(newClient(t, engine)); err != nil {
				t.Error(err)
			}
			if got := engine.Requests(); len(got) != 1 || got[0] != tc.want || !reflect.DeepEqual(body, tc.body) {
				t.Errorf("requests %q with body %v, want %s with %v", got, body, tc.want, tc.body)
			}
		})
	}
}
