// Package client is a typed Go client of the engine's API, as the moss command uses it.
//
// It speaks one API version, decodes what the documents name and keeps the rest as raw JSON, and leaves every decision
// about what to show to its caller. It does not look for an engine and starts none: Options.Dial is the place for that.
package client
