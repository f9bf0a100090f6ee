package handler

import (
	"net/http"

	"moss/api/route"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/container"
)

func (h *Handler) containerCommit(c *route.Call) error {
	var body *types.Config
	if err := decodeBody(c, &body); err != nil {
		return err
	}
	opt := container.CommitOptions{
		Repo: c.Text("repo"), Tag: c.Text("tag"), Author: c.Text("author"), Comment: c.Text("comment"),
		Pause: !c.Has("pause") || c.Bool("pause"), Changes: c.Texts("changes"),
	}
	if body != nil {
		config := wire.ToConfig(body)
		opt.Config = &config
	}
	id, err := h.commits.Commit(c.Ctx(), c.Text("container"), opt)
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusCreated, &types.ImageCommitted{ID: id})
}
