package thread

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// InNetwork runs f apart in the network namespace ns, which stays the caller's. Sockets that f makes itself are in there;
// what it starts on other goroutines is not. The libraries' own ways to open a socket elsewhere come back on the same thread,
// and a process in a user namespace may leave the host's network namespace but never enter it again.
func InNetwork(ns *os.File, f func() error) error {
	return Apart(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", ns.Name(), err)
		}
		return f()
	})
}

// InNetworkAt is InNetwork for the namespace that is bound at path.
func InNetworkAt(path string, f func() error) error {
	ns, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	return errors.Join(InNetwork(ns, f), ns.Close())
}
