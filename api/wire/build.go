package wire

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"

	"moss/api/apiver"
	"moss/api/types"
	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/image"
)

// DecodeBuildArgs reads the parameter buildargs: a JSON map whose values may be null.
func DecodeBuildArgs(text string) (args map[string]*string, err error) {
	return args, decodeParameter("buildargs", text, &args, "a JSON map of strings")
}

// DecodeLabels reads the parameter labels: a JSON map.
func DecodeLabels(text string) (labels map[string]string, err error) {
	return labels, decodeParameter("labels", text, &labels, "a JSON map of strings")
}

// DecodeCacheFrom reads the parameter cachefrom: a JSON list.
func DecodeCacheFrom(text string) (names []string, err error) {
	return names, decodeParameter("cachefrom", text, &names, "a JSON list of strings")
}

// DecodeUlimits reads the parameter ulimits: a JSON list of objects with Name, Soft and Hard.
func DecodeUlimits(text string) (limits []container.Ulimit, err error) {
	return limits, decodeParameter("ulimits", text, &limits, "a JSON list of objects with Name, Soft and Hard")
}

// decodeParameter reads the JSON of a query parameter; an empty one leaves into as it is. The error is fault.Invalid.
func decodeParameter(name, text string, into any, want string) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fault.Invalid("invalid value for %s: got %s, want %s", name, wrong.Value, want)
		}
		return fault.Invalid("invalid value for %s: want %s: %v", name, want, err)
	}
	return nil
}

// DecodeRegistryConfig reads the value of the header X-Registry-Config (document 3, 5.1): a map of registries to
// credentials, or a configuration file that holds one under auths, or under configs as clients of before 1.7 and go-dockerclient
// have it. What cannot be read is left out, as with X-Registry-Auth: most images are there for everybody.
func DecodeRegistryConfig(header string, version apiver.Version) map[string]image.RegistryAuth {
	raw, err := DecodeBase64(header)
	if err != nil {
		return nil
	}
	var entries map[string]json.RawMessage
	if json.Unmarshal(raw, &entries) != nil {
		return nil
	}
	for _, form := range []string{"configs", "auths"} {
		var file map[string]json.RawMessage
		if json.Unmarshal(entries[form], &file) == nil && file != nil {
			delete(entries, form)
			maps.Copy(entries, file) // docker-py 5 sends both forms in one, the file's empty
		}
	}
	auths := make(map[string]image.RegistryAuth, len(entries))
	for registry, entry := range entries {
		var auth *types.AuthConfig
		if Decode(entry, &auth, version) == nil && auth != nil {
			auths[registry] = ToRegistryAuth(auth)
		}
	}
	return auths
}

// DecodeBuildSecrets reads the value of the header X-Build-Secrets, an extension of moss: base64 of a JSON map of ids to
// base64 of contents. What cannot be read is fault.Invalid, without a word of what is in it.
func DecodeBuildSecrets(header string) (map[string]image.Secret, error) {
	if header == "" {
		return nil, nil
	}
	bad := func() (map[string]image.Secret, error) {
		return nil, fault.Invalid("invalid value for X-Build-Secrets: want base64 of a JSON map of ids to contents in base64")
	}
	raw, err := DecodeBase64(header)
	if err != nil {
		return bad()
	}
	var entries map[string]string
	if json.Unmarshal(raw, &entries) != nil {
		return bad()
	}
	secrets := make(map[string]image.Secret, len(entries))
	for id, text := range entries {
		content, err := DecodeBase64(text)
		if err != nil || id == "" {
			return bad()
		}
		secrets[id] = image.Secret(content)
	}
	return secrets, nil
}
