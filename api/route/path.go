package route

import (
	"net/http"
	"net/url"
	"strings"

	"moss/api/apiver"
	"moss/engine/fault"
)

// splitVersion takes the version off an escaped path. A path without one is of the newest version; rest begins with a
// slash. The error is fault.Invalid; the version that comes with it is the one asked for, so that the answer has its form.
func splitVersion(path string) (v apiver.Version, rest string, err error) {
	first, after, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	digits, found := strings.CutPrefix(first, "v")
	if !found || digits == "" || digits[0] < '0' || digits[0] > '9' {
		return apiver.Max, path, nil
	}
	v, err = apiver.Parse(digits)
	switch {
	case err != nil:
		return apiver.Max, "", fault.Invalid("invalid API version %q: want a prefix like /v%v", first, apiver.Max)
	case v > apiver.Max:
		return v, "", fault.Invalid("client is newer than server (client API version: %v, server API version: %v). "+
			"Set DOCKER_API_VERSION=%v for clients that can speak older versions", v, apiver.Max, apiver.Max)
	case v < apiver.Min:
		return v, "", fault.Invalid("client version %v is too old. Minimum supported API version is %v, please upgrade your client "+
			"to a newer version or set DOCKER_API_VERSION=%v", v, apiver.Min, apiver.Max)
	}
	return v, "/" + after, nil
}

// fold makes one segment of a name that holds slashes, so that routes can match it: /images/a/b/json becomes
// /images/a%2Fb/json. It works on escaped paths and drops empty segments, since clients paste container names with their
// leading slash.
func fold(method, path string) string {
	var segments []string
	for s := range strings.SplitSeq(path, "/") {
		if s != "" {
			segments = append(segments, s)
		}
	}
	if len(segments) > 2 {
		last := len(segments)
		if !named(method, segments[0]) {
			last--
		}
		if named(method, segments[0]) || verb(method, segments[0], segments[len(segments)-1]) {
			name := strings.Join(segments[1:last], "%2F")
			segments = append([]string{segments[0], name}, segments[last:]...)
		}
	}
	return "/" + strings.Join(segments, "/")
}

// named reports whether a path is the noun and a name, with no verb behind it.
func named(method, noun string) bool {
	switch noun {
	case "images", "containers": // a container's link is named container/alias
		return method == http.MethodDelete
	case "volumes":
		return method == http.MethodDelete || method == http.MethodGet
	default:
		return false
	}
}

// verb reports whether the last segment of a path about an image is something to do with it.
func verb(method, noun, last string) bool {
	if noun != "images" {
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

// unescape returns the readable form of an escaped path.
func unescape(path string) (string, error) {
	plain, err := url.PathUnescape(path)
	if err != nil {
		return "", fault.Invalid("malformed path: %v", err)
	}
	return plain, nil
}
