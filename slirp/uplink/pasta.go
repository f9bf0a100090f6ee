package uplink

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rootless-containers/rootlesskit/v3/pkg/network/pasta"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
)

// endWait is how long an ended pasta may take to go. It holds nothing that takes time to let go, but the machine may be busy.
const endWait = 30 * time.Second

// oldSend is what pasta of 2023 bears in bytes: it tells containers that a peer nearby takes all that the peer's window
// has room for, drops what its own socket then does not, and the connection crawls. With more than this under way the
// throughput to the host is a third on average, at times a twentieth.
const oldSend = 256 << 10

// newPasta ends what a killed predecessor with the same state directory left running.
func newPasta(cfg Config) (program, error) {
	binary, err := findProgram("pasta", "passt")
	if err != nil {
		return program{}, err
	}
	if err := (orphans{procDir: "/proc", stateDir: cfg.StateDir}).killAll(); err != nil {
		return program{}, fmt.Errorf("end the pasta of an earlier run: %w", err)
	}
	has, err := pasta.DetectFeatures(binary)
	if err != nil {
		return program{}, fault.Unavailable("examine %s: %w", binary, err)
	}
	send := 0
	if !has.HasHostLoToNsLo { // of October 2024
		send = oldSend
	}
	said := filepath.Join(cfg.StateDir, "pasta.pid")
	options := []string{
		"--foreground", "--quiet", "--stderr", "--pid=" + said,
		"--ns-ifname=" + Device, "--mtu=" + strconv.Itoa(cfg.MTU),
		"--address=" + address, "--netmask=" + strconv.Itoa(bits), "--gateway=" + gateway, "--dns-forward=" + nameDNS,
		// Published ports are not pasta's, and the namespace's own loopback is not the host's.
		"--tcp-ports=none", "--udp-ports=none", "--tcp-ns=none", "--udp-ns=none",
	}
	if cfg.ipv6 {
		options = append(options, "--address="+address6, "--gateway="+gateway6, "--no-ra", "--no-dhcpv6")
	} else {
		options = append(options, "--ipv4-only")
	}
	if !cfg.HostLoopback {
		options = append(options, "--no-map-gw")
	}
	return program{
		name: Pasta, binary: binary, explain: explainPasta, send: send,
		notify: func(*exec.Cmd) (*os.File, error) { return readyFIFO(said) },
		args: func(at place) []string {
			return append(slices.Clip(options),
				fmt.Sprintf("--userns=/proc/%d/ns/user", at.childPID), "--netns="+at.netns)
		},
	}, nil
}

// readyFIFO opens a FIFO in the place of the file into which pasta writes its process id once it carries packets: it
// closes descriptors that it does not know.
func readyFIFO(path string) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		return nil, &fs.PathError{Op: "mkfifo", Path: path, Err: err}
	}
	return os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0) // for both, so that neither side waits for the other
}

// noRoute is how pasta says that the host has no default route; versions of 2024 and later do without one.
const noRoute = "No external routable interface"

// explainPasta adds advice to what pasta says, and takes out its complaints about syslog.
func explainPasta(err error) error {
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
		return fault.Unavailable("pasta needs a default IPv4 route on the host: add one, or use --network-driver=%s: %s", Slirp4netns,
			text)
	}
	return errors.New(text)
}

// orphans are the processes of pasta that outlived their outer process: one that lets pasta go into the background, as
// earlier versions of moss did, leaves them for ever, since pasta does not see that a detached namespace is gone.
type orphans struct {
	procDir  string
	stateDir string
}

// killAll kills every pasta that serves a namespace bound in this state directory and waits until they are gone.
func (o orphans) killAll() error {
	entries, err := os.ReadDir(o.procDir)
	if err != nil {
		return fmt.Errorf("look for pasta: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && o.isOrphan(pid) {
			errs = append(errs, o.killProcess(pid, endWait))
		}
	}
	return errors.Join(errs...)
}

// isOrphan is false for a process that is gone or not ours to look at.
func (o orphans) isOrphan(pid int) bool {
	cmdline, err := os.ReadFile(filepath.Join(o.procDir, strconv.Itoa(pid), "cmdline"))
	return err == nil && servesState(cmdline, o.stateDir)
}

// killProcess holds the process by a descriptor and looks at it again, so that a pid used anew is never hit.
func (o orphans) killProcess(pid int, wait time.Duration) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if !o.isOrphan(pid) {
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
