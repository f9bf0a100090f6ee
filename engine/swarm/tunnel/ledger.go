package tunnel

import (
	"reflect"
	"sync"
	"time"

	"moss/engine/swarm/table"
)

// stage is one of the ways that packets take through the library. Each has room of its own.
type stage int

const (
	outbound   stage = iota // from the device to the peer's socket, or waiting for the peer's handshake
	inbound                 // from the socket to the device
	handshakes              // from the socket to the library itself
	stages
)

// The room of each stage, in packets of 64 KiB. One flow alone gets half of it.
const (
	mostOutbound   = 256
	mostInbound    = 256
	mostHandshakes = 320 // with 128 of them the library asks for cookies
)

// How long a packet counts. The library drops some without a word, and their buffers may never be seen again.
const (
	outboundAge = 10 * time.Second // a packet that has waited so long for a handshake is of use to nobody
	inboundAge  = time.Second      // nothing waits there but for the processor
)

// purgePause is how long the ledger keeps a full flow waiting before it looks for old packets again.
const purgePause = 100 * time.Millisecond

// flow is packets that share a part of the room.
type flow struct {
	stage    stage
	peer     table.Key // of outbound
	receiver uint32    // of inbound: which keys decrypt the packet
}

type packet struct {
	flow flow
	at   time.Time
}

// ledger counts the packets that the library holds, by the addresses of their buffers. The library's own queues have no
// bound in bytes. A packet enters when its buffer is handed to the library, and leaves when the buffer comes out at the
// other side, or comes back for the next packet.
type ledger struct {
	most  [stages]int
	flush func(table.Key) // drops what waits for the handshake of this peer

	mu      sync.Mutex // guards what follows
	packets map[uintptr]packet
	flows   map[flow]int
	totals  [stages]int
	purged  time.Time
}

func newLedger(flush func(table.Key)) *ledger {
	return &ledger{
		most:  [stages]int{outbound: mostOutbound, inbound: mostInbound, handshakes: mostHandshakes},
		flush: flush, packets: map[uintptr]packet{}, flows: map[flow]int{},
	}
}

// addressOf returns what a buffer is known by. The ledger does not keep buffers from being freed.
func addressOf(buf []byte) uintptr { return reflect.ValueOf(buf).Pointer() }

// releaseBuffers takes these buffers out of the ledger, where they are in it.
func (l *ledger) releaseBuffers(bufs [][]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range bufs {
		l.releaseLocked(addressOf(b))
	}
}

func (l *ledger) releaseLocked(addr uintptr) {
	p, ok := l.packets[addr]
	if !ok {
		return
	}
	delete(l.packets, addr)
	l.totals[p.flow.stage]--
	if l.flows[p.flow]--; l.flows[p.flow] == 0 {
		delete(l.flows, p.flow)
	}
}

// admitPackets enters each buffer with a size into the ledger, in the flow that classify tells; those without a flow or without
// room get the size 0, by which the library leaves them out. A flow has room for as many packets as are free beside it:
// alone half of all, n busy ones have all but 1/(n+1), and there is always room for another.
func (l *ledger) admitPackets(bufs [][]byte, sizes []int, classify func(i int) (flow, bool)) {
	now := time.Now()
	var stuck []table.Key
	l.mu.Lock()
	for i, size := range sizes {
		if size == 0 {
			continue
		}
		f, ok := classify(i)
		if !ok {
			sizes[i] = 0
			continue
		}
		if !l.hasRoomLocked(f) && now.Sub(l.purged) > purgePause {
			stuck = l.purgeLocked(now)
		}
		if !l.hasRoomLocked(f) {
			sizes[i] = 0
			continue
		}
		addr := addressOf(bufs[i])
		l.releaseLocked(addr) // it was freed, and allocated again
		l.packets[addr] = packet{flow: f, at: now}
		l.flows[f]++
		l.totals[f.stage]++
	}
	l.mu.Unlock()
	for _, key := range stuck {
		l.flush(key)
	}
}

func (l *ledger) hasRoomLocked(f flow) bool {
	return l.flows[f] < l.most[f.stage]-l.totals[f.stage]
}

// purgeLocked takes out what is too old and returns the peers for which packets were waiting.
func (l *ledger) purgeLocked(now time.Time) (stuck []table.Key) {
	l.purged = now
	peers := map[table.Key]bool{}
	for addr, p := range l.packets {
		switch age := now.Sub(p.at); {
		case p.flow.stage == outbound && age > outboundAge:
			if !peers[p.flow.peer] {
				peers[p.flow.peer] = true
				stuck = append(stuck, p.flow.peer)
			}
			l.releaseLocked(addr)
		case p.flow.stage != outbound && age > inboundAge:
			l.releaseLocked(addr)
		}
	}
	return stuck
}

// heldPackets returns how many packets the library holds.
func (l *ledger) heldPackets() [stages]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.totals
}
