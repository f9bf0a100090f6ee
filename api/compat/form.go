package compat

import (
	"encoding/json"
	"errors"
	"strings"

	"moss/api/apiver"
	"moss/engine/fault"
)

// Media types. Clients compare JSON as a whole string, so it carries no charset.
const (
	JSON = "application/json"
	Text = "text/plain; charset=utf-8"
	Tar  = "application/x-tar"
	// RawStream is the type of a connection or answer that carries a container's streams (document 2, 4.1). Clients of
	// versions before 1.42 do not compare it.
	RawStream = "application/vnd.engine.raw-stream"

	// From 1.42 on clients take from the type whether the streams are in frames.
	rawStream    = "application/vnd.docker.raw-stream"
	framedStream = "application/vnd.docker.multiplexed-stream"
)

// StreamType returns the media type of a container's streams: as they are, or in frames.
func StreamType(version apiver.Version, raw bool) string {
	switch {
	case version < apiver.New(1, 42):
		return RawStream
	case raw:
		return rawStream
	default:
		return framedStream
	}
}

// Two names of one thing: the documents' and the clients'. Both are read, both are shown. Those of headers are with the
// headers; those of fields are in package wire, which cannot take a tag from here: its test holds them against this list.
const (
	BuildFile       = "enginefile" // a parameter
	BuildFileClient = "dockerfile"
)

// FieldPairs are the names of fields in JSON that come as a pair, the documents' first.
func FieldPairs() [][2]string {
	return [][2]string{{"EngineRootDir", "DockerRootDir"}, {"EngineVersion", "DockerVersion"}}
}

// None stands for a part of an image's name that there is not, in lists: clients look for it.
const None = "<none>"

// ExecDriver is what engines with one driver of containers said to clients of that time.
const ExecDriver = "native-0.2"

// PageNotFound is the text of the answer to a path that is no endpoint's.
const PageNotFound = "page not found"

// Yes reports whether the text of a parameter means true: everything that does not say no, as clients rely on.
func Yes(text string) bool {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "", "0", "no", "false", "none":
		return false
	default:
		return true
	}
}

// Filters reads the text of filters: a JSON map of lists, or of maps to booleans as later clients send it. Anything else is
// fault.Invalid. The map is never nil.
func Filters(text string) (map[string][]string, error) {
	if strings.TrimSpace(text) == "" {
		return map[string][]string{}, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, fault.Invalid("invalid value for filters: got %s, want a JSON map of lists of strings", wrong.Value)
		}
		return nil, fault.Invalid("invalid value for filters: want a JSON map of lists of strings: %v", err)
	}
	filters := make(map[string][]string, len(fields))
	for key, raw := range fields {
		var list []string
		if json.Unmarshal(raw, &list) == nil {
			filters[key] = append(filters[key], list...)
			continue
		}
		var set map[string]bool
		if err := json.Unmarshal(raw, &set); err != nil {
			return nil, fault.Invalid("invalid value for filters: %q: want a list of strings", key)
		}
		for value, on := range set {
			if on {
				filters[key] = append(filters[key], value)
			}
		}
	}
	return filters, nil
}

// errorsAreJSON is the first version whose errors are JSON; before it they are plain text (document 3, 7.1).
const errorsAreJSON = apiver.Version(1<<16 | 24)

// Error returns the body of an error with its newline, and its media type.
func Error(v apiver.Version, text string) (mediaType string, body []byte) {
	if v < errorsAreJSON {
		return Text, append([]byte(text), '\n')
	}
	return JSON, marshalLine(struct {
		Message string `json:"message"`
	}{text})
}

// StreamError returns the message that reports an error in a stream that has begun (document 3, 7.3), with its newline.
// The command line ends with the code, if there is one.
func StreamError(code int, text string) []byte {
	type detail struct {
		Code    int    `json:"code,omitempty"`
		Message string `json:"message"`
	}
	return marshalLine(struct {
		ErrorDetail detail `json:"errorDetail"`
		Error       string `json:"error"`
	}{detail{Code: code, Message: text}, text})
}

// marshalLine marshals a value made of strings and integers, which cannot fail.
func marshalLine(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		raw = []byte(`{"message":"the error could not be encoded"}`)
	}
	return append(raw, '\n')
}
