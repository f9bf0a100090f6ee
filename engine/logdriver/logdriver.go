// Package logdriver has the table of log drivers (API document 1, 2.3: LogConfig).
package logdriver

import (
	"slices"
	"strings"

	"moss/engine/fault"
)

// Driver describes a log driver.
type Driver struct {
	Name     string
	Writes   Place
	Readable bool              // `logs` and attach with logs read what was written
	Options  []string          // names, besides those that all drivers take
	Defaults map[string]string // values of options that a container does not set
	// Check looks at the values of Options, of which a container may set any; nil: somebody else does. The error is
	// fault.Invalid and names the option.
	Check func(options map[string]string) error
	// Buffer returns how many bytes of output may wait for the log before lines are dropped, if Options say so: as mode and
	// max-buffer-size do. 0, or nil: they do not.
	Buffer func(options map[string]string) int64
}

// SendsOption reports whether moss-log gets an option: those of the driver alone, and the tag, since drivers differ in what a
// missing or an empty one means.
func (d Driver) SendsOption(key string) bool {
	return d.Writes == Remote && (key == "tag" || slices.Contains(d.Options, key))
}

// AllOptions returns the names of the options that the driver takes. A driver that writes nowhere has none, and takes all.
func (d Driver) AllOptions() []string {
	switch d.Writes {
	case Nowhere:
		return nil
	case Remote:
		return slices.Concat(d.Options, commonOptions, CacheOptions)
	case File, Journal:
	}
	return slices.Concat(d.Options, commonOptions)
}

// commonOptions are of every driver that writes: what goes with each line, and what becomes of output that the log does not
// take in time.
var commonOptions = []string{ //nolint:gochecknoglobals // a constant
	"labels", "labels-regex", "env", "env-regex", "tag", "mode", "max-buffer-size",
}

// CacheOptions are of every driver that writes to a receiver: the copy that logs can be read from.
var CacheOptions = []string{ //nolint:gochecknoglobals // a constant
	"cache-disabled", "cache-max-size", "cache-max-file", "cache-compress",
}

// Place is where a driver writes.
type Place int

// The places.
const (
	Nowhere Place = iota // options are taken and not looked at
	File                 // in the container's folder
	Journal              // of systemd
	Remote               // to a receiver, by moss-log
)

// The names of drivers that the engine itself asks for.
const (
	Default = "json-file"
	Local   = "local"
	None    = "none"
)

// fileOptions bound the files of a log.
var fileOptions = []string{"max-size", "max-file", "compress"} //nolint:gochecknoglobals // a constant

// drivers are in the order in which they are listed.
var drivers = []Driver{ //nolint:gochecknoglobals // a constant
	{Name: Default, Writes: File, Readable: true, Options: fileOptions},
	{
		Name: Local, Writes: File, Readable: true, Options: fileOptions,
		Defaults: map[string]string{"max-size": "20m", "max-file": "5", "compress": "true"},
	},
	{Name: "syslog", Writes: Remote, Options: syslogOptions, Check: checkSyslog},
	{Name: "journald", Writes: Journal, Readable: true},
	{Name: "gelf", Writes: Remote, Options: gelfOptions, Check: checkGelf},
	{Name: "fluentd", Writes: Remote, Options: fluentdOptions, Check: checkFluentd, Buffer: fluentdBuffer},
	{
		Name: "awslogs", Writes: Remote, Options: awslogsOptions,
		Check: func(options map[string]string) error { _, err := ParseAWSLogs(options); return err },
	},
	{
		Name: "splunk", Writes: Remote, Options: splunkOptions,
		Check: func(options map[string]string) error { _, err := ParseSplunk(options); return err },
	},
	{Name: None},
}

// Find returns the driver of a name, the default one for an empty name. The error is fault.Invalid.
func Find(name string) (Driver, error) {
	if name == "" {
		name = Default
	}
	for _, d := range drivers {
		if d.Name == name {
			return d, nil
		}
	}
	there := strings.Join(Names(), ", ")
	if name == "etwlogs" {
		return Driver{}, fault.Invalid("log driver etwlogs belongs to another operating system: there are %s", there)
	}
	return Driver{}, fault.Invalid("logger: no log driver named '%s' is registered: there are %s", name, there)
}

// Names lists all drivers.
func Names() []string {
	names := make([]string, len(drivers))
	for i, d := range drivers {
		names[i] = d.Name
	}
	return names
}
