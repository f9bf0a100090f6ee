package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// table writes the figures for people.
func (r *report) table(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s, kernel %s, %d CPUs, %d rounds, load %s before and %s after\n%s\n"+
		"MOSS and PODMAN: the median of N samples; BEST: the best of them; P90: nine of ten are as good or better\n\n",
		r.Date.Format(time.DateOnly), r.Kernel, r.CPUs, r.Rounds, r.Load[0], r.Load[1], strings.Join(r.Versions, ", "))
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cells := range r.lines() {
		_, e := fmt.Fprintln(tab, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
		err = errors.Join(err, e)
	}
	return errors.Join(err, tab.Flush(), r.idleTable(w), r.failureTable(w), r.timeTable(w))
}

// lines are the cells of the table, its head first. The engine beside has columns only if it took part.
func (r *report) lines() [][]string {
	engines := []string{"moss"}
	head := []string{"METRIC", "UNIT", "MOSS", "N", "BEST", "P90"}
	if len(r.Values["beside"]) > 0 {
		engines, head = append(engines, "beside"), append(head, "BESIDE", "N", "BEST", "P90")
	}
	engines = append(engines, "podman")
	head = append(head, "PODMAN", "N", "BEST", "P90", "CRUN", "MOSS/PODMAN", "MOSS/CRUN", "TARGET", "")
	lines := [][]string{head}
	floor := r.series(floorName, "crun-bpf", "run")
	for _, line := range rows() {
		if !r.took(line.metric, engines) {
			continue
		}
		own, peer := r.series("moss", line.metric, line.figure), r.series("podman", line.metric, line.figure)
		cells := append(make([]string, 0, len(head)), line.metric+" "+line.figure, line.unit)
		for _, engine := range engines {
			cells = append(cells, statistics(r.series(engine, line.metric, line.figure), line.more)...)
		}
		bare, overBare, target := "", "", ""
		if line.floor {
			bare, overBare = number(floor.median(), 4), number(own.median()/floor.median(), 2)
		}
		if line.target > 0 {
			target = number(line.target, 3)
		}
		lines = append(lines, append(cells, bare, number(own.median()/peer.median(), 3), overBare, target, r.remark(line, own, engines)))
	}
	return append(lines, r.floorLines(len(lines[0]))...)
}

// took tells whether a metric was measured, or tried.
func (r *report) took(metric string, engines []string) bool {
	return slices.ContainsFunc(engines, func(engine string) bool {
		return len(r.Values[engine][metric]) > 0 || r.failed(engine, metric) != nil
	})
}

// statistics are the cells of one figure: its median, how many samples it has, the best and the 90th percentile towards the worst.
func statistics(s series, more bool) []string {
	best, tail := 0.0, 0.9
	if more {
		best, tail = 1, 0.1
	}
	return []string{number(s.median(), 4), strconv.Itoa(len(s)), number(s.quantile(best), 4), number(s.quantile(tail), 4)}
}

// remark says whether the target was met, and what failed of the metric.
func (r *report) remark(line row, own series, engines []string) string {
	var words []string
	switch {
	case line.target == 0 || len(own) == 0:
	case line.misses(own.median()):
		words = append(words, "MISSED")
	default:
		words = append(words, "ok")
	}
	for _, engine := range engines {
		if f := r.failed(engine, line.metric); f != nil {
			words = append(words, engine+": "+f.brief)
		}
	}
	return strings.Join(words, "; ")
}

// floorLines are the rows of bare crun, of so many cells.
func (r *report) floorLines(cells int) [][]string {
	var lines [][]string
	bare := r.series(floorName, "crun-bpf", "run").median()
	for _, variant := range floorVariants() {
		s := r.series(floorName, "crun-"+variant, "run")
		f := r.failed(floorName, floorMetric)
		if len(s) == 0 && f == nil {
			continue
		}
		line := make([]string, cells)
		line[0], line[1] = "floor: crun run, filter "+variant, "ms"
		copy(line[2:], statistics(s, false))
		line[cells-3] = number(s.median()/bare, 2)
		if f != nil {
			line[cells-1] = f.brief
		}
		lines = append(lines, line)
	}
	return lines
}

// failureTable tells why figures are missing.
func (r *report) failureTable(w io.Writer) error {
	var err error
	for _, f := range r.Failures {
		reason, _, _ := strings.Cut(strings.TrimSpace(f.Reason), "\n")
		_, e := fmt.Fprintf(w, "%s of %s, %s: %s\n", f.Metric, f.Engine, f.brief, reason)
		err = errors.Join(err, e)
	}
	return err
}

// timeTable tells how long each metric took.
func (r *report) timeTable(w io.Writer) error {
	var parts []string
	for _, metric := range metricNames() {
		if took, measured := r.Seconds[metric]; measured {
			parts = append(parts, metric+" "+number(took, 2))
		}
	}
	_, err := fmt.Fprintf(w, "seconds: %s; in all %s\n", strings.Join(parts, ", "), number(time.Since(r.Date).Seconds(), 3))
	return err
}

// idleTable tells which program the memory of an engine at rest is.
func (r *report) idleTable(w io.Writer) error {
	var err error
	for _, engine := range slices.Sorted(maps.Keys(r.Values)) {
		var parts []string
		for _, figure := range slices.Sorted(maps.Keys(r.Values[engine]["memory"])) {
			if name, found := strings.CutPrefix(figure, "idle: "); found {
				parts = append(parts, name+" "+number(r.series(engine, "memory", figure).median(), 3))
			}
		}
		if len(parts) > 0 {
			_, e := fmt.Fprintf(w, "%s at rest, MiB: %s\n", engine, strings.Join(parts, ", "))
			err = errors.Join(err, e)
		}
	}
	return err
}

// number shows a figure with so many digits; nothing for what was not measured.
func number(v float64, digits int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	if v >= math.Pow10(digits-1) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', digits, 64)
}
