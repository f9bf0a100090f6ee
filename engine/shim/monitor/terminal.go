package monitor

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// terminal is the master of a container's pty.
type terminal struct {
	master *os.File
	// slave is kept open as long as the container runs, so that the pty does not end when its only user closes and opens
	// it again.
	slave int
}

// newTerminal takes over the master.
func newTerminal(master int) (*terminal, error) {
	if err := unix.SetNonblock(master, true); err != nil {
		return nil, fmt.Errorf("set up pty: %w", err)
	}
	slave, err := openSlave(master)
	if err != nil {
		slave = -1 // before kernel 4.13; most programs never close their terminal
	}
	return &terminal{master: os.NewFile(uintptr(master), "pty"), slave: slave}, nil
}

// openSlave opens the other end of a pty wherever it is mounted, without making it this process's terminal.
func openSlave(master int) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// resize sets the size in characters.
func (t *terminal) resize(width, height uint16) error {
	raw, err := t.master.SyscallConn()
	if err != nil {
		return err
	}
	var ierr error
	err = raw.Control(func(fd uintptr) {
		ierr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width})
	})
	if err == nil {
		err = ierr
	}
	return err
}

// receiveTerminal waits for a runtime to send the master.
func receiveTerminal(l *listener) (*terminal, error) {
	conn, err := l.accept()
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	master := -1
	var rerr error
	err = raw.Read(func(fd uintptr) bool {
		master, rerr = receiveFD(int(fd))
		return !errors.Is(rerr, unix.EAGAIN) && !errors.Is(rerr, unix.EINTR)
	})
	if err == nil {
		err = rerr
	}
	if err != nil {
		return nil, fmt.Errorf("receive pty: %w", err)
	}
	return newTerminal(master)
}

// receiveFD takes one descriptor from a message and closes any other.
func receiveFD(conn int) (int, error) {
	data := make([]byte, 4096) // runtimes send the pty's name along
	oob := make([]byte, unix.CmsgSpace(4*4))
	_, n, _, _, err := unix.Recvmsg(conn, data, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		return -1, err
	}
	var fds []int
	for i := range msgs {
		got, err := unix.ParseUnixRights(&msgs[i])
		if err == nil {
			fds = append(fds, got...)
		}
	}
	if len(fds) == 0 {
		return -1, fault.Internal("the runtime sent no pty")
	}
	for _, fd := range fds[1:] {
		_ = unix.Close(fd)
	}
	return fds[0], nil
}

// closeSlave closes the slave: the master ends with the last process that has the pty open.
func (t *terminal) closeSlave() {
	if t.slave >= 0 {
		_ = unix.Close(t.slave)
		t.slave = -1
	}
}

// keys is the input side of a pty. Closing it leaves the pty, which has one end for both directions, open.
type keys struct{ master *os.File }

func (k keys) Write(p []byte) (int, error) { return k.master.Write(p) }
func (keys) Close() error                  { return nil }
