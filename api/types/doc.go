// Package types holds the records of the API: the bodies of requests and answers, one line per field, each with the range of
// API versions that has it:
//
//	Mounts []MountPoint `api:"1.20-"`
//
// Server, client and command line share them. Package wire encodes and decodes them by these ranges; a client that asks at
// one version reads an answer with encoding/json, and fields that the version does not have stay at zero. Documents are those
// of the API.
//
// The option omitzero is of what clients send: they leave out what they do not ask for. Package wire does not look at it, and
// answers have such fields whatever their value.
//
// The tag always has the versions whose answers have a field without a value too, although the option omitempty keeps it out of
// what clients send and out of the answers of other versions.
//
// A field without a range is in every version. A field that the API documents do not list but that clients of the time read is
// marked by nothing: docs/fields.tsv lists those. Ranges that begin after the newest served version are fields that
// later versions will need; until then they are neither read nor written.
package types
