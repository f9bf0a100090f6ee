package compat

import (
	"moss/api/apiver"
	"moss/engine/fault"
)

// The refusals of versions hold what clients of one time or another look for in them, and the hint that makes newer ones
// speak an older version.

// TooNew is the refusal of a version above those that are served.
func TooNew(asked apiver.Version, served apiver.Range) error {
	return fault.Invalid("client is newer than server (client API version: %v, server API version: %v): "+
		"client version %v is too new. Maximum supported API version is %v. This engine serves %v to %v: "+
		"set DOCKER_API_VERSION=%v for clients that can speak older versions",
		asked, served.Until, asked, served.Until, served.Since, served.Until, served.Until)
}

// TooOld is the refusal of a version below those that are served.
func TooOld(asked apiver.Version, served apiver.Range) error {
	return fault.Invalid("client version %v is too old. Minimum supported API version is %v, please upgrade your client "+
		"to a newer version. This engine serves %v to %v: set DOCKER_API_VERSION=%v",
		asked, served.Since, served.Since, served.Until, served.Until)
}

// NoVersion is the refusal of a first segment that begins like a version and is none.
func NoVersion(segment string, served apiver.Range) error {
	return fault.Invalid("invalid API version %q: want a prefix like /v%v", segment, served.Until)
}
