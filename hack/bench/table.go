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

// writeTable writes the figures for people.
func (r *report) writeTable(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s, kernel %s, %d CPUs, %d rounds, load %s before and %s after\n%s\n"+
		"MOSS and PODMAN: the median of N samples; BEST: the best of them; P90: nine of ten are as good or better\n\n",
		r.Date.Format(time.DateOnly), r.Kernel, r.CPUs, r.Rounds, r.Load[0], r.Load[1], strings.Join(r.Versions, ", "))
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cells := range r.tableLines() {
		_, e := fmt.Fprintln(tab, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
		err = errors.Join(err, e)
	}
	return errors.Join(err, tab.Flush(), r.idleTable(w), r.failureTable(w), r.timeTable(w))
}

// tableLines returns the cells of the table, its head first. The engine beside has columns only if it took part.
func (r *report) tableLines() [][]string {
	engines := []string{"moss"}
	head := []string{"METRIC", "UNIT", "MOSS", "N", "BEST", "P90"}
	if len(r.Values["beside"]) > 0 {
		engines, head = append(engines, "beside"), append(head, "BESIDE", "N", "BEST", "P90")
	}
	engines = append(engines, "podman")
	head = append(head, "PODMAN", "N", "BEST", "P90", "CRUN", "MOSS/PODMAN", "MOSS/CRUN", "TARGET", "")
	lines := [][]string{head}
	floor := r.seriesOf(floorName, "crun-bpf", "run")
	for _, line := range tableRows() {
		if !r.hasMetric(line.metric, engines) {
			continue
		}
		own, peer := r.seriesOf("moss", line.metric, line.figure), r.seriesOf("podman", line.metric, line.figure)
		cells := append(make([]string, 0, len(head)), line.metric+" "+line.figure, line.unit)
		for _, engine := range engines {
			cells = append(cells, statisticCells(r.seriesOf(engine, line.metric, line.figure), line.more)...)
		}
		bare, overBare, target := "", "", ""
		if line.floor {
			bare, overBare = formatNumber(floor.median(), 4), formatNumber(own.median()/floor.median(), 2)
		}
		if line.target > 0 {
			target = formatNumber(line.target, 3)
		}
		lines = append(lines, append(cells, bare, formatNumber(own.median()/peer.median(), 3), overBare, target, r.remarkOn(line, own, engines)))
	}
	return append(lines, r.floorLines(len(lines[0]))...)
}

// hasMetric tells whether a metric was measured, or tried.
func (r *report) hasMetric(metric string, engines []string) bool {
	return slices.ContainsFunc(engines, func(engine string) bool {
		return len(r.Values[engine][metric]) > 0 || r.failureOf(engine, metric) != nil
	})
}

// statisticCells returns the cells of one figure: its median, how many samples it has, the best and the 90th percentile
// towards the worst.
func statisticCells(s series, more bool) []string {
	best, tail := 0.0, 0.9
	if more {
		best, tail = 1, 0.1
	}
	return []string{formatNumber(s.median(), 4), strconv.Itoa(len(s)), formatNumber(s.quantile(best), 4), formatNumber(s.quantile(tail), 4)}
}

// remarkOn says whether the target was met, and what failed of the metric.
func (r *report) remarkOn(line row, own series, engines []string) string {
	var words []string
	switch {
	case line.target == 0 || len(own) == 0:
	case line.misses(own.median()):
		words = append(words, "MISSED")
	default:
		words = append(words, "ok")
	}
	for _, engine := range engines {
		if f := r.failureOf(engine, line.metric); f != nil {
			words = append(words, engine+": "+f.brief)
		}
	}
	return strings.Join(words, "; ")
}

// floorLines are the rows of bare crun, of so many cells.
func (r *report) floorLines(cells int) [][]string {
	var lines [][]string
	bare := r.seriesOf(floorName, "crun-bpf", "run").median()
	for _, variant := range floorVariants() {
		s := r.seriesOf(floorName, "crun-"+variant, "run")
		f := r.failureOf(floorName, floorMetric)
		if len(s) == 0 && f == nil {
			continue
		}
		line := make([]string, cells)
		line[0], line[1] = "floor: crun run, filter "+variant, "ms"
		copy(line[2:], statisticCells(s, false))
		line[cells-3] = formatNumber(s.median()/bare, 2)
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
			parts = append(parts, metric+" "+formatNumber(took, 2))
		}
	}
	_, err := fmt.Fprintf(w, "seconds: %s; in all %s\n", strings.Join(parts, ", "), formatNumber(time.Since(r.Date).Seconds(), 3))
	return err
}

// idleTable tells which program the memory of an engine at rest is.
func (r *report) idleTable(w io.Writer) error {
	var err error
	for _, engine := range slices.Sorted(maps.Keys(r.Values)) {
		var parts []string
		for _, figure := range slices.Sorted(maps.Keys(r.Values[engine]["memory"])) {
			if name, found := strings.CutPrefix(figure, "idle: "); found {
				parts = append(parts, name+" "+formatNumber(r.seriesOf(engine, "memory", figure).median(), 3))
			}
		}
		if len(parts) > 0 {
			_, e := fmt.Fprintf(w, "%s at rest, MiB: %s\n", engine, strings.Join(parts, ", "))
			err = errors.Join(err, e)
		}
	}
	return err
}

// formatNumber shows a figure with so many digits; nothing for what was not measured.
func formatNumber(v float64, digits int) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	if v >= math.Pow10(digits-1) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', digits, 64)
}
