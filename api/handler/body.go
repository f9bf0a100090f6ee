package handler

import (
	"moss/api/route"
	"moss/api/wire"
	"moss/engine/fault"
)

// decodeBody reads the call's JSON body for an answer that has no place for warnings: what it would warn of is refused. No body
// leaves into as it is.
func decodeBody(c *route.Call, into any) error {
	_, err := decodeRaw(c, into)
	return err
}

// decodeRaw is decodeBody, and returns what was read as well.
func decodeRaw(c *route.Call, into any) (raw []byte, err error) {
	if raw, err = c.JSONBody(); err != nil || len(raw) == 0 {
		return raw, err
	}
	warnings, err := wire.DecodeWarn(raw, into, c.Version())
	if err == nil && len(warnings) > 0 {
		return raw, fault.Invalid("%s", warnings[0])
	}
	return raw, err
}

// decodeWarn is decodeBody for an answer with warnings.
func decodeWarn(c *route.Call, into any) (warnings []string, err error) {
	raw, err := c.JSONBody()
	if err != nil || len(raw) == 0 {
		return nil, err
	}
	return wire.DecodeWarn(raw, into, c.Version())
}
