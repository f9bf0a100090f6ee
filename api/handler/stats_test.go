package handler_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"moss/engine/fault"
	"moss/engine/stats"
	"moss/engine/stats/top"
)

// usage is a fake of what containers use and run.
type usage struct {
	atOnce  bool
	samples int // that Watch passes on before it ends; less than none: until the client goes
	err     error
	left    chan error // gets what Watch saw of its client's going
	args    string     // of the last Top
}

func (f *usage) sample() *stats.Sample {
	return &stats.Sample{ID: "4fa6e0", Name: "web", Tasks: stats.Tasks{Count: 3}}
}

func (f *usage) Once(_ context.Context, _ string, atOnce bool) (*stats.Sample, error) {
	f.atOnce = atOnce
	return f.sample(), f.err
}

func (f *usage) Watch(ctx context.Context, _ string, emit func(*stats.Sample) error) error {
	for n := 0; f.samples < 0 || n < f.samples; n++ {
		if err := emit(f.sample()); err != nil || ctx.Err() != nil {
			f.left <- errors.Join(err, ctx.Err())
			return err
		}
	}
	return f.err
}

func (f *usage) Top(_ context.Context, ref, args string) (*top.Table, error) {
	f.args = ref + " " + args
	return &top.Table{Titles: []string{"PID"}, Rows: [][]string{{"1"}}}, f.err
}

func TestStats(t *testing.T) {
	a := newAPI(t)
	a.usage.samples = 3
	for _, tc := range []struct {
		path string
		want int // samples
	}{
		{"/containers/web/stats", 3},
		{"/containers/web/stats?stream=1", 3},
		{"/containers/web/stats?stream=", 3},
		{"/containers/web/stats?stream=0", 1},
		{"/containers/web/stats?stream=False", 1},
		{"/v1.20/containers/web/stats?stream=false", 1},
		{"/v1.19/containers/web/stats?stream=false", 3},
		{"/containers/web/stats?stream=0&one-shot=1", 1},
	} {
		status, body := a.ask("GET", tc.path, "")
		if want := strings.Contains(tc.path, "one-shot"); a.usage.atOnce != want {
			t.Errorf("%s: at once %t, want %t", tc.path, a.usage.atOnce, want)
		}
		lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
		if status != 200 || len(lines) != tc.want || field(t, lines[0], "name") != "/web" {
			t.Errorf("%s = %d with %d samples, want 200 with %d:\n%s", tc.path, status, len(lines), tc.want, body)
		}
	}
	if _, body := a.ask("GET", "/v1.20/containers/web/stats?stream=0", ""); strings.Contains(body, "pids_stats") || !strings.Contains(body, `"network":{`) {
		t.Errorf("1.20 = %s, want network and no pids_stats", body)
	}
}

func TestStatsErrors(t *testing.T) {
	a := newAPI(t)
	if status, body := a.ask("GET", "/containers/web/stats?one-shot=1", ""); status != 400 || !strings.Contains(body, "one-shot") {
		t.Errorf("one shot of a stream = %d %s, want 400", status, body)
	}
	a.usage.err = noSuch()
	for _, path := range []string{"/containers/nope/stats", "/containers/nope/stats?stream=0"} {
		if status, body := a.ask("GET", path, ""); status != 404 || field(t, body, "message") != "No such container: nope" {
			t.Errorf("%s = %d %s, want 404", path, status, body)
		}
	}
	a.usage.samples, a.usage.err = 1, errors.New("torn")
	status, body := a.ask("GET", "/containers/web/stats", "")
	if first, last, _ := strings.Cut(body, "\n"); status != 200 || field(t, first, "id") != "4fa6e0" || field(t, last, "error") != "torn" {
		t.Errorf("an error after the first sample = %d %s, want it as a message", status, body)
	}
}

// TestStatsClientGone must end the watching.
func TestStatsClientGone(t *testing.T) {
	a := newAPI(t)
	a.usage.samples, a.usage.left = -1, make(chan error, 1)
	c := a.dial()
	if _, err := io.WriteString(c, "GET /containers/web/stats HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(c).ReadString('}'); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-a.usage.left; err == nil {
		t.Error("the watching ended by itself")
	}
}

func TestTop(t *testing.T) {
	a := newAPI(t)
	status, body := a.ask("GET", "/v1.18/containers/web/top?ps_args=-o+pid,args", "")
	if status != 200 || body != `{"Titles":["PID"],"Processes":[["1"]]}`+"\n" || a.usage.args != "web -o pid,args" {
		t.Errorf("top = %d %s for %q", status, body, a.usage.args)
	}
	a.usage.err = fault.Conflict("Container web is not running")
	if status, body := a.ask("GET", "/containers/web/top", ""); status != 409 || field(t, body, "message") != "Container web is not running" {
		t.Errorf("top of a stopped container = %d %s, want 409", status, body)
	}
}
