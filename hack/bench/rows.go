package main

import (
	"math"
	"slices"
)

// row is one line of the table.
type row struct {
	metric, figure, unit string
	target               float64 // for moss; 0: none
	floor                bool    // compare with the floor
	more                 bool    // more is better
}

// misses tells whether a figure is worse than its target. What was not measured does not miss.
func (r row) misses(got float64) bool {
	switch {
	case r.target == 0 || math.IsNaN(got):
		return false
	case r.more:
		return got < r.target
	default:
		return got > r.target
	}
}

// tableRows lists the rows of the table, with what moss is to reach.
func tableRows() []row { return slices.Concat(containerRows(), imageRows(), crowdRows()) }

func imageRows() []row {
	return []row{
		{metric: "image", figure: "pull gzip", unit: "s", target: 2.8},
		{metric: "image", figure: "pull zstd", unit: "s", target: 1.9},
		{metric: "image", figure: "pull again", unit: "ms", target: 30},
		{metric: "image", figure: "pull one layer of six", unit: "s"},
		{metric: "image", figure: "one layer / all", unit: "", target: 0.25},
		{metric: "image", figure: "load", unit: "s", target: 2.5},
		{metric: "image", figure: "save", unit: "s", target: 1.6},
		{metric: "image", figure: "remove", unit: "s", target: 0.2},
		{metric: "pulls", figure: "ten at once / one", unit: "", target: 1.3},
		{metric: "pulls", figure: "_ping p99", unit: "ms", target: 3},
		{metric: "pulls", figure: "peak for 2 GiB", unit: "MB", target: 120},
		{metric: "build", figure: "12 steps, cold", unit: "ms", target: 1400},
		{metric: "build", figure: "12 steps, cached", unit: "ms", target: 150},
		{metric: "build", figure: "last COPY changed", unit: "ms"},
		{metric: "build", figure: "50,000 files", unit: "s"},
		{metric: "build", figure: "50,000 files / tar both ways", unit: "", target: 2},
		{metric: "build", figure: "50,000 files, cached", unit: "s"},
		{metric: "build", figure: "50,000 files, cached / tar", unit: "", target: 2},
		{metric: "build", figure: "peak of the engine", unit: "MB", target: 120},
	}
}

func containerRows() []row {
	return []row{
		{metric: "none", figure: "create", unit: "ms"},
		{metric: "none", figure: "start", unit: "ms"},
		{metric: "none", figure: "wait", unit: "ms"},
		{metric: "none", figure: "remove", unit: "ms"},
		{metric: "none", figure: "sum", unit: "ms", target: 40, floor: true},
		{metric: "default", figure: "create", unit: "ms"},
		{metric: "default", figure: "start", unit: "ms"},
		{metric: "default", figure: "wait", unit: "ms"},
		{metric: "default", figure: "remove", unit: "ms"},
		{metric: "default", figure: "sum", unit: "ms", target: 55, floor: true},
		{metric: "run", figure: "wall", unit: "ms", target: 55, floor: true},
		{metric: "run-none", figure: "wall", unit: "ms", floor: true},
		{metric: "start", figure: "cold", unit: "ms"},
		{metric: "start", figure: "warm", unit: "ms", target: 250},
		{metric: "memory", figure: "idle", unit: "MiB", target: 42},
		{metric: "memory", figure: "per container", unit: "MiB", target: 1.5},
		{metric: "stress", figure: "per second", unit: "/s", target: 75, more: true},
		{metric: "exec", figure: "create", unit: "ms"},
		{metric: "exec", figure: "start", unit: "ms"},
		{metric: "exec", figure: "inspect", unit: "ms"},
		{metric: "exec", figure: "sum", unit: "ms", target: 12},
		{metric: "archive", figure: "1000 MiB file in", unit: "s", target: 0.8},
		{metric: "archive", figure: "1000 MiB file out", unit: "s", target: 0.8},
		{metric: "archive", figure: "5000 files in", unit: "s", target: 0.6},
		{metric: "archive", figure: "5000 files out", unit: "s", target: 0.4},
		{metric: "archive", figure: "peak of the engine", unit: "MB", target: 100},
		{metric: "logs", figure: "written", unit: "MB/s", target: 150, more: true},
		{metric: "logs", figure: "read", unit: "MB/s", target: 200, more: true},
		{metric: "attach", figure: "500 MiB by docker run", unit: "s", target: 0.8},
		{metric: "net", figure: "container to host", unit: "Gbit/s"},
		{metric: "net", figure: "host to port", unit: "Gbit/s", target: 12, more: true},
		{metric: "net", figure: "container to container", unit: "Gbit/s"},
		{metric: "net", figure: "bare veth", unit: "Gbit/s"},
		{metric: "net", figure: "containers / veth", unit: "", target: 0.9, more: true},
		{metric: "net", figure: "500 ports", unit: "MiB", target: 20},
	}
}

func crowdRows() []row {
	return []row{
		{metric: "edge", figure: "_ping p50", unit: "ms", target: 0.1},
		{metric: "edge", figure: "_ping p99", unit: "ms"},
		{metric: "edge", figure: "_ping at 64", unit: "/s", target: 15000, more: true},
		{metric: "edge", figure: "inspect at 64", unit: "/s", target: 5000, more: true},
		{metric: "streams", figure: "1000 attach", unit: "MiB", target: 60},
		{metric: "streams", figure: "1000 logs", unit: "MiB", target: 50},
		{metric: "streams", figure: "1000 wait", unit: "MiB", target: 40},
		{metric: "streams", figure: "a line to 1000 attach", unit: "ms"},
		{metric: "streams", figure: "a line to 1000 logs", unit: "ms"},
		{metric: "events", figure: "1000 idle listeners", unit: "MiB", target: 30},
		{metric: "events", figure: "published a second", unit: "/s", target: 9900, more: true},
		{metric: "events", figure: "lost of them by 100", unit: "", target: 0.5},
		{metric: "events", figure: "worst delay", unit: "ms"},
		{metric: "busy", figure: "_ping p99", unit: "ms", target: 5},
		{metric: "busy", figure: "list p99", unit: "ms", target: 5},
		{metric: "busy", figure: "inspect p99", unit: "ms", target: 5},
		{metric: "crowd", figure: "start beside 0", unit: "ms"},
		{metric: "crowd", figure: "start beside 100", unit: "ms"},
		{metric: "crowd", figure: "start beside 1000", unit: "ms"},
		{metric: "crowd", figure: "start beside 100 / 0", unit: "", target: 1.2},
		{metric: "crowd", figure: "start beside 1000 / 0", unit: "", target: 1.2},
		{metric: "crowd", figure: "list of 100", unit: "ms", target: 2},
		{metric: "crowd", figure: "list of 1000", unit: "ms", target: 15},
		{metric: "stopped", figure: "create beside 1000 / 0", unit: "", target: 1.15},
		{metric: "stopped", figure: "start beside 1000 / 0", unit: "", target: 1.15},
		{metric: "stopped", figure: "remove beside 1000 / 0", unit: "", target: 1.15},
		{metric: "stopped", figure: "1000 removed by 4 clients", unit: "s", target: 6},
		{metric: "entries", figure: "size", unit: "s"},
		{metric: "entries", figure: "size / du", unit: "", target: 1.5},
		{metric: "entries", figure: "removal answered", unit: "s"},
		{metric: "entries", figure: "files gone", unit: "s", target: 5},
		{metric: "entries", figure: "files gone / rm", unit: ""},
		{metric: "forward", figure: "syslog over unix", unit: "MB/s", target: 60, more: true},
		{metric: "forward", figure: "fluentd over tcp", unit: "MB/s", target: 60, more: true},
		{metric: "forward", figure: "moss-log idle", unit: "MiB", target: 12},
		{metric: "forward", figure: "moss-log of 50", unit: "MiB", target: 30},
		{metric: "forward", figure: "start more", unit: "ms", target: 3},
		{metric: "hung", figure: "200 run, 0 monitors hang", unit: "s"},
		{metric: "hung", figure: "200 run, 5 monitors hang", unit: "s", target: 2},
	}
}
