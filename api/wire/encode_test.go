package wire_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"moss/api/apiver"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/container"
	"moss/engine/fault"
)

type inner struct {
	Old string `json:"old" api:"-1.20"`
	New string `json:"new" api:"1.21-"`
}

type outer struct {
	inner
	Always  int
	Nothing *inner           `json:",omitempty"`
	List    []inner          `api:"1.20-1.22"`
	Map     map[string]inner `json:"map"`
	Any     any
	Skipped string `json:"-"`
	Kept    []int  `json:",omitempty" api:"1.20-" always:"1.24-"`
	hidden  string
}

func TestEncodeVersions(t *testing.T) {
	value := outer{
		inner: inner{"a", "b"}, Always: 1, List: []inner{{"c", "d"}}, Map: map[string]inner{"k": {"e", "f"}}, Any: inner{"g", "h"},
		Skipped: "no", hidden: "no",
	}
	for _, tc := range []struct {
		minor uint16
		want  string
	}{
		{18, `{"old":"a","Always":1,"map":{"k":{"old":"e"}},"Any":{"old":"g"}}`},
		{20, `{"old":"a","Always":1,"List":[{"old":"c"}],"map":{"k":{"old":"e"}},"Any":{"old":"g"}}`},
		{21, `{"new":"b","Always":1,"List":[{"new":"d"}],"map":{"k":{"new":"f"}},"Any":{"new":"h"}}`},
		{24, `{"new":"b","Always":1,"map":{"k":{"new":"f"}},"Any":{"new":"h"},"Kept":null}`},
	} {
		got, err := wire.Encode(value, apiver.New(1, tc.minor))
		if err != nil || string(got) != tc.want {
			t.Errorf("Encode at 1.%d = %s, %v, want %s", tc.minor, got, err, tc.want)
		}
	}
}

// TestEncodeLikeJSON compares with encoding/json where no versions are at play.
func TestEncodeLikeJSON(t *testing.T) {
	var none *inner
	var noMap map[string]int
	for _, value := range []any{
		nil, true, 1, -5, uint8(7), 1.5, math.MaxInt64, uint64(math.MaxUint64), "", "plain", "ünï\u2028\u2029\x00\x1f\x7f\"\\\n\r\t",
		"bad \xff utf8 \xed\xa0\x80",
		[]string{},
		[]string(nil),
		[]string{"a"},
		[2]uint{1, 2},
		map[string]string{"b": "1", "a": "2"},
		map[string]struct{}{"x": {}},
		noMap, none,
		struct{}{},
		[]byte("raw"),
		map[int]string{1: "a"},
		time.Unix(0, 0).UTC(), time.Second,
		json.RawMessage(`{"a":1}`), container.Running,
		types.Strings{"a"},
		[]any{1, "a", nil},
		struct {
			A int      `json:"a,omitempty"`
			B []string `json:",omitempty"`
			C *int     `json:",omitempty"`
			D bool
		}{},
	} {
		var want strings.Builder
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(value); err != nil {
			t.Fatal(err)
		}
		got, err := wire.Encode(value, apiver.Max)
		if err != nil || string(got)+"\n" != want.String() {
			t.Errorf("Encode(%#v) = %s, %v, want %s", value, got, err, want.String())
		}
	}
}

func TestEncodeErrors(t *testing.T) {
	type loop struct{ Next *loop }
	ring := &loop{}
	ring.Next = ring
	for name, value := range map[string]any{"function": func() {}, "channel in struct": struct{ C chan int }{}, "ring": ring} {
		if got, err := wire.Encode(value, apiver.Max); err == nil {
			t.Errorf("Encode(%s) = %s, want an error", name, got)
		}
	}
}

func TestDecode(t *testing.T) {
	for _, tc := range []struct {
		name, in string
		minor    uint16
		check    func(c *types.ContainerCreate) bool
	}{
		{"command as string", `{"Cmd":"sh","Entrypoint":["a","b"]}`, 24, func(c *types.ContainerCreate) bool {
			return reflect.DeepEqual(c.Cmd, types.Strings{"sh"}) && len(c.Entrypoint) == 2
		}},
		{"signal as number", `{"StopSignal":9}`, 24, func(c *types.ContainerCreate) bool { return c.StopSignal == "9" }},
		{"signal too early", `{"StopSignal":9}`, 20, func(c *types.ContainerCreate) bool { return c.StopSignal == "" }},
		{"nested too early", `{"HostConfig":{"ShmSize":5,"Memory":6}}`, 21, func(c *types.ContainerCreate) bool {
			return wire.ToCreateHost(c).ShmSize == 0 && wire.ToCreateHost(c).Memory == 6
		}},
		{"nested in time", `{"HostConfig":{"ShmSize":5}}`, 22, func(c *types.ContainerCreate) bool { return wire.ToCreateHost(c).ShmSize == 5 }},
		{"networks too early", `{"NetworkingConfig":{"EndpointsConfig":{"n":{}}}}`, 21, func(c *types.ContainerCreate) bool { return wire.ToEndpoints(c) == nil }},
		{
			"networks", `{"NetworkingConfig":{"EndpointsConfig":{"n":{"Aliases":["a"],"IPAMConfig":{"IPv4Address":"192.0.2.1","LinkLocalIPs":["x"]}},"m":null}}}`, 22,
			func(c *types.ContainerCreate) bool {
				n := wire.ToEndpoints(c)["n"]
				_, m := wire.ToEndpoints(c)["m"]
				return m && n.Aliases[0] == "a" && n.IPAMConfig.IPv4Address == "192.0.2.1" && n.IPAMConfig.LinkLocalIPs == nil
			},
		},
		{"legacy at the top", `{"Memory":5,"CpuShares":6,"Cpuset":"0","VolumeDriver":"d","HostConfig":{"CpuShares":7}}`, 18, func(c *types.ContainerCreate) bool {
			h := wire.ToCreateHost(c)
			return h.Memory == 5 && h.CPUShares == 7 && h.CpusetCpus == "0" && h.VolumeDriver == "d"
		}},
		{"other case and unknown", `{"image":"b","Nope":{}}`, 24, func(c *types.ContainerCreate) bool { return c.Image == "b" }},
		{"white space behind", "{\"Image\":\"b\"}\n \t", 24, func(c *types.ContainerCreate) bool { return c.Image == "b" }},
		{"host settings by their own names", `{"HostConfig":{"Dns":["1"],"CpuQuota":3,"PidMode":"host","LxcConf":{"a":"b"}}}`, 21, func(c *types.ContainerCreate) bool {
			h := wire.ToCreateHost(c)
			return h.DNS[0] == "1" && h.CPUQuota == 3 && h.PidMode == "host" && len(h.LxcConf) == 1
		}},
	} {
		var c types.ContainerCreate
		if err := wire.Decode([]byte(tc.in), &c, apiver.New(1, tc.minor)); err != nil || !tc.check(&c) {
			t.Errorf("%s: Decode(%s) at 1.%d = %+v, %v", tc.name, tc.in, tc.minor, c, err)
		}
	}
}

func TestDecodeErrors(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{``, "ends too early"},
		{`{"Image":`, "ends too early"},
		{`{"Image":}`, "malformed JSON at byte 10"},
		{`{} {}`, "unexpected data after the value"},
		{`{}]`, "unexpected data after the value"},
		{`[]`, "invalid value for the body: got array, want an object"},
		{`{"Tty":"yes"}`, "invalid value for Tty: got string, want a boolean"},
		{`{"Env":"A=b"}`, "invalid value for Env: got string, want an array of strings"},
		{`{"Cmd":{}}`, "invalid value for Cmd: got object, want a string or an array of strings"},
		{`{"StopSignal":-1}`, "invalid value for StopSignal: got number, want a signal's name or number"},
		{`{"Labels":[]}`, "invalid value for Labels: got array, want an object"},
		{`{"HostConfig":{"Memory":"5"}}`, "invalid value for HostConfig.Memory: got string, want an integer"},
		{`{"HostConfig":{"Memory":1.5}}`, "invalid value for HostConfig.Memory: got number 1.5, want an integer"},
		{`{"HostConfig":{"PortBindings":{"80/tcp":[{"HostPort":80}]}}}`, "HostPort: got number, want a string"},
		{`{"HostConfig":{"BlkioWeight":65536}}`, "HostConfig.BlkioWeight: got number 65536, want an integer from 0 to 65535"},
		{`{"HostConfig":{"IOMaximumIOps":-1}}`, "IOMaximumIOps: got number -1, want an integer that is not negative"},
		{`{"HostConfig":{"ConsoleSize":[70000,20]}}`, "ConsoleSize: got number 70000, want an integer from 0 to 65535"},
		{`{"HostConfig":{"ConsoleSize":5}}`, "ConsoleSize: got number, want an array of integers"},
		{`{"Tty":"yes"} x`, "invalid value for Tty"},
	} {
		var c types.ContainerCreate
		err := wire.Decode([]byte(tc.in), &c, apiver.Max)
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Decode(%s) = %v, want an invalid fault with %q", tc.in, err, tc.want)
		}
	}
}

func FuzzCreate(f *testing.F) {
	f.Add([]byte(`{"Image":"b","Cmd":"sh","HostConfig":{"Memory":5,"LxcConf":[{"Key":"a"}],"Dns":null},"NetworkingConfig":{"EndpointsConfig":{"n":null}}}`))
	f.Add([]byte(`{"Labels":{"\ud800":"\u2028<"},"StopSignal":"SIGTERM","Healthcheck":{"Interval":5}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, in []byte) {
		for version := apiver.Min; version <= apiver.Max; version++ {
			var c types.ContainerCreate
			if _, err := wire.DecodeWarn(in, &c, version); err != nil {
				if !fault.Is(err, fault.Invalid) {
					t.Fatalf("DecodeWarn(%q) = %v, want an invalid fault", in, err)
				}
				continue
			}
			wire.ToCreateHost(&c)
			wire.ToEndpoints(&c)
			raw, err := wire.Encode(c, version)
			if err != nil || !json.Valid(raw) {
				t.Fatalf("Encode of %q = %q, %v", in, raw, err)
			}
			// What was written must be read back as it was.
			var again types.ContainerCreate
			if err := wire.Decode(raw, &again, version); err != nil {
				t.Fatalf("Decode of what was encoded: %q: %v", raw, err)
			}
			second, err := wire.Encode(again, version)
			if err != nil || string(second) != string(raw) {
				t.Fatalf("encoded twice: %q and %q, %v", raw, second, err)
			}
		}
	})
}

func FuzzEncodeString(f *testing.F) {
	f.Add("plain")
	f.Add("\x00\xff\u2028\\\"")
	f.Fuzz(func(t *testing.T, in string) {
		var want strings.Builder
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(in); err != nil {
			t.Fatal(err)
		}
		got, err := wire.Encode(in, apiver.Max)
		if err != nil || string(got)+"\n" != want.String() {
			t.Fatalf("Encode(%q) = %s, %v, want %s", in, got, err, want.String())
		}
	})
}

func BenchmarkInspect(b *testing.B) {
	record := sample()
	for b.Loop() {
		if _, err := wire.Encode(wire.NewContainerInspect(record), apiver.Max); err != nil {
			b.Fatal(err)
		}
	}
}
