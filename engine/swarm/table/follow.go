package table

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"time"

	"moss/engine/fault"
)

// The delays between two tries to find a manager.
const (
	firstDelay = 100 * time.Millisecond
	lastDelay  = 5 * time.Second
)

// FollowOptions say where a node learns the table. All must be set but Have, Settled and Report.
type FollowOptions struct {
	// Managers returns the addresses of the managers' tables, as host:port. It is asked before each round of tries, which
	// goes by its order: nodes that have the same order follow the same manager, and only then Settled speaks of all of them.
	Managers func() []string
	// TLS returns what the next connection is authenticated by. It must verify the manager.
	TLS func() (*tls.Config, error)
	// Check looks at a verified connection: whether the other side is a manager of this swarm.
	Check func(tls.ConnectionState) error
	// Have is the table that the node kept from before. nil: none.
	Have *Table
	// Apply makes the node as the table says. On error the connection is begun anew, so that the table comes again.
	Apply func(context.Context, *Table) error
	// Settled is called with the version that all nodes have applied. nil: nobody wants to know.
	Settled func(version uint64)
	// Report is called with why a connection has ended. nil: nobody wants to know.
	Report func(manager string, err error)
}

// Follow keeps a node's table up to date until ctx ends. Without a manager it tries on, and the node goes on with what it
// has.
func Follow(ctx context.Context, o FollowOptions) {
	f := &follower{opts: o, have: o.Have, heard: time.Now()}
	if f.have == nil {
		f.have = &Table{}
	}
	delay := firstDelay
	for ctx.Err() == nil {
		for _, addr := range o.Managers() {
			before := f.have
			err := f.followManager(ctx, addr)
			if ctx.Err() != nil {
				return
			}
			if o.Report != nil {
				o.Report(addr, err)
			}
			if f.have != before {
				delay = firstDelay
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(delay/2 + rand.N(delay)):
			delay = min(2*delay, lastDelay)
		}
	}
}

// silence is how long a node that hears nothing insists on a manager that is not behind its table: the managers may have
// been set up anew from a copy of their state that is older than the table.
const silence = 2 * time.Minute

type follower struct {
	opts  FollowOptions
	have  *Table
	heard time.Time // when a manager last said something
}

// leastVersion returns the version that a manager must have reached.
func (f *follower) leastVersion() uint64 {
	if time.Since(f.heard) > silence {
		return 0
	}
	return f.have.Version
}

func (f *follower) followManager(ctx context.Context, addr string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dialer := &net.Dialer{Timeout: beat}
	raw, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = raw.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	cfg, err := f.opts.TLS()
	if err != nil {
		return err
	}
	conn := tls.Client(raw, cfg)
	_ = conn.SetDeadline(time.Now().Add(beat))
	if err := conn.HandshakeContext(ctx); err != nil {
		return err
	}
	if len(conn.ConnectionState().VerifiedChains) == 0 {
		return fault.Forbidden("a manager without a verified certificate")
	}
	if err := f.opts.Check(conn.ConnectionState()); err != nil {
		return err
	}
	least := f.leastVersion()
	if err := writeMessage(conn, maxHello, Hello{Version: least, Sums: Sum(f.have)}); err != nil {
		return err
	}
	for {
		_ = conn.SetDeadline(time.Now().Add(3 * beat))
		var d Delta
		if err := readMessage(conn, maxDelta, &d); err != nil {
			return err
		}
		if err := f.applyDelta(ctx, &d, least); err != nil {
			return err
		}
		f.heard, least = time.Now(), f.have.Version
		_ = conn.SetDeadline(time.Now().Add(3 * beat))
		if err := writeMessage(conn, maxSmall, Applied{Version: d.Version}); err != nil {
			return err
		}
	}
}

func (f *follower) applyDelta(ctx context.Context, d *Delta, least uint64) error {
	if d.Version < least {
		return fault.Invalid("the manager is behind: it has version %d, this node %d", d.Version, f.have.Version)
	}
	if d.Version != f.have.Version || !d.IsZero() {
		next, err := Apply(f.have, d)
		if err != nil {
			return err
		}
		if err := f.opts.Apply(ctx, next); err != nil {
			return errors.Join(errors.New("apply the table"), err)
		}
		f.have = next
	}
	if f.opts.Settled != nil && d.Settled > 0 {
		f.opts.Settled(d.Settled)
	}
	return nil
}
