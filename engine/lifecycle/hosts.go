package lifecycle

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/network"
)

// hostNames are the names that a container has for its host, those that clients know first.
var hostNames = []string{"host.docker.internal", "host.moss.internal"} //nolint:gochecknoglobals // a constant list

// hostsFile is what a container that starts finds in /etc/hosts. fault.Invalid if it is to name the host and there is no
// address by which it reaches that.
func hostsFile(spec *container.Spec, p *parts, hostname string) ([]byte, error) {
	var b bytes.Buffer
	if p.sandbox.Mode == network.Host {
		host, err := os.ReadFile("/etc/hosts")
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		b.Write(bytes.TrimRight(host, "\n"))
		b.WriteByte('\n')
	} else {
		b.WriteString("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
			"fe00::0\tip6-localnet\nff00::0\tip6-mcastprefix\nff02::1\tip6-allnodes\nff02::2\tip6-allrouters\n")
	}
	for _, h := range spec.Hosts {
		ip := h.IP
		if !ip.IsValid() {
			ip = hostAddress(&p.sandbox)
		}
		if !ip.IsValid() {
			return nil, fault.Invalid("ExtraHosts: unable to derive the IP value for host-gateway of %s: the container's networks do not reach the host", h.Name)
		}
		fmt.Fprintf(&b, "%s\t%s\n", ip, h.Name)
	}
	for _, n := range p.near {
		b.WriteString(n.hostsLine() + "\n")
	}
	for _, line := range ownHosts(spec, &p.sandbox, hostname) {
		b.WriteString(line + "\n")
	}
	return b.Bytes(), nil
}

// hostAddress is the address by which a container reaches its host; invalid if it does not.
func hostAddress(s *network.Sandbox) netip.Addr {
	if !s.Host.IsValid() && s.Mode == network.Host {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return s.Host
}

// ownHosts are the lines of a hosts file that go by the container's networks: its own addresses and its host's. A name of
// the host's that the client gives away is the client's.
func ownHosts(spec *container.Spec, s *network.Sandbox, hostname string) []string {
	names := hostname
	if domain := spec.Config.Domainname; domain != "" {
		names = hostname + "." + domain + " " + hostname
	}
	var lines []string
	for _, name := range slices.SortedFunc(maps.Keys(s.Endpoints), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.Endpoints[a].Device, s.Endpoints[b].Device), cmp.Compare(a, b))
	}) {
		for _, ip := range []string{s.Endpoints[name].IPAddress, s.Endpoints[name].GlobalIPv6Address} {
			if ip != "" {
				lines = append(lines, ip+"\t"+names)
			}
		}
	}
	theirs := func(name string) bool {
		return slices.ContainsFunc(spec.Hosts, func(h container.HostIP) bool { return h.Name == name })
	}
	if own := slices.DeleteFunc(slices.Clone(hostNames), theirs); hostAddress(s).IsValid() && len(own) > 0 {
		lines = append(lines, hostAddress(s).String()+"\t"+strings.Join(own, " "))
	}
	return lines
}

// resolvFile takes what the client asks for and fills it up: from the host with the host's network or none, otherwise
// with what the network says. Its name servers know which the client has asked for: one of its own may stand before those.
func resolvFile(spec *container.Spec, sandbox *network.Sandbox) ([]byte, error) {
	servers, search, options := spec.Host.DNS, spec.Host.DNSSearch, spec.Host.DNSOptions
	if sandbox.Mode == network.Host && len(servers)+len(search)+len(options) == 0 {
		host, err := os.ReadFile("/etc/resolv.conf")
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		return host, err
	}
	if len(servers) == 0 || sandbox.Mode == network.Bridge {
		servers = sandbox.DNS
	}
	if len(search) == 0 {
		search = sandbox.Search
	}
	if len(options) == 0 {
		options = sandbox.Options
	} else if slices.Contains(sandbox.Options, asTheyAre) && !slices.ContainsFunc(options, isNdots) {
		options = append(slices.Clone(options), asTheyAre)
	}
	var b bytes.Buffer
	for _, s := range servers {
		fmt.Fprintf(&b, "nameserver %s\n", s)
	}
	// A single dot asks for no search list at all.
	if len(search) > 0 && (len(search) != 1 || search[0] != ".") {
		fmt.Fprintf(&b, "search %s\n", strings.Join(search, " "))
	}
	if len(options) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(options, " "))
	}
	return b.Bytes(), nil
}

// asTheyAre is the option by which names without a dot are asked for as they are: those of containers.
const asTheyAre = "ndots:0"

func isNdots(option string) bool { return strings.HasPrefix(option, "ndots:") }

// etcOf is what the engine has written, or is to write, of the managed files for the networks that a record tells of.
func etcOf(r *container.Record) (*container.Etc, error) {
	hostName, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	spec, err := container.SpecOf(r)
	if err != nil {
		return nil, err
	}
	s := sandboxOf(r)
	resolv, err := resolvFile(&spec, &s)
	return &container.Etc{Hosts: ownHosts(&spec, &s, spec.Hostname(r.ID, hostName)), Resolv: string(resolv)}, err
}

// renewEtc brings the managed files of a running container up to date after its networks have changed, be it by an engine
// that died over it. What the container has written there stays: in hosts only the engine's own lines change, and a
// resolv.conf that is not as the engine wrote it is left alone.
func (e *etcFiles) renewEtc(c *ctr) {
	r := c.record()
	if r.Network.Etc == nil {
		return
	}
	if err := renewFiles(c, r); err != nil {
		e.log.Warn().Err(err).Str("container", c.id).Msg("hosts and resolv.conf not renewed whole")
	}
	c.update(func(r *container.Record) { r.Network.Etc = nil })
	if err := c.saveRecord(false); err != nil { // they are renewed once more then, which changes nothing
		e.log.Warn().Err(err).Str("container", c.id).Msg("renewal of hosts and resolv.conf not saved")
	}
}

func renewFiles(c *ctr, r *container.Record) error {
	c.files.Lock()
	defer c.files.Unlock()
	had := r.Network.Etc
	now, err := etcOf(r)
	if err != nil {
		return err
	}
	return errors.Join(
		rewriteManaged(r.HostsPath, func(have []byte) []byte { return replaceLines(have, had.Hosts, now.Hosts) }),
		rewriteManaged(r.ResolvConf, func(have []byte) []byte {
			if string(have) == had.Resolv {
				return []byte(now.Resolv)
			}
			return have
		}),
	)
}

// replaceLines takes the lines of old that are not in now out of a file and puts the new ones where the first of them was,
// else at the end. All others stay as they are, and so does a file where that has been done.
func replaceLines(content []byte, old, now []string) []byte {
	have := strings.Split(string(content), "\n")
	gone := slices.DeleteFunc(slices.Clone(old), func(line string) bool { return slices.Contains(now, line) })
	now = slices.DeleteFunc(slices.Clone(now),
		func(line string) bool { return slices.Contains(old, line) || slices.Contains(have, line) })
	var b bytes.Buffer
	put := func() {
		for _, line := range now {
			b.WriteString(line + "\n")
		}
		now = nil
	}
	for line := range bytes.Lines(content) {
		if slices.Contains(gone, strings.TrimSuffix(string(line), "\n")) {
			put()
			continue
		}
		b.Write(line)
	}
	if len(now) > 0 && b.Len() > 0 && b.Bytes()[b.Len()-1] != '\n' {
		b.WriteByte('\n')
	}
	put()
	return b.Bytes()
}

// maxHosts bounds a managed file, in bytes: the container may have written it.
const maxHosts = 1 << 20

// rewriteManaged changes a managed file of a running container in place, since it is mounted there.
func rewriteManaged(path string, change func(have []byte) []byte) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	content, err := io.ReadAll(io.LimitReader(f, maxHosts+1))
	if err != nil {
		return err
	}
	if len(content) > maxHosts {
		return fault.Invalid("%s has more than %d bytes", path, maxHosts)
	}
	renewed := change(content)
	if bytes.Equal(renewed, content) {
		return nil
	}
	if _, err := f.WriteAt(renewed, 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(renewed)))
}
