package mesh

import (
	"context"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"moss/engine/swarm/member"
	"moss/engine/swarm/table"
)

func TestReadDataAddr(t *testing.T) {
	for text, want := range map[string]string{
		"": "invalid IP", BehindNAT: "invalid IP", "192.0.2.1": "192.0.2.1", "2001:db8::1": "2001:db8::1",
		"::ffff:192.0.2.1": "192.0.2.1", "fe80::1%eth0": "fe80::1", "lo": "127.0.0.1",
	} {
		if got, err := readDataAddr(text); err != nil || got.String() != want {
			t.Errorf("readDataAddr(%q) = %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"no-such-device", "192.0.2.1:80", "192.0.2.0/24", "a/b", "\n"} {
		if got, err := readDataAddr(text); err == nil {
			t.Errorf("readDataAddr(%q) = %s, want an error", text, got)
		}
	}
}

func TestLabels(t *testing.T) {
	node := member.Open(member.Options{Dir: t.TempDir(), Log: zerolog.Nop()})
	defer node.Close()
	for setting, data := range map[string]string{"192.0.2.1": "192.0.2.1:4789", BehindNAT: "", "": "", "no-such-device": ""} {
		m := newMesh(t, newFakeEngine(), io.Discard)
		m.opt.DataAddr = setting
		waiting, cancel := context.WithCancel(t.Context())
		cancel()
		if got := m.Labels(waiting); len(got) > 0 {
			t.Errorf("before the start: %v", got)
		}
		m.Start(node) // in no swarm: it does not know where it is
		labels := m.Labels(t.Context())
		key, err := m.keys.publicKey()
		check(t, err)
		m.Close()
		if labels[labelKey] != key.String() || labels[labelData] != data {
			t.Errorf("setting %q: %v, want the key %s and the data address %q", setting, labels, key, data)
		}
		// What a node tells of itself is understood.
		told, routes := convertNode(nodeWith(labels))
		if told.Key != key || data != "" && told.Data.String() != data || len(routes) == 0 != (labels[labelRoutes] == "") {
			t.Errorf("%v is understood as %+v with the routes %v", labels, told, routes)
		}
		for label := range labels {
			if !IsOwnLabel(label) {
				t.Errorf("the label %s is not one of the tunnel", label)
			}
		}
	}
	if IsOwnLabel("disk") {
		t.Error("a label of the user is one of the tunnel")
	}
}

func TestKeyOfTheTunnel(t *testing.T) {
	m := newMesh(t, newFakeEngine(), io.Discard)
	path := filepath.Join(m.opt.Dir, keyFile)
	own := func() table.Key {
		t.Helper()
		m.keys.key = nil // as after a start
		key, err := m.keys.publicKey()
		check(t, err)
		return key
	}
	first := own()
	if again := own(); first == (table.Key{}) || again != first {
		t.Errorf("the key is %s, and %s after a start", first, again)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its file is %v, %v, want it the owner's alone", info, err)
	}
	seen := map[table.Key]bool{first: true}
	for _, damaged := range []string{"", "x", `"AAAA"`, "null", "{}"} {
		check(t, os.WriteFile(path, []byte(damaged), 0o600))
		next := own()
		if seen[next] || own() != next {
			t.Errorf("%q: the key is %s, want a new one that stays", damaged, next)
		}
		seen[next] = true
	}
	check(t, m.keys.removeKey())
	if next := own(); seen[next] {
		t.Error("the key came back after the node has left")
	}
}

func TestRoutesOfThisHost(t *testing.T) {
	routes, err := listRoutes()
	check(t, err)
	for _, text := range routes {
		if p, err := netip.ParsePrefix(text); err != nil || p.Bits() < shortestRoute || !p.Addr().Is4() {
			t.Errorf("route %q: %v", text, err)
		}
	}
}

func TestTableAddr(t *testing.T) {
	for manager, want := range map[string]string{
		"192.0.2.1:2377": "192.0.2.1:2378", "[2001:db8::1]:65534": "[2001:db8::1]:65535", "host:1": "host:2", ":2377": ":2378",
	} {
		if got, err := tableAddr(manager); err != nil || got != want {
			t.Errorf("tableAddr(%q) = %q, %v, want %q", manager, got, err, want)
		}
	}
	for _, manager := range []string{"", "192.0.2.1", "host:0", "host:65535", "host:65536", "host:http", "host:-1"} {
		if got, err := tableAddr(manager); err == nil {
			t.Errorf("tableAddr(%q) = %q, want an error", manager, got)
		}
	}
}

func TestPauses(t *testing.T) {
	var p pauses
	last := time.Duration(0)
	for range 20 {
		next := p.nextPause()
		if next < last || next < firstDelay || next > lastDelay {
			t.Errorf("a pause of %v after one of %v", next, last)
		}
		last = next
	}
	if last != lastDelay {
		t.Errorf("the longest pause is %v, want %v", last, lastDelay)
	}
}
