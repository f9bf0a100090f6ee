package storage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	cstorage "go.podman.io/storage"

	"moss/engine/damage"
	"moss/engine/fault"
	"moss/engine/image"
	"moss/engine/tree"
)

// Flags of the images that steps of builds made.
const (
	stepFlag  = "moss-step"  // the step's key
	lightFlag = "moss-light" // the image has no record in the library; never written
)

// stepsFolder holds the images that only builds know, a file each. The library writes all its records anew for every change
// of one, and several times: thousands of steps would make each other's images, and all other ones, slow. Nobody misses a
// step that a power cut takes away, so nothing waits for the disk. What becomes more than a step gets its place in the
// library.
const stepsFolder = "moss-steps"

// maxStep bounds a step's file, in bytes.
const maxStep = 2 * maxConfig

// stepRecord is the first line of a step's file; behind it comes the image's config.
type stepRecord struct {
	Key      string    `json:"key"`
	Parent   string    `json:"parent,omitempty"` // id of the image of the step before
	TopLayer string    `json:"layer,omitempty"`
	Created  time.Time `json:"created"`
}

// toImageRecord returns a step's image as the library would have it.
func (r *stepRecord) toImageRecord(bare string) *cstorage.Image {
	flags := map[string]any{stepFlag: r.Key, lightFlag: true}
	if r.Parent != "" {
		flags[parentFlag] = r.Parent
	}
	return &cstorage.Image{ID: bare, TopLayer: r.TopLayer, Created: r.Created, Flags: flags}
}

func isLight(r *cstorage.Image) bool { return r.Flags[lightFlag] == true }

// stepKey returns the key of the step that made an image. An image that was there before the step has it as metadata.
func stepKey(r *cstorage.Image) string {
	var about stepRecord
	if r.Metadata != "" && json.Unmarshal([]byte(r.Metadata), &about) == nil && about.Key != "" {
		return about.Key
	}
	key, _ := r.Flags[stepFlag].(string)
	return key
}

// stepFiles keeps the images that only builds know.
type stepFiles struct {
	*disk

	mu    sync.Mutex             // guards steps
	steps map[string]*stepRecord // by image id without sha256:
}

// allSteps returns what is kept of the images, by their ids without sha256:.
func (f *stepFiles) allSteps() map[string]*stepRecord {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.steps)
}

func (f *stepFiles) keepStep(bare string, r *stepRecord) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.steps[bare] = r
}

func (f *stepFiles) forgetStep(bare string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.steps, bare)
}

func (f *stepFiles) stepFile(bare string) string { return filepath.Join(f.root, stepsFolder, bare) }

// lightStep returns what is kept of an image that only builds know; nil if it is none.
func (f *stepFiles) lightStep(bare string) *stepRecord {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.steps[bare]
}

// stepsOf returns the image that only builds know whose id begins with some text, or that there are several.
func (f *stepFiles) stepsOf(prefix string) (bare string, r *stepRecord, several bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for other, found := range f.steps {
		if !strings.HasPrefix(other, prefix) {
			continue
		}
		if r != nil {
			return "", nil, true
		}
		bare, r = other, found
	}
	return bare, r, false
}

// imageRecords returns the records of all images.
func (c *catalog) imageRecords() ([]cstorage.Image, error) {
	light := c.allSteps() // The steps come first: they only ever move to the library.
	records, err := c.cs.Images()
	if err != nil {
		return nil, wrapError(err, "list images")
	}
	for i := range records {
		delete(light, records[i].ID)
	}
	for bare, r := range light {
		records = append(records, *r.toImageRecord(bare))
	}
	return records, nil
}

// imageRecord returns the record of an image by its id. Errors are the library's.
func (c *catalog) imageRecord(bare string) (*cstorage.Image, error) {
	if r := c.lightStep(bare); r != nil {
		return r.toImageRecord(bare), nil
	}
	return c.cs.Image(bare)
}

// putStep makes the image of a step, or notes the step's key with an image that is there already. It is called with
// s.images held.
func (s *Store) putStep(docs documents, spec ImageSpec, top string) (*cstorage.Image, error) {
	bare := docs.configDigest.Encoded()
	r := &stepRecord{Key: spec.Step, Created: spec.Created, TopLayer: top}
	if spec.Base != "" {
		r.Parent = "sha256:" + bareID(spec.Base)
	}
	known, err := s.cs.Image(bare)
	if err == nil {
		return known, s.noteKey(known, spec.Step)
	}
	if !errors.Is(err, cstorage.ErrImageUnknown) {
		return nil, wrapError(err, "look for image %s", bare)
	}
	if known := s.lightStep(bare); known != nil {
		r.TopLayer = known.TopLayer
	}
	if err := s.writeStep(bare, r, docs.config); err != nil {
		return nil, err
	}
	s.keepStep(bare, r)
	s.adoptLayers(r.TopLayer)
	return r.toImageRecord(bare), nil
}

// noteKey keeps a step's key with an image of the library.
func (c *catalog) noteKey(record *cstorage.Image, key string) error {
	if stepKey(record) == key {
		return nil
	}
	raw, err := json.Marshal(stepRecord{Key: key, Created: record.Created})
	if err != nil {
		return fmt.Errorf("note the step of image %s: %w", record.ID, err)
	}
	if err := c.changeImage(record.ID, func() error { return c.cs.SetMetadata(record.ID, string(raw)) }); err != nil {
		return wrapError(err, "note the step of image %s", record.ID)
	}
	record.Metadata = string(raw)
	return nil
}

func (f *stepFiles) writeStep(bare string, r *stepRecord, config []byte) error {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("record step: %w", err)
	}
	path := f.stepFile(bare)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return wrapError(err, "record step")
	}
	temp := path + newSuffix
	err = os.WriteFile(temp, slices.Concat(line, []byte("\n"), config), 0o600)
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		err = errors.Join(err, removeFile(temp))
	}
	return wrapError(err, "record step")
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// readStep returns what is kept of a step's image, and its config. A file that is not whole is an error.
func (f *stepFiles) readStep(bare string) (*stepRecord, []byte, error) {
	raw, err := damage.Read(f.stepFile(bare), maxStep)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, image.NoSuch("sha256:" + bare)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read step: %w", err)
	}
	line, config, _ := bytes.Cut(raw, []byte("\n"))
	r := &stepRecord{}
	if err := json.Unmarshal(line, r); err != nil {
		return nil, nil, fmt.Errorf("read step: %w", err)
	}
	if digest.FromBytes(config).Encoded() != bare {
		return nil, nil, fault.Internal("read step: the config of %s is not whole", bare)
	}
	return r, config, nil
}

// loadSteps reads the steps' images. What a crash left half written goes, and what has a place in the library or lacks a layer;
// a file that is damaged is set aside.
// It is called at the opening, once the library's own records are in order.
func (o *recovery) loadSteps() error {
	dir := filepath.Join(o.root, stepsFolder)
	entries, err := readDir(dir)
	if err != nil {
		return wrapError(err, "read steps")
	}
	records, err := o.cs.Images()
	if err != nil {
		return wrapError(err, "list images")
	}
	inLibrary := make(map[string]bool, len(records))
	for i := range records {
		inLibrary[records[i].ID] = true
	}
	for _, entry := range entries {
		bare := entry.Name()
		r, config, why := o.readStep(bare)
		if why == nil && !inLibrary[bare] && o.hasLayers(r, config) {
			o.keepStep(bare, r)
			continue
		}
		if err := o.dropStepFile(filepath.Join(dir, bare), why); err != nil {
			return wrapError(err, "remove leftovers")
		}
	}
	return nil
}

// dropStepFile removes a step's file, or sets it aside if it is damaged or its layers may be.
func (f *stepFiles) dropStepFile(path string, why error) error {
	switch {
	case why == nil && f.lost:
		why = errors.New("its layers are not all there")
	case why == nil || validID(filepath.Base(path)) != nil:
		return tree.RemovePath(path)
	}
	return f.damage.SetAside(path, why)
}

// hasLayers reports whether the layers of a step's image are those that its config tells of, and whole.
func (o *recovery) hasLayers(r *stepRecord, config []byte) bool {
	var doc imageJSON
	if json.Unmarshal(config, &doc) != nil {
		return false
	}
	chain, err := o.layerChain(r.TopLayer)
	return err == nil && len(chain) == len(doc.RootFS.DiffIDs) && o.isSound(r.TopLayer)
}

// dropStep forgets a step's image.
func (f *stepFiles) dropStep(bare string) error {
	f.forgetStep(bare)
	return wrapError(removeFile(f.stepFile(bare)), "remove step %s", bare)
}

// promoteStep gives a step's image its place in the library, with names; an image that is there gets the names only. It is
// called with s.images held.
func (s *Store) promoteStep(bare string, names []string) error {
	r := s.lightStep(bare)
	if r == nil {
		if len(names) == 0 {
			return nil
		}
		return wrapError(s.addNames(bare, names), "name image %s", bare)
	}
	_, config, err := s.readStep(bare)
	if err != nil {
		return err
	}
	cfg, err := s.soundConfig(bare)
	if err != nil {
		return err
	}
	docs, err := newDocuments(config, cfg.diffIDs, cfg.sizes)
	if err != nil {
		return err
	}
	_, err = s.putRecord(docs, r.Created, map[string]any{}, r.TopLayer, names)
	return err
}
