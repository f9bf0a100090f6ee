package types

import "time"

// Healthcheck is an image's or a container's health check (API document 1, 2.2). Durations are nanoseconds.
type Healthcheck struct {
	Test          []string      `json:"Test,omitempty"` // NONE, CMD and arguments, or CMD-SHELL and a command
	Interval      time.Duration `json:"Interval,omitempty"`
	Timeout       time.Duration `json:"Timeout,omitempty"`
	StartPeriod   time.Duration `json:"StartPeriod,omitempty"`
	StartInterval time.Duration `json:"StartInterval,omitempty"` // of 1.44, at every version
	Retries       int           `json:"Retries,omitempty"`
}

// DeviceRequest asks for devices of the host by their names, or by what they can do. It is of 1.40, at every version.
type DeviceRequest struct {
	Driver       string
	Count        int
	DeviceIDs    []string
	Capabilities [][]string
	Options      map[string]string
}

// PortBinding is one host side of a published port. HostPort is a string: a port, a range a-b, "0" or empty.
type PortBinding struct {
	HostIP   string `json:"HostIp,omitzero"`
	HostPort string
}

// RestartPolicy says when an ended container starts again (API document 1, 2.3).
type RestartPolicy struct {
	Name              string
	MaximumRetryCount int `json:",omitzero"`
}

// LogConfig names the log driver and its options.
type LogConfig struct {
	Type   string            `json:",omitzero"`
	Config map[string]string `json:",omitzero"`
}

// WeightDevice is a block device's relative weight.
type WeightDevice struct {
	Path   string
	Weight uint16
}

// ThrottleDevice is a block device's rate, in bytes or operations per second.
type ThrottleDevice struct {
	Path string
	Rate uint64
}

// Device is a host device made visible in the container.
type Device struct {
	PathOnHost        string
	PathInContainer   string
	CgroupPermissions string
}

// Ulimit is one resource limit of the container's processes.
type Ulimit struct {
	Name string
	Soft int64
	Hard int64
}
