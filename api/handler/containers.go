package handler

import (
	"net/http"
	"slices"
	"time"

	"moss/api/apiver"
	"moss/api/route"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/container"
	"moss/engine/fault"
)

func (h *Handler) containerList(c *route.Call) error {
	filters, err := c.Filters()
	if err != nil {
		return err
	}
	if err := knownStates(c.Version(), filters["status"]); err != nil {
		return err
	}
	limit, err := c.Int("limit", 0)
	if err != nil {
		return err
	}
	records, err := h.inventory.List(c.Ctx(), container.ListOptions{
		All: c.Bool("all"), Limit: max(limit, 0), Since: c.Text("since"), Before: c.Text("before"), Filters: filters,
	})
	if err != nil {
		return err
	}
	now := time.Now()
	list := make([]*types.ContainerSummary, 0, len(records))
	for _, r := range records {
		entry := wire.NewContainerSummary(r, now)
		wire.FitSummary(entry, c.Version(), r)
		if c.Bool("size") {
			err := h.addSizes(c, entry, r.ID)
			if fault.Is(err, fault.NotFound) {
				continue // removed since the list was made
			}
			if err != nil {
				return err
			}
		}
		list = append(list, entry)
	}
	return replyJSON(c, http.StatusOK, list)
}

// knownStates refuses the states that a version does not have yet (document 2, 4.1: containers/json). To leave them out
// would answer with containers that were not asked for.
func knownStates(version apiver.Version, asked []string) error {
	for word, first := range map[string]uint16{"created": 20, "dead": 22, "removing": 24} {
		if version < v(first) && slices.Contains(asked, word) {
			return fault.Invalid("Unrecognised filter value for status: %s", word)
		}
	}
	return nil
}

// knownHost refuses the values of settings that a version does not have yet (document 1, 2.3).
func knownHost(version apiver.Version, host *container.HostConfig) error {
	if version >= v(21) {
		return nil
	}
	if host.RestartPolicy.Name == container.RestartUnlessStopped {
		return fault.Invalid("invalid restart policy '%s' at version %s: it is there from 1.21 on", host.RestartPolicy.Name, version)
	}
	if mode := host.NetworkMode; mode != "" && mode != "default" && container.UserNetwork(mode) {
		return fault.Invalid("invalid network mode '%s' at version %s: networks are there from 1.21 on", mode, version)
	}
	return nil
}

// knownHostname refuses what versions before 1.24 take as a host name (document 1, 2.2): they have no rule for its form.
func knownHostname(version apiver.Version, name string) error {
	if version >= v(24) && name != "" && !container.IsHostname(name) {
		return fault.Invalid("invalid hostname format: %s", name)
	}
	return nil
}

func (h *Handler) containerInspect(c *route.Call) error {
	r, err := h.inventory.Get(c.Param("id"))
	if err != nil {
		return err
	}
	record := wire.NewContainerInspect(r)
	wire.FitInspect(record, c.Version(), r)
	record.ExecIDs = h.execs.IDs(r.ID)
	if c.Bool("size") {
		if record.SizeRw, record.SizeRootFs, err = h.containerSizes(c, r.ID); err != nil {
			return err
		}
	}
	return replyJSON(c, http.StatusOK, record)
}

// addSizes adds the sizes of one of many containers. Without them, the entry says nothing of its sizes: the trouble of one
// container is not that of all others.
func (h *Handler) addSizes(c *route.Call, entry *types.ContainerSummary, ref string) (err error) {
	entry.SizeRw, entry.SizeRootFs, err = h.containerSizes(c, ref)
	if err == nil || fault.Is(err, fault.NotFound) {
		return err
	}
	if stop := c.Ctx().Err(); stop != nil {
		return stop
	}
	c.Log().Error().Err(err).Str("container", ref).Msg("size of container not known")
	return nil
}

func (h *Handler) containerSizes(c *route.Call, ref string) (rw, rootfs *int64, err error) {
	own, whole, err := h.inventory.Size(c.Ctx(), ref)
	if err != nil {
		return nil, nil, err
	}
	return &own, &whole, nil
}

func (h *Handler) containerCreate(c *route.Call) error {
	raw, err := c.JSONBody()
	if err != nil {
		return err
	}
	var body *types.ContainerCreate
	var warnings []string
	if len(raw) > 0 {
		if body, warnings, err = wire.DecodeCreate(raw, c.Version()); err != nil {
			return err
		}
	}
	if body == nil {
		return fault.Invalid("Config cannot be empty in order to create a container")
	}
	// AutoRemove is of 1.25, but clients of older versions that remove containers themselves do not send it: who does asks.
	config, host := wire.ToConfig(&body.Config), wire.ToCreateHost(body)
	if err := knownHostname(c.Version(), config.Hostname); err != nil {
		return err
	}
	if err := knownHost(c.Version(), &host); err != nil {
		return err
	}
	if c.Version() >= v(40) && host.IpcMode == "" {
		host.IpcMode = "private"
	}
	if c.Version() >= v(48) && host.VolumeDriver != "" && len(host.Mounts) > 0 {
		warnings = append(warnings, "VolumeDriver has no effect on Mounts: they name the drivers of their volumes themselves.")
	}
	if c.Version() >= v(41) && host.CgroupnsMode == "" {
		host.CgroupnsMode = "private"
	}
	if c.Has("platform") {
		if err := h.images.CheckPlatform(c.Ctx(), config.Image, c.Text("platform")); err != nil {
			return err
		}
	}
	endpoints := wire.ToEndpoints(body)
	if err := h.refuseClusterNetworks(c.Ctx(), host.NetworkMode, endpoints); err != nil {
		return err
	}
	id, more, err := h.containers.Create(c.Ctx(), c.Text("name"), config, host, endpoints)
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusCreated, &types.ContainerCreated{ID: id, Warnings: joinWarnings(warnings, more)})
}

// joinWarnings returns the warnings of an answer, an empty list for none.
func joinWarnings(warnings, more []string) []string {
	return append(append([]string{}, warnings...), more...)
}
