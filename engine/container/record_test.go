package container

import (
	"encoding/json"
	"testing"
)

// TestNetworkInRecord: what a running container has of the network stands in its file as earlier engines have written it.
func TestNetworkInRecord(t *testing.T) {
	const file = `{"SandboxID":"4f","SandboxKey":"/run/netns/4f","Mode":"bridge",` +
		`"Endpoints":{"bridge":{"NetworkID":"5a","EndpointID":"6b","Device":"eth0","Gateway":"10.1.0.1","IPAddress":"10.1.0.2",` +
		`"IPPrefixLen":16,"IPv6Gateway":"fd00::1","GlobalIPv6Address":"fd00::2","GlobalIPv6PrefixLen":64,"MacAddress":"02:42:0a:01:00:02"}},` +
		`"Primary":"bridge","Ports":[{"Proto":"tcp","ContainerPort":80,"HostIP":"0.0.0.0","HostPort":8080}],"DNS":["10.1.0.1"],` +
		`"Search":["example.com"],"Options":["ndots:0"],"Host":"10.0.2.2","Leaving":"5a","Etc":{"Hosts":["10.1.0.2\tweb"],"Resolv":"x"}}`
	var n Network
	if err := json.Unmarshal([]byte(file), &n); err != nil {
		t.Fatal(err)
	}
	if got, err := json.Marshal(n); err != nil || string(got) != file {
		t.Errorf("written = %s, %v, want %s", got, err, file)
	}
}

// TestTerminalSizeInRecord: a size that older engines took, and no terminal has, leaves the record readable.
func TestTerminalSizeInRecord(t *testing.T) {
	for file, want := range map[string]TerminalSize{
		`{}`:                         {},
		`{"ConsoleSize":null}`:       {},
		`{"ConsoleSize":[24,80]}`:    {24, 80},
		`{"ConsoleSize":[70000,20]}`: {65535, 20},
		`{"ConsoleSize":[20,18446744073709551615]}`: {20, 65535},
	} {
		var h HostConfig
		if err := json.Unmarshal([]byte(file), &h); err != nil || h.ConsoleSize != want {
			t.Errorf("ConsoleSize of %s = %v, %v, want %v", file, h.ConsoleSize, err, want)
		}
	}
	if err := json.Unmarshal([]byte(`{"ConsoleSize":[-1,"x"]}`), new(HostConfig)); err == nil {
		t.Error("a ConsoleSize that no engine has written is taken")
	}
}
