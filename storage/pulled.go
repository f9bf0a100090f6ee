package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/opencontainers/go-digest"
	cstorage "go.podman.io/storage"
	graphdriver "go.podman.io/storage/drivers"
	"golang.org/x/sys/unix"

	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/image"
)

// Document is a manifest, or an index of manifests, byte for byte.
type Document struct {
	MediaType string
	Raw       []byte
}

// Pulled is an image with everything that came along. Layers that Here counted have nil in Layers.
type Pulled struct {
	Config   []byte
	Manifest Document
	Index    Document // that named the manifest; zero: none
	DiffIDs  []digest.Digest
	Layers   []*Staged
	Names    []string // with tag or digest; taken from the images that had them
}

// ErrLayersGone says that layers that were here are not any more: fetch them.
var ErrLayersGone = fault.Conflict("layers of the image were removed meanwhile")

// Here returns how many of an image's layers, from the lowest on, are in the store as they would lie there.
func (t *layerTree) Here(diffIDs []digest.Digest) int {
	here, _ := t.findHighestLayer(diffIDs)
	return here
}

// findHighestLayer returns how many of the layers are here, and the id of the topmost of them. Layers that are damaged, or
// stand on one that is, do not count.
func (t *layerTree) findHighestLayer(diffIDs []digest.Digest) (here int, top string) {
	for i, chainID := range chainIDs(diffIDs) {
		layerID := chainID.Encoded()
		if layer, err := t.cs.Layer(layerID); err == nil && layer.ID == layerID && layer.UncompressedDigest == diffIDs[i] &&
			!isHalfMade(layer) && !isDamaged(layer) && (here == i && layer.Parent == top || t.isSound(layer.Parent)) {
			here, top = i+1, layerID
		} else if here == i {
			if twin := t.findTwin(top, diffIDs[i]); twin != "" {
				here, top = i+1, twin
			}
		}
	}
	return here, top
}

// findTwin returns a layer with some content over a parent, nothing if there is none. Images that were made here have layers
// of any id.
func (t *layerTree) findTwin(parent string, diffID digest.Digest) string {
	layers, err := t.cs.LayersByUncompressedDigest(diffID)
	if err != nil {
		return "" // a layer of our own is right in any case
	}
	for i := range layers {
		if l := &layers[i]; l.Parent == parent && !isHalfMade(l) && !isDamaged(l) && l.Flags[mappedFlag] == nil {
			return l.ID
		}
	}
	return ""
}

// isHalfMade reports whether a layer is one that the library could neither finish nor remove: on a full disk, for instance.
func isHalfMade(l *cstorage.Layer) bool { return l.Flags["incomplete"] == true }

// damagedMark is the metadata of a layer whose files are damaged. It is kept for the containers on it alone.
const damagedMark = "moss-damaged"

func isDamaged(l *cstorage.Layer) bool { return l.Metadata == damagedMark }

// PutPulled makes an image of staged layers and those that are here. It is all or nothing; the staged layers are spent in
// either case, but for ErrLayersGone, which leaves them to be used again. An image that is there already gets the names and
// the manifests.
//
// Errors are fault.Invalid (documents or layers that do not belong together, a bad name), ErrLayersGone or internal.
func (s *Store) PutPulled(ctx context.Context, p Pulled) (*image.Image, error) {
	img, err := s.putPulled(ctx, p)
	if errors.Is(err, ErrLayersGone) {
		return nil, err
	}
	for _, staged := range p.Layers {
		if staged == nil {
			continue
		}
		if derr := staged.Discard(); err != nil {
			err = errors.Join(err, derr) // of an image that is there, what is left goes with the next start
		}
	}
	return img, err
}

func (s *Store) putPulled(ctx context.Context, p Pulled) (*image.Image, error) {
	names, err := canonicalNames(p.Names)
	if err != nil {
		return nil, err
	}
	created, err := p.checkConsistency()
	if err != nil {
		return nil, err
	}
	s.images.Lock()
	defer s.images.Unlock()
	here, top := s.findHighestLayer(p.DiffIDs)
	for _, staged := range p.Layers[here:] {
		if staged == nil || staged.isSpent() {
			return nil, ErrLayersGone
		}
	}
	put := &putting{store: s}
	if err := put.listLayers(chainIDs(p.DiffIDs)[here:]); err != nil {
		return nil, err
	}
	for i, staged := range p.Layers[here:] {
		if err := ctx.Err(); err != nil {
			return nil, put.undo(fmt.Errorf("put image: %w", err))
		}
		if top, err = put.applyLayer(staged, top); err != nil {
			return nil, put.undo(wrapError(err, "put layer %d", here+i))
		}
	}
	record, err := s.putRecord(pulledDocuments(p), created, map[string]any{}, top, names)
	if err != nil {
		return nil, put.undo(err)
	}
	put.commitLayers()
	return s.assembleImage(record)
}

// checkConsistency makes sure that the documents and the layers belong together, and returns when the image was made.
func (p *Pulled) checkConsistency() (time.Time, error) {
	if len(p.Config) > maxConfig || len(p.Manifest.Raw) > maxConfig || len(p.Index.Raw) > maxConfig {
		return time.Time{}, fault.Invalid("a document of the image has more than %d bytes", maxConfig)
	}
	var config imageJSON
	if err := json.Unmarshal(p.Config, &config); err != nil {
		return time.Time{}, fault.Invalid("the image's config: %w", err)
	}
	if len(p.Manifest.Raw) == 0 {
		return time.Time{}, fault.Invalid("the image has no manifest")
	}
	if !slices.Equal(config.RootFS.DiffIDs, p.DiffIDs) {
		return time.Time{}, fault.Invalid("the image's config names other layers than those that came")
	}
	if len(p.Layers) != len(p.DiffIDs) {
		return time.Time{}, fault.Invalid("the image has %d layers, %d came", len(p.DiffIDs), len(p.Layers))
	}
	for i, diffID := range p.DiffIDs {
		if err := diffID.Validate(); err != nil || diffID.Algorithm() != digest.SHA256 {
			return time.Time{}, fault.Invalid("layer %d of the image's config: not a sha256 digest: %q", i, diffID)
		}
		if staged := p.Layers[i]; staged != nil && staged.diffID != diffID {
			return time.Time{}, fault.Invalid("layer %d of the image unpacks to %s, its config says %s", i, staged.diffID, diffID)
		}
	}
	return config.Created, nil
}

func pulledDocuments(p Pulled) documents {
	docs := documents{
		config: p.Config, configDigest: digest.FromBytes(p.Config),
		manifest: p.Manifest.Raw, manifestDigest: digest.FromBytes(p.Manifest.Raw),
	}
	if len(p.Index.Raw) > 0 && !bytes.Equal(p.Index.Raw, p.Manifest.Raw) {
		docs.index, docs.indexDigest = p.Index.Raw, digest.FromBytes(p.Index.Raw)
	}
	return docs
}

// putting makes layers of staged content and takes them back if the image comes to nothing. It is used with s.images held.
type putting struct {
	store   *Store
	light   bool     // of an image that only builds know: nothing waits for the disk
	ids     []string // the layers to be
	applied []string
}

// listLayers notes which layers are to come, so that they are looked at if the machine goes down before they are on the disk.
func (p *putting) listLayers(chain []digest.Digest) error {
	for _, chainID := range chain {
		layerID := chainID.Encoded()
		if p.store.cs.Exists(layerID) && !p.store.isSound(layerID) {
			layerID = id.New() // the damaged layer keeps the id until its containers are gone
		}
		p.ids = append(p.ids, layerID)
	}
	return p.store.unsynced.addLayers(p.ids, p.light)
}

// applyLayer makes the next layer over parent and returns its id.
func (p *putting) applyLayer(staged *Staged, parent string) (string, error) {
	s, layerID := p.store, p.ids[len(p.applied)]
	if err := s.dropLayer(layerID); err != nil {
		return "", err // a half made one would be taken for the layer to fill
	}
	out, file := staged.takeContent()
	var err error
	switch {
	case out != nil:
		if parent != "" && out.RootDirMode == nil {
			err = s.copyRootOwner(out.Target, parent)
		}
		if err == nil {
			_, err = s.cs.ApplyStagedLayer(cstorage.ApplyStagedLayerOptions{
				ID: layerID, ParentLayer: parent, LayerOptions: &cstorage.LayerOptions{Volatile: p.light}, DiffOutput: out,
				DiffOptions: &graphdriver.ApplyDiffWithDifferOpts{},
			})
		}
		// The library leaves the folder around what it took.
		if derr := s.dropStaging(out); err != nil {
			err = errors.Join(err, derr)
		}
	case file != "":
		err = s.putFile(file, layerID, parent, staged, p.light)
	default:
		err = ErrLayersGone
	}
	if err != nil {
		return "", err
	}
	if p.light {
		s.flusher.markStep()
	}
	p.applied = append(p.applied, layerID)
	return layerID, nil
}

// putFile makes a layer of a plain archive, for drivers that take no unpacked one. The headers that the library has packed
// give place to our own: it loses how the pieces of sparse files lie.
func (s *Store) putFile(path, layerID, parent string, staged *Staged, light bool) (err error) {
	defer func() { err = errors.Join(err, staged.removeFile(path)) }()
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // opened for reading
	opts := &cstorage.LayerOptions{UncompressedDigest: staged.diffID, Volatile: light}
	if staged.blob.Digest != "" {
		opts.OriginalDigest = staged.blob.Digest
		if staged.blob.Size >= 0 {
			opts.OriginalSize = &staged.blob.Size
		}
	}
	if _, _, err = s.cs.PutLayer(layerID, parent, nil, "", false, opts, file); err != nil {
		return badArchive(err)
	}
	if err = s.replaceHeaders(layerID, staged.headers); err != nil {
		s.ballast.releaseIfScarce()
		err = errors.Join(err, s.dropLayer(layerID))
	}
	return err
}

// replaceHeaders puts the headers of a layer's archive in the place of those that are there.
func (g *staging) replaceHeaders(layerID string, headers *os.File) error {
	if _, err := headers.Seek(0, io.SeekStart); err != nil {
		return err
	}
	path := g.headersFile(layerID)
	file, err := os.CreateTemp(filepath.Dir(path), ".tmp-headers")
	if err != nil {
		return err
	}
	zip, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err == nil {
		_, err = io.Copy(zip, headers)
		err = errors.Join(err, zip.Close())
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(file.Name()))
	}
	return err
}

// copyRootOwner gives the root folder of a layer that says nothing of it the owner of the one below; the library copies the
// mode.
func (g *staging) copyRootOwner(target, parent string) error {
	var st unix.Stat_t
	if err := unix.Stat(g.layerFolder(parent), &st); err != nil {
		return fmt.Errorf("look at the layer below: %w", err)
	}
	return os.Lchown(target, int(st.Uid), int(st.Gid))
}

// undo takes back the layers that were made, for the error that it returns.
func (p *putting) undo(err error) error {
	p.store.ballast.releaseIfScarce()
	for _, layerID := range slices.Backward(p.applied) {
		err = errors.Join(err, p.store.dropLayer(layerID))
	}
	p.store.unsynced.dropLayers(p.ids)
	return err
}

// commitLayers has the layers brought to the disk in the background.
func (p *putting) commitLayers() { p.store.unsynced.commitLayers(p.ids, p.light) }
