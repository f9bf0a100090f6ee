package handler

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"moss/api/compat"
	"moss/api/route"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/build"
	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/image"
)

// Builds makes images from Dockerfiles, and knows what it keeps of that.
type Builds interface {
	// Build emits nothing before the Dockerfile is known to be right: an error until then is a status.
	Build(ctx context.Context, req build.Request, emit func(image.Progress)) (id string, err error)
	Prune(ctx context.Context, opts build.PruneOptions) (build.Pruned, error)
	Usage(ctx context.Context) ([]build.CacheRecord, error)
}

func (h *Handler) imageBuild(c *route.Call) error {
	req, err := buildRequest(c)
	if err != nil {
		drainUpload(c.Request().Body, err)
		return err
	}
	if req.Remote != "" {
		skipBody(c)
		req.Context = http.NoBody
	}
	return h.sendProgressPaced(c, func(ctx context.Context, progress func(image.Progress)) error {
		_, err := h.builds.Build(ctx, req, progress)
		drainUpload(req.Context, err)
		return err
	})
}

// buildRequest reads the query and the headers.
func buildRequest(c *route.Call) (build.Request, error) {
	if err := refuseBuild(c); err != nil {
		return build.Request{}, err
	}
	req := build.Request{
		Context: newArchiveBody(c), Remote: c.Text("remote"), Dockerfile: c.Text(compat.BuildFileClient), Tags: dropEmpty(c.Texts("t")),
		Target: c.Text("target"), Platform: c.Text("platform"),
		Quiet: c.Bool("q"), NoCache: c.Bool("nocache"), Pull: c.Bool("pull"), ForceRemove: c.Bool("forcerm"), Steps: c.Bool("steps"),
		Auths: wire.DecodeRegistryConfig(c.Header(compat.RegistryConfig), c.Version()),
	}
	if c.Has(compat.BuildFile) {
		req.Dockerfile = c.Text(compat.BuildFile)
	}
	req.Remove = !c.Has("rm") || c.Bool("rm") || req.ForceRemove
	var err error
	if req.Args, err = wire.DecodeBuildArgs(c.Text("buildargs")); err != nil {
		return req, err
	}
	if req.Labels, err = wire.DecodeLabels(c.Text("labels")); err != nil {
		return req, err
	}
	if req.CacheFrom, err = wire.DecodeCacheFrom(c.Text("cachefrom")); err != nil {
		return req, err
	}
	if req.Secrets, err = wire.DecodeBuildSecrets(c.Header(compat.BuildSecrets)); err != nil {
		return req, err
	}
	return req, buildHost(c, &req)
}

// buildHost reads what holds for the containers of a build.
func buildHost(c *route.Call, req *build.Request) (err error) {
	host := &req.Host
	host.NetworkMode, host.CgroupParent, host.Isolation = c.Text("networkmode"), c.Text("cgroupparent"), c.Text("isolation")
	host.CpusetCpus, host.CpusetMems = c.Text("cpusetcpus"), c.Text("cpusetmems")
	host.ExtraHosts, host.SecurityOpt = dropEmpty(c.Texts("extrahosts")), dropEmpty(c.Texts("securityopt"))
	if host.Ulimits, err = wire.DecodeUlimits(c.Text("ulimits")); err != nil {
		return err
	}
	limit := func(name string) (n int64) {
		if err == nil {
			n, err = readInt64(c, name)
		}
		return n
	}
	host.Memory, host.MemorySwap, host.ShmSize = limit("memory"), limit("memswap"), limit("shmsize")
	host.CPUShares, host.CPUPeriod, host.CPUQuota = limit("cpushares"), limit("cpuperiod"), limit("cpuquota")
	return err
}

// refuseBuild refuses what takes another builder, or another kind of result.
func refuseBuild(c *route.Call) error {
	switch version := c.Text("version"); version {
	case "", "1":
	case "2":
		return fault.Unsupported("version 2 of the builder (BuildKit) is not there: use version 1, with docker's command line DOCKER_BUILDKIT=0")
	default:
		return fault.Invalid("invalid value for version: got %q, want 1", version)
	}
	switch outputs := strings.Join(strings.Fields(c.Text("outputs")), ""); {
	case outputs != "" && outputs != "null" && outputs != "[]":
		return fault.Unsupported("outputs are not there: a build's result is an image")
	case c.Bool("squash"):
		return fault.Unsupported("squash is not there: a multi-stage build with COPY --from has few layers too")
	case c.Has("session"):
		return fault.Unsupported("sessions are not there: they belong to BuildKit; use docker's command line with DOCKER_BUILDKIT=0")
	case c.Has("buildid"):
		return fault.Unsupported("buildid is not there: a build is cancelled by hanging up")
	}
	return nil
}

// dropEmpty returns the values that are not empty: clients send a parameter without a value for none.
func dropEmpty(values []string) []string {
	var list []string
	for _, value := range values {
		if value != "" {
			list = append(list, value)
		}
	}
	return list
}

// readInt64 returns a query parameter as a number of 64 bits, 0 when it is not there. Another text is fault.Invalid.
func readInt64(c *route.Call, name string) (int64, error) {
	text := c.Text(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fault.Invalid("invalid value for %s: got %q, want an integer", name, text)
	}
	return n, nil
}

func (h *Handler) buildPrune(c *route.Call) error {
	filters, err := c.Filters()
	if err != nil {
		return err
	}
	opts := build.PruneOptions{All: c.Bool("all"), Filters: filters}
	keep, keepErr := readInt64(c, "keep-storage")
	reserved, reservedErr := readInt64(c, "reserved-space")
	used, usedErr := readInt64(c, "max-used-space")
	free, freeErr := readInt64(c, "min-free-space")
	if err := errors.Join(keepErr, reservedErr, usedErr, freeErr); err != nil {
		return err
	}
	if least := min(keep, reserved, used, free); least < 0 {
		return fault.Invalid("invalid number of bytes: %d", least)
	}
	opts.Keep, opts.MaxUsed, opts.MinFree = max(keep, reserved), used, free
	gone, err := h.builds.Prune(c.Ctx(), opts)
	if err != nil {
		return err
	}
	h.tellPruned(event.TypeBuilder, gone.Bytes)
	return replyJSON(c, http.StatusOK, &types.BuildsPruned{CachesDeleted: gone.Deleted, SpaceReclaimed: gone.Bytes})
}

// buildCache lists the cache as system/df shows it.
func (h *Handler) buildCache(ctx context.Context) ([]types.BuildCache, error) {
	records, err := h.builds.Usage(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]types.BuildCache, 0, len(records))
	for _, r := range records {
		entry := types.BuildCache{
			ID: r.ID, Parent: r.Parent, Type: r.Type, Description: r.Description, InUse: r.InUse, Shared: r.Shared,
			Size: r.Size, CreatedAt: r.Created, UsageCount: r.Used,
		}
		if r.Parent != "" {
			entry.Parents = []string{r.Parent}
		}
		if !r.LastUsed.IsZero() {
			entry.LastUsedAt = &r.LastUsed
		}
		list = append(list, entry)
	}
	return list, nil
}

// buildCancel finds nothing to cancel: buildid, which would name a build, is refused.
func (h *Handler) buildCancel(c *route.Call) error {
	return fault.NotFound("No such build: %q; builds have no ids here: one is cancelled by hanging up", c.Text("id"))
}

// noBuildKit refuses what clients of BuildKit begin with: they go on without it.
func noBuildKit(*route.Call) error {
	return fault.Unsupported("BuildKit is not there: use the builder of version 1, with docker's command line DOCKER_BUILDKIT=0")
}
