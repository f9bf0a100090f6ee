// Package logdriver has the table of log drivers (API document 1, 2.3: LogConfig).
package logdriver

import "moss/engine/fault"

// Driver describes a log driver.
type Driver struct {
	Name     string
	Writes   Place
	Readable bool     // `logs` and attach with logs read what was written
	Options  []string // names, besides those of attributes, which all drivers take that write
}

// Place is where a driver writes.
type Place int

// The places.
const (
	Nowhere Place = iota // options are taken and not looked at
	File                 // in the container's folder
	Journal              // of systemd
)

// The names of drivers that the engine itself asks for.
const (
	Default = "json-file"
	None    = "none"
)

// drivers are in the order in which they are listed.
var drivers = []Driver{ //nolint:gochecknoglobals // a constant
	{
		Name: Default, Writes: File, Readable: true,
		Options: []string{"max-size", "max-file", "compress", "mode", "max-buffer-size"},
	},
	{Name: "journald", Writes: Journal, Readable: true},
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
	return Driver{}, fault.Invalid("logger: no log driver named '%s' is registered", name)
}

// Names lists all drivers.
func Names() []string {
	names := make([]string, len(drivers))
	for i, d := range drivers {
		names[i] = d.Name
	}
	return names
}
