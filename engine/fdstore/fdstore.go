// Package fdstore keeps descriptors over the engine's end: sockets that others have open must not close only because the
// engine is replaced. It has two sides, joined by a socket pair: Store is the engine's, Shelf that of the process that runs
// it and lives longer. Neither knows what the descriptors are.
package fdstore

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Env names the descriptor by which the engine reaches the Shelf.
const Env = "MOSS_FDSTORE"

const (
	// MaxCount is how many descriptors a Shelf keeps.
	MaxCount = 8192
	// MaxName is the length of the longest name; bytes.
	MaxName = 128

	batch   = 64               // descriptors in one message; the kernel takes 253
	patient = 30 * time.Second // for the other side to take a message, or to send one
)

// A message is one of these letters and, for put and drop, a name; for held, names with a zero byte between, as many as
// there are descriptors. An empty held ends the answer to list.
const (
	opPut  = 'P'
	opDrop = 'D'
	opList = 'L'
	opHeld = 'H'
)

// Store is the engine's side. A nil Store keeps nothing: then nobody supervises the engine. All methods may be called at
// the same time.
type Store struct {
	mu   sync.Mutex // guards fd while a message is sent
	fd   int
	left sync.Mutex // guards held and anchors
	held map[string]*os.File

	anchors []int
}

// FromEnv returns the Store of this process, with all that the last engine has left in it, or nil if there is none. The
// descriptor is not inherited further. It must be called before anything is executed.
func FromEnv() (*Store, error) {
	value, ok := os.LookupEnv(Env)
	if !ok {
		return nil, nil //nolint:nilnil // a nil Store works
	}
	if err := os.Unsetenv(Env); err != nil {
		return nil, err
	}
	fd, err := strconv.Atoi(value)
	if err != nil || fd <= 2 {
		return nil, fmt.Errorf("%s: %q is no descriptor", Env, value)
	}
	unix.CloseOnExec(fd)
	return openStore(fd)
}

func openStore(fd int) (*Store, error) {
	s := &Store{fd: fd, held: make(map[string]*os.File)}
	for _, option := range []int{unix.SO_SNDTIMEO, unix.SO_RCVTIMEO} {
		tv := unix.NsecToTimeval(patient.Nanoseconds())
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &tv); err != nil {
			return nil, fmt.Errorf("descriptor store: %w", err)
		}
	}
	if err := s.loadHeld(); err != nil {
		return nil, errors.Join(fmt.Errorf("ask for the last engine's descriptors: %w", err), s.Close())
	}
	return s, nil
}

// Put has a duplicate of fd kept under a name; an earlier one of that name is given up. The caller keeps fd. There is no
// answer: one descriptor too many is refused on the other side, which says so in its log.
func (s *Store) Put(name string, fd uintptr) error {
	if s == nil {
		return nil
	}
	if name == "" || len(name) > MaxName || strings.Contains(name, "\x00") {
		return fmt.Errorf("keep a descriptor: bad name %q", name)
	}
	return s.sendRequest(opPut, name, unix.UnixRights(int(fd)))
}

// Drop gives up what is kept under a name. Nothing there is no error.
func (s *Store) Drop(name string) error {
	if s == nil {
		return nil
	}
	return s.sendRequest(opDrop, name, nil)
}

// Names returns, sorted, the names of what the last engine has left and Take has not taken.
func (s *Store) Names() []string {
	if s == nil {
		return nil
	}
	s.left.Lock()
	defer s.left.Unlock()
	names := make([]string, 0, len(s.held))
	for name := range s.held {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Take returns what the last engine has left under a name, once, and nil if there is nothing. The caller closes it; the
// duplicate on the other side is kept until it is dropped.
func (s *Store) Take(name string) *os.File {
	if s == nil {
		return nil
	}
	s.left.Lock()
	defer s.left.Unlock()
	f := s.held[name]
	delete(s.held, name)
	return f
}

// Close closes the way to the other side and what has not been taken. What is kept there stays.
func (s *Store) Close() error {
	if s == nil {
		return nil
	}
	s.left.Lock()
	held := s.held
	s.held = nil
	closeAll(s.anchors)
	s.anchors = nil
	s.left.Unlock()
	errs := make([]error, 0, len(held)+1)
	for _, f := range held {
		errs = append(errs, f.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	errs = append(errs, unix.Close(s.fd))
	s.fd = -1
	return errors.Join(errs...)
}

// Anchor returns a path that leads to the file at path, or to the one that an earlier engine has found there, whatever becomes
// of its name and of the mount that it is: a descriptor holds it, until Close for this engine.
func (s *Store) Anchor(name, path string) (string, error) {
	if s == nil {
		return path, nil
	}
	var fd int
	var err error
	if f := s.Take(name); f != nil {
		fd, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		err = errors.Join(err, f.Close())
	} else if fd, err = unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
		err = s.Put(name, uintptr(fd))
	}
	if err != nil {
		if fd > 0 { // it is -1 where there is none
			_ = unix.Close(fd)
		}
		return "", fmt.Errorf("hold %s: %w", path, err)
	}
	s.left.Lock()
	defer s.left.Unlock()
	s.anchors = append(s.anchors, fd)
	return "/proc/self/fd/" + strconv.Itoa(fd), nil
}

func (s *Store) sendRequest(op byte, name string, rights []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := sendMessage(s.fd, append([]byte{op}, name...), rights); err != nil {
		return fmt.Errorf("descriptor store: %c %s: %w", op, name, err)
	}
	return nil
}

// loadHeld asks the other side for all that it holds.
func (s *Store) loadHeld() error {
	if err := s.sendRequest(opList, "", nil); err != nil {
		return err
	}
	for {
		msg, fds, err := receiveMessage(s.fd)
		if errors.Is(err, errCut) {
			continue // what this process has no room for is as good as not kept
		}
		if err != nil {
			return err
		}
		names := strings.Split(string(msg[min(1, len(msg)):]), "\x00")
		if len(msg) == 1 {
			names = nil
		}
		if len(msg) == 0 || msg[0] != opHeld || len(names) != len(fds) {
			closeAll(fds)
			return fmt.Errorf("%d names and %d descriptors in a message", len(names), len(fds))
		}
		if len(names) == 0 {
			return nil
		}
		for i, fd := range fds {
			s.held[names[i]] = os.NewFile(uintptr(fd), names[i])
		}
	}
}

func sendMessage(fd int, msg, rights []byte) error {
	for {
		err := unix.Sendmsg(fd, msg, rights, nil, unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// receiveMessage returns one message with its descriptors, which are the caller's and are not inherited further. An empty
// one is the end.
func receiveMessage(fd int) (msg []byte, fds []int, err error) { return receiveFlags(fd, 0) }

func receiveFlags(fd, how int) (msg []byte, fds []int, err error) {
	buf := make([]byte, 1+batch*(MaxName+1))
	oob := make([]byte, unix.CmsgSpace(batch*4))
	var n, oobn, flags int
	for {
		n, oobn, flags, _, err = unix.Recvmsg(fd, buf, oob, how|unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		return nil, nil, err
	}
	for _, m := range messages {
		if more, err := unix.ParseUnixRights(&m); err == nil {
			fds = append(fds, more...)
		}
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		closeAll(fds)
		return nil, nil, errCut
	}
	return buf[:n], fds, nil
}

// errCut is of a message that came in part: the process has no descriptors left, or nobody of this package has sent it.
var errCut = errors.New("a message was cut off")

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
