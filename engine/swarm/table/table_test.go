package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"moss/engine/fault"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// growing draws tables that follow each other.
type growing struct {
	draw *rand.Rand
	next int
	t    *Table
}

func newGrowing(seed uint64) *growing {
	t := &Table{Nodes: map[string]Node{}, Networks: map[string]Network{}, Services: map[string]Service{}, Tasks: map[string]Task{}}
	return &growing{draw: rand.New(rand.NewPCG(seed, 2)), t: t}
}

// step returns another table with a few changes.
func (g *growing) step() *Table {
	next, err := Apply(g.t, &Delta{Version: g.t.Version + 1})
	if err != nil {
		panic(err)
	}
	next.Nodes, next.Networks = maps.Clone(next.Nodes), maps.Clone(next.Networks)
	next.Services, next.Tasks = maps.Clone(next.Services), maps.Clone(next.Tasks)
	for range g.draw.IntN(4) {
		g.next++
		id := strconv.Itoa(g.draw.IntN(12))
		addr := netip.AddrFrom4([4]byte{10, 208, byte(g.next >> 8), byte(g.next)})
		network := strconv.Itoa(g.draw.IntN(4))
		switch g.draw.IntN(8) {
		case 0:
			next.Nodes[id] = Node{
				Name: id, Key: Key{byte(g.next)}, Data: netip.AddrPortFrom(addr, 4789), Addrs: map[string]netip.Addr{network: addr},
			}
		case 1:
			next.Networks[network] = Network{Name: strconv.Itoa(g.next), Subnet: netip.PrefixFrom(addr, 24), Gateway: addr}
		case 2:
			next.Services[id] = Service{Name: id, VIPs: map[string]netip.Addr{network: addr}, Ports: []Port{{TCP, uint16(g.next), 80}}}
		case 3, 4:
			next.Tasks[id] = Task{Service: id, Node: strconv.Itoa(g.draw.IntN(12)), Attachments: map[string]Attachment{
				network: {Addr: addr, Aliases: []string{"a"}}, strconv.Itoa(g.draw.IntN(4)): {Addr: addr.Next()},
			}}
		case 5:
			if task, ok := next.Tasks[id]; ok {
				task.Ready = !task.Ready
				next.Tasks[id] = task
			}
		case 6:
			delete(next.Tasks, id)
			delete(next.Services, id)
		case 7:
			delete(next.Nodes, id)
			delete(next.Networks, network)
		}
	}
	g.t = next
	return next
}

// sent is what has come out of a connection.
func sent[V any](t testing.TB, v *V) *V {
	t.Helper()
	var b bytes.Buffer
	check(t, writeMessage(&b, maxDelta, v))
	got := new(V)
	check(t, readMessage(&b, maxDelta, got))
	return got
}

// equal compares tables as they are sent.
func equal(t testing.TB, a, b *Table) bool {
	t.Helper()
	x, err := json.Marshal(a)
	check(t, err)
	y, err := json.Marshal(b)
	check(t, err)
	return bytes.Equal(x, y)
}

func TestApplyOfDiffIsNext(t *testing.T) {
	for seed := range uint64(8) {
		g := newGrowing(seed)
		have, older := &Table{}, &Table{}
		for i := range 100 {
			next := g.step()
			before := fmt.Sprint(have)
			got, err := Apply(have, sent(t, Diff(have, next)))
			check(t, err)
			if !equal(t, got, next) {
				t.Fatalf("seed %d, step %d: %+v, want %+v", seed, i, got, next)
			}
			if fmt.Sprint(have) != before {
				t.Fatalf("seed %d, step %d: Apply changed the old table", seed, i)
			}
			if d := DiffSums(Sum(got), next); !d.IsZero() {
				t.Fatalf("seed %d, step %d: sums of the same table differ: %+v", seed, i, d)
			}
			d := DiffSums(*sent(t, new(Sum(older))), next)
			if want := Diff(older, next); !reflect.DeepEqual(d.Tasks.Put, want.Tasks.Put) || len(d.Nodes.Gone) != len(want.Nodes.Gone) {
				t.Fatalf("seed %d, step %d: from sums %+v, want %+v", seed, i, d, want)
			}
			resumed, err := Apply(older, d)
			check(t, err)
			if !equal(t, resumed, next) {
				t.Fatalf("seed %d, step %d: resumed %+v, want %+v", seed, i, resumed, next)
			}
			if have = got; i%17 == 0 {
				older = got
			}
		}
		if len(have.Tasks) == 0 {
			t.Error("a walk without tasks")
		}
	}
}

func TestApplyIsBounded(t *testing.T) {
	put := map[string]Task{}
	for i := range MaxEntries {
		put[strconv.Itoa(i)] = Task{}
	}
	full, err := Apply(&Table{}, &Delta{Tasks: Change[Task]{Put: put}})
	check(t, err)
	_, err = Apply(full, &Delta{Nodes: Change[Node]{Put: map[string]Node{"one": {}}}})
	if !fault.Is(err, fault.Invalid) {
		t.Errorf("one entry too many: %v", err)
	}
}

// TestViewShowsNoOtherNetworks looks that a node learns nothing of networks in which it has no part.
func TestViewShowsNoOtherNetworks(t *testing.T) {
	a := netip.MustParseAddr("10.208.0.5")
	in := func(networks ...string) map[string]Attachment {
		m := map[string]Attachment{}
		for _, n := range networks {
			m[n] = Attachment{Addr: a}
		}
		return m
	}
	all := &Table{
		Version: 7,
		Nodes: map[string]Node{
			"me": {Name: "me"}, "far": {Addrs: map[string]netip.Addr{"red": a, "blue": a}}, "strange": {}, "idle": {},
		},
		Networks: map[string]Network{"red": {Name: "red"}, "blue": {Name: "blue"}},
		Services: map[string]Service{
			"web": {VIPs: map[string]netip.Addr{"red": a, "blue": a}, Aliases: map[string][]string{"red": {"w"}, "blue": {"x"}}}, "db": {VIPs: map[string]netip.Addr{"blue": a}}, "rr": {DNSRR: true},
			"other": {},
		},
		Tasks: map[string]Task{
			"mine":   {Node: "me", Service: "web", Attachments: in("red")},
			"both":   {Node: "far", Service: "rr", Attachments: in("red", "blue")},
			"hidden": {Node: "strange", Service: "other", Attachments: in("blue")}, "bare": {Node: "me"},
		},
	}
	want := &Table{
		Version:  7,
		Nodes:    map[string]Node{"me": {Name: "me"}, "far": {Addrs: map[string]netip.Addr{"red": a}}},
		Networks: map[string]Network{"red": {Name: "red"}},
		Services: map[string]Service{"web": {VIPs: map[string]netip.Addr{"red": a}, Aliases: map[string][]string{"red": {"w"}}}, "rr": {DNSRR: true}},
		Tasks: map[string]Task{
			"mine": {Node: "me", Service: "web", Attachments: in("red")}, "both": {Node: "far", Service: "rr", Attachments: in("red")},
		},
	}
	before := fmt.Sprint(all)
	if got := all.View("me"); !equal(t, got, want) {
		t.Errorf("View = %+v\nwant %+v", got, want)
	}
	if fmt.Sprint(all) != before {
		t.Error("View changed the table")
	}
	if got := all.View("idle"); len(got.Networks)+len(got.Tasks)+len(got.Services) > 0 || len(got.Nodes) != 1 {
		t.Errorf("a node without tasks sees %+v", got)
	}
	all.Nodes["idle"] = Node{Addrs: map[string]netip.Addr{"blue": a}}
	if got := all.View("idle"); len(got.Tasks) != 2 || len(got.Networks) != 1 {
		t.Errorf("a node with an address in a network sees %+v", got)
	}
}

func TestKey(t *testing.T) {
	k := Key{1, 2, 3}
	var got Key
	check(t, got.UnmarshalText([]byte(k.String())))
	if got != k {
		t.Errorf("%s became %s", k, got)
	}
	for _, bad := range []string{"", "AAAA", "*", strings.Repeat("A", 48)} {
		if err := got.UnmarshalText([]byte(bad)); !fault.Is(err, fault.Invalid) {
			t.Errorf("key %q: %v", bad, err)
		}
	}
}

func TestMessagesAreBounded(t *testing.T) {
	var d Delta
	huge := []byte{0xff, 0xff, 0xff, 0xff, '{'}
	if err := readMessage(bytes.NewReader(huge), maxDelta, &d); !fault.Is(err, fault.Invalid) {
		t.Errorf("4 GiB: %v", err)
	}
	lie := []byte{3, 0, 0, 0, '{', '}'} // 48 MiB, within the bound
	if n := testing.AllocsPerRun(1, func() {
		if err := readMessage(bytes.NewReader(lie), maxDelta, &d); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("a message that is cut off: %v", err)
		}
	}); n > 20 {
		t.Errorf("%v allocations for two bytes", n)
	}
	if err := writeMessage(io.Discard, 10, Delta{Version: 1 << 60}); !fault.Is(err, fault.Invalid) {
		t.Errorf("a message that is too long was written: %v", err)
	}
}

func FuzzReadMessage(f *testing.F) {
	var b bytes.Buffer
	check(f, writeMessage(&b, maxDelta, Diff(&Table{}, newGrowing(1).step())))
	f.Add(b.Bytes())
	f.Add([]byte("\x00\x00\x00\x1e{\"tasks\":{\"put\":{\"a\":{\"x\":1}}}}"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		var d Delta
		if readMessage(bytes.NewReader(data), 1<<20, &d) == nil {
			if next, err := Apply(&Table{}, &d); err == nil {
				_ = next.View("node")
			}
		}
		var h Hello
		if readMessage(bytes.NewReader(data), 1<<20, &h) == nil {
			_ = DiffSums(h.Sums, &Table{})
		}
	})
}

func TestAddressesOfHosts(t *testing.T) {
	n := Network{Subnet: netip.MustParsePrefix("10.208.1.0/29"), Gateway: netip.MustParseAddr("10.208.1.3")}
	for text, want := range map[string]bool{
		"10.208.1.1": true, "10.208.1.2": true, "10.208.1.6": true, "10.208.1.0": false, "10.208.1.3": false, "10.208.1.7": false,
		"10.208.1.8": false, "10.208.0.255": false, "::ffff:10.208.1.2": false, "fe80::1%x": false, "255.255.255.255": false,
	} {
		if got := n.HasHost(netip.MustParseAddr(text)); got != want {
			t.Errorf("HasHost(%s) of %s = %v, want %v", text, n.Subnet, got, want)
		}
	}
	if n.HasHost(netip.Addr{}) || (Network{}).HasHost(netip.MustParseAddr("10.208.1.1")) || (Network{}).HasHost(netip.Addr{}) {
		t.Error("no address, or no network, has a host")
	}
	if last := (Network{Subnet: netip.MustParsePrefix("255.255.255.0/24")}); last.HasHost(netip.MustParseAddr("255.255.255.255")) {
		t.Error("the last address of all is a host's")
	}
}
