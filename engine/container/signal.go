package container

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// The real-time signals as programs linked with glibc see them: the library keeps the first two for itself.
const (
	sigRTMin = 34
	sigRTMax = 64
)

// ParseSignal takes a signal's name in any case, with or without SIG (SIGTERM, term, SIGRTMIN+3, RTMAX-1), or its number
// from 1 to 64. Anything else is fault.Invalid.
func ParseSignal(s string) (int, error) {
	name := strings.TrimPrefix(strings.ToUpper(s), "SIG")
	if n, err := strconv.ParseUint(s, 10, 8); err == nil {
		if n < 1 || n > sigRTMax {
			return 0, invalidSignal(s)
		}
		return int(n), nil
	}
	switch name { // second names that the table below does not have
	case "IOT":
		name = "ABRT"
	case "POLL":
		name = "IO"
	case "CLD":
		name = "CHLD"
	}
	if n := unix.SignalNum("SIG" + name); n != 0 {
		return int(n), nil
	}
	n, ok := realTime(name)
	if !ok {
		return 0, invalidSignal(s)
	}
	return n, nil
}

// realTime reads RTMIN, RTMIN+n, RTMAX and RTMAX-n.
func realTime(name string) (int, bool) {
	var base int
	switch {
	case strings.HasPrefix(name, "RTMIN"):
		base = sigRTMin
	case strings.HasPrefix(name, "RTMAX"):
		base = sigRTMax
	default:
		return 0, false
	}
	offset := name[len("RTMIN"):]
	if offset == "" {
		return base, true
	}
	n, err := strconv.ParseUint(offset[1:], 10, 8)
	if err != nil {
		return 0, false
	}
	switch {
	case base == sigRTMin && offset[0] == '+':
		base += int(n)
	case base == sigRTMax && offset[0] == '-':
		base -= int(n)
	default:
		return 0, false
	}
	return base, base >= sigRTMin && base <= sigRTMax
}

func invalidSignal(s string) error { return fault.Invalid("Invalid signal: %s", s) }
