package imagesvc

import (
	"context"
	"io"
	"time"

	"moss/engine/compress"
	"moss/engine/dockerfile"
	"moss/engine/download"
	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

// maxComment bounds an image's comment, in bytes: it is part of the config, which is bounded as well.
const maxComment = 64 << 10

// Import makes an image of one layer from the archive of a root file system, plain or compressed with gzip, bzip2, xz or
// zstd, and gives it a name if opts have one; the image that had it loses it. The archive is checked while it flows; it
// is unpacked by this program, without the help of others. progress gets the id of the image when it is there; it may be
// nil. The caller closes src; with a source in opts the archive is fetched from there, with progress, and src is not used.
//
// It is all or nothing: an error of src, the end of ctx, a bad archive or a full disk leave nothing behind. Errors are
// fault.Invalid (the archive, a name, a change, a source), those of a server that refuses the source, or internal.
func (s *Archives) Import(ctx context.Context, src io.Reader, opts image.ImportOptions,
	progress func(image.Progress),
) (string, error) {
	name, names, err := importName(opts)
	if err != nil {
		return "", err
	}
	config, err := dockerfile.Apply(image.Config{}, opts.Changes)
	if err != nil {
		return "", err
	}
	made, _, err := parseUsable(opts.Platform)
	if err != nil {
		return "", err
	}
	if len(opts.Message) > maxComment {
		return "", fault.Invalid("message has %d bytes, more than %d", len(opts.Message), maxComment)
	}
	comment := "Imported from -"
	if opts.Source != "" {
		from, err := download.Parse(opts.Source)
		if err != nil {
			return "", err
		}
		archive, err := download.Open(ctx, from, s.downloadOptions(progress))
		if err != nil {
			return "", err
		}
		if progress != nil {
			progress(image.Progress{Status: "Downloading from " + from.Redacted()})
		}
		defer archive.Close() //nolint:errcheck // the archive has been read to its end, or an error is known
		src, comment = archive, "Imported from "+from.Redacted()
	}
	if opts.Message != "" {
		comment = opts.Message
	}
	img, err := s.importArchive(ctx, src, storage.ImageSpec{
		Config: config, Comment: comment, Created: time.Now(), OS: made.OS, Architecture: made.Architecture,
		Variant: made.Variant, EngineVersion: s.version,
	}, names)
	if err != nil {
		return "", err
	}
	if !name.IsZero() {
		s.publishEvent("tag", img, name.Familiar())
	}
	s.publishEvent("import", img, img.ID)
	if progress != nil {
		progress(image.Progress{Status: img.ID})
	}
	return img.ID, nil
}

// importName returns the name that an import is to have, and the list of it; none if none was asked for.
func importName(opts image.ImportOptions) (name image.Ref, names []string, err error) {
	switch {
	case opts.Repo == "" && opts.Tag != "":
		return name, nil, fault.Invalid("invalid value for tag: %q has no repo that it could be a tag of", opts.Tag)
	case opts.Repo == "":
		return name, nil, nil
	}
	if name, err = image.ParseRepoTag(opts.Repo, opts.Tag); err != nil {
		return name, nil, err
	}
	if name.Digest() != "" {
		return name, nil, fault.Invalid("cannot import digest reference")
	}
	return name, []string{name.Canonical()}, name.CanName()
}

// downloadOptions has progress, which may be nil, told how much of an archive has come.
func (s *Archives) downloadOptions(progress func(image.Progress)) download.Options {
	opt := download.Options{What: "the archive", UserAgent: "moss/" + s.version}
	if progress != nil {
		opt.Progress = func(current, total int64) {
			progress(image.Progress{Status: "Downloading", Current: current, Total: total})
		}
	}
	return opt
}

// importArchive brings an archive into the store.
func (s *Archives) importArchive(ctx context.Context, src io.Reader, spec storage.ImageSpec,
	names []string,
) (*image.Image, error) {
	in := compress.From(src)
	plain, err := compress.Plain(in)
	if err != nil {
		return nil, err
	}
	defer plain.Close() //nolint:errcheck // the archive has been read to its end, or an error is known
	return s.store.PutImage(ctx, newChecker(plain, s.limits, in.Count), spec, names)
}
