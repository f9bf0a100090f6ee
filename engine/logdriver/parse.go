package logdriver

import (
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"moss/engine/fault"
)

// invalidOpt is the error of an option's value.
func invalidOpt(name, value, want string) error {
	return fault.Invalid("invalid value %.200q of log opt '%s': want %s", value, name, want)
}

func parseOnOff(value string) (on bool, want string, ok bool) {
	on, err := strconv.ParseBool(value)
	return on, "true or false", err == nil
}

func parseDuration(value string, least, longest time.Duration) (d time.Duration, ok bool) {
	d, err := time.ParseDuration(value)
	return d, err == nil && d >= least && d <= longest
}

// parseTimeout reads a bound of a wait; 0 is the default, since no wait is without a bound.
func parseTimeout(value string, unset time.Duration) (d time.Duration, ok bool) {
	d, ok = parseDuration(value, 0, math.MaxInt64)
	if d == 0 {
		d = unset
	}
	return d, ok
}

// parseBytes reads a size such as 4096, 1.5m, 1mb or 1MiB. Units are powers of 1024.
func parseBytes(value string) (size int64, ok bool) {
	digits := strings.TrimRight(value, " kKmMgGtTpPiIbB")
	unit := strings.ToLower(strings.TrimPrefix(value[len(digits):], " "))
	power, known := map[string]int{
		"": 0, "b": 0, "k": 1, "kb": 1, "kib": 1, "m": 2, "mb": 2, "mib": 2, "g": 3, "gb": 3, "gib": 3, "t": 4, "tb": 4, "tib": 4,
	}[unit]
	number, err := strconv.ParseFloat(digits, 64)
	number *= math.Pow(1024, float64(power))
	ok = known && err == nil && number >= 1 && number < 1<<62
	if !ok {
		return 0, false
	}
	return int64(number), true
}

// joinHostPort brings an address into the form host:port. An empty port or host is replaced by the given one; a wrong one, and
// anything else beside them, is not ok. A host with colons stands in brackets.
func joinHostPort(address, host, port string) (joined string, ok bool) {
	if strings.ContainsAny(address, "/@?# \t\r\n\x00") {
		return "", false
	}
	h, p, err := net.SplitHostPort(address)
	if err != nil {
		// There is no port, unless the address is wrong in another way.
		if h, p, err = net.SplitHostPort(address + ":"); err != nil {
			return "", false
		}
	}
	if h == "" {
		h = host
	}
	if p == "" {
		p = port
	}
	number, err := strconv.ParseUint(p, 10, 16)
	if err != nil || number == 0 {
		return "", false
	}
	return net.JoinHostPort(h, p), true
}
