package event

import (
	"slices"
	"strings"

	"moss/engine/fault"
	"moss/engine/filter"
)

// Filter picks events as the filters parameter of the wire asks (API document 3, section 6). The zero Filter takes all.
type Filter struct {
	wants []want
}

// want is one key with its values.
type want struct {
	key    string
	values []string
}

// filterKeys returns the keys in the order in which they are looked at: what tells most events apart, and is quickest, comes
// first.
func filterKeys() []string {
	return []string{
		"type", "container", "daemon", "network", "volume", "plugin", "service", "node", "secret", "config", "scope",
		"event", "image", "label",
	}
}

// NewFilter checks the keys: container, daemon, event, image, label, network, scope, type and volume, and config, node, plugin,
// secret and service, of which nothing is told. Another one gives fault.Invalid. An event passes if it meets every key that has
// values; it meets label by meeting all its values and any other key by meeting one.
func NewFilter(wants map[string][]string) (Filter, error) {
	for key := range wants {
		if !slices.Contains(filterKeys(), key) {
			return Filter{}, fault.Invalid("invalid filter %q: use %s", key,
				strings.Join(slices.Sorted(slices.Values(filterKeys())), ", "))
		}
	}
	var f Filter
	for _, key := range filterKeys() {
		if len(wants[key]) == 0 {
			continue
		}
		values := slices.Clone(wants[key])
		for i, value := range values {
			switch key {
			case "image":
				values[i] = familiarName(value)
			case "container", "daemon", "network", "volume":
				values[i] = strings.TrimPrefix(value, "/")
			}
		}
		f.wants = append(f.wants, want{key: key, values: values})
	}
	return f, nil
}

// Match reports whether the event passes. It fits Options.Filter.
func (f Filter) Match(ev *Event) bool {
	for i := range f.wants {
		if !matchKey(ev, f.wants[i].key, f.wants[i].values) {
			return false
		}
	}
	return true
}

func matchKey(ev *Event, key string, values []string) bool {
	switch key {
	case "type":
		return slices.Contains(values, ev.Type)
	case "scope":
		return slices.Contains(values, ScopeLocal)
	case "event":
		return slices.ContainsFunc(values, func(v string) bool { return matchAction(ev.Action, v) })
	case "label":
		return filter.HasLabels(ev.Attributes, values)
	case "image":
		return slices.ContainsFunc(values, func(v string) bool { return matchImage(ev, v) })
	default: // the key is the type of the object that it names
		return ev.Type == key && slices.ContainsFunc(values, func(v string) bool { return matchObject(ev, v) })
	}
}

// matchAction takes an action by name; "exec_create" also stands for "exec_create: cmd", "health_status" for
// "health_status: healthy".
func matchAction(action, want string) bool {
	rest, ok := strings.CutPrefix(action, want)
	return ok && (rest == "" || want != "" && rest[0] == ':')
}

// matchObject takes a name, an id or the beginning of an id.
func matchObject(ev *Event, want string) bool {
	return want != "" && (strings.HasPrefix(ev.ID, want) || ev.Attributes["name"] == want)
}

// matchImage takes the id, the beginning of one, or the name, with or without tag, of an image itself or of the image
// behind a container.
func matchImage(ev *Event, want string) bool {
	if want == "" {
		return false
	}
	if ev.Type != TypeImage {
		return isImage(ev.Attributes["image"], want)
	}
	return isImage(ev.ID, want) || isImage(ev.Attributes["name"], want)
}

// shortID is how many digits of an image's id clients show. Fewer, without the algorithm, may be a name.
const shortID = 12

func isImage(name, want string) bool {
	if digits, ok := strings.CutPrefix(name, "sha256:"); ok {
		short, full := strings.CutPrefix(want, "sha256:")
		return short != "" && (full || len(short) >= shortID) && strings.HasPrefix(digits, short)
	}
	name = familiarName(name)
	return name == want || repositoryName(name) == want
}

// familiarName leaves out what a client may leave out of an image's name.
func familiarName(name string) string {
	for _, prefix := range []string{"docker.io/library/", "index.docker.io/library/", "docker.io/", "index.docker.io/"} {
		if short, ok := strings.CutPrefix(name, prefix); ok {
			return short
		}
	}
	return name
}

// repositoryName cuts the digest and the tag off a name. The colon of a registry's port is not a tag's.
func repositoryName(name string) string {
	name, _, _ = strings.Cut(name, "@")
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		return name[:i]
	}
	return name
}
