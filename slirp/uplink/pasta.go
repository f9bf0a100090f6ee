package uplink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/rootless-containers/rootlesskit/v3/pkg/api"
	"github.com/rootless-containers/rootlesskit/v3/pkg/messages"
	"github.com/rootless-containers/rootlesskit/v3/pkg/network"
	"github.com/rootless-containers/rootlesskit/v3/pkg/network/pasta"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// endWait is how long an ended pasta may take to go; it holds nothing that takes time to let go.
const endWait = 2 * time.Second

// pastaParent is RootlessKit's driver plus the end of the process: pasta goes into the background by itself, RootlessKit
// keeps no hold on it, and with a detached network namespace it does not notice that the namespace is gone.
type pastaParent struct {
	rootlesskit network.ParentDriver
	procDir     string
	stateDir    string
}

func newPasta(cfg Config, ipnet *net.IPNet, log io.Writer) (network.ParentDriver, error) {
	binary, err := lookup("pasta", "passt")
	if err != nil {
		return nil, err
	}
	const ipv6, implicitPorts, controlSocket = false, false, ""
	nd, err := pasta.NewParentDriver(log, binary, cfg.MTU, ipnet, Device, controlSocket, !cfg.HostLoopback, ipv6, implicitPorts)
	if err != nil {
		return nil, fmt.Errorf("examine %s: %w", binary, err)
	}
	p := &pastaParent{rootlesskit: nd, procDir: "/proc", stateDir: cfg.StateDir}
	if err := p.end(); err != nil {
		return nil, fmt.Errorf("end the pasta of an earlier run: %w", err)
	}
	return p, nil
}

// Info is RootlessKit's.
func (p *pastaParent) Info(ctx context.Context) (*api.NetworkDriverInfo, error) {
	return p.rootlesskit.Info(ctx)
}

// MTU is RootlessKit's.
func (p *pastaParent) MTU() int { return p.rootlesskit.MTU() }

// ConfigureNetwork starts pasta; the function it returns ends it.
func (p *pastaParent) ConfigureNetwork(childPID int, stateDir, detachedNetNSPath string) (*messages.ParentInitNetworkDriverCompleted, func() error, error) {
	msg, cleanup, err := p.rootlesskit.ConfigureNetwork(childPID, stateDir, detachedNetNSPath)
	end := func() error {
		var first error
		if cleanup != nil {
			first = cleanup()
		}
		return errors.Join(first, p.end())
	}
	return msg, end, explain(err)
}

// String names the driver in RootlessKit's messages.
func (p *pastaParent) String() string { return Pasta }

// noRoute is how pasta says that the host has no default route; versions of 2024 and later do without one.
const noRoute = "No external routable interface"

// explain adds advice to what pasta says, and takes out its complaints about syslog.
func explain(err error) error {
	if err == nil {
		return nil
	}
	var said []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasSuffix(line, " to syslog") {
			said = append(said, line)
		}
	}
	text := strings.ReplaceAll(strings.Join(said, "; "), ":; ", ": ")
	if strings.Contains(text, noRoute) {
		return fault.Unavailable("pasta needs a default IPv4 route on the host: add one, or use --network-driver=%s: %s", Slirp4netns, text)
	}
	return errors.New(text)
}

// end kills every pasta that serves a namespace bound in this state directory and waits until they are gone.
func (p *pastaParent) end() error {
	entries, err := os.ReadDir(p.procDir)
	if err != nil {
		return fmt.Errorf("look for pasta: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && p.serves(pid) {
			errs = append(errs, p.kill(pid, endWait))
		}
	}
	return errors.Join(errs...)
}

// serves is false for a process that is gone or not ours to look at.
func (p *pastaParent) serves(pid int) bool {
	cmdline, err := os.ReadFile(filepath.Join(p.procDir, strconv.Itoa(pid), "cmdline"))
	return err == nil && servesState(cmdline, p.stateDir)
}

// kill holds the process by a descriptor and looks at it again, so that a pid used anew is never hit.
func (p *pastaParent) kill(pid int, wait time.Duration) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if !p.serves(pid) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill pasta %d: %w", pid, err)
	}
	return awaitExit(fd, pid, wait)
}

func awaitExit(fd, pid int, wait time.Duration) error {
	for deadline := time.Now().Add(wait); ; {
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("pasta %d is still there %s after SIGKILL", pid, wait)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left.Milliseconds())+1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for pasta %d: %w", pid, err)
		case n > 0:
			return nil
		}
	}
}

// servesState reports whether a command line, arguments parted by NUL bytes, is that of a pasta for stateDir: RootlessKit
// passes --netns=/proc/<child>/root<state directory>/netns. Where the processor allows it pasta goes on as pasta.avx2.
func servesState(cmdline []byte, stateDir string) bool {
	args := strings.Split(string(bytes.TrimRight(cmdline, "\x00")), "\x00")
	if name := filepath.Base(args[0]); name != "pasta" && !strings.HasPrefix(name, "pasta.") {
		return false
	}
	suffix := "/root" + filepath.Join(filepath.Clean(stateDir), "netns")
	for _, arg := range args[1:] {
		path, ok := strings.CutPrefix(arg, "--netns=/proc/")
		if !ok {
			continue
		}
		if pid, ok := strings.CutSuffix(path, suffix); ok {
			_, err := strconv.Atoi(pid)
			return err == nil
		}
	}
	return false
}
