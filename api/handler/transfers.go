package handler

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"moss/api/apierr"
	"moss/api/compat"
	"moss/api/conn"
	"moss/api/route"
	"moss/api/types"
	"moss/api/wire"
	"moss/engine/fault"
	"moss/engine/image"
)

func (h *Handler) imageCreate(c *route.Call) error {
	switch {
	case c.Has("fromImage") && c.Has("fromSrc"):
		return fault.Invalid("fromImage and fromSrc exclude each other")
	case c.Has("fromImage"):
		return h.imagePull(c)
	case c.Has("fromSrc"):
		return h.imageImport(c)
	default:
		return fault.Invalid("one of fromImage and fromSrc is needed")
	}
}

func (h *Handler) imagePull(c *route.Call) error {
	opt := image.PullOptions{Repo: c.Text("fromImage"), Tag: c.Text("tag"), Platform: c.Text("platform"), Auth: readAuth(c)}
	skipBody(c)
	return h.sendProgress(c, func(ctx context.Context, progress func(image.Progress)) error {
		return h.registries.Pull(ctx, opt, progress)
	})
}

func (h *Handler) imagePush(c *route.Call) error {
	opt := image.PushOptions{Repo: c.Param("name"), Tag: c.Text("tag"), Auth: readAuth(c)}
	if c.Header(compat.RegistryAuth) == "" {
		var err error
		if opt.Auth, err = bodyAuth(c); err != nil {
			return err
		}
	}
	var err error
	if opt.Platform, err = onePlatform(c); err != nil {
		return err
	}
	skipBody(c)
	return h.sendProgress(c, func(ctx context.Context, progress func(image.Progress)) error {
		return h.registries.Push(ctx, opt, progress)
	})
}

// onePlatform returns the platform that the parameter platform has in JSON, in a client's words; empty without one.
func onePlatform(c *route.Call) (words string, err error) {
	switch platforms, err := readPlatforms("platform", askedPlatforms(c)); {
	case err != nil || len(platforms) == 0:
		return "", err
	case len(platforms) == 1:
		return platforms[0], nil
	default:
		return "", fault.Invalid("invalid value for platform: there are %d of them, want one", len(platforms))
	}
}

// fromBody is the source of an import whose archive comes along.
const fromBody = "-"

// imageImport makes an image from the body, or from what a URL leads to. The image's id is the last message that the
// service reports.
func (h *Handler) imageImport(c *route.Call) error {
	opt := image.ImportOptions{
		Source: c.Text("fromSrc"), Repo: c.Text("repo"), Tag: c.Text("tag"), Message: c.Text("message"), Changes: c.Texts("changes"),
		Platform: c.Text("platform"),
	}
	src := io.ReadCloser(http.NoBody)
	if opt.Source == fromBody {
		opt.Source, src = "", newArchiveBody(c)
	} else {
		skipBody(c)
	}
	return h.sendProgress(c, func(ctx context.Context, progress func(image.Progress)) error {
		_, err := h.archives.Import(ctx, src, opt, progress)
		drainUpload(src, err)
		return err
	})
}

// imageLoad takes an archive in. Versions before 1.23 have no messages: their answer is empty, or an error's status.
func (h *Handler) imageLoad(c *route.Call) error {
	opt := image.LoadOptions{Quiet: c.Bool("quiet") || c.Version() < v(23)}
	var err error
	if opt.Platform, err = onePlatform(c); err != nil {
		return err
	}
	src := newArchiveBody(c)
	if c.Version() < v(23) {
		err := h.archives.Load(c.Ctx(), src, opt, func(image.Progress) {})
		drainUpload(src, err)
		return c.Empty(err)
	}
	// A bad archive is told in the stream, whose head is 200 also where it comes first: the documents have no other status.
	return h.streamWork(c, streamed{inStream: true, work: func(ctx context.Context, progress func(image.Progress)) error {
		err := h.archives.Load(ctx, src, opt, progress)
		drainUpload(src, err)
		return err
	}})
}

// imageSave writes one image as an archive. An error on the way breaks the answer off.
func (h *Handler) imageSave(c *route.Call) error { return h.sendImages(c, []string{c.Param("name")}) }

// imagesSave writes several images as one archive.
func (h *Handler) imagesSave(c *route.Call) error {
	names := c.Texts("names")
	if len(names) == 0 {
		return fault.Invalid("the parameter names is needed")
	}
	return h.sendImages(c, names)
}

func (h *Handler) sendImages(c *route.Call, names []string) error {
	platforms, err := readPlatforms("platform", askedPlatforms(c))
	if err != nil {
		return err
	}
	return h.archives.Save(c.Ctx(), names, image.SaveOptions{Platforms: platforms}, func() (io.Writer, error) {
		c.Writer().Header().Set("Content-Type", compat.Tar)
		c.Writer().WriteHeader(http.StatusOK)
		return c.Writer(), nil
	})
}

// sendProgress answers with the progress of work. An error before the first message is a status, one after it a message.
func (h *Handler) sendProgress(c *route.Call, work func(ctx context.Context, progress func(image.Progress)) error) error {
	return h.streamWork(c, streamed{work: work})
}

// maxAhead is how many bytes of messages may wait for a client before those who make them wait too.
const maxAhead = 1 << 20

// sendProgressPaced is sendProgress for work that can write without end.
func (h *Handler) sendProgressPaced(c *route.Call, work func(ctx context.Context, progress func(image.Progress)) error) error {
	return h.streamWork(c, streamed{work: work, paced: true})
}

// streamed is work whose progress is the answer.
type streamed struct {
	work     func(ctx context.Context, progress func(image.Progress)) error
	paced    bool // it waits for the client
	inStream bool // what is invalid is a message also where it is the first one
}

func (h *Handler) streamWork(c *route.Call, s streamed) error {
	feed := conn.NewFeed(conn.NewJSON(c.Writer(), c.Request()))
	err := s.work(c.Ctx(), func(p image.Progress) {
		raw, err := wire.Encode(wire.NewProgress(p), c.Version())
		if err != nil {
			raw = apierr.StreamMessage(err)
		}
		step := ""
		if p.Current != 0 || p.Total != 0 {
			step = p.Status // what only says how far it is can be overtaken
		}
		feed.Put(p.ID, step, raw)
		if s.paced {
			feed.Wait(c.Ctx(), maxAhead)
		}
	})
	if err == nil || !feed.Begun() && (!s.inStream || !fault.Is(err, fault.Invalid)) {
		feed.Close()
		return err
	}
	if apierr.IsTrouble(c.Ctx(), err) {
		c.Log().Error().Err(err).Str("method", c.Request().Method).Str("path", c.Request().URL.Path).Msg("request failed midway")
	}
	feed.Put("", "", apierr.StreamMessage(err))
	feed.Close()
	return nil
}

// newArchiveBody returns the body as an archive. That it ends early is the client's fault, or its hang-up: fault.Invalid.
func newArchiveBody(c *route.Call) io.ReadCloser { return &archiveBody{conn.Body(c.Request())} }

type archiveBody struct{ io.ReadCloser }

// Read reads on.
func (b *archiveBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fault.Invalid("the body cannot be read: %w", err)
	}
	return n, err
}

// maxUnread is how many bytes of an archive that was refused are still taken from the client.
const maxUnread = 1 << 30

// drainUpload takes what a client still sends of an archive that was refused with err: it does not look for an answer before.
func drainUpload(src io.Reader, err error) {
	if err != nil {
		_, _ = io.CopyN(io.Discard, src, maxUnread) // A client that cannot send on sees a broken connection and not the error.
	}
}

// skipBody takes a body that means nothing: until it was read, a client's hang-up is not noticed.
func skipBody(c *route.Call) {
	if _, err := io.CopyN(io.Discard, c.Request().Body, route.MaxBody); errors.Is(err, io.EOF) {
		conn.BodyRead(c.Request())
	}
}

// readAuth returns the credentials of the header. What cannot be read asks as nobody: clients have sent all sorts.
func readAuth(c *route.Call) image.RegistryAuth {
	raw, err := wire.DecodeBase64(c.Header(compat.RegistryAuth))
	var auth types.AuthConfig
	if err != nil || wire.Decode(raw, &auth, c.Version()) != nil {
		return image.RegistryAuth{}
	}
	return wire.ToRegistryAuth(&auth)
}

// bodyAuth returns the credentials that the oldest clients send as the body of a push.
func bodyAuth(c *route.Call) (image.RegistryAuth, error) {
	var auth types.AuthConfig
	err := json.NewDecoder(io.LimitReader(c.Request().Body, route.MaxBody)).Decode(&auth)
	if err != nil {
		return image.RegistryAuth{}, fault.Invalid("Bad parameters and missing %s: %v", compat.RegistryAuth, err)
	}
	return wire.ToRegistryAuth(&auth), nil
}

func (h *Handler) registryLogin(c *route.Call) error {
	raw, err := c.JSONBody()
	if err != nil {
		return err
	}
	var auth types.AuthConfig
	if err := wire.Decode(raw, &auth, c.Version()); err != nil {
		return err
	}
	answer, err := h.registries.Login(c.Ctx(), wire.ToRegistryAuth(&auth))
	if err != nil {
		return err
	}
	return replyJSON(c, http.StatusOK, wire.NewLogin(answer))
}
