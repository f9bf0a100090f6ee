package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// report collects the figures of one run.
type report struct {
	Date   time.Time
	Rounds int
	CPUs   int
	Kernel string
	// Versions of what is measured, and the machine's processor, memory and file system.
	Versions []string
	Load     [2]string                               // load averages before and after
	Values   map[string]map[string]map[string]series // engine, metric, figure

	Failures []failure
	Seconds  map[string]float64 // that each metric took, of all engines together
	out      *os.File           // that root opened; nil until the first save
}

// failure is a metric of an engine that has no figures, or not all.
type failure struct {
	Engine, Metric, Reason string

	Missing bool `json:",omitempty"` // for want of a program, which is nobody's defect
	brief   string
}

func newReport(opt options) *report {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // only shown
	return &report{
		Date: time.Now().UTC(), Rounds: opt.rounds, CPUs: runtime.NumCPU(), Kernel: strings.TrimSpace(string(kernel)),
		Load: [2]string{loadAverage()}, Values: map[string]map[string]map[string]series{}, Seconds: map[string]float64{},
	}
}

func loadAverage() string {
	raw, _ := os.ReadFile("/proc/loadavg") // only shown
	return strings.Join(strings.Fields(string(raw))[:1], "")
}

func (r *report) finish() { r.Load[1] = loadAverage() }

func (r *report) add(engine, metric string, s samples) {
	if r.Values[engine] == nil {
		r.Values[engine] = map[string]map[string]series{}
	}
	if r.Values[engine][metric] == nil {
		r.Values[engine][metric] = map[string]series{}
	}
	for figure, value := range s {
		r.Values[engine][metric][figure] = append(r.Values[engine][metric][figure], value)
	}
}

func (r *report) seriesOf(engine, metric, figure string) series {
	return r.Values[engine][metric][figure]
}

// addFailure keeps why an engine has no figures of a metric.
func (r *report) addFailure(engine, metric string, err error) {
	f := failure{Engine: engine, Metric: metric, Reason: err.Error(), brief: "failed"}
	var late noAnswer
	switch {
	case errors.As(err, &late):
		f.brief = late.brief()
	case errors.Is(err, exec.ErrNotFound):
		f.Missing, f.brief = true, "not measured"
		f.Reason += " (hack/install-deps.sh --for bench installs it)"
	}
	r.Failures = append(r.Failures, f)
}

// failureOf returns the failure of a metric, nil if there is none.
func (r *report) failureOf(engine, metric string) *failure {
	for k := range r.Failures {
		if f := &r.Failures[k]; f.Engine == engine && f.Metric == metric {
			return f
		}
	}
	return nil
}

// brokenMetrics names the metrics that failed by a defect.
func (r *report) brokenMetrics() []string {
	var names []string
	for _, f := range r.Failures {
		if !f.Missing {
			names = append(names, f.Metric+" of "+f.Engine)
		}
	}
	return names
}

func (r *report) addTime(metric string, took time.Duration) { r.Seconds[metric] += took.Seconds() }

// missedTargets names what moss did not reach.
func (r *report) missedTargets() []string {
	var missed []string
	for _, line := range tableRows() {
		if got := r.seriesOf("moss", line.metric, line.figure).median(); line.misses(got) {
			missed = append(missed, line.metric+" "+line.figure)
		}
	}
	return missed
}

// summary is what the table shows of a series.
type summary struct {
	N                int
	Min, Median, P90 float64
}

func (r *report) summarizeValues() map[string]map[string]map[string]summary {
	all := map[string]map[string]map[string]summary{}
	for engine, metrics := range r.Values {
		all[engine] = map[string]map[string]summary{}
		for metric, figures := range metrics {
			all[engine][metric] = map[string]summary{}
			for figure, s := range figures {
				all[engine][metric][figure] = summary{N: len(s), Min: s.quantile(0), Median: s.median(), P90: s.quantile(0.9)}
			}
		}
	}
	return all
}

// save writes every single value as JSON, to the file that root opened or to path, in place of what an earlier save wrote.
func (r *report) save(path string) error {
	raw, err := json.MarshalIndent(struct {
		*report

		Summary map[string]map[string]map[string]summary // as Values
	}{r, r.summarizeValues()}, "", " ")
	if err != nil {
		return err
	}
	raw = append(raw, '\n')
	if fd, err := strconv.Atoi(os.Getenv(envOut)); err == nil {
		if r.out == nil {
			r.out = os.NewFile(uintptr(fd), "results")
		}
		return rewriteFile(r.out, raw)
	}
	if path == "" {
		return nil
	}
	if err := os.WriteFile(path+".new", raw, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// rewriteFile puts content in place of all that a file holds.
func rewriteFile(file *os.File, content []byte) error {
	_, err := file.WriteAt(content, 0)
	return errors.Join(err, file.Truncate(int64(len(content))))
}
