// Package ttytest makes pseudo terminals for tests.
package ttytest

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Open returns both ends of a new terminal, closed with the test.
func Open(t testing.TB) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("open a terminal: %v", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	withDescriptor(t, master, func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0) })
	var number int
	withDescriptor(t, master, func(fd int) (err error) { number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN); return err })
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("open the terminal's other end: %v", err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	return master, slave
}

// Resize sets a terminal's size in characters.
func Resize(t testing.TB, file *os.File, height, width uint16) {
	t.Helper()
	withDescriptor(t, file, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width})
	})
}

// Mode returns a terminal's settings.
func Mode(t testing.TB, file *os.File) unix.Termios {
	t.Helper()
	var mode unix.Termios
	withDescriptor(t, file, func(fd int) error {
		got, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err == nil {
			mode = *got
		}
		return err
	})
	return mode
}

// IsRaw reports whether a terminal is in raw mode.
func IsRaw(t testing.TB, file *os.File) bool {
	t.Helper()
	return Mode(t, file).Lflag&(unix.ICANON|unix.ECHO) == 0
}

// withDescriptor uses a file's descriptor without making it blocking, as File.Fd would: a read that waits could not be ended.
func withDescriptor(t testing.TB, file *os.File, do func(fd int) error) {
	t.Helper()
	raw, err := file.SyscallConn()
	if err != nil {
		t.Fatalf("descriptor of %s: %v", file.Name(), err)
	}
	if cerr := raw.Control(func(fd uintptr) { err = do(int(fd)) }); cerr != nil {
		t.Fatalf("control %s: %v", file.Name(), cerr)
	}
	if err != nil {
		t.Fatalf("control %s: %v", file.Name(), err)
	}
}
