// Package wire encodes and decodes the records of package types in the form of an API version: Encode and Decode obey the
// ranges that the fields have as tags, so that nothing else in the engine needs to know a version. The functions that make
// records of the engine's own types, and the reverse, are here too; they hold no rule about containers.
package wire
