package dns

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	maxResolvConf   = 64 << 10 // bytes; more is not worth reading
	maxLinks        = 40       // as the kernel has it
	defaultTimeout  = 5 * time.Second
	defaultAttempts = 2
	resolvConf      = "/etc/resolv.conf"
	// settled is how old a change must be before a later one is sure to have another time.
	settled = 2 * time.Second
)

// Host is what the host resolves with: its resolv.conf, looked at whenever it is asked. All methods may be called at the
// same time.
type Host struct {
	root string
	copy []string // folders that RootlessKit has covered with links to what was there at the start

	mu    sync.Mutex // guards stamp, known
	stamp stamp
	known conf
}

// conf is what a resolv.conf says. It is never changed.
type conf struct {
	servers  []netip.Addr // at least one
	search   []string
	options  []string
	timeout  time.Duration
	attempts int
	rotate   bool
	tcp      bool
}

// stamp tells one content of a file from another.
type stamp struct {
	dev, ino    uint64
	size        int64
	mtime, ctim unix.Timespec
}

// NewHost returns the host's resolver as it is seen below root, which is "/" but in tests.
func NewHost(root string) *Host { return &Host{root: root, copy: []string{"/etc", "/run"}} }

// Search returns the domains in which the host looks for names that are not whole.
func (h *Host) Search() []string {
	c, err := h.readResolvConf()
	if err != nil {
		return nil
	}
	return slices.Clone(c.search)
}

// Options returns the options of the host's resolver.
func (h *Host) Options() []string {
	c, err := h.readResolvConf()
	if err != nil {
		return nil
	}
	return slices.Clone(c.options)
}

func (h *Host) readResolvConf() (conf, error) {
	fail := func(err error) (conf, error) {
		return conf{}, fmt.Errorf("find out what the host resolves with: %w", err)
	}
	path, err := h.resolvePath(resolvConf)
	if err != nil {
		return fail(err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // nobody waits for a pipe
	if err != nil {
		return fail(err)
	}
	defer func() { _ = f.Close() }()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fail(err)
	}
	now := stamp{dev: st.Dev, ino: st.Ino, size: st.Size, mtime: st.Mtim, ctim: st.Ctim}
	h.mu.Lock()
	same, known := h.stamp == now, h.known
	h.mu.Unlock()
	if same {
		return known, nil
	}
	text, err := io.ReadAll(io.LimitReader(f, maxResolvConf))
	if err != nil {
		return fail(err)
	}
	c := parseResolvConf(string(text))
	if time.Since(time.Unix(st.Ctim.Unix())) > settled {
		h.mu.Lock()
		h.stamp, h.known = now, c
		h.mu.Unlock()
	}
	return c, nil
}

// resolvePath follows a path of the host through its links, and returns where that file is seen from here. RootlessKit has
// mounted a tmpfs over some folders, with links in it as of the start and what was there below .ro and a number: what has
// changed since is seen only there. A link's text is a path of the host again.
func (h *Host) resolvePath(path string) (string, error) {
	var done string // what is resolved, a path of the host
	rest := strings.Split(path, "/")
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			done = done[:max(0, strings.LastIndexByte(done, '/'))]
			continue
		}
		seen := h.visiblePath(done + "/" + part)
		target, err := os.Readlink(seen)
		if errors.Is(err, unix.EINVAL) {
			done += "/" + part
			continue
		}
		if err != nil {
			return "", err
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("follow %s: %w", path, unix.ELOOP)
		}
		if strings.HasPrefix(target, "/") {
			done = ""
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return h.visiblePath(done), nil
}

// visiblePath returns where a path of the host is seen from here.
func (h *Host) visiblePath(path string) string {
	for _, dir := range h.copy {
		if rest, ok := strings.CutPrefix(path, dir+"/"); ok {
			if original := originalDir(h.root + dir); original != "" {
				return original + "/" + rest
			}
		}
	}
	return h.root + path
}

// originalDir returns the folder in a covered one that shows what is covered; empty: it is not covered.
func originalDir(dir string) string {
	var over unix.Statfs_t
	if unix.Statfs(dir, &over) != nil || over.Type != unix.TMPFS_MAGIC {
		return ""
	}
	var upper, lower unix.Stat_t
	if unix.Stat(dir, &upper) != nil {
		return ""
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), ".ro")
		if _, err := strconv.ParseUint(number, 10, 64); !ok || err != nil || !e.IsDir() {
			continue
		}
		if path := dir + "/" + e.Name(); unix.Lstat(path, &lower) == nil && lower.Dev != upper.Dev {
			return path
		}
	}
	return ""
}

// parseResolvConf follows resolv.conf(5): unknown and malformed lines count for nothing, the last search list wins.
func parseResolvConf(text string) conf {
	c := conf{timeout: defaultTimeout, attempts: defaultAttempts}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			if addr, err := netip.ParseAddr(fields[1]); err == nil && len(c.servers) < maxServers {
				c.servers = append(c.servers, addr)
			}
		case "search", "domain":
			c.search = fields[1:]
		case "options":
			for _, o := range fields[1:] {
				c.addOption(o)
			}
		}
	}
	if len(c.servers) == 0 {
		c.servers = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	}
	return c
}

func (c *conf) addOption(o string) {
	c.options = append(c.options, o)
	name, value, _ := strings.Cut(o, ":")
	n, err := strconv.Atoi(value)
	switch {
	case name == "rotate":
		c.rotate = true
	case name == "use-vc":
		c.tcp = true
	case err != nil || n < 1: // of the others only these matter here, and they need a number
	case name == "timeout":
		c.timeout = min(time.Duration(min(n, 30))*time.Second, maxTimeout)
	case name == "attempts":
		c.attempts = min(n, maxAttempts)
	}
}
