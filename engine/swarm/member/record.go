package member

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/record"
)

// RecordName is the file in the folder of a node that is in a swarm. A folder without it is of none.
const RecordName = "member.json"

// stateName is SwarmKit's folder beside the record.
const stateName = "state"

// membership is what is remembered of how this node came into its swarm.
type membership struct {
	ListenAddr    string // "address:port"
	AdvertiseAddr string // "address:port"; empty: the managers find out
	LocalAddr     string // the address of this host that others see, where AdvertiseAddr is empty
	DataPathAddr  string // an address of this host; empty: none was asked for
	Machine       string // that of Options
	Joining       bool   // the fields below count
	RemoteAddr    string // of the manager that lets this node in
	Token         string // a secret, gone once this node is in
}

// readMembership reads the record; fault.NotFound if there is none.
func readMembership(dir string) (*membership, error) {
	var r membership
	if err := record.Get(filepath.Join(dir, RecordName), &r); err != nil {
		return nil, err
	}
	if r.ListenAddr == "" {
		return nil, fmt.Errorf("record %s is damaged: it names no address", filepath.Join(dir, RecordName))
	}
	return &r, nil
}

func (r *membership) putIn(dir string) error { return record.Put(filepath.Join(dir, RecordName), r) }

// checkMachine refuses the folder of another machine.
func (r *membership) checkMachine(here string) error {
	if r.Machine == "" || here == "" || r.Machine == here {
		return nil
	}
	return fault.Conflict("the folder of this node's swarm was made on another machine: two machines cannot be the same node. " +
		`"swarm leave --force" gives it up here, and this machine can then join as a node of its own; ` +
		`"swarm init --force-new-cluster" makes a new swarm of it, if that machine is gone`)
}

// nodeAddr returns the address of this node without its port, as far as it is known.
func (r *membership) nodeAddr() string {
	if host, _, err := net.SplitHostPort(r.AdvertiseAddr); err == nil {
		return host
	}
	return r.LocalAddr
}

// prepareFolder makes the folder of a node that is about to enter a swarm, without what an earlier one has left.
func prepareFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return removeState(dir)
}

func removeState(dir string) error { return os.RemoveAll(filepath.Join(dir, stateName)) }

// removeMembership takes the record away first: without it the rest is rubbish.
func removeMembership(dir string) error {
	if err := record.Remove(filepath.Join(dir, RecordName)); err != nil {
		return err
	}
	err := errors.Join(record.Sweep(dir), removeState(dir))
	_ = os.Remove(dir) // not if others have put something into it
	return err
}

// folderLock keeps other processes off a folder.
type folderLock struct{ dir *os.File }

// lockWait is how long a predecessor that is about to end is waited for.
const lockWait = 10 * time.Second

// lockFolder locks an existing folder.
func lockFolder(ctx context.Context, dir string) (*folderLock, error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(lockWait)
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return &folderLock{file}, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline) || ctx.Err() != nil {
			_ = file.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, fault.Conflict("another moss-swarm uses %s", dir)
			}
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
		select {
		case <-time.After(20 * time.Millisecond): // flock has no call that a context can end
		case <-ctx.Done():
		}
	}
}

func (l *folderLock) unlockFolder() {
	if l != nil {
		_ = l.dir.Close()
	}
}
