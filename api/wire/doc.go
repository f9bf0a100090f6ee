// Package wire holds the JSON forms of the API, one line per field, each with the range of API versions that has it:
//
//	Mounts []MountPoint `api:"1.20-"`
//
// Encode and Decode obey the ranges, so that nothing else in the engine needs to know a version. The functions that
// fill these forms from the engine's own types are here too; they hold no rule about containers.
//
// A field without a range is in every version. A field of the engine's that the API documents do not list but that
// clients of the time read is marked by nothing: docs/compatibility.md lists those. Ranges that begin after the newest
// served version are fields that later versions will need; until then they are neither read nor written.
package wire
