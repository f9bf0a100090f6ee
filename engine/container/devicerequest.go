package container

import (
	"regexp"
	"slices"
	"sync"

	"moss/engine/fault"
)

// DriverCDI is the driver of requests that name devices by CDI: vendor/class=name.
const DriverCDI = "cdi"

// qualifiedName is the form of a CDI name. What its parts may hold further is for those to know who look it up.
//
//nolint:gochecknoglobals // a constant
var qualifiedName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*/[A-Za-z][A-Za-z0-9_-]*=[A-Za-z0-9][A-Za-z0-9_.:-]*$`)
})

// checkDeviceRequests refuses what no device can be: fault.Invalid, or fault.Unsupported for drivers that there are not.
func checkDeviceRequests(d *draft) error {
	for _, r := range d.Host.DeviceRequests {
		if err := r.checkDevices(); err != nil {
			return err
		}
	}
	return nil
}

func (r *DeviceRequest) checkDevices() error {
	if len(r.Options) > 0 {
		return fault.Unsupported("Options %v are not supported by this engine", r.Options)
	}
	if r.Driver == DriverCDI {
		if r.Count != 0 {
			return fault.Invalid("Count %d: the driver cdi takes devices by name", r.Count)
		}
		for _, id := range r.DeviceIDs {
			if !qualifiedName().MatchString(id) {
				return fault.Invalid("invalid CDI device name %.128q: want vendor/class=name", id)
			}
		}
		return nil
	}
	gpu := func(all []string) bool { return slices.Contains(all, "gpu") }
	switch {
	case r.Driver != "" && r.Driver != "nvidia", !slices.ContainsFunc(r.Capabilities, gpu):
		return fault.Unsupported("could not select device driver %q with capabilities: %v", r.Driver, r.Capabilities)
	case r.Count != 0 && len(r.DeviceIDs) > 0:
		return fault.Invalid("cannot set both Count and DeviceIDs on device request")
	case r.Count < -1 || r.Count > 1024:
		return fault.Invalid("invalid Count %d: want -1 for all, or a number of devices", r.Count)
	}
	for _, id := range r.DeviceIDs {
		if !qualifiedName().MatchString("v/c=" + id) {
			return fault.Invalid("invalid device id %.128q", id)
		}
	}
	return nil
}
