package handler

import (
	"moss/api/route"
	"moss/api/wire"
	"moss/engine/fault"
)

// laterParam is a query parameter of later API versions, and the route that moss has without it.
type laterParam struct {
	method, path string
	param        route.Later
}

// laterParams is the table of those without which the answer would be another one than was asked for. Others only ask for
// more to be shown.
func laterParams() []laterParam {
	later := func(minor uint16, name string, fine ...string) route.Later {
		return route.Later{Name: name, Since: v(minor), Fine: fine}
	}
	return []laterParam{
		{post, "/images/load", later(48, "platform")},
		{post, "/build/prune", later(48, "reserved-space", "0")},
		{post, "/build/prune", later(48, "max-used-space", "0")},
		{post, "/build/prune", later(48, "min-free-space", "0")},
	}
}

// refuseLater returns the routes with the parameters of the table.
func refuseLater(routes []route.Route) []route.Route {
	for _, p := range laterParams() {
		for i := range routes {
			if r := &routes[i]; r.Method == p.method && r.Path == p.path {
				r.Shape.Later = append(r.Shape.Later, p.param)
			}
		}
	}
	return routes
}

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
