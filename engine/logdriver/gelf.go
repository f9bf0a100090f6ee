package logdriver

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"moss/engine/fault"
)

// Gelf has the options of the driver gelf.
type Gelf struct {
	Network     string // udp or tcp
	Address     string // host:port
	Compression string // gzip, zlib or none; of udp
	Level       int    // of the compression, from -1, which is the library's choice, to 9
	// Tries is how many failures in a row there are before records are dropped, with ReconnectDelay between them. 0: none are
	// dropped. Both are of tcp.
	Tries          int
	ReconnectDelay time.Duration // 0: the caller's choice
}

// gelfOptions are in the order in which they are listed.
var gelfOptions = []string{ //nolint:gochecknoglobals // a constant
	"gelf-address", "gelf-compression-type", "gelf-compression-level", "gelf-tcp-max-reconnect", "gelf-tcp-reconnect-delay",
}

// gelfReconnectDelay is the wait between tries whose number is bounded.
const gelfReconnectDelay = time.Second

// ParseGelf reads the options of the driver gelf; others are not looked at. fault.Invalid names the option.
func ParseGelf(options map[string]string) (Gelf, error) {
	g := Gelf{Compression: "gzip", Level: -1}
	if options["gelf-address"] == "" {
		return Gelf{}, fault.Invalid("log opt 'gelf-address' is required: want udp://host:port or tcp://host:port")
	}
	for _, name := range gelfOptions {
		value := options[name]
		if value == "" {
			continue
		}
		if network := gelfNetwork(name); network != "" && network != g.Network {
			return Gelf{}, fault.Invalid("log opt '%s' cannot be combined with an address of %s", name, g.Network)
		}
		if want := g.setOption(name, value); want != "" {
			return Gelf{}, invalidOpt(name, value, want)
		}
	}
	if g.Network == "tcp" {
		g.Compression = "none"
	}
	if g.Tries > 0 && g.ReconnectDelay == 0 {
		g.ReconnectDelay = gelfReconnectDelay
	}
	return g, nil
}

func checkGelf(options map[string]string) error {
	_, err := ParseGelf(options)
	return err
}

// gelfNetwork returns the network that an option belongs to; nothing if to both.
func gelfNetwork(name string) string {
	switch {
	case strings.HasPrefix(name, "gelf-tcp-"):
		return "tcp"
	case strings.HasPrefix(name, "gelf-compression-"):
		return "udp"
	default:
		return ""
	}
}

// setOption sets one option. It returns how the value should look if it does not.
func (g *Gelf) setOption(name, value string) (want string) {
	ok := false
	switch name {
	case "gelf-address":
		g.Network, g.Address, ok = parseGelfAddress(value)
		want = "udp://host:port or tcp://host:port"
	case "gelf-compression-type":
		g.Compression, ok = value, slices.Contains([]string{"gzip", "zlib", "none"}, value)
		want = "gzip, zlib or none"
	case "gelf-compression-level":
		level, err := strconv.Atoi(value)
		g.Level, ok = level, err == nil && level >= -1 && level <= 9
		want = "a number from -1 to 9"
	case "gelf-tcp-max-reconnect":
		retries, err := strconv.ParseUint(value, 10, 30)
		g.Tries, ok = int(retries)+1, err == nil
		want = "a number from 0 to 1073741823"
	case "gelf-tcp-reconnect-delay":
		seconds, err := strconv.ParseUint(value, 10, 30)
		g.ReconnectDelay, ok = time.Duration(seconds)*time.Second, err == nil
		want = "a number of seconds from 0 to 1073741823"
	}
	if ok {
		return ""
	}
	return want
}

// parseGelfAddress splits an address into what package net takes. The port must be there.
func parseGelfAddress(value string) (network, address string, ok bool) {
	network, rest, found := strings.Cut(value, "://")
	if !found || network != "udp" && network != "tcp" {
		return "", "", false
	}
	address, ok = joinHostPort(rest, "localhost", "")
	return network, address, ok
}
