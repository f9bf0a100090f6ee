package imagesvc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
)

// Inspect asks a registry for what a name stands for, and fetches none of it. Errors are those of Pull before its first message,
// but for what the registry refuses: fault.Unauthorized.
func (s *Transfers) Inspect(ctx context.Context, name string, auth image.RegistryAuth) (found image.Distribution, err error) {
	if s.sources == nil {
		return found, fault.Unavailable("distribution: there is no way to registries")
	}
	ref, err := image.ParseRef(name)
	if err == nil {
		err = ref.CanName()
	}
	if err != nil {
		return found, err
	}
	src, err := s.sources.Source(ctx, ref, auth)
	if told, ok := errors.AsType[*fault.Error](err); ok && fault.Is(told.Unwrap(), fault.Unauthorized) {
		return found, told.Unwrap()
	}
	if err != nil {
		return found, err
	}
	defer func() { _ = src.Close() }() // it was only read
	want := digest.Digest(ref.Digest())
	raw, mediaType, err := src.Manifest(ctx, want)
	if err != nil {
		return found, err
	}
	if want == "" {
		want = digest.FromBytes(raw)
	} else if err := verifyManifest(raw, want); err != nil {
		return found, err
	}
	m, err := parseManifest(raw, mediaType)
	if err != nil {
		return found, fmt.Errorf("%s: %w", ref.Familiar(), err)
	}
	found = image.Distribution{MediaType: m.MediaType, Digest: want.String(), Size: int64(len(raw))}
	if m.isIndex() {
		for _, entry := range m.Manifests {
			if entry.Platform != nil {
				found.Platforms = append(found.Platforms, *entry.Platform)
			}
		}
		return found, nil
	}
	only, err := readPlatform(ctx, src, m.Config)
	found.Platforms = append(found.Platforms, only)
	return found, err
}

// readPlatform returns the platform that an image's config names.
func readPlatform(ctx context.Context, src source, config descriptor) (p image.DistributedPlatform, err error) {
	body, _, err := src.Blob(ctx, config.toBlob())
	if err != nil {
		return p, err
	}
	defer func() { _ = body.Close() }() // it was only read
	raw, err := readDocument(body, config)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return p, fmt.Errorf("the image's config cannot be read: %w", err)
	}
	return p, nil
}
