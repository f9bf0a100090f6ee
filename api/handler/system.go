package handler

import (
	"context"
	"net/http"
	"time"

	"moss/api/compat"
	"moss/api/route"
	"moss/api/wire"
	"moss/engine/swarm/status"
)

// pingLimit bounds how long an answer to a ping waits for this node's part in a swarm.
const pingLimit = time.Second

func (h *Handler) systemPing(c *route.Call) error {
	var node status.Node
	if h.swarm != nil {
		ctx, cancel := context.WithTimeout(c.Ctx(), pingLimit)
		defer cancel()
		node = h.swarm.Node(ctx)
	}
	head := c.Writer().Header()
	head.Set("Cache-Control", compat.NoCache)
	head.Set("Pragma", "no-cache")
	head.Set("Swarm", wire.SwarmState(node))
	head.Set("Builder-Version", "1") // builds are asked for by POST /build
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
