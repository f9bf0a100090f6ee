// Package imagesvc works on images as clients see them. Service has their records and names: lists with filters, tags,
// removal, the steps of builds. Transfers has the ways from registries and to them, Archives those from files and to them.
// It knows containers only as users of images, and nothing of HTTP.
package imagesvc

import (
	"context"
	"io"
	"maps"
	"sync"

	"moss/engine/event"
	"moss/engine/image"
	"moss/imagesvc/registry"
	"moss/imagesvc/token"
	"moss/storage"
)

// records keeps images. Errors have the kinds that *storage.Store gives them.
type records interface {
	List(ctx context.Context) ([]*image.Image, error)
	Get(ctx context.Context, what string) (*image.Image, error)
	PutImage(ctx context.Context, layer io.Reader, spec storage.ImageSpec, names []string) (*image.Image, error)
	Untag(ctx context.Context, seen *image.Image, names ...string) error
	Delete(ctx context.Context, seen *image.Image) (chainIDs []string, err error)
	Room(bytes, files int64) error
}

// Store is a store by its parts.
type Store struct {
	records
	ledger
	steps
	contents
	layers
}

// StoreOf returns the parts of a store, which stays the caller's to close.
func StoreOf(s *storage.Store) Store { return Store{s, s, s, s, s} }

// users knows which containers keep an image.
type users interface {
	ImageUsers(imageID string) []image.User
}

// events is told what happened.
type events interface {
	Publish(ev event.Event)
}

// Options is what a Service is made of besides its store.
type Options struct {
	Events        events // needed
	Users         users  // nil until SetUsers: no container keeps an image
	EngineVersion string // noted in images that are made here
	Limits        Limits // zero fields take their defaults
	MaxUploads    int    // layers sent at the same time by one push; 0: 5
	MaxDownloads  int    // layers fetched at the same time by all pulls together; 0: DefaultDownloads
	Registry      *registry.Client
	Tokens        *token.Service // Registry's; nil: one of this service's own
}

// Service answers what clients ask of images: their records and names by its own methods. Its methods may be called by
// any number of goroutines.
type Service struct {
	*collection
	*Transfers
	*Archives
}

// collection is the images of a store, and what keeps them from going while they are used.
type collection struct {
	store   Store
	events  events
	version string
	limits  Limits

	changing sync.Mutex // held while an image's names are taken away or the image goes
	held     holds      // images that are being read

	mu    sync.RWMutex // guards users
	users users
}

// New returns a service over a store.
func New(s Store, opts Options) *Service {
	c := &collection{
		store: s, events: opts.Events, version: opts.EngineVersion, limits: opts.Limits.withDefaults(), users: opts.Users,
	}
	return &Service{collection: c, Transfers: newTransfers(c, opts), Archives: &Archives{c}}
}

// SetUsers tells the service who knows the users of images. The two need each other, so it comes after New.
func (s *Service) SetUsers(u users) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users = u
}

// usersOf returns the containers that keep an image.
func (s *collection) usersOf(imageID string) []image.User {
	s.mu.RLock()
	u := s.users
	s.mu.RUnlock()
	if u == nil {
		return nil
	}
	return u.ImageUsers(imageID)
}

// Users returns how many containers keep an image.
func (s *Service) Users(imageID string) int { return len(s.usersOf(imageID)) }

// Get returns the image that a client means by a name, an id or the beginning of one.
//
// Errors are fault.NotFound ("No such image: …"), fault.Invalid (neither a name nor an id) or internal.
func (s *Service) Get(ctx context.Context, ref string) (*image.Image, error) {
	return s.store.Get(ctx, ref)
}

// CheckPlatform reports as fault.NotFound that an image is missing or is not for a platform in a client's words, in which
// fault.Invalid finds a mistake.
func (s *Service) CheckPlatform(ctx context.Context, ref, text string) error {
	img, err := s.store.Get(ctx, ref)
	if err != nil {
		return err
	}
	return checkPlatform(ref, img, text)
}

// publishEvent tells of an image. Clients of all versions see the image's labels and its name (API document 3, section 6).
func (s *collection) publishEvent(action string, img *image.Image, name string) {
	attributes := make(map[string]string, len(img.Config.Labels)+1)
	maps.Copy(attributes, img.Config.Labels)
	attributes["name"] = name
	s.events.Publish(event.Event{Type: event.TypeImage, Action: action, ID: img.ID, Attributes: attributes})
}

// publishRef tells of what was done with a registry: clients of all versions see the image's name as the event's id.
func (s *collection) publishRef(action string, img *image.Image, ref image.Ref) {
	attributes := make(map[string]string, len(img.Config.Labels)+1)
	maps.Copy(attributes, img.Config.Labels)
	attributes["name"] = ref.FamiliarRepo()
	s.events.Publish(event.Event{Type: event.TypeImage, Action: action, ID: ref.Familiar(), Attributes: attributes})
}
