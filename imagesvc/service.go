// Package imagesvc works on images as clients see them: lists with filters, import of root file systems, removal. It
// knows containers only as users of images, and nothing of HTTP.
package imagesvc

import (
	"cmp"
	"context"
	"io"
	"maps"
	"runtime"
	"sync"

	"moss/engine/event"
	"moss/engine/fault"
	"moss/engine/image"
	"moss/imagesvc/registry"
	"moss/imagesvc/token"
	"moss/storage"
)

// store keeps images. Errors have the kinds that *storage.Store gives them.
type store interface {
	List(ctx context.Context) ([]*image.Image, error)
	Get(ctx context.Context, what string) (*image.Image, error)
	PutImage(ctx context.Context, layer io.Reader, spec storage.ImageSpec, names []string) (*image.Image, error)
	Untag(ctx context.Context, seen *image.Image, names ...string) error
	Delete(ctx context.Context, seen *image.Image) (chainIDs []string, err error)
	ledger
	contents
	layers
}

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

// Service answers what clients ask of images. Its methods may be called by any number of goroutines.
type Service struct {
	store   store
	events  events
	version string
	limits  Limits
	uploads int
	slots   chan struct{} // one for each processor that compresses layers

	registry     *registry.Client
	tokens       *token.Service
	destinations func(ctx context.Context, ref image.Ref, auth image.RegistryAuth) (destination, error)

	changing sync.Mutex // held while an image's names are taken away or the image goes

	sources registries // nil: there is no way to registries
	flights *flights

	held holds // images that are being read

	mu    sync.RWMutex // guards users
	users users
}

// New returns a service over a store. The store stays the caller's to close.
func New(s store, opts Options) *Service {
	svc := &Service{
		store:   s,
		events:  opts.Events,
		version: opts.EngineVersion,
		limits:  opts.Limits.withDefaults(),
		users:   opts.Users,

		registry: opts.Registry,
		tokens:   opts.Tokens,
		uploads:  cmp.Or(opts.MaxUploads, defaultUploads),
		slots:    make(chan struct{}, runtime.GOMAXPROCS(0)),
		flights:  newFlights(cmp.Or(opts.MaxDownloads, DefaultDownloads())),
	}
	if svc.tokens == nil {
		svc.tokens = token.New()
	}
	svc.destinations = svc.openDestination
	if opts.Registry != nil {
		svc.sources = network{opts.Registry}
	}
	return svc
}

// SetUsers tells the service who knows the users of images. The two need each other, so it comes after New.
func (s *Service) SetUsers(u users) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users = u
}

// usersOf returns the containers that keep an image.
func (s *Service) usersOf(imageID string) []image.User {
	s.mu.RLock()
	u := s.users
	s.mu.RUnlock()
	if u == nil {
		return nil
	}
	return u.ImageUsers(imageID)
}

// Get returns the image that a client means by a name, an id or the beginning of one.
//
// Errors are fault.NotFound ("No such image: …"), fault.Invalid (neither a name nor an id) or internal.
func (s *Service) Get(ctx context.Context, ref string) (*image.Image, error) {
	return s.store.Get(ctx, ref)
}

// CheckPlatform reports as fault.NotFound that an image is missing or is not for a platform in a client's words, in which
// fault.Invalid finds a mistake.
func (s *Service) CheckPlatform(ctx context.Context, ref, text string) error {
	want, own, err := parsePlatform(text)
	if err != nil {
		return err
	}
	img, err := s.store.Get(ctx, ref)
	if err != nil {
		return err
	}
	if has := (platform{img.OS, img.Architecture, img.Variant}); !want.suits(own, has) {
		return fault.NotFound("image with reference %s was found but does not match the specified platform: wanted %s, actual: %s",
			ref, want, has)
	}
	return nil
}

// publishEvent tells of an image. Clients of all versions see the image's labels and its name (API document 3, section 6).
func (s *Service) publishEvent(action string, img *image.Image, name string) {
	attributes := make(map[string]string, len(img.Config.Labels)+1)
	maps.Copy(attributes, img.Config.Labels)
	attributes["name"] = name
	s.events.Publish(event.Event{Type: event.TypeImage, Action: action, ID: img.ID, Attributes: attributes})
}
