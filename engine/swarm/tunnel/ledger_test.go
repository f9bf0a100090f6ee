package tunnel

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"moss/engine/swarm/table"
)

// admitted enters fresh buffers into the ledger, and returns those that had room.
func admitted(l *ledger, f flow, count int) (in [][]byte) {
	bufs, sizes := make([][]byte, count), make([]int, count)
	for i := range bufs {
		bufs[i], sizes[i] = make([]byte, 64), 64
	}
	l.admitPackets(bufs, sizes, func(int) (flow, bool) { return f, true })
	for i, size := range sizes {
		if size > 0 {
			in = append(in, bufs[i])
		}
	}
	return in
}

func peerFlow(number byte) flow { return flow{stage: outbound, peer: table.Key{number}} }

func TestLedgerSharesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(func(key table.Key) { t.Errorf("flushed %s", key) })
		first := admitted(l, peerFlow(1), 1000)
		if got, want := len(first), mostOutbound/2; got != want {
			t.Errorf("one flow alone has room for %d packets, want %d", got, want)
		}
		if got, want := len(admitted(l, peerFlow(2), 1000)), mostOutbound/4; got != want {
			t.Errorf("the second has room for %d packets, want %d", got, want)
		}
		for n := range 100 {
			admitted(l, peerFlow(byte(3+n)), 1000)
		}
		if got := l.heldPackets(); got != [stages]int{outbound: mostOutbound} {
			t.Errorf("holds %v", got)
		}
		if got, want := len(admitted(l, flow{stage: inbound, receiver: 1}, 1000)), mostInbound/2; got != want {
			t.Errorf("another stage has room for %d packets, want %d", got, want)
		}
		l.releaseBuffers(first)
		l.releaseBuffers(first) // once more is nothing
		if got, want := len(admitted(l, peerFlow(1), 1000)), mostOutbound/4; got != want {
			t.Errorf("half of what was released is %d packets, want %d", got, want)
		}
	})
}

func TestLedgerLeavesOut(t *testing.T) {
	l := newLedger(nil)
	sizes := []int{0, 64}
	l.admitPackets([][]byte{make([]byte, 64), make([]byte, 64)}, sizes, func(i int) (flow, bool) {
		if i == 0 {
			t.Error("classified what is not there")
		}
		return flow{}, false
	})
	if sizes[1] != 0 || len(l.packets) != 0 {
		t.Errorf("a packet of no flow has size %d, %d are held", sizes[1], len(l.packets))
	}
}

// TestLedgerKnowsBuffersAgain has the library drop a packet without a word and use its buffer for another one.
func TestLedgerKnowsBuffersAgain(t *testing.T) {
	l := newLedger(nil)
	bufs := [][]byte{make([]byte, 64)}
	for _, f := range []flow{peerFlow(1), peerFlow(2), {stage: inbound}} {
		l.admitPackets(bufs, []int{64}, func(int) (flow, bool) { return f, true })
		if len(l.packets) != 1 || l.flows[f] != 1 || len(l.flows) != 1 || l.totals[f.stage] != 1 {
			t.Errorf("after %v: %v of %v", f, l.totals, l.flows)
		}
	}
	l.releaseBuffers(bufs)
	if len(l.packets)+len(l.flows) != 0 || l.totals != [stages]int{} {
		t.Errorf("after all: %v of %v", l.totals, l.flows)
	}
}

func TestLedgerForgetsOldPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var flushed []table.Key
		l := newLedger(func(key table.Key) { flushed = append(flushed, key) })
		in := flow{stage: inbound}
		admitted(l, peerFlow(1), 1000)
		admitted(l, in, 1000)
		admitted(l, flow{stage: handshakes}, 1000)
		<-time.After(inboundAge)
		if got := len(admitted(l, in, 1)); got != 0 {
			t.Error("room before packets are old")
		}
		<-time.After(2 * purgePause)
		if got, want := len(admitted(l, in, 1000)), mostInbound/2; got != want {
			t.Errorf("room for %d packets, want %d", got, want)
		}
		if got, want := l.heldPackets(), [stages]int{outbound: mostOutbound / 2, inbound: mostInbound / 2}; got != want {
			t.Errorf("holds %v, want %v", got, want)
		}
		if got := len(admitted(l, peerFlow(1), 1)); got != 0 || len(flushed) != 0 {
			t.Errorf("what waits for a handshake is flushed early: %v", flushed)
		}
		<-time.After(outboundAge)
		if got, want := len(admitted(l, peerFlow(1), 1000)), mostOutbound/2; got != want {
			t.Errorf("room for %d packets, want %d", got, want)
		}
		if len(flushed) != 1 || flushed[0] != (table.Key{1}) {
			t.Errorf("flushed %v", flushed)
		}
	})
}

func TestDestinationOf(t *testing.T) {
	packet := make([]byte, 20)
	packet[0] = 0x45
	copy(packet[16:], []byte{10, 208, 1, 2})
	for name, tc := range map[string]struct {
		packet []byte
		want   netip.Addr
	}{
		"IPv4":  {packet, netip.MustParseAddr("10.208.1.2")},
		"short": {packet[:19], netip.Addr{}},
		"empty": {nil, netip.Addr{}},
		"IPv6":  {append([]byte{0x60}, make([]byte, 60)...), netip.Addr{}},
	} {
		if got := destinationOf(tc.packet); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestReporterTellsNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		r := &reporter{report: func(s string) { told = append(told, s) }}
		for range 3 {
			r.reportText("wrong %d", 1)
		}
		<-time.After(reportPause)
		r.reportText("wrong %d", 2)
		<-time.After(reportPause)
		r.reportText("wrong %d", 3)
		want := []string{"wrong 1", "wrong 2 (and 2 more that were not told)", "wrong 3"}
		if len(told) != 3 || told[0] != want[0] || told[1] != want[1] || told[2] != want[2] {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

// FuzzOutsideBytes reads what containers and strangers send.
func FuzzOutsideBytes(f *testing.F) {
	f.Add([]byte{})
	f.Add(append([]byte{4, 0, 0, 0, 1, 2, 3, 4}, make([]byte, 24)...))
	f.Add(append([]byte{0x45}, make([]byte, 19)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got, ok := flowOf(data); ok && (got.stage == outbound || len(data) < 32) {
			t.Errorf("flowOf(%x) = %v", data, got)
		}
		if a := destinationOf(data); a.IsValid() && !a.Is4() {
			t.Errorf("destinationOf(%x) = %v", data, a)
		}
	})
}
