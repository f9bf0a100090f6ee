package imagesvc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

// Bounds of what a registry or an archive may send, in bytes or numbers.
const (
	maxManifest = 4 << 20
	maxConfig   = 8 << 20
	maxLayers   = 500     // of one image: the kernel's overlay takes no more
	maxBlob     = 1 << 45 // 32 TiB: sums of these do not overflow
)

// Media types of what registries keep (Docker's schema 2 and the OCI image spec).
const (
	typeSchema1       = "application/vnd.docker.distribution.manifest.v1+json"
	typeSchema1Signed = "application/vnd.docker.distribution.manifest.v1+prettyjws"
	typeSchema2       = "application/vnd.docker.distribution.manifest.v2+json"
	typeList          = "application/vnd.docker.distribution.manifest.list.v2+json"
	typeOCIManifest   = "application/vnd.oci.image.manifest.v1+json"
	typeOCIIndex      = "application/vnd.oci.image.index.v1+json"

	typeConfig    = "application/vnd.docker.container.image.v1+json"
	typeOCIConfig = "application/vnd.oci.image.config.v1+json"

	typeLayer    = "application/vnd.docker.image.rootfs.diff.tar" // also with .gzip and .zstd
	typeForeign  = "application/vnd.docker.image.rootfs.foreign.diff.tar"
	typeOCILayer = "application/vnd.oci.image.layer.v1.tar" // also with +gzip and +zstd
	typeOCIBound = "application/vnd.oci.image.layer.nondistributable.v1.tar"
)

// descriptor names a blob or a manifest (OCI image spec, descriptor).
type descriptor struct {
	MediaType    string                     `json:"mediaType"`
	Size         int64                      `json:"size"`
	Digest       digest.Digest              `json:"digest"`
	URLs         []string                   `json:"urls,omitempty"`
	Annotations  map[string]string          `json:"annotations,omitempty"`
	ArtifactType string                     `json:"artifactType,omitempty"`
	Platform     *image.DistributedPlatform `json:"platform,omitempty"`
}

// toBlob returns what the store and the registry take for d.
func (d descriptor) toBlob() storage.Blob {
	return storage.Blob{Digest: d.Digest, Size: d.Size, MediaType: d.MediaType, Annotations: d.Annotations}
}

// namesManifest reports whether d, an entry of an index, is the manifest of an image.
func (d descriptor) namesManifest() bool {
	switch d.MediaType {
	case typeSchema2, typeOCIManifest, typeSchema1, typeSchema1Signed:
		return d.ArtifactType == "" && d.Annotations["vnd.docker.reference.type"] == ""
	default:
		return false
	}
}

// checkDescriptor refuses a descriptor that cannot be used to fetch anything.
func (d descriptor) checkDescriptor(what string) error {
	if err := checkDigest(d.Digest); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if d.Size < 0 || d.Size > maxBlob {
		return fmt.Errorf("%s %s: a size of %d bytes cannot be", what, d.Digest, d.Size)
	}
	return nil
}

// checkDigest refuses what is no digest, or one of an algorithm that is not in use.
func checkDigest(d digest.Digest) error {
	if len(d) > 256 {
		return fmt.Errorf("invalid digest %.64q…", string(d))
	}
	if err := d.Validate(); err != nil {
		return fmt.Errorf("invalid digest %q: %w", string(d), err)
	}
	if a := d.Algorithm(); a != digest.SHA256 && a != digest.SHA512 {
		return fmt.Errorf("digest %s: the algorithm is neither sha256 nor sha512", d)
	}
	return nil
}

// manifest is the manifest of an image, or an index of such; one of Layers and Manifests counts.
type manifest struct {
	MediaType string // never empty
	Config    descriptor
	Layers    []descriptor
	Manifests []descriptor
}

// isIndex reports whether m lists manifests.
func (m *manifest) isIndex() bool { return m.MediaType == typeList || m.MediaType == typeOCIIndex }

// parseManifest reads a manifest or an index. mediaType is what the registry says of it; it may be empty or say nothing.
// What comes back has at most maxLayers layers, and every digest and size in it can be used.
//
// Errors are fault.Unsupported (a schema or a kind of content that moss does not take) or internal (broken).
func parseManifest(raw []byte, mediaType string) (*manifest, error) {
	if len(raw) > maxManifest {
		return nil, fmt.Errorf("the manifest has more than %d bytes", maxManifest)
	}
	var doc struct {
		SchemaVersion int             `json:"schemaVersion"`
		MediaType     string          `json:"mediaType"`
		ArtifactType  string          `json:"artifactType"`
		Config        *descriptor     `json:"config"`
		Layers        []descriptor    `json:"layers"`
		Manifests     []descriptor    `json:"manifests"`
		FSLayers      json.RawMessage `json:"fsLayers"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("the manifest cannot be read: %w", err)
	}
	kind, err := manifestType(doc.MediaType, mediaType)
	if err != nil {
		return nil, err
	}
	if kind == "" {
		switch { // A body that could be both must not mean one thing here and another elsewhere.
		case doc.Manifests != nil && doc.Config == nil && doc.Layers == nil:
			kind = typeOCIIndex
		case doc.Config != nil && doc.Manifests == nil && doc.FSLayers == nil:
			kind = typeOCIManifest
		}
	}
	m := &manifest{MediaType: kind, Layers: doc.Layers, Manifests: doc.Manifests}
	switch {
	case kind == typeSchema1, kind == typeSchema1Signed, doc.SchemaVersion == 1:
		return nil, errSchema1()
	case kind == "":
		return nil, fault.Unsupported("manifest type %.128q is not supported", mediaType)
	case doc.SchemaVersion != 2:
		return nil, fmt.Errorf("the manifest has schema version %d, not 2", doc.SchemaVersion)
	case m.isIndex():
		if doc.Layers != nil || doc.Config != nil {
			return nil, errors.New("the manifest is an index and has layers as well")
		}
		return m, m.checkIndex()
	case doc.Config == nil:
		return nil, errors.New("the manifest names no config")
	case doc.Manifests != nil:
		return nil, errors.New("the manifest is that of an image and has manifests as well")
	}
	m.Config = *doc.Config
	return m, m.checkImage(doc.ArtifactType)
}

// errSchema1 is the one wording for the format that today's tools write no more.
func errSchema1() error {
	return fault.Unsupported("manifest schema 1 is not supported: push the image again with a current client")
}

// manifestType returns the type of a manifest from what it says of itself and what the registry says; empty if neither
// says anything.
func manifestType(inside, outside string) (string, error) {
	if plain, _, err := mime.ParseMediaType(outside); err == nil {
		outside = plain
	}
	known := []string{typeSchema1, typeSchema1Signed, typeSchema2, typeList, typeOCIManifest, typeOCIIndex}
	switch {
	case inside == "" && slices.Contains(known, outside):
		return outside, nil
	case inside == "" && slices.Contains([]string{"", "application/json", "application/octet-stream", "text/plain"}, outside):
		return "", nil
	case inside == "":
		return "", fault.Unsupported("manifest type %.128q is not supported", outside)
	case !slices.Contains(known, inside):
		return "", fault.Unsupported("manifest type %.128q is not supported", inside)
	case slices.Contains(known, outside) && outside != inside:
		return "", fmt.Errorf("the registry sends the manifest as %s, and it calls itself %s", outside, inside)
	default:
		return inside, nil
	}
}

func (m *manifest) checkIndex() error {
	for _, entry := range m.Manifests {
		if err := entry.checkDescriptor("an entry of the index"); err != nil {
			return err
		}
	}
	return nil
}

// checkImage refuses what is not the manifest of an image that can be unpacked here.
func (m *manifest) checkImage(artifactType string) error {
	switch m.Config.MediaType {
	case typeConfig, typeOCIConfig, "", "application/octet-stream", "text/html": // the last two by old registries
	default:
		return fault.Unsupported("this is not an image: its config has the type %.128q", m.Config.MediaType)
	}
	if artifactType != "" && artifactType != typeOCIConfig && artifactType != typeConfig {
		return fault.Unsupported("this is not an image: it is an artifact of the type %.128q", artifactType)
	}
	if err := m.Config.checkDescriptor("config"); err != nil {
		return err
	}
	if m.Config.Size > maxConfig {
		return fmt.Errorf("the config has %d bytes, more than %d", m.Config.Size, maxConfig)
	}
	if len(m.Layers) > maxLayers {
		return fault.Unsupported("the image has %d layers, more than %d", len(m.Layers), maxLayers)
	}
	for _, layer := range m.Layers {
		if err := layer.checkDescriptor("layer"); err != nil {
			return err
		}
		if err := checkLayerType(layer); err != nil {
			return err
		}
	}
	return nil
}

// checkLayerType refuses layers that registries do not hold, and what is no archive that can be unpacked. How it is
// compressed shows in the bytes.
func checkLayerType(layer descriptor) error {
	kind := layer.MediaType
	switch {
	case strings.HasPrefix(kind, typeForeign), strings.HasPrefix(kind, typeOCIBound):
		return fault.Unsupported("layer %s is a foreign layer (%s): it is not in the registry, and moss does not fetch such from elsewhere",
			layer.Digest, kind)
	case strings.HasSuffix(kind, "+encrypted"):
		return fault.Unsupported("layer %s is encrypted (%s), which is not supported", layer.Digest, kind)
	}
	for _, form := range []struct{ base, separator string }{{typeLayer, "."}, {typeOCILayer, "+"}} {
		rest, ok := strings.CutPrefix(kind, form.base)
		if ok && (rest == "" || rest == form.separator+"gzip" || rest == form.separator+"zstd") {
			return nil
		}
	}
	return fault.Unsupported("layer %s has the type %.128q, which is not supported", layer.Digest, kind)
}

// imageConfig is what must be known of an image's config before its layers are fetched.
type imageConfig struct {
	image.Platform

	diffIDs []digest.Digest
}

// parseConfig reads an image's config. layers is the number of layers that its manifest names.
//
// Errors are fault.Unsupported (an image that does not run here) or internal (broken).
func parseConfig(raw []byte, layers int) (*imageConfig, error) {
	if len(raw) > maxConfig {
		return nil, fmt.Errorf("the image's config has more than %d bytes", maxConfig)
	}
	var doc struct {
		image.Platform

		RootFS *struct {
			Type    string          `json:"type"`
			DiffIDs []digest.Digest `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("the image's config cannot be read: %w", err)
	}
	if doc.OS != "" && doc.OS != "linux" {
		return nil, fault.Unsupported("image operating system %q cannot be used on this platform", doc.OS)
	}
	switch {
	case doc.RootFS == nil:
		return nil, errors.New("invalid rootfs in image configuration")
	case doc.RootFS.Type != "layers":
		return nil, fault.Unsupported("the image's root file system has the type %q, which is not supported", doc.RootFS.Type)
	case len(doc.RootFS.DiffIDs) != layers:
		return nil, fmt.Errorf("the image's config names %d layers, and its manifest %d", len(doc.RootFS.DiffIDs), layers)
	}
	for _, id := range doc.RootFS.DiffIDs {
		if err := checkDigest(id); err != nil {
			return nil, fmt.Errorf("the image's config: diff id: %w", err)
		}
		if id.Algorithm() != digest.SHA256 { // what the store computes of a layer
			return nil, fault.Unsupported("the image's config: diff id %s is not of sha256", id)
		}
	}
	return &imageConfig{Platform: doc.Platform, diffIDs: doc.RootFS.DiffIDs}, nil
}

// readDocument reads an image's config, whose size has been checked, and verifies it.
func readDocument(src io.Reader, d descriptor) ([]byte, error) {
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(io.LimitReader(src, d.Size+1)); err != nil {
		return nil, fmt.Errorf("read blob %s: %w", d.Digest, err)
	}
	if int64(buf.Len()) != d.Size {
		return nil, wrongSize(d, int64(buf.Len()))
	}
	if d.Digest.Algorithm().FromBytes(buf.Bytes()) != d.Digest {
		return nil, fmt.Errorf("image config verification failed for digest %s", d.Digest)
	}
	return buf.Bytes(), nil
}

// wrongSize is the one wording for a blob that is shorter or longer than its manifest says. n is what came: for one that
// is too long no more than one byte beyond.
func wrongSize(d descriptor, n int64) error {
	if n > d.Size {
		return fmt.Errorf("blob %s: the registry sends more than the %d bytes of the manifest", d.Digest, d.Size)
	}
	return fmt.Errorf("blob %s: unexpected EOF: the registry sent %d of %d bytes", d.Digest, n, d.Size)
}

// wrongDigest is the one wording for a blob whose bytes are not what its digest says (clients know the beginning).
func wrongDigest(d descriptor) error {
	return fmt.Errorf("filesystem layer verification failed for digest %s", d.Digest)
}
