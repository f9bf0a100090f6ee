package fdstore

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// LentEnv names the socket at which the outer process lends the sockets that it has opened for the engine.
const LentEnv = "MOSS_LENT"

// MaxLent is how many descriptors can be lent: as many as one message takes.
const MaxLent = batch

// Lend gives duplicates of files, in their order, to every process of the caller's own user that asks for them at path, by
// Fetch, until stop is called, which also removes the socket. Nothing may be at path. The caller keeps files open until
// then. Descriptors are not inherited instead, since every other program that the caller runs would get them as well.
func Lend(path string, files []*os.File) (stop func() error, err error) {
	if len(files) > MaxLent {
		return nil, fmt.Errorf("lend descriptors: %d are too many, the bound is %d", len(files), MaxLent)
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return nil, fmt.Errorf("lend descriptors: %w", err)
	}
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return // it was stopped
			}
			_ = lendTo(c, fds) // whoever asked says what it has not got
			_ = c.Close()
		}
	})
	return func() error {
		err := l.Close()
		serving.Wait()
		return err
	}, nil
}

// lendTo answers one that asks. A process of another user, or one that does not read, gets nothing.
func lendTo(c *net.UnixConn, fds []int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var asked error
	err = raw.Control(func(fd uintptr) { peer, asked = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = errors.Join(err, asked); err != nil {
		return err
	}
	if int(peer.Uid) != os.Geteuid() {
		return fmt.Errorf("uid %d asks for descriptors", peer.Uid)
	}
	if err := c.SetDeadline(time.Now().Add(patient)); err != nil {
		return err
	}
	_, _, err = c.WriteMsgUnix([]byte{opHeld}, unix.UnixRights(fds...), nil)
	return err
}

// Fetch returns what is lent at path. The descriptors are the caller's and are not inherited further.
func Fetch(path string) (fds []int, err error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("fetch descriptors: %w", err)
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	tv := unix.NsecToTimeval(patient.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return nil, fmt.Errorf("fetch descriptors: %w", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, fmt.Errorf("fetch descriptors at %s: %w", path, err)
	}
	msg, fds, err := receiveMessage(fd)
	if err != nil {
		return nil, fmt.Errorf("fetch descriptors at %s: %w", path, err)
	}
	if len(msg) != 1 || msg[0] != opHeld {
		closeAll(fds)
		return nil, fmt.Errorf("fetch descriptors at %s: no answer", path)
	}
	return fds, nil
}

// Pass sends descriptors, which may be none, to whoever calls Passed at the other end of a pair of sockets that keep
// messages apart. It does not wait: where nobody has taken the last ones, the kernel keeps them.
func Pass(fd int, files []*os.File) error {
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	if err := sendMessage(fd, []byte{opHeld}, rights); err != nil {
		return fmt.Errorf("pass on descriptors: %w", err)
	}
	return nil
}

// Passed waits for the next descriptors of Pass and gives them to keep before they are taken from the kernel: who dies in
// between leaves them to the next. It returns io.EOF when the other end has gone. f must be in the mode that does not
// block; its deadline ends the wait.
func Passed(f *os.File, keep func([]*os.File)) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var msg []byte
	var fds []int
	var rerr error
	take := func(flags int) error {
		err := raw.Read(func(fd uintptr) bool {
			msg, fds, rerr = receiveFlags(int(fd), flags|unix.MSG_DONTWAIT)
			return !errors.Is(rerr, unix.EAGAIN)
		})
		if err != nil {
			return err
		}
		return rerr
	}
	if err := take(unix.MSG_PEEK); err != nil {
		return err
	}
	if len(msg) == 0 {
		return io.EOF
	}
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), "socket")
	}
	keep(files)
	fds = nil // they are keep's now: take leaves fds as it is where the deadline has passed
	err = take(0)
	closeAll(fds)
	return err
}
