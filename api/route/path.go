package route

import (
	"net/http"
	"strings"

	"moss/api/apiver"
	"moss/api/compat"
)

// splitVersion takes the version off an escaped path. A path without one is of the newest version that is served; rest
// begins with a slash. The error is fault.Invalid; the version that comes with it is the one asked for, so that the answer
// has its form.
func splitVersion(path string, serve apiver.Range) (v apiver.Version, rest string, err error) {
	first, after, _ := strings.Cut(strings.TrimLeft(path, "/"), "/")
	digits, found := strings.CutPrefix(first, "v")
	if !found || digits == "" || digits[0] < '0' || digits[0] > '9' {
		return serve.Until, path, nil
	}
	v, err = apiver.Parse(digits)
	switch {
	case err != nil:
		return serve.Until, "", compat.NoVersion(first, serve)
	case v > serve.Until:
		return v, "", compat.TooNew(v, serve)
	case v < serve.Since:
		return v, "", compat.TooOld(v, serve)
	}
	if after == "" {
		return v, "/", nil
	}
	return v, path[len(path)-len(after)-1:], nil
}

// foldPath makes one segment of a name that holds slashes, so that routes can match it: /images/a/b/json becomes
// /images/a%2Fb/json. It works on escaped paths and drops empty segments, since clients paste container names with their
// leading slash.
func foldPath(method, path string) string {
	if isFolded(method, path) {
		return path
	}
	var segments []string
	for s := range strings.SplitSeq(path, "/") {
		if s != "" {
			segments = append(segments, s)
		}
	}
	if len(segments) > 2 && !isCheckpoint(segments) {
		last := len(segments)
		if !endsInName(method, segments[0]) {
			last--
		}
		if endsInName(method, segments[0]) || isImageVerb(method, segments[0], segments[len(segments)-1]) {
			name := strings.Join(segments[1:last], "%2F")
			segments = append([]string{segments[0], name}, segments[last:]...)
		}
	}
	return "/" + strings.Join(segments, "/")
}

// placeOf is foldPath for those who ask which methods a path has. What stands behind a container there is not the alias of a
// link: each path about containers would be one that can be deleted.
func placeOf(method, path string) string {
	if strings.HasPrefix(path, "/containers/") {
		method = http.MethodGet
	}
	return foldPath(method, path)
}

// isFolded tells of most paths that there is nothing to do.
func isFolded(method, path string) bool {
	if path == "" || path[0] != '/' || path[len(path)-1] == '/' || strings.Contains(path, "//") {
		return false
	}
	noun, rest, _ := strings.Cut(path[1:], "/")
	switch noun {
	case "images", "volumes", "distribution", "plugins":
		return !strings.Contains(rest, "/")
	case "containers":
		return method != http.MethodDelete || !strings.Contains(rest, "/")
	default:
		return true
	}
}

// endsInName reports whether a path is the noun and a name, with no verb behind it.
func endsInName(method, noun string) bool {
	switch noun {
	case "images", "plugins", "containers": // a container's link is named container/alias
		return method == http.MethodDelete
	case "volumes":
		return method == http.MethodDelete || method == http.MethodGet
	default:
		return false
	}
}

// isCheckpoint reports whether a path is about one of a container's checkpoints, and not about a link.
func isCheckpoint(segments []string) bool {
	return len(segments) == 4 && segments[0] == "containers" && segments[2] == "checkpoints"
}

// isImageVerb reports whether the last segment of a path about an image, or what is named like one, is something to do with it.
func isImageVerb(method, noun, last string) bool {
	switch {
	case noun == "distribution":
		return last == "json" && (method == http.MethodGet || method == http.MethodHead)
	case noun == "plugins":
		return isPluginVerb(method, last)
	case noun != "images":
		return false
	}
	switch last {
	case "json", "history", "get":
		return method == http.MethodGet || method == http.MethodHead
	case "push", "tag":
		return method == http.MethodPost
	default:
		return false
	}
}

func isPluginVerb(method, last string) bool {
	switch last {
	case "json":
		return method == http.MethodGet || method == http.MethodHead
	case "enable", "disable", "push", "upgrade", "set":
		return method == http.MethodPost
	default:
		return false
	}
}

// matchesPattern reports whether a folded path is one of a route's.
func matchesPattern(pattern, path string) bool {
	for {
		want, restOfPattern, moreWanted := strings.Cut(pattern, "/")
		got, rest, more := strings.Cut(path, "/")
		if want != got && (got == "" || !strings.HasPrefix(want, ":")) || moreWanted != more {
			return false
		}
		if !more {
			return true
		}
		pattern, path = restOfPattern, rest
	}
}
