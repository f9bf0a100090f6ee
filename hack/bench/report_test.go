package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// tableRow returns the cells of a line of the table.
func tableRow(t *testing.T, r *report, name string) []string {
	t.Helper()
	for _, cells := range r.tableLines() {
		if cells[0] == name {
			return cells
		}
	}
	t.Fatalf("no row %q", name)
	return nil
}

func TestRowsTellHowManySamples(t *testing.T) {
	r := newReport(options{rounds: 3})
	for _, v := range []float64{3, 1, 2} {
		r.add("moss", "stress", samples{"per second": v})
		r.add("moss", "crowd", samples{"start beside 100 / 0": v})
	}
	r.add("podman", "stress", samples{"per second": 2})
	if got, want := tableRow(t, r, "stress per second")[2:10], []string{"2", "3", "3", "1.2", "2", "1", "2", "2"}; !slices.Equal(got, want) {
		t.Errorf("more is better: row = %q, want %q", got, want)
	}
	if got, want := tableRow(t, r, "crowd start beside 100 / 0")[2:10], []string{"2", "3", "1", "2.8", "-", "0", "-", "-"}; !slices.Equal(got, want) {
		t.Errorf("a ratio: row = %q, want %q", got, want)
	}
}

func TestSummaryIsSaved(t *testing.T) {
	t.Setenv(envOut, "")
	r := newReport(options{})
	r.add("moss", "run", samples{"wall": 5})
	r.add("moss", "run", samples{"wall": 3})
	r.addFailure("podman", "run", errors.New("no"))
	path := filepath.Join(t.TempDir(), "out.json")
	if err := r.save(path); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Summary  map[string]map[string]map[string]summary
		Failures []failure
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if s, want := got.Summary["moss"]["run"]["wall"], (summary{N: 2, Min: 3, Median: 4, P90: 4.8}); s != want {
		t.Errorf("summary = %+v, want %+v", s, want)
	}
	if len(got.Failures) != 1 || got.Failures[0].Reason != "no" {
		t.Errorf("failures = %+v, want the one of podman", got.Failures)
	}
}

func TestRewriteLeavesNothingOfLongerContent(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // it has been read
	for _, content := range []string{"long content", "short"} {
		if err := rewriteFile(file, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file.Name()); err != nil || string(got) != "short" {
		t.Errorf("content = %q, %v; want %q", got, err, "short")
	}
}

func TestFailedMetricIsKeptAndTheRestGoesOn(t *testing.T) {
	t.Setenv(envOut, "")
	b := &bench{log: io.Discard, report: newReport(options{}), opt: options{out: filepath.Join(t.TempDir(), "out.json")}}
	tries := 0
	for range 3 {
		b.attemptMetric(t.Context(), "podman", nil, "none", time.Minute, func(context.Context) error {
			tries++
			return noAnswer{limit: callLimit, to: "POST /wait"}
		})
		b.attemptMetric(t.Context(), "podman", nil, "net", time.Minute, func(context.Context) error {
			return &exec.Error{Name: "iperf3", Err: exec.ErrNotFound}
		})
		b.attemptMetric(t.Context(), "moss", nil, "none", time.Minute, func(context.Context) error {
			b.report.add("moss", "none", samples{"sum": 30})
			return nil
		})
	}
	if tries != 1 {
		t.Errorf("the failed metric was tried %d times, want 1", tries)
	}
	if got := tableRow(t, b.report, "none sum"); got[len(got)-1] != "ok; podman: no answer within 30 s" || got[3] != "3" {
		t.Errorf("row = %q, want three samples of moss and what podman did", got)
	}
	if got, want := b.report.brokenMetrics(), []string{"none of podman"}; !slices.Equal(got, want) {
		t.Errorf("broken = %q, want %q: a missing program is no defect", got, want)
	}
	if _, err := os.Stat(b.opt.out); err != nil {
		t.Errorf("the results were not saved before the end: %v", err)
	}
}

func TestBoundEndsWorkThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		err := withLimit(t.Context(), callLimit, "wait", hang)
		if want := "no answer within 30 s to wait"; err == nil || err.Error() != want {
			t.Errorf("bound = %v, want %q", err, want)
		}
		err = withLimit(t.Context(), callLimit, "outer", func(ctx context.Context) error { return withLimit(ctx, transferLimit, "inner", hang) })
		if want := "no answer within 30 s to outer"; err == nil || err.Error() != want {
			t.Errorf("nested: bound = %v, want %q", err, want)
		}
		other := errors.New("other")
		if err := withLimit(t.Context(), callLimit, "x", func(context.Context) error { return other }); !errors.Is(err, other) {
			t.Errorf("bound of an error = %v, want it", err)
		}
	})
}

func TestCallsAreBounded(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush() //nolint:forcetypeassert // the server's
		<-release
	}))
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server.Listener = l
	server.Start()
	defer server.Close()
	defer close(release)
	a := newAPI(socket)
	defer a.close()
	err = a.callWithin(t.Context(), 50*time.Millisecond, http.MethodPost, "/wait", nil, "", nil)
	var late noAnswer
	if !errors.As(err, &late) || late.to != "POST /wait" {
		t.Errorf("a call whose answer never ends = %v, want no answer to POST /wait", err)
	}
}

func TestCommandIsBounded(t *testing.T) {
	i := &instance{plan: plan{cli: []string{"sh", "-c"}}, log: filepath.Join(t.TempDir(), "log")}
	began := time.Now()
	_, err := i.runCommand(t.Context(), 100*time.Millisecond, "sleep 60 & sleep 60")
	var late noAnswer
	if !errors.As(err, &late) || time.Since(began) > 30*time.Second {
		t.Errorf("a command that leaves its output open = %v after %v, want no answer", err, time.Since(began))
	}
}
