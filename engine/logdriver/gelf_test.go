package logdriver

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"moss/engine/fault"
)

func TestGelfOptions(t *testing.T) {
	to := func(network, address string) func(*Gelf) {
		return func(g *Gelf) { g.Network, g.Address = network, address }
	}
	pack := func(kind string, level int) func(*Gelf) {
		return func(g *Gelf) { g.Compression, g.Level = kind, level }
	}
	base := func(option string) map[string]string {
		if strings.HasPrefix(option, "gelf-tcp-") {
			return map[string]string{"gelf-address": "tcp://h:12201"}
		}
		return map[string]string{"gelf-address": "udp://h:12201"}
	}
	retry := func(tries int, delay time.Duration) func(*Gelf) {
		return func(g *Gelf) { g.Tries, g.ReconnectDelay = tries, delay }
	}
	testOptions(t, "gelf", ParseGelf, base, []remoteCase[Gelf]{
		{"gelf-address", "udp://example.com:1", to("udp", "example.com:1")},
		{"gelf-address", "udp://[::1]:1", to("udp", "[::1]:1")},
		{"gelf-address", "udp://:12201", to("udp", "localhost:12201")},
		{"gelf-address", "tcp://h:1", func(g *Gelf) { g.Network, g.Address, g.Compression = "tcp", "h:1", "none" }},
		{"gelf-address", "h:1", nil},
		{"gelf-address", "udp://h", nil},
		{"gelf-address", "udp://h:", nil},
		{"gelf-address", "udp://h:0", nil},
		{"gelf-address", "http://h:1", nil},
		{"gelf-address", "tls://h:1", nil},
		{"gelf-address", "udp://h:1/gelf", nil},
		{"gelf-compression-type", "gzip", pack("gzip", -1)},
		{"gelf-compression-type", "zlib", pack("zlib", -1)},
		{"gelf-compression-type", "none", pack("none", -1)},
		{"gelf-compression-type", "zstd", nil},
		{"gelf-compression-level", "-1", pack("gzip", -1)},
		{"gelf-compression-level", "0", pack("gzip", 0)},
		{"gelf-compression-level", "9", pack("gzip", 9)},
		{"gelf-compression-level", "-2", nil},
		{"gelf-compression-level", "10", nil},
		{"gelf-compression-level", "best", nil},
		{"gelf-tcp-max-reconnect", "3", retry(4, time.Second)},
		{"gelf-tcp-max-reconnect", "0", retry(1, time.Second)},
		{"gelf-tcp-max-reconnect", "-1", nil},
		{"gelf-tcp-max-reconnect", "many", nil},
		{"gelf-tcp-reconnect-delay", "5", retry(0, 5*time.Second)},
		{"gelf-tcp-reconnect-delay", "5s", nil},
		{"gelf-tcp-reconnect-delay", "-1", nil},
	})
	both := map[string]string{"gelf-address": "tcp://h:1", "gelf-tcp-max-reconnect": "2", "gelf-tcp-reconnect-delay": "5"}
	if g, err := ParseGelf(both); err != nil || g.Tries != 3 || g.ReconnectDelay != 5*time.Second {
		t.Errorf("%v: %+v, %v", both, g, err)
	}
	for address, option := range map[string]string{
		"": "gelf-address", "udp://h:1 gelf-tcp-max-reconnect": "3", "udp://h:1 gelf-tcp-reconnect-delay": "1",
		"tcp://h:1 gelf-compression-type": "gzip", "tcp://h:1 gelf-compression-level": "1",
	} {
		address, name, _ := strings.Cut(address, " ")
		options := map[string]string{"gelf-address": address, name: option}
		if g, err := ParseGelf(options); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "'"+cmp.Or(name, option)+"'") {
			t.Errorf("%v: %+v, %v, want fault.Invalid that names the option", options, g, err)
		}
	}
}

func FuzzGelf(f *testing.F) {
	f.Add("udp://[::1]:12201", "gelf-compression-level", "9")
	f.Add("tcp://h:1", "gelf-tcp-reconnect-delay", "9")
	f.Fuzz(func(t *testing.T, address, name, value string) {
		g, err := ParseGelf(map[string]string{"gelf-address": address, name: value})
		if err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%s %s=%q: %v", address, name, value, err)
		}
		if err == nil && (g.Address == "" || g.Level < -1 || g.Level > 9 || g.Tries < 0 || g.ReconnectDelay < 0) {
			t.Errorf("%s %s=%q: %+v", address, name, value, g)
		}
	})
}
