package logdriver

import (
	"math"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"moss/engine/fault"
)

// Fluentd has the options of the driver fluentd.
type Fluentd struct {
	Network string // tcp, tls or unix
	Address string // host:port, or the path of a socket
	Async   bool   // the receiver is not asked when a container starts
	// ReconnectInterval is how old a connection gets with Async before a new one is made, with the name looked up again.
	// 0: there is no bound.
	ReconnectInterval time.Duration
	BufferLimit       int64         // bytes of output that wait with Async
	RetryWait         time.Duration // after the first error
	Tries             int           // failures in a row before records are dropped; 0: none are
	RequestAck        bool          // the receiver says what it took
	SubSecond         bool          // times are in nanoseconds instead of seconds
	WriteTimeout      time.Duration // of one write
	ReadTimeout       time.Duration // of one acknowledgement
}

// fluentdOptions are in the order in which they are listed.
var fluentdOptions = []string{ //nolint:gochecknoglobals // a constant
	"fluentd-address", "fluentd-async", "fluentd-async-connect", "fluentd-async-reconnect-interval", "fluentd-buffer-limit",
	"fluentd-retry-wait", "fluentd-max-retries", "fluentd-request-ack", "fluentd-sub-second-precision",
	"fluentd-write-timeout", "fluentd-read-timeout",
}

const (
	fluentdHost = "localhost"
	fluentdPort = "24224"

	// Bounds of fluentd-async-reconnect-interval.
	fluentdLeastInterval   = 100 * time.Millisecond
	fluentdLongestInterval = 10 * time.Second

	fluentdRetryWait   = time.Second
	fluentdBufferLimit = 1 << 20
	fluentdTimeout     = 30 * time.Second // of a write, and of an acknowledgement
)

// ParseFluentd reads the options of the driver fluentd; others are not looked at. fault.Invalid names the option.
func ParseFluentd(options map[string]string) (Fluentd, error) {
	f := Fluentd{
		Network: "tcp", Address: net.JoinHostPort(fluentdHost, fluentdPort), RetryWait: fluentdRetryWait,
		WriteTimeout: fluentdTimeout, ReadTimeout: fluentdTimeout, BufferLimit: fluentdBufferLimit,
	}
	if options["fluentd-async"] != "" && options["fluentd-async-connect"] != "" {
		return Fluentd{}, fault.Invalid("conflicting log opts: 'fluentd-async' and 'fluentd-async-connect' cannot be combined")
	}
	for _, name := range fluentdOptions {
		value := options[name]
		if value == "" {
			continue
		}
		if want := f.setOption(name, value); want != "" {
			return Fluentd{}, invalidOpt(name, value, want)
		}
	}
	return f, nil
}

func checkFluentd(options map[string]string) error {
	_, err := ParseFluentd(options)
	return err
}

// setOption sets one option. It returns how the value should look if it does not.
func (f *Fluentd) setOption(name, value string) (want string) {
	ok := false
	switch name {
	case "fluentd-address":
		f.Network, f.Address, ok = parseFluentdAddress(value)
		want = "host:port, tcp://host:port, tls://host:port or unix:///path"
	case "fluentd-async", "fluentd-async-connect":
		f.Async, want, ok = parseOnOff(value)
	case "fluentd-request-ack":
		f.RequestAck, want, ok = parseOnOff(value)
	case "fluentd-sub-second-precision":
		f.SubSecond, want, ok = parseOnOff(value)
	case "fluentd-async-reconnect-interval":
		f.ReconnectInterval, ok = parseDuration(value, fluentdLeastInterval, fluentdLongestInterval)
		want = "a duration from 100ms to 10s"
	case "fluentd-buffer-limit":
		f.BufferLimit, ok = parseBytes(value)
		want = "a number of bytes above 0, with a unit such as k, m or g"
	case "fluentd-max-retries":
		retries, err := strconv.ParseUint(value, 10, 31)
		f.Tries, ok = int(min(retries, math.MaxInt32-1))+1, err == nil
		want = "a number from 0 to 2147483647"
	case "fluentd-retry-wait":
		f.RetryWait, ok = parseDuration(value, time.Millisecond, math.MaxInt64)
		want = "a duration of at least 1ms"
	case "fluentd-write-timeout":
		f.WriteTimeout, ok = parseTimeout(value, fluentdTimeout)
		want = "a duration such as 10s"
	case "fluentd-read-timeout":
		f.ReadTimeout, ok = parseTimeout(value, fluentdTimeout)
		want = "a duration such as 10s"
	}
	if ok {
		return ""
	}
	return want
}

// parseFluentdAddress splits an address into what package net takes. Host and port may be left out.
func parseFluentdAddress(value string) (network, address string, ok bool) {
	network, rest, found := strings.Cut(value, "://")
	if !found {
		network, rest = "tcp", value
	}
	switch network {
	case "unix":
		return network, rest, filepath.IsAbs(rest) && !strings.Contains(rest, "\x00")
	case "tcp", "tls":
		address, ok = joinHostPort(rest, fluentdHost, fluentdPort)
		return network, address, ok
	default:
		return "", "", false
	}
}

// fluentdBuffer is the Buffer of the driver: with fluentd-async the container does not wait for its log.
func fluentdBuffer(options map[string]string) int64 {
	f, err := ParseFluentd(options)
	if err != nil || !f.Async {
		return 0
	}
	return f.BufferLimit
}
