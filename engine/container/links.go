package container

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"moss/engine/fault"
	"moss/engine/network"
)

// Link is another container that one knows by a name of its own. In the default network its settings appear in the
// environment and its address in the hosts file.
type Link struct {
	Container string // in a Spec what the client wrote, in a Record the id
	Alias     string
}

// ParseLink takes "name", "name:alias" and the form in which inspect shows links, "/name:/parent/alias". Anything else is
// fault.Invalid (API document 1, 2.3: Links).
func ParseLink(s string) (Link, error) {
	name, alias, hasAlias := strings.Cut(s, ":")
	if strings.HasPrefix(name, "/") {
		name, alias = name[1:], path.Base(alias)
	}
	if !hasAlias {
		alias = name
	}
	if name == "" || alias == "" || strings.Contains(alias, ":") {
		return Link{}, fault.Invalid("bad format for links: %q, expected name:alias", s)
	}
	if _, err := CheckName(name); err != nil || strings.HasPrefix(name, "/") {
		return Link{}, fault.Invalid("bad format for links: %q: %q is not the name of a container", s, name)
	}
	if _, err := CheckName(alias); err != nil || strings.HasPrefix(alias, "/") {
		return Link{}, fault.Invalid("bad format for links: %q: invalid alias %q, only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed", s, alias)
	}
	return Link{Container: name, Alias: alias}, nil
}

// checkLinks parses the links of HostConfig and of the container's endpoints. Those of HostConfig are for the network of
// its mode. In the default network they become hosts lines and environment, in others names that the resolver knows.
func checkLinks(d *draft) error {
	for _, name := range slices.Sorted(maps.Keys(d.Endpoints)) {
		e := d.Endpoints[name]
		asked := e.Links
		if name == d.Network {
			asked = slices.Concat(d.Host.Links, asked)
		}
		links, err := ParseLinks(asked)
		if err != nil {
			return err
		}
		if name == NetworkBridge {
			d.Links = firstOfAliases(links)
			continue
		}
		e.Links = nil
		for _, l := range links {
			e.Links = append(e.Links, l.Container+":"+l.Alias)
		}
		d.Endpoints[name] = e
	}
	if len(d.Endpoints) > 0 && d.Network != NetworkBridge {
		d.Host.Links = nil // they are in Endpoints now
	}
	return nil
}

// firstOfAliases leaves one link for each alias in the default network, the first one, as clients are used to. In other
// networks the last one of an alias counts.
func firstOfAliases(links []Link) []Link {
	var first []Link
	for _, link := range links {
		if !slices.ContainsFunc(first, func(l Link) bool { return l.Alias == link.Alias }) {
			first = append(first, link)
		}
	}
	return first
}

// ParseLinks parses the links of one network, in their order. Clients may write a link twice.
func ParseLinks(asked []string) ([]Link, error) {
	var links []Link
	for _, s := range asked {
		link, err := ParseLink(s)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(links, link) {
			links = append(links, link)
		}
	}
	return links, nil
}

// ShowLink is how inspect shows that the container parent knows child by an alias.
func ShowLink(child, parent, alias string) string { return "/" + child + ":/" + parent + "/" + alias }

// LinkEnv is the environment that tells a container of one it is linked with: what its image and its client exposed and
// set. name is how the parent knows it, for example /web/db; ip its address. HOME and PATH are left out.
func LinkEnv(name, ip string, ports []network.Port, env []string) []string {
	prefix := strings.ToUpper(strings.ReplaceAll(path.Base(name), "-", "_"))
	var list []string
	put := func(key, format string, args ...any) {
		list = append(list, prefix+"_"+key+"="+fmt.Sprintf(format, args...))
	}
	ports = slices.SortedFunc(slices.Values(ports), func(a, b network.Port) int {
		return cmp.Or(cmp.Compare(a.ContainerPort, b.ContainerPort), cmp.Compare(protoSortKey(a.Proto), protoSortKey(b.Proto)))
	})
	if len(ports) > 0 {
		put("PORT", "%s://%s:%d", ports[0].Proto, ip, ports[0].ContainerPort)
	}
	for _, p := range ports {
		key := fmt.Sprintf("PORT_%d_%s", p.ContainerPort, strings.ToUpper(p.Proto))
		put(key, "%s://%s:%d", p.Proto, ip, p.ContainerPort)
		put(key+"_ADDR", "%s", ip)
		put(key+"_PORT", "%d", p.ContainerPort)
		put(key+"_PROTO", "%s", p.Proto)
	}
	list = append(list, portRanges(prefix, ip, ports)...)
	put("NAME", "%s", name)
	for _, entry := range env {
		key, value, ok := strings.Cut(entry, "=")
		if ok && key != "HOME" && key != "PATH" {
			put("ENV_"+key, "%s", value)
		}
	}
	return list
}

// protoSortKey returns what a port's protocol sorts by: tcp comes before the others.
func protoSortKey(proto string) string {
	if proto == "tcp" {
		return ""
	}
	return proto
}

// portRanges names the ends of each run of neighbouring ports, as older clients look for them. ports are sorted.
func portRanges(prefix, ip string, ports []network.Port) []string {
	var list []string
	for i := 0; i < len(ports); {
		end := i
		for end+1 < len(ports) && ports[end+1].ContainerPort-ports[end].ContainerPort <= 1 {
			end++
		}
		if end > i {
			first, last := ports[i], ports[end]
			key := fmt.Sprintf("%s_PORT_%d_%s", prefix, first.ContainerPort, strings.ToUpper(first.Proto))
			list = append(list,
				fmt.Sprintf("%s_START=%s://%s:%d", key, first.Proto, ip, first.ContainerPort),
				fmt.Sprintf("%s_PORT_START=%d", key, first.ContainerPort),
				fmt.Sprintf("%s_END=%s://%s:%d", key, last.Proto, ip, last.ContainerPort),
				fmt.Sprintf("%s_PORT_END=%d", key, last.ContainerPort),
			)
		}
		i = end + 1
	}
	return list
}
