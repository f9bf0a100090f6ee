package handler

import (
	"io"
	"net/http"

	"moss/api/route"
	"moss/api/swarmroute"
	"moss/engine/fault"
)

// swarmRoutes are the endpoints that another program answers: this node's part in a swarm.
func (h *Handler) swarmRoutes() []route.Route {
	verbs := swarmroute.All(h.passSwarm)
	verbs.SwarmInit, verbs.SwarmJoin = h.enterSwarm, h.enterSwarm
	return swarmroute.Routes(&verbs)
}

// passSwarm passes a request on for which the node has to be in a swarm.
func (h *Handler) passSwarm(c *route.Call) error { return h.passOn(c, false) }

// enterSwarm passes a request on that brings the node into a swarm.
func (h *Handler) enterSwarm(c *route.Call) error { return h.passOn(c, true) }

// hopHeaders are of one connection and not of the message (RFC 9110, 7.6.1).
//
//nolint:gochecknoglobals // a constant list
var hopHeaders = []string{"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Expect", "Date"}

// passOn sends a request on under the path of its version, and its answer back as it comes.
func (h *Handler) passOn(c *route.Call, enters bool) error {
	return h.passBody(c, io.LimitReader(c.Request().Body, route.MaxBody+1), enters)
}

// passBody is passOn for a request whose body has been read.
func (h *Handler) passBody(c *route.Call, body io.Reader, enters bool) error {
	if h.swarm == nil {
		return errNoSwarm()
	}
	in := c.Request()
	url := "http://moss-swarm/v" + c.Version().String() + in.URL.RawPath // API.ServeHTTP has put the path without the version there
	if in.URL.RawQuery != "" {
		url += "?" + in.URL.RawQuery
	}
	out, err := http.NewRequestWithContext(c.Ctx(), in.Method, url, body)
	if err != nil {
		return fault.Invalid("bad parameter: %w", err)
	}
	out.Header = in.Header.Clone()
	for _, name := range hopHeaders {
		out.Header.Del(name)
	}
	answer, err := h.swarm.Pass(out, enters)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	for _, name := range hopHeaders {
		answer.Header.Del(name)
	}
	head := c.Writer().Header()
	for name, values := range answer.Header {
		if _, ours := head[name]; !ours {
			head[name] = values
		}
	}
	c.Writer().WriteHeader(answer.StatusCode)
	_, _ = io.Copy(c.Writer(), answer.Body) // an answer that breaks off does so for the client as well
	return http.NewResponseController(c.Writer()).Flush()
}

func errNoSwarm() error {
	return fault.NotAcceptable("This node is not part of a swarm: the engine has none")
}
