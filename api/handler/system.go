package handler

import (
	"context"
	"net/http"
	"time"

	"moss/api/compat"
	"moss/api/route"
	"moss/api/wire"
)

// pingLimit bounds how long an answer to a ping waits for this node's part in a swarm.
const pingLimit = time.Second

func (h *Handler) systemPing(c *route.Call) error {
	head := c.Writer().Header()
	for _, probe := range h.probeHead {
		head[probe.Key] = probe.Value
	}
	if h.swarm != nil && h.swarm.MayBeInSwarm() {
		ctx, cancel := context.WithTimeout(c.Ctx(), pingLimit)
		defer cancel()
		head.Set(compat.Swarm, wire.SwarmState(h.swarm.Node(ctx)))
	}
	return c.Bytes(http.StatusOK, compat.Text, []byte("OK"))
}

func (h *Handler) systemInfo(c *route.Call) error {
	info, err := h.system.Info(c.Ctx())
	if err != nil {
		return err
	}
	shown := wire.NewInfo(&info)
	wire.FitInfo(shown, c.Version())
	return replyJSON(c, http.StatusOK, shown)
}

func (h *Handler) systemVersion(c *route.Call) error {
	return replyJSON(c, http.StatusOK, wire.NewVersion(h.system.Version(), c.Served()))
}
