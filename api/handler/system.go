package handler

import (
	"net/http"

	"moss/api/compat"
	"moss/api/route"
	"moss/api/wire"
)

func systemPing(c *route.Call) error {
	h := c.Writer().Header()
	h.Set("Cache-Control", compat.NoCache)
	h.Set("Pragma", "no-cache")
	h.Set("Builder-Version", "1") // builds are asked for by POST /build
	return c.Bytes(http.StatusOK, compat.Text, []byte("OK"))
}

func (h *Handler) systemInfo(c *route.Call) error {
	info, err := h.system.Info(c.Ctx())
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, wire.NewInfo(&info))
}

func (h *Handler) systemVersion(c *route.Call) error {
	return replyJSON(c, http.StatusOK, wire.NewVersion(h.system.Version(), c.Served()))
}
