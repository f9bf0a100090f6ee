package handler_test

import (
	"context"
	"fmt"
	"io"
	"strings"

	"moss/engine/fault"
	"moss/engine/image"
)

// images is a fake that notes what it was asked and keeps what it was sent.
type images struct {
	said  string
	found *image.Image
	other *image.Image // what Get finds under another name than ref
	ref   string
	err   error
	late  error // of verbs with messages, after the first one
	body  string
	quiet bool
	opt   image.LoadOptions

	automated bool

	login image.Login
	work  func(ctx context.Context, progress func(image.Progress)) error // in place of what Pull, Push, Load and Import do
}

func (f *images) List(_ context.Context, opt image.ListOptions) ([]*image.Image, error) {
	f.said = fmt.Sprintf("%+v", opt)
	if f.found == nil {
		return nil, f.err
	}
	return []*image.Image{f.found}, f.err
}

func (f *images) Get(_ context.Context, ref string) (*image.Image, error) {
	f.said = ref
	if f.other != nil && ref != f.ref {
		return f.other, nil
	}
	return f.found, f.err
}

func (f *images) Users(string) int { return 3 }

func (f *images) CheckPlatform(_ context.Context, ref, platform string) error {
	if platform != "linux/amd64" {
		return fault.NotFound("image %s is not for %s", ref, platform)
	}
	return nil
}

func (f *images) Import(ctx context.Context, src io.Reader, opt image.ImportOptions, progress func(image.Progress)) (string, error) {
	f.said = fmt.Sprintf("%+v", opt)
	if f.err != nil {
		return "", f.err
	}
	if f.work != nil {
		return "", f.work(ctx, progress)
	}
	progress(image.Progress{Status: "Importing", Current: 1, Total: 2})
	if err := f.read(src); err != nil {
		return "", err
	}
	if f.late == nil {
		progress(image.Progress{Status: "sha256:9f86"})
	}
	return "sha256:9f86", f.late
}

func (f *images) read(src io.Reader) error {
	raw, err := io.ReadAll(src)
	f.body = string(raw)
	return err
}

func (f *images) Remove(_ context.Context, ref string, opt image.RemoveOptions) ([]image.Removed, error) {
	f.said = fmt.Sprintf("%s %+v", ref, opt)
	return []image.Removed{{Untagged: ref}, {Deleted: "sha256:1"}}, f.err
}

func (f *images) History(_ context.Context, ref string) ([]image.HistoryEntry, error) {
	f.said = "history " + ref
	return []image.HistoryEntry{
		{ID: "sha256:2", Created: 1448064000, CreatedBy: "CMD x", Tags: []string{"a:b"}, Size: 5, Comment: "c"},
		{ID: "<missing>", Created: 1448063000, CreatedBy: "ADD y"},
	}, f.err
}

func (f *images) Usage(context.Context) (image.Usage, error) {
	return image.Usage{
		LayersSize: 30, LayersUsed: 20,
		Images: []image.ImageUsage{{Image: &image.Image{ID: "sha256:1", Size: 20}, SharedSize: 5, UniqueSize: 15, Containers: 2}},
	}, f.err
}

func (f *images) Tag(_ context.Context, ref, repo, tag string) error {
	f.said = fmt.Sprintf("tag %s %s %s", ref, repo, tag)
	return f.err
}

func (f *images) Prune(_ context.Context, filters map[string][]string) ([]image.Removed, int64, error) {
	f.said = fmt.Sprintf("prune %v", filters)
	if f.err != nil {
		return nil, 0, f.err
	}
	return []image.Removed{{Untagged: "a:b"}, {Deleted: "sha256:1"}}, 9, nil
}

func (f *images) Load(ctx context.Context, src io.Reader, opt image.LoadOptions, progress func(image.Progress)) error {
	f.said, f.quiet, f.opt = "load", opt.Quiet, opt
	if f.err != nil {
		return f.err
	}
	if f.work != nil {
		return f.work(ctx, progress)
	}
	if err := f.read(src); err != nil {
		return err
	}
	if !opt.Quiet {
		progress(image.Progress{ID: "0123456789ab", Status: "Loading layer", Current: 1, Total: 2})
	}
	if f.late == nil {
		progress(image.Progress{Stream: "Loaded image: a:b\n"})
	}
	return f.late
}

func (f *images) Save(ctx context.Context, refs []string, opt image.SaveOptions, open func() (io.Writer, error)) error {
	f.said = fmt.Sprintf("save %q", refs)
	for _, platform := range opt.Platforms {
		for _, ref := range refs {
			if err := f.CheckPlatform(ctx, ref, platform); err != nil {
				return err
			}
		}
	}
	if f.err != nil {
		return f.err
	}
	w, err := open()
	if err != nil {
		return err
	}
	archive := "an archive"
	if f.late != nil {
		archive = strings.Repeat(archive, 10_000) // more than the server keeps back
	}
	if _, err := io.WriteString(w, archive); err != nil {
		return err
	}
	return f.late
}

func (f *images) Pull(ctx context.Context, opt image.PullOptions, progress func(image.Progress)) error {
	f.said = fmt.Sprintf("%+v %s", opt, secrets(opt.Auth))
	return f.transfer(ctx, progress, image.Progress{ID: "b", Status: "Pulling from a", Heading: true})
}

func (f *images) Push(ctx context.Context, opt image.PushOptions, progress func(image.Progress)) error {
	f.said = fmt.Sprintf("%+v %s", opt, secrets(opt.Auth))
	if opt.Platform != "" {
		if err := f.CheckPlatform(ctx, opt.Repo, opt.Platform); err != nil {
			return err
		}
	}
	return f.transfer(ctx, progress, image.Progress{Aux: image.Pushed{Tag: "t", Digest: "sha256:1", Size: 3}})
}

func (f *images) transfer(ctx context.Context, progress func(image.Progress), message image.Progress) error {
	if f.err != nil {
		return f.err
	}
	if f.work != nil {
		return f.work(ctx, progress)
	}
	progress(message)
	return f.late
}

// secrets shows what the credentials hide.
func secrets(a image.RegistryAuth) string {
	return string(a.Password + "," + a.IdentityToken + "," + a.RegistryToken)
}

func (f *images) Search(_ context.Context, opt image.SearchOptions) ([]image.SearchResult, error) {
	f.said = fmt.Sprintf("%+v %s", opt, secrets(opt.Auth))
	return []image.SearchResult{{Name: "a/b", Description: "d", Official: true, Automated: f.automated, Stars: 3}}, f.err
}

func (f *images) Inspect(_ context.Context, name string, auth image.RegistryAuth) (image.Distribution, error) {
	f.said = name + " " + secrets(auth)
	return image.Distribution{MediaType: "m", Digest: "sha256:1", Size: 5, Platforms: []image.DistributedPlatform{{
		Platform: image.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}, OSVersion: "10", OSFeatures: []string{"f"},
	}}}, f.err
}

func (f *images) Login(_ context.Context, auth image.RegistryAuth) (image.Login, error) {
	f.said = fmt.Sprintf("%+v %s", auth, secrets(auth))
	return f.login, f.err
}
