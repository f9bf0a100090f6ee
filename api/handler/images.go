package handler

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"moss/api/route"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/fault"
	"moss/engine/image"
)

// ImageViews shows images.
type ImageViews interface {
	List(ctx context.Context, opt image.ListOptions) ([]*image.Image, error)
	Get(ctx context.Context, ref string) (*image.Image, error)
	History(ctx context.Context, ref string) ([]image.HistoryEntry, error)
	Usage(ctx context.Context) (image.Usage, error)
	// Users returns how many containers keep an image.
	Users(imageID string) int
	// CheckPlatform is fault.NotFound if the image is not one for a platform in a client's words.
	CheckPlatform(ctx context.Context, ref, platform string) error
}

// ImageVerbs changes images.
type ImageVerbs interface {
	Tag(ctx context.Context, ref, repo, tag string) error
	Remove(ctx context.Context, ref string, opt image.RemoveOptions) ([]image.Removed, error)
	Prune(ctx context.Context, filters map[string][]string) (removed []image.Removed, reclaimed int64, err error)
}

// ImageArchives takes images in and writes them out. progress may be called by any goroutine until the verb returns.
type ImageArchives interface {
	// Import makes an image of src, or of what opt names as its source.
	Import(ctx context.Context, src io.Reader, opt image.ImportOptions, progress func(image.Progress)) (id string, err error)
	Load(ctx context.Context, src io.Reader, opt image.LoadOptions, progress func(image.Progress)) error
	// Save calls open once it is sure that all images are there. An error before that is a status.
	Save(ctx context.Context, refs []string, opt image.SaveOptions, open func() (io.Writer, error)) error
}

// Registries is what the endpoints need of other machines' images. progress is as with ImageArchives.
type Registries interface {
	Pull(ctx context.Context, opt image.PullOptions, progress func(image.Progress)) error
	Push(ctx context.Context, opt image.PushOptions, progress func(image.Progress)) error
	Search(ctx context.Context, opt image.SearchOptions) ([]image.SearchResult, error)
	Login(ctx context.Context, auth image.RegistryAuth) (image.Login, error)
	Inspect(ctx context.Context, name string, auth image.RegistryAuth) (image.Distribution, error)
}

func (h *Handler) distributionInspect(c *route.Call) error {
	found, err := h.registries.Inspect(c.Ctx(), c.Param("name"), readAuth(c))
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, wire.NewDistribution(&found))
}

func (h *Handler) imageList(c *route.Call) error {
	filters, err := c.Filters()
	if err != nil {
		return err
	}
	images, err := h.images.List(c.Ctx(), image.ListOptions{All: c.Bool("all"), Name: c.Text("filter"), Filters: filters})
	if err != nil {
		return err
	}
	digests := c.Bool("digests") || c.Version() >= v(22)
	list := make([]*types.ImageSummary, 0, len(images))
	for _, i := range images {
		entry := wire.NewImageSummary(i, digests)
		wire.FitImage(entry, c.Version())
		if c.Version() >= v(51) {
			entry.Containers = h.images.Users(i.ID)
		}
		list = append(list, entry)
	}
	if c.Bool("shared-size") {
		if err := h.addSharedSizes(c, list); err != nil {
			return err
		}
	}
	return replyJSON(c, http.StatusOK, list)
}

// addSharedSizes adds what images have in common with others. What only serves others, and is not counted, shares all it has.
func (h *Handler) addSharedSizes(c *route.Call, list []*types.ImageSummary) error {
	usage, err := h.images.Usage(c.Ctx())
	if err != nil {
		return err
	}
	shared := make(map[string]int64, len(usage.Images))
	for _, u := range usage.Images {
		shared[u.Image.ID] = u.SharedSize
	}
	for _, entry := range list {
		var counted bool
		if entry.SharedSize, counted = shared[entry.ID]; !counted {
			entry.SharedSize = entry.Size
		}
	}
	return nil
}

// checkPlatforms holds an image against the platforms that a parameter names: it is for one here. fault.NotFound if it is for
// another one.
func (h *Handler) checkPlatforms(c *route.Call, param string, texts []string, ref string) error {
	platforms, err := readPlatforms(param, texts)
	if err != nil {
		return err
	}
	for _, words := range platforms {
		if err := h.images.CheckPlatform(c.Ctx(), ref, words); err != nil {
			return err
		}
	}
	return nil
}

// askedPlatforms are the values of the parameter platform, which counts as not there without a value.
func askedPlatforms(c *route.Call) []string { return dropEmpty(c.Texts("platform")) }

// readPlatforms turns platforms in JSON into a client's words.
func readPlatforms(param string, texts []string) (platforms []string, err error) {
	for _, text := range texts {
		words, err := readPlatform(param, text)
		if err != nil {
			return nil, err
		}
		platforms = append(platforms, words)
	}
	return platforms, nil
}

// readPlatform turns a platform in JSON, as OCI has it, into a client's words.
func readPlatform(param, text string) (words string, err error) {
	var p struct{ OS, Architecture, Variant string }
	if err := json.Unmarshal([]byte(text), &p); err != nil || strings.Contains(p.OS+p.Architecture+p.Variant, "/") {
		return "", fault.Invalid("invalid value for %s: %.128q is no platform in JSON", param, text)
	}
	if p.OS == "" || p.Architecture == "" {
		return "", fault.Invalid("invalid value for %s: %.128q has not both, os and architecture", param, text)
	}
	words = strings.TrimRight(p.OS+"/"+p.Architecture+"/"+p.Variant, "/")
	if err := image.CheckPlatform(words); err != nil {
		return "", fault.Invalid("invalid value for %s: %w", param, err)
	}
	return words, nil
}

func (h *Handler) imageInspect(c *route.Call) error {
	if err := h.checkPlatforms(c, "platform", askedPlatforms(c), c.Param("name")); err != nil {
		return err
	}
	if c.Bool("manifests") && len(askedPlatforms(c)) > 0 {
		return fault.Invalid("conflicting options: manifests and platform options cannot both be set")
	}
	i, err := h.images.Get(c.Ctx(), c.Param("name"))
	if err != nil {
		return err
	}
	shown := wire.NewImageInspect(i, h.driver)
	wire.FitImageInspect(shown, c.Version(), i)
	return replyJSON(c, http.StatusOK, shown)
}

func (h *Handler) imageRemove(c *route.Call) error {
	if err := h.checkPlatforms(c, "platforms", c.Texts("platforms"), c.Param("name")); err != nil {
		return err
	}
	removed, err := h.imageVerbs.Remove(c.Ctx(), c.Param("name"), image.RemoveOptions{
		Force: c.Bool("force"), NoPrune: c.Bool("noprune"),
	})
	if err != nil {
		return err
	}
	list := make([]types.ImageRemoved, 0, len(removed))
	for _, r := range removed {
		list = append(list, types.ImageRemoved(r))
	}
	return replyJSON(c, http.StatusOK, list)
}

func (h *Handler) imageHistory(c *route.Call) error {
	if err := h.checkPlatforms(c, "platform", askedPlatforms(c), c.Param("name")); err != nil {
		return err
	}
	steps, err := h.images.History(c.Ctx(), c.Param("name"))
	if err != nil {
		return err
	}
	list := make([]types.ImageHistory, 0, len(steps))
	for _, s := range steps {
		list = append(list, types.ImageHistory(s))
	}
	return replyJSON(c, http.StatusOK, list)
}

func (h *Handler) imageTag(c *route.Call) error {
	ref, repo, tag := c.Param("name"), c.Text("repo"), c.Text("tag")
	if c.Version() < v(22) && !c.Bool("force") {
		if err := h.nameIsFree(c, ref, repo, tag); err != nil {
			return err
		}
	}
	if err := h.imageVerbs.Tag(c.Ctx(), ref, repo, tag); err != nil {
		return err
	}
	c.Writer().WriteHeader(http.StatusCreated)
	return nil
}

// nameIsFree returns fault.Conflict if another image has a name: up to 1.21 it is moved only by force.
func (h *Handler) nameIsFree(c *route.Call, ref, repo, tag string) error {
	name, err := image.ParseRepoTag(repo, tag)
	if err != nil {
		return err
	}
	img, err := h.images.Get(c.Ctx(), ref)
	if err != nil {
		return err
	}
	holder, err := h.images.Get(c.Ctx(), name.Canonical())
	if err != nil || holder.ID == img.ID {
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		return err
	}
	return fault.Conflict("Conflict: Tag %s is already set to image %s, if you want to replace it, please use -f option",
		name.Familiar(), holder.ID)
}

// The limits of a search (clients of 1.24 know no more than this).
const (
	searchLimit    = 25
	maxSearchLimit = 100
)

func (h *Handler) imageSearch(c *route.Call) error {
	opt := image.SearchOptions{Term: c.Text("term"), Auth: readAuth(c)}
	if opt.Term == "" {
		return fault.Invalid("the parameter term is needed")
	}
	var err error
	if opt.Limit, err = c.Int("limit", searchLimit); err != nil {
		return err
	}
	if opt.Limit < 1 || opt.Limit > maxSearchLimit {
		return fault.Invalid("Limit %d is outside the range of [1, %d]", opt.Limit, maxSearchLimit)
	}
	if opt.Filters, err = c.Filters(); err != nil {
		return err
	}
	found, err := h.registries.Search(c.Ctx(), opt)
	if err != nil {
		return err
	}
	list := make([]types.SearchResult, 0, len(found))
	for _, f := range found {
		f.Automated = f.Automated && c.Version() <= v(44) // registries no longer tell
		list = append(list, types.SearchResult(f))
	}
	return replyJSON(c, http.StatusOK, list)
}
