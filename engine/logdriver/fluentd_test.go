package logdriver

import (
	"maps"
	"strings"
	"testing"
	"time"

	"moss/engine/fault"
)

// remoteCase is a value of one option, and what becomes of the options of a driver with it.
type remoteCase[T any] struct {
	option, value string
	change        func(*T) // nil: the value is wrong
}

// testOptions judges a parser and the driver's row. base has the options that a case has beside its own.
func testOptions[T comparable](
	t *testing.T, driver string, parse func(map[string]string) (T, error), base func(option string) map[string]string,
	cases []remoteCase[T],
) {
	t.Helper()
	row, err := Find(driver)
	if err != nil || row.Writes != Remote || row.Readable {
		t.Fatalf("Find(%s) = %+v, %v", driver, row, err)
	}
	seen := map[string]int{}
	for _, tc := range cases {
		want, err := parse(base(tc.option))
		if err != nil {
			t.Fatal(err)
		}
		options := map[string]string{"labels": "x", "unknown": "y"}
		maps.Copy(options, base(tc.option))
		options[tc.option] = tc.value
		got, err := parse(options)
		checked := row.Check(options)
		if tc.change == nil {
			for _, err := range []error{err, checked} {
				if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "'"+tc.option+"'") {
					t.Errorf("%s=%q: %+v, %v, want fault.Invalid that names the option", tc.option, tc.value, got, err)
				}
			}
			seen[tc.option] |= 1
			continue
		}
		tc.change(&want)
		if err != nil || checked != nil || got != want {
			t.Errorf("%s=%q: %+v, %v, %v, want %+v", tc.option, tc.value, got, err, checked, want)
		}
		seen[tc.option] |= 2
	}
	for _, option := range row.Options {
		if seen[option] != 3 {
			t.Errorf("%s has no case of a right and a wrong value", option)
		}
	}
}

func TestFluentdOptions(t *testing.T) {
	fluentd := func(change func(*Fluentd)) func(*Fluentd) { return change }
	to := func(network, address string) func(*Fluentd) {
		return func(f *Fluentd) { f.Network, f.Address = network, address }
	}
	size := func(n int64) func(*Fluentd) { return func(f *Fluentd) { f.BufferLimit = n } }
	testOptions(t, "fluentd", ParseFluentd, func(string) map[string]string { return nil }, []remoteCase[Fluentd]{
		{"fluentd-address", "", to("tcp", "localhost:24224")},
		{"fluentd-address", "example.com", to("tcp", "example.com:24224")},
		{"fluentd-address", "example.com:", to("tcp", "example.com:24224")},
		{"fluentd-address", ":1234", to("tcp", "localhost:1234")},
		{"fluentd-address", "10.0.0.1:1234", to("tcp", "10.0.0.1:1234")},
		{"fluentd-address", "tcp://h:1", to("tcp", "h:1")},
		{"fluentd-address", "tcp://[::1]:1", to("tcp", "[::1]:1")},
		{"fluentd-address", "[::1]", to("tcp", "[::1]:24224")},
		{"fluentd-address", "tls://h", to("tls", "h:24224")},
		{"fluentd-address", "unix:///run/fluent.sock", to("unix", "/run/fluent.sock")},
		{"fluentd-address", "unix://", nil},
		{"fluentd-address", "unix://run/fluent.sock", nil},
		{"fluentd-address", "udp://h:1", nil},
		{"fluentd-address", "tcp://h:1/path", nil},
		{"fluentd-address", "tcp://h/path", nil},
		{"fluentd-address", "h:0", nil},
		{"fluentd-address", "h:65536", nil},
		{"fluentd-address", "h:http", nil},
		{"fluentd-address", "::1", nil},
		{"fluentd-address", "user@h:1", nil},
		{"fluentd-async", "true", fluentd(func(f *Fluentd) { f.Async = true })},
		{"fluentd-async", "f", fluentd(func(*Fluentd) {})},
		{"fluentd-async", "yes", nil},
		{"fluentd-async-connect", "1", fluentd(func(f *Fluentd) { f.Async = true })},
		{"fluentd-async-connect", "no", nil},
		{"fluentd-async-reconnect-interval", "100ms", fluentd(func(f *Fluentd) { f.ReconnectInterval = 100 * time.Millisecond })},
		{"fluentd-async-reconnect-interval", "10s", fluentd(func(f *Fluentd) { f.ReconnectInterval = 10 * time.Second })},
		{"fluentd-async-reconnect-interval", "99ms", nil},
		{"fluentd-async-reconnect-interval", "10.1s", nil},
		{"fluentd-async-reconnect-interval", "5", nil},
		{"fluentd-buffer-limit", "4096", size(4096)},
		{"fluentd-buffer-limit", "64k", size(64 << 10)},
		{"fluentd-buffer-limit", "1.5MB", size(3 << 19)},
		{"fluentd-buffer-limit", "2 GiB", size(2 << 30)},
		{"fluentd-buffer-limit", "1t", size(1 << 40)},
		{"fluentd-buffer-limit", "7b", size(7)},
		{"fluentd-buffer-limit", "0", nil},
		{"fluentd-buffer-limit", "-1", nil},
		{"fluentd-buffer-limit", "k", nil},
		{"fluentd-buffer-limit", "1kk", nil},
		{"fluentd-buffer-limit", "1e10g", nil},
		{"fluentd-buffer-limit", "NaN", nil},
		{"fluentd-retry-wait", "2s", fluentd(func(f *Fluentd) { f.RetryWait = 2 * time.Second })},
		{"fluentd-retry-wait", "0", nil},
		{"fluentd-retry-wait", "-1s", nil},
		{"fluentd-retry-wait", "1000", nil},
		{"fluentd-max-retries", "0", fluentd(func(f *Fluentd) { f.Tries = 1 })},
		{"fluentd-max-retries", "3", fluentd(func(f *Fluentd) { f.Tries = 4 })},
		{"fluentd-max-retries", "2147483647", fluentd(func(f *Fluentd) { f.Tries = 2147483647 })},
		{"fluentd-max-retries", "2147483648", nil},
		{"fluentd-max-retries", "-1", nil},
		{"fluentd-request-ack", "true", fluentd(func(f *Fluentd) { f.RequestAck = true })},
		{"fluentd-request-ack", "ja", nil},
		{"fluentd-sub-second-precision", "true", fluentd(func(f *Fluentd) { f.SubSecond = true })},
		{"fluentd-sub-second-precision", "2", nil},
		{"fluentd-write-timeout", "5s", fluentd(func(f *Fluentd) { f.WriteTimeout = 5 * time.Second })},
		{"fluentd-write-timeout", "0", fluentd(func(*Fluentd) {})},
		{"fluentd-write-timeout", "-5s", nil},
		{"fluentd-read-timeout", "5s", fluentd(func(f *Fluentd) { f.ReadTimeout = 5 * time.Second })},
		{"fluentd-read-timeout", "5", nil},
	})
	want := Fluentd{
		Network: "tcp", Address: "localhost:24224", RetryWait: time.Second, WriteTimeout: 30 * time.Second,
		ReadTimeout: 30 * time.Second, BufferLimit: 1 << 20,
	}
	if f, err := ParseFluentd(nil); err != nil || f != want {
		t.Errorf("without options: %+v, %v, want %+v", f, err, want)
	}
	both := map[string]string{"fluentd-async": "true", "fluentd-async-connect": "true"}
	if f, err := ParseFluentd(both); !fault.Is(err, fault.Invalid) {
		t.Errorf("ParseFluentd(%v) = %+v, %v", both, f, err)
	}
}

func FuzzFluentd(f *testing.F) {
	f.Add("fluentd-address", "tls://[::1]:24224")
	f.Add("fluentd-buffer-limit", "1.5m")
	f.Fuzz(func(t *testing.T, name, value string) {
		parsed, err := ParseFluentd(map[string]string{name: value})
		if err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%s=%q: %v", name, value, err)
		}
		if err == nil && (parsed.Address == "" || parsed.RetryWait <= 0 || parsed.WriteTimeout <= 0 || parsed.BufferLimit < 0) {
			t.Errorf("%s=%q: %+v", name, value, parsed)
		}
	})
}
