package imagesvc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/storage"
)

func TestPush(t *testing.T) {
	p := newPusher()
	img := p.put("h:5000/a:v1", "one", "two")
	told, pushed, err := p.push(t.Context(), image.PushOptions{Repo: "h:5000/a", Tag: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	raw, m := p.pushed(t, "h:5000/a:v1")
	sum := digest.FromBytes(raw).String()
	want := []string{
		"The push refers to repository [h:5000/a]", short("two") + ": Preparing", short("one") + ": Preparing",
		short("two") + ": Pushing", short("one") + ": Pushing", short("two") + ": Pushed", short("one") + ": Pushed",
		fmt.Sprintf("v1: digest: %s size: %d", sum, len(raw)),
	}
	for _, line := range want {
		if !slices.Contains(told, line) {
			t.Errorf("messages %q lack %q", told, line)
		}
	}
	if len(told) != len(want) || told[0] != want[0] || told[len(told)-1] != want[len(want)-1] {
		t.Errorf("messages %q, want %q", told, want)
	}
	if pushed != (image.Pushed{Tag: "v1", Digest: sum, Size: int64(len(raw))}) {
		t.Errorf("aux = %+v", pushed)
	}
	if m.MediaType != typeSchema2 || m.Config.Digest.String() != img.ID || m.Config.MediaType != typeConfig || m.Layers[0].MediaType != typeLayer+".gzip" {
		t.Errorf("manifest = %s", raw)
	}
	if got := p.unpacked(t, "h:5000/a", m); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("layers = %q", got)
	}
	if e := p.events; len(e) != 1 || e[0].Action != "push" || e[0].ID != "h:5000/a:v1" || e[0].Attributes["name"] != "h:5000/a" {
		t.Errorf("events = %+v", e)
	}
	if !slices.Equal(img.RepoDigests, []string{"h:5000/a@" + sum}) {
		t.Errorf("digests = %v", img.RepoDigests)
	}
	if got := p.took(); got != "put,put,put" {
		t.Errorf("calls = %s", got)
	}

	// Once more: everything is there.
	told, again, err := p.push(t.Context(), image.PushOptions{Repo: "h:5000/a:v1"})
	if err != nil || again != pushed || p.took() != "" || !slices.Contains(told, short("one")+": Layer already exists") {
		t.Errorf("the second push = %q, %+v, %v", told, again, err)
	}

	// Another repository takes the layers over; the manifest is the same.
	img.RepoTags = append(img.RepoTags, "h:5000/b/c:v2")
	told, again, err = p.push(t.Context(), image.PushOptions{Repo: "h:5000/b/c", Tag: "v2"})
	if err != nil || again.Digest != sum || p.took() != "mount,mount,put" || !slices.Contains(told, short("one")+": Mounted from a") {
		t.Errorf("the push to another repository = %q, %+v, %v", told, again, err)
	}

	// Another registry gets them compressed once more, and the manifest is the same.
	img.RepoTags = append(img.RepoTags, "other/a:v1")
	if _, again, err = p.push(t.Context(), image.PushOptions{Repo: "other/a", Tag: "v1"}); err != nil || again.Digest != sum || p.took() != "put,put,put" {
		t.Errorf("the push to another registry = %+v, %v", again, err)
	}
	if p.open != 0 {
		t.Errorf("%d destinations are open", p.open)
	}
}

// family makes the documents of an image that was pulled.
func pulledAs(t *testing.T, img *shelved, oci bool, separator string, blobs ...string) (raw []byte, layers []descriptor) {
	t.Helper()
	kind, config, layer := typeSchema2, typeConfig, typeLayer
	if oci {
		kind, config, layer = typeOCIManifest, typeOCIConfig, typeOCILayer
	}
	for _, b := range blobs {
		layers = append(layers, descriptor{MediaType: layer + separator, Digest: digest.FromString(b), Size: int64(len(b))})
	}
	raw, err := json.MarshalIndent(map[string]any{
		"schemaVersion": 2, "mediaType": kind, "layers": layers, "annotations": map[string]string{"from": "afar"},
		"config": descriptor{MediaType: config, Digest: digest.FromBytes(img.config), Size: int64(len(img.config))},
	}, "", "   ")
	if err != nil {
		t.Fatal(err)
	}
	index := []byte(`{"schemaVersion":2,"mediaType":"` + typeOCIIndex + `","manifests":[]}`)
	img.documents = []storage.Document{{MediaType: typeOCIIndex, Raw: index}, {MediaType: kind, Raw: raw}}
	return raw, layers
}

func TestPushOfWhatWasPulled(t *testing.T) {
	for _, tc := range []struct {
		name      string
		oci       bool
		separator string
		there     []string // blobs in the repository
		mountable []string // blobs in the repository that it came from
		unproven  bool     // the layers were here before the image came
		same      bool     // the manifest goes up as it came
		calls     string
		types     []string
	}{
		{name: "all there", separator: ".gzip", there: []string{"b1", "b2"}, same: true, calls: "put"},
		{name: "all mounted", separator: ".gzip", mountable: []string{"b1", "b2"}, same: true, calls: "mount,mount,put"},
		{name: "oci, zstd", oci: true, separator: "+zstd", there: []string{"b1"}, mountable: []string{"b2"}, same: true, calls: "mount,put"},
		{name: "one is missing", separator: ".gzip", there: []string{"b1"}, calls: "put,put", types: []string{typeLayer + ".gzip", typeLayer + ".gzip"}},
		{
			name: "oci, one is missing", oci: true, separator: "+zstd", there: []string{"b2"}, calls: "put,put",
			types: []string{typeOCILayer + "+gzip", typeOCILayer + "+zstd"},
		},
		{name: "nothing there", oci: true, separator: "+gzip", calls: "put,put,put", types: []string{typeOCILayer + "+gzip", typeOCILayer + "+gzip"}},
		{
			name: "what was never unpacked is not believed", separator: ".gzip", there: []string{"b1", "b2"}, unproven: true, calls: "put,put,put",
			types: []string{typeLayer + ".gzip", typeLayer + ".gzip"},
		},
		{name: "plain", separator: "", there: []string{"one", "two"}, same: true, calls: "put"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPusher()
			img := p.put("h:1/to:x", "one", "two")
			img.RepoDigests = []string{"h:1/from@" + digest.FromString("index").String()}
			blobs := []string{"b1", "b2"}
			if tc.separator == "" {
				blobs = []string{"one", "two"}
			}
			want, _ := pulledAs(t, img, tc.oci, tc.separator, blobs...)
			if !tc.unproven {
				img.proven = []digest.Digest{digest.FromString("b1"), digest.FromString("b2")}
			}
			for repo, blobs := range map[string][]string{"h:1/to": tc.there, "h:1/from": tc.mountable} {
				for _, b := range blobs {
					p.blobs[repo+"@"+digest.FromString(b).String()] = []byte(b)
				}
			}
			_, pushed, err := p.push(t.Context(), image.PushOptions{Repo: "h:1/to:x"})
			if err != nil {
				t.Fatal(err)
			}
			raw, m := p.pushed(t, "h:1/to:x")
			if same := bytes.Equal(raw, want); same != tc.same || pushed.Digest != digest.FromBytes(raw).String() {
				t.Errorf("manifest = %s with %+v; is the one it came with: %v, want %v", raw, pushed, same, tc.same)
			}
			if got := p.took(); got != tc.calls {
				t.Errorf("calls = %q, want %q", got, tc.calls)
			}
			for i, kind := range tc.types {
				if m.Layers[i].MediaType != kind {
					t.Errorf("layer %d is %s, want %s", i, m.Layers[i].MediaType, kind)
				}
			}
			if m.Config.Digest.String() != img.ID || tc.oci != strings.Contains(string(raw), `"from"`) && !tc.same {
				t.Errorf("manifest = %s, want the config %s and, from OCI, the annotations", raw, img.ID)
			}
		})
	}
}

// TestPushNoZstdToDocker pushes an image of Docker's family on a base that came in OCI's, with zstd.
func TestPushNoZstdToDocker(t *testing.T) {
	p := newPusher()
	img := p.put("h:1/to:x", "one")
	blob := storage.Blob{Digest: digest.FromString("z"), Size: 1, MediaType: typeOCILayer + "+zstd"}
	img.known = []storage.Blob{blob, {Digest: "nonsense", Size: 1, MediaType: typeLayer}, {Digest: digest.FromString("e"), Size: 1, MediaType: typeLayer + "+encrypted"}}
	p.blobs["h:1/to@"+blob.Digest.String()] = []byte("z")
	if _, _, err := p.push(t.Context(), image.PushOptions{Repo: "h:1/to:x"}); err != nil {
		t.Fatal(err)
	}
	if _, m := p.pushed(t, "h:1/to:x"); m.Layers[0].MediaType != typeLayer+".gzip" {
		t.Errorf("manifest = %+v, want the layer in gzip", m)
	}
}

func TestPushNames(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts image.PushOptions
		want string // tags that arrive
		fail string
		kind fault.Constructor
	}{
		{name: "tag", opts: image.PushOptions{Repo: "me/a", Tag: "2"}, want: "docker.io/me/a:2"},
		{name: "tag in the name", opts: image.PushOptions{Repo: "me/a:2"}, want: "docker.io/me/a:2"},
		{name: "all tags", opts: image.PushOptions{Repo: "me/a"}, want: "docker.io/me/a:1 docker.io/me/a:2 docker.io/me/a:latest"},
		{name: "latest", opts: image.PushOptions{Repo: "me/a:latest"}, want: "docker.io/me/a:latest"},
		{
			name: "no such tag", opts: image.PushOptions{Repo: "me/a", Tag: "3"}, fail: "tag does not exist: me/a:3", kind: fault.NotFound,
		},
		{
			name: "no such repository", opts: image.PushOptions{Repo: "me/b"}, kind: fault.NotFound,
			fail: "An image does not exist locally with the tag: me/b",
		},
		{
			name: "no such repository, with a tag", opts: image.PushOptions{Repo: "me/b", Tag: "x"}, kind: fault.NotFound,
			fail: "An image does not exist locally with the tag: me/b",
		},
		{name: "digest alone", opts: image.PushOptions{Repo: "me/c"}, fail: "An image does not exist locally with the tag: me/c", kind: fault.NotFound},
		{
			name: "digest", opts: image.PushOptions{Repo: "me/a@" + digest.FromString("").String()}, fail: "cannot push a digest reference",
			kind: fault.Invalid,
		},
		{
			name: "digest as tag", opts: image.PushOptions{Repo: "me/a", Tag: digest.FromString("").String()}, kind: fault.Invalid,
			fail: "cannot push a digest reference",
		},
		{name: "the tag's platform", opts: image.PushOptions{Repo: "me/a", Tag: "2", Platform: "aarch64"}, want: "docker.io/me/a:2"},
		{
			name: "another platform", opts: image.PushOptions{Repo: "me/a:1", Platform: "linux/arm64"}, kind: fault.NotFound,
			fail: "image with reference me/a:1 was found but does not match the specified platform: wanted linux/arm64, actual: linux/amd64",
		},
		{
			name: "not all tags' platform", opts: image.PushOptions{Repo: "me/a", Platform: "linux/arm64"}, kind: fault.NotFound,
			fail: "image with reference me/a:1 was found but does not match",
		},
		{name: "no platform", opts: image.PushOptions{Repo: "me/a", Platform: "a/b/c/d"}, kind: fault.Invalid, fail: `"a/b/c/d" is no platform`},
		{name: "bad name", opts: image.PushOptions{Repo: "ME"}, fail: `invalid reference format: "ME"`, kind: fault.Invalid},
		{name: "refused", opts: image.PushOptions{Repo: "me/a", Auth: image.RegistryAuth{Password: "wrong"}}, fail: "no", kind: fault.Unauthorized},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPusher()
			one, two := p.put("me/a:1", "one"), p.put("me/a:2", "two")
			one.OS, one.Architecture = "linux", "amd64"
			two.OS, two.Architecture, two.Variant = "linux", "arm64", "v8"
			two.RepoTags = []string{"me/a:2", "me/a:latest", "me/ab:1"}
			p.put("", "three").RepoDigests = []string{"me/c@" + digest.FromString("x").String()}
			told, _, err := p.push(t.Context(), tc.opts)
			if tc.fail == "" && err != nil || tc.fail != "" && (!fault.Is(err, tc.kind) || !strings.HasPrefix(err.Error(), tc.fail) || len(told) != 0) {
				t.Errorf("Push(%+v) = %v after %q, want %q before the first message", tc.opts, err, told, tc.fail)
			}
			got := slices.Sorted(maps.Keys(p.manifests))
			if strings.Join(got, " ") != tc.want {
				t.Errorf("Push(%+v): the registry has %v, want %s", tc.opts, got, tc.want)
			}
		})
	}
}

func TestPushOddImages(t *testing.T) {
	p := newPusher()
	p.put("none:1")
	p.put("twice:1", "same", "other", "same")
	if _, _, err := p.push(t.Context(), image.PushOptions{Repo: "none:1"}); err != nil || p.took() != "put" {
		t.Errorf("an image without layers: %v", err)
	}
	if raw, m := p.pushed(t, "docker.io/library/none:1"); len(m.Layers) != 0 || !bytes.Contains(raw, []byte(`"layers":[]`)) {
		t.Errorf("its manifest is %s", raw)
	}
	if _, _, err := p.push(t.Context(), image.PushOptions{Repo: "twice:1"}); err != nil || p.took() != "put,put,put" {
		t.Errorf("an image with a layer twice: %v", err)
	}
	_, m := p.pushed(t, "docker.io/library/twice:1")
	if got := p.unpacked(t, "docker.io/library/twice", m); !slices.Equal(got, []string{"same", "other", "same"}) {
		t.Errorf("its layers are %q", got)
	}
}

// TestPushInParallel has as many layers under way as the service allows, and ends them all with the client or the first error.
func TestPushInParallel(t *testing.T) {
	for name, ended := range map[string]error{"the client goes": context.Canceled, "an upload fails": fault.Forbidden("boom")} {
		t.Run(name, func(t *testing.T) {
			p := newPusher()
			img := p.put("a:1", "1", "2", "3", "4", "5", "6", "7")
			ctx, cancel := context.WithCancel(t.Context())
			var mu sync.Mutex
			under := 0
			p.onPut = func(ctx context.Context, _ string) error {
				mu.Lock()
				under++
				full := under == defaultUploads
				mu.Unlock()
				if full { // all that may be under way are
					if _, err := p.Remove(t.Context(), "a:1", image.RemoveOptions{Force: true}); !fault.Is(err, fault.Conflict) ||
						!strings.Contains(err.Error(), "is being pushed") {
						t.Errorf("Remove meanwhile = %v, want a conflict", err)
					}
					if !errors.Is(ended, context.Canceled) {
						return ended
					}
					cancel()
				}
				<-ctx.Done()
				return ctx.Err()
			}
			told, _, err := p.push(ctx, image.PushOptions{Repo: "a:1"})
			cancel()
			if !errors.Is(err, ended) || under != defaultUploads {
				t.Errorf("Push = %v with %d uploads, want %v and %d", err, under, ended, defaultUploads)
			}
			waiting := 0
			for _, line := range told {
				if strings.HasSuffix(line, "Waiting") {
					waiting++
				}
			}
			if waiting != 2 || len(p.manifests) != 0 || len(img.RepoDigests) != 0 || p.open != 0 || p.take() != "" {
				t.Errorf("%d layers waited, the registry has %v, the image is %+v", waiting, p.manifests, img.Image)
			}
		})
	}
}

// TestPushTriesAgain has the way to the registry fail a few times, and the registry refuse.
func TestPushTriesAgain(t *testing.T) {
	broken, refused := errors.New("connection reset"), fault.Forbidden("denied")
	for _, tc := range []struct {
		name  string
		fails []error
		want  error
		told  string
	}{
		{"not at all", nil, nil, ""},
		{"once", []error{broken}, nil, "Retrying in 1s"},
		{"twice", []error{broken, broken}, nil, "Retrying in 1s, Retrying in 5s"},
		{"for good", []error{broken, broken, broken}, broken, "Retrying in 1s, Retrying in 5s"},
		{"refused", []error{refused}, refused, ""},
	} {
		for _, layers := range [][]string{{"one"}, nil} { // of an image without layers the config is sent
			synctest.Test(t, func(t *testing.T) {
				p := newPusher()
				p.put("a:1", layers...)
				if len(layers) > 0 {
					p.blobs["docker.io/library/a@"+digest.FromBytes(p.images[0].config).String()] = p.images[0].config
				}
				fails := slices.Clone(tc.fails)
				p.onPut = func(context.Context, string) error {
					if len(fails) == 0 {
						return nil
					}
					err := fails[0]
					fails = fails[1:]
					return err
				}
				told, _, err := p.push(t.Context(), image.PushOptions{Repo: "a:1"})
				var got []string
				for _, line := range told {
					if _, status, _ := strings.Cut(line, ": "); strings.HasPrefix(status, "Retrying") {
						got = append(got, status)
					}
				}
				if !errors.Is(err, tc.want) || strings.Join(got, ", ") != tc.told {
					t.Errorf("%s, layers %q: Push = %v after %q, want %v after %q", tc.name, layers, err, got, tc.want, tc.told)
				}
			})
		}
	}
}

// TestPushDamaged has a layer in the store that is not what it was.
func TestPushDamaged(t *testing.T) {
	p := newPusher()
	img := p.put("a:1", "one", "two")
	p.store = partsOf(&damaged{p.shelf})
	_, _, err := p.push(t.Context(), image.PushOptions{Repo: "a:1"})
	if err == nil || !strings.Contains(err.Error(), "the layer in the store is damaged") || len(p.manifests) != 0 || len(img.RepoDigests) != 0 {
		t.Errorf("Push = %v, want the damage", err)
	}
}

type damaged struct{ *shelf }

func (d *damaged) OpenLayer(context.Context, string, int) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("rot")), nil
}

func TestPushWithoutRegistry(t *testing.T) {
	s := New(partsOf(&shelf{images: []*shelved{{Image: image.Image{RepoTags: []string{"a:1"}}}}}), Options{Events: &log{}})
	if err := s.Push(t.Context(), image.PushOptions{Repo: "a:1"}, nil); !fault.Is(err, fault.Unsupported) {
		t.Errorf("Push = %v, want unsupported", err)
	}
}
