package volume

import (
	"context"
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

	"github.com/rs/zerolog"

	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/filter"
	"moss/engine/id"
	"moss/engine/record"
	"moss/engine/tree"
)

// events is told what happened.
type events interface {
	Publish(e event.Event)
}

// Options is what a Store is made of.
type Options struct {
	Dir    string // where the volumes lie; made if it is missing
	Events events
	Log    zerolog.Logger
	Trash  *tree.Trash // for what containers have shaped; nil: it is deleted at once
	Damage damaged
}

// damaged takes files that are not what they should be.
type damaged interface {
	SetAside(path string, why error) error
}

// Store keeps all volumes. Readers use what is published and never wait for a verb; verbs on one name queue on its token.
type Store struct {
	opt Options

	mu      sync.Mutex // guards entries and everything in them but the tokens
	entries map[string]*entry
}

// entry is one name. It stays as long as there is a volume of the name, or somebody who uses it or waits for it.
type entry struct {
	token   chan struct{}
	waiting int
	volume  *Volume         // nil while there is none
	soft    bool            // nothing has waited until the volume is on the disk; set when it is made
	users   map[string]bool // containers that hold it, running or not
	mounted map[string]bool // containers that run with it
}

// The parts of a volume's folder, and what begins the names of folders that are not volumes.
const (
	dataName    = "_data"
	recordName  = "volume.json"
	pendingName = "pending"
	copyName    = "_copy"  // content on its way into an empty volume
	partsName   = "_parts" // where parts of the volume are mounted for containers, in a folder for each
	newPrefix   = ".new-"
	gonePrefix  = ".gone-"
)

// Open reads the volumes below a folder and sweeps away what a crash left half-made. Until Restore has been called the
// store does not know who uses them.
func Open(opt Options) (*Store, error) {
	s := &Store{opt: opt, entries: map[string]*entry{}}
	if err := os.MkdirAll(opt.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open volumes: %w", err)
	}
	folders, err := os.ReadDir(opt.Dir)
	if err != nil {
		return nil, fmt.Errorf("open volumes: %w", err)
	}
	for _, folder := range folders {
		name := folder.Name()
		if strings.HasPrefix(name, newPrefix) || strings.HasPrefix(name, gonePrefix) {
			if err := opt.Trash.Take(filepath.Join(opt.Dir, name)); err != nil {
				opt.Log.Warn().Err(err).Str("folder", name).Msg("rest of a volume not removed")
			}
			continue
		}
		if CheckName(name) != nil {
			continue
		}
		if !folder.IsDir() {
			if err := opt.Damage.SetAside(filepath.Join(opt.Dir, name), errors.New("not the folder of a volume")); err != nil {
				return nil, fmt.Errorf("open volumes: %w", err)
			}
			continue
		}
		if v := s.loadVolume(name); v != nil {
			s.entries[name] = newEntry(v)
		}
	}
	return s, nil
}

func newEntry(v *Volume) *entry {
	return &entry{token: make(chan struct{}, 1), volume: v, users: map[string]bool{}, mounted: map[string]bool{}}
}

// loadVolume reads one volume. One whose record is damaged, or was lost with the power, keeps its data and loses its labels.
func (s *Store) loadVolume(name string) *Volume {
	log := s.opt.Log.With().Str("volume", name).Logger()
	dir := filepath.Join(s.opt.Dir, name)
	v := &Volume{}
	if err := record.Get(filepath.Join(dir, recordName), v); err != nil || v.Name != name {
		if err == nil {
			err = fmt.Errorf("not the record of volume %s: name %.80q", name, v.Name)
		}
		if v, err = s.replaceRecord(name, err); err != nil {
			log.Error().Err(err).Msg("not a volume: left out")
			return nil
		}
	}
	var err error
	if v.backing, err = parseOptions(v.Options); err != nil {
		if v, err = s.replaceRecord(name, err); err != nil {
			log.Error().Err(err).Msg("volume left out")
			return nil
		}
	}
	v.Mountpoint = filepath.Join(dir, dataName)
	if err := s.opt.Trash.Take(filepath.Join(dir, copyName)); err != nil {
		log.Warn().Err(err).Msg("rest of a copy not removed")
	}
	if err := record.Sweep(dir); err != nil {
		log.Warn().Err(err).Msg("half-written record not removed")
	}
	return v
}

// replaceRecord sets a damaged record aside and makes the volume a plain one.
func (s *Store) replaceRecord(name string, why error) (*Volume, error) {
	dir := filepath.Join(s.opt.Dir, name)
	info, err := os.Lstat(filepath.Join(dir, dataName))
	if err != nil || !info.IsDir() {
		return nil, errors.Join(why, err, s.opt.Damage.SetAside(dir, errors.Join(errors.New("a volume without data"), why)))
	}
	path := filepath.Join(dir, recordName)
	if err := s.opt.Damage.SetAside(path, fmt.Errorf("%w: the volume has no labels and options from now on", why)); err != nil {
		return nil, err
	}
	v := &Volume{Name: name, Driver: DriverLocal, CreatedAt: info.ModTime()}
	return v, record.Put(path, v)
}

// Create makes a volume and returns it; one of the name that is there already is returned as it is. fault.Invalid for a
// bad name or options that a user cannot have, fault.NotFound for another driver, fault.Conflict if the one that is there
// has other options.
func (s *Store) Create(ctx context.Context, opt CreateOptions) (*Volume, error) {
	if opt.Name == "" {
		opt.Name, opt.Anonymous = id.New(), true
	}
	v, _, err := s.createFor(ctx, opt, "")
	return v, err
}

// createFor is Create for a container, or for nobody. made tells a new volume from one that was there.
func (s *Store) createFor(ctx context.Context, opt CreateOptions, containerID string) (_ *Volume, made bool, err error) {
	if err := errors.Join(CheckName(opt.Name), checkDriver(opt.Name, opt.Driver)); err != nil {
		return nil, false, err
	}
	b, err := parseOptions(opt.Options)
	if err != nil {
		return nil, false, fmt.Errorf("create %s: %w", opt.Name, err)
	}
	e, err := s.acquireName(ctx, opt.Name)
	if err != nil {
		return nil, false, err
	}
	defer s.releaseName(opt.Name, e)
	if v := s.holdVolume(e, ""); v != nil {
		if len(opt.Options) > 0 && !maps.Equal(opt.Options, v.Options) {
			return nil, false, fault.Conflict("create %s: the volume exists already, with other options", opt.Name)
		}
		return s.holdVolume(e, containerID), false, nil
	}
	v := &Volume{
		Name: opt.Name, Driver: DriverLocal, Mountpoint: filepath.Join(s.opt.Dir, opt.Name, dataName),
		Labels: opt.allLabels(), Options: maps.Clone(opt.Options), CreatedAt: time.Now().UTC(), backing: b,
	}
	if err := s.makeFolder(v, containerID); err != nil {
		return nil, false, fmt.Errorf("create volume %s: %w", opt.Name, err)
	}
	s.mu.Lock()
	e.volume, e.soft = v, isSoft(v, containerID)
	if containerID != "" {
		e.users[containerID] = true
	}
	s.mu.Unlock()
	s.publishEvent("create", v)
	return v, true, nil
}

// holdVolume notes the container as a user of the entry's volume and returns that; nil if there is none.
func (s *Store) holdVolume(e *entry, containerID string) *Volume {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.volume != nil && containerID != "" {
		e.users[containerID] = true
	}
	return e.volume
}

// makeFolder brings a volume's folder into being. What clients make survives a power loss from then on, and what has labels or
// options; any other that is made for a container is made again should it be missing.
func (s *Store) makeFolder(v *Volume, containerID string) (err error) {
	temp := filepath.Join(s.opt.Dir, newPrefix+id.New())
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(temp)) // a few files, all made here
		}
	}()
	if err := os.MkdirAll(filepath.Join(temp, dataName), 0o700); err != nil {
		return err
	}
	// The folder above is the user's alone; in here the containers' users come too, whatever the engine's own umask is.
	if err := os.Chmod(filepath.Join(temp, dataName), 0o755); err != nil { //nolint:gosec // see above
		return err
	}
	put, durable := record.Put, true
	if containerID != "" {
		if isSoft(v, containerID) {
			put, durable = record.PutVolatile, false
		}
		if err := os.WriteFile(filepath.Join(temp, pendingName), []byte(containerID), 0o600); err != nil {
			return err
		}
	}
	if err := put(filepath.Join(temp, recordName), v); err != nil {
		return err
	}
	if err := os.Rename(temp, filepath.Join(s.opt.Dir, v.Name)); err != nil {
		return err
	}
	if !durable {
		return nil
	}
	if err := record.SyncDir(s.opt.Dir); err != nil {
		return errors.Join(err, os.RemoveAll(filepath.Join(s.opt.Dir, v.Name)))
	}
	return nil
}

// Get returns a volume. fault.NotFound if there is none.
func (s *Store) Get(name string) (*Volume, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[name]; e != nil && e.volume != nil {
		return e.volume, nil
	}
	return nil, NoSuch(name)
}

// List returns the volumes that pass the filters, by name: name and driver take all or part of it, label a key or
// key=value, dangling a boolean that is true for those that no container uses. Several values of one filter mean any of
// them, of label all. fault.Invalid for another filter or value, and for dangling both true and false.
func (s *Store) List(filters map[string][]string) ([]*Volume, error) {
	for key := range filters {
		if !slices.Contains([]string{"name", "driver", "label", "dangling"}, key) {
			return nil, filter.Unknown(key)
		}
	}
	dangling, err := filter.Bool("dangling", filters["dangling"])
	if err != nil {
		return nil, err
	}
	matchName := func(string) bool { return true }
	if names := filters["name"]; len(names) > 0 {
		if matchName, err = filter.Patterns("name", names); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	var list []*Volume
	for name, e := range s.entries {
		if e.volume == nil || dangling != nil && *dangling != (len(e.users) == 0) {
			continue
		}
		if matchName(name) && containsAny(e.volume.Driver, filters["driver"]) &&
			filter.HasLabels(e.volume.Labels, filters["label"]) {
			list = append(list, e.volume)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b *Volume) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// containsAny reports whether text contains one of the values; it does when there are none.
func containsAny(text string, values []string) bool {
	return len(values) == 0 || slices.ContainsFunc(values, func(v string) bool { return strings.Contains(text, v) })
}

// Remove deletes a volume with its data. fault.NotFound if there is none, fault.Conflict while containers use it.
func (s *Store) Remove(ctx context.Context, name string) error {
	e, err := s.acquireName(ctx, name)
	if err != nil {
		return err
	}
	defer s.releaseName(name, e)
	s.mu.Lock()
	v, users := e.volume, slices.Sorted(maps.Keys(e.users))
	s.mu.Unlock()
	if v == nil {
		return NoSuch(name)
	}
	if len(users) > 0 {
		return fault.Conflict("remove %s: volume is in use - [%s]", name, strings.Join(users, ", "))
	}
	if err := errors.Join(s.leaveParts(v, func(string) bool { return false }), s.unmountTmpfs(v)); err != nil {
		return fmt.Errorf("remove volume %s: %w", name, err)
	}
	gone := filepath.Join(s.opt.Dir, gonePrefix+id.New())
	err = os.Rename(filepath.Join(s.opt.Dir, name), gone)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove volume %s: %w", name, err)
	}
	s.mu.Lock()
	e.volume = nil
	s.mu.Unlock()
	s.publishEvent("destroy", v)
	if err := s.opt.Trash.Take(gone); err != nil { // the next start tries again
		return fmt.Errorf("remove data of volume %s: %w", name, err)
	}
	return nil
}

// acquireName takes the token of a name; releaseName gives it back. Who holds it alone changes the volume, and may add users.
func (s *Store) acquireName(ctx context.Context, name string) (*entry, error) {
	s.mu.Lock()
	e := s.entries[name]
	if e == nil {
		e = newEntry(nil)
		s.entries[name] = e
	}
	e.waiting++
	s.mu.Unlock()
	select {
	case e.token <- struct{}{}:
		return e, nil
	case <-ctx.Done():
		s.releaseEntry(name, e)
		return nil, ctx.Err()
	}
}

func (s *Store) releaseName(name string, e *entry) {
	<-e.token
	s.releaseEntry(name, e)
}

func (s *Store) releaseEntry(name string, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.waiting--
	if e.waiting == 0 && e.volume == nil && len(e.users) == 0 {
		delete(s.entries, name)
	}
}

func (s *Store) publishEvent(action string, v *Volume) {
	s.opt.Events.Publish(event.Event{
		Type: event.TypeVolume, Action: action, ID: v.Name, Attributes: map[string]string{"driver": v.Driver}, Time: time.Now(),
	})
}
