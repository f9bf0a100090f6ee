package imagesvc

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"moss/engine/fault"
	"moss/engine/id"
	"moss/engine/image"
	"moss/storage"
)

// keepers is a fixed set of users.
type keepers map[string][]image.User

func (k keepers) ImageUsers(imageID string) []image.User { return k[imageID] }

func TestList(t *testing.T) {
	s, st, _ := newService(t, Limits{})
	ctx := t.Context()
	made := map[string]string{} // id -> short name
	add := func(name string, age time.Duration, spec storage.ImageSpec, names ...string) string {
		spec.Created = time.Now().Add(-age)
		img, err := st.PutImage(ctx, nil, spec, names)
		if err != nil {
			t.Fatal(err)
		}
		made[img.ID] = name
		return img.ID
	}
	hex := strings.Repeat("ab", 32)
	old := add("old", 3*time.Hour, storage.ImageSpec{Config: image.Config{Labels: map[string]string{"a": "1"}}}, "alpine:3.1", "alpine:3.2")
	mid := add("mid", 2*time.Hour, storage.ImageSpec{Config: image.Config{Labels: map[string]string{"a": "2"}}}, "me/app", "me/app@sha256:"+hex)
	parent := add("parent", 90*time.Minute, storage.ImageSpec{})
	add("child", time.Hour, storage.ImageSpec{Base: parent}, "127.0.0.1:5000/x:y")
	add("loose", time.Minute, storage.ImageSpec{Comment: "loose"})
	for _, tc := range []struct {
		name string
		opts image.ListOptions
		want string
	}{
		{"plain", image.ListOptions{}, "loose child mid old"},
		{"all", image.ListOptions{All: true}, "loose child parent mid old"},
		{"name", image.ListOptions{Name: "alpine"}, "old"},
		{"name with tag", image.ListOptions{Name: "alpine:3.2"}, "old"},
		{"name of none", image.ListOptions{Name: "busybox"}, ""},
		{"pattern", image.ListOptions{Filters: map[string][]string{"reference": {"me/*", "alp*:3.1"}}}, "mid old"},
		{"registry", image.ListOptions{Filters: map[string][]string{"reference": {"127.0.0.1:5000/x"}}}, "child"},
		{"dangling", image.ListOptions{Filters: map[string][]string{"dangling": {"true"}}}, "loose"},
		{"not dangling", image.ListOptions{Filters: map[string][]string{"dangling": {"false"}}}, "child mid old"},
		{"dangling all", image.ListOptions{All: true, Filters: map[string][]string{"dangling": {"1"}}}, "loose parent"},
		{"label", image.ListOptions{Filters: map[string][]string{"label": {"a"}}}, "mid old"},
		{"label value", image.ListOptions{Filters: map[string][]string{"label": {"a=2"}}}, "mid"},
		{"labels", image.ListOptions{Filters: map[string][]string{"label": {"a=2", "b"}}}, ""},
		{"before", image.ListOptions{Filters: map[string][]string{"before": {mid}}}, "old"},
		{"since", image.ListOptions{Filters: map[string][]string{"since": {"me/app"}}}, "loose child"},
		{"between", image.ListOptions{Filters: map[string][]string{"since": {id.Short(old)}, "before": {parent}}}, "mid"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list, err := s.List(ctx, tc.opts)
			got := make([]string, 0, len(list))
			for _, img := range list {
				got = append(got, made[img.ID])
			}
			if err != nil || strings.Join(got, " ") != tc.want {
				t.Errorf("List(%+v) = %v, %v, want %s", tc.opts, got, err, tc.want)
			}
		})
	}
	list, err := s.List(ctx, image.ListOptions{Name: "alpine:3.2"})
	if err != nil || !slices.Equal(list[0].RepoTags, []string{"alpine:3.2"}) {
		t.Errorf("names of a filtered image = %v, %v, want the matching one", list[0].RepoTags, err)
	}
	if list, err = s.List(ctx, image.ListOptions{Name: "me/app"}); err != nil || !slices.Equal(list[0].RepoDigests, []string{"me/app@sha256:" + hex}) {
		t.Errorf("digests = %v, %v", list[0].RepoDigests, err)
	}
	for _, tc := range []struct {
		filters map[string][]string
		kind    fault.Constructor
	}{
		{map[string][]string{"size": {"1"}}, fault.Invalid},
		{map[string][]string{"dangling": {"maybe"}}, fault.Invalid},
		{map[string][]string{"dangling": {"1", "0"}}, fault.Invalid},
		{map[string][]string{"reference": {"["}}, fault.Invalid},
		{map[string][]string{"before": {"none"}}, fault.NotFound},
	} {
		if _, err := s.List(ctx, image.ListOptions{Filters: tc.filters}); !fault.Is(err, tc.kind) {
			t.Errorf("List(%v) = %v, want %v", tc.filters, err, tc.kind("x"))
		}
	}
}

func TestRemove(t *testing.T) {
	hex := strings.Repeat("ab", 32)
	ctrID := strings.Repeat("c", 64)
	for _, tc := range []struct {
		name   string
		names  []string
		ref    string // ID: the image's id
		opts   image.RemoveOptions
		user   *image.User
		child  bool
		want   []string // U name or D
		errHas string
		events string
	}{
		{name: "only name", names: []string{"a"}, ref: "a", want: []string{"U a:latest", "D", "D"}, events: "untag,delete"},
		{name: "one of two names", names: []string{"a", "a:2"}, ref: "a:2", want: []string{"U a:2"}, events: "untag"},
		{name: "id of two tags", names: []string{"a", "a:2"}, ref: "ID", errHas: "(must be forced) - image is referenced in multiple repositories"},
		{
			name: "id of two tags, forced", names: []string{"a", "a:2"}, ref: "ID", opts: image.RemoveOptions{Force: true},
			want: []string{"U a:2", "U a:latest", "D", "D"}, events: "untag,untag,delete",
		},
		{name: "id of one tag", names: []string{"a"}, ref: "ID", want: []string{"U a:latest", "D", "D"}, events: "untag,delete"},
		{
			name: "last tag takes digests along", names: []string{"a", "a@sha256:" + hex}, ref: "a",
			want: []string{"U a:latest", "U a@sha256:" + hex, "D", "D"}, events: "untag,untag,delete",
		},
		{
			name: "id takes digests along", names: []string{"a", "a@sha256:" + hex}, ref: "ID",
			want: []string{"U a:latest", "U a@sha256:" + hex, "D", "D"}, events: "untag,untag,delete",
		},
		{
			name: "digests of another repository stay", names: []string{"a", "b@sha256:" + hex}, ref: "a", want: []string{"U a:latest"},
			events: "untag",
		},
		{name: "no name", ref: "ID", want: []string{"D", "D"}, events: "delete"},
		{
			name: "stopped user, by name", names: []string{"a"}, ref: "a", user: &image.User{},
			errHas: `unable to remove repository reference "a:latest" (must force) - container cccccccccccc is using its referenced image `,
		},
		{
			name: "stopped user, one of two names", names: []string{"a", "b"}, ref: "b", user: &image.User{}, want: []string{"U b:latest"},
			events: "untag",
		},
		{
			name: "stopped user, by name, forced", names: []string{"a"}, ref: "a", user: &image.User{}, opts: image.RemoveOptions{Force: true},
			want: []string{"U a:latest", "D", "D"}, events: "untag,delete",
		},
		{
			name: "stopped user, by id", names: []string{"a"}, ref: "ID", user: &image.User{},
			errHas: "(must be forced) - image is being used by stopped container cccccccccccc",
		},
		{
			name: "stopped user, by id, forced", names: []string{"a"}, ref: "ID", user: &image.User{}, opts: image.RemoveOptions{Force: true},
			want: []string{"U a:latest", "D", "D"}, events: "untag,delete",
		},
		{
			name: "running user, by id, forced", names: []string{"a"}, ref: "ID", user: &image.User{Running: true}, opts: image.RemoveOptions{Force: true},
			errHas: "(cannot be forced) - image is being used by running container cccccccccccc",
		},
		{
			name: "running user, by name, forced", names: []string{"a"}, ref: "a", user: &image.User{Running: true}, opts: image.RemoveOptions{Force: true},
			want: []string{"U a:latest"}, events: "untag",
		},
		{
			name: "with a child, by id", names: []string{"a"}, ref: "ID", child: true, opts: image.RemoveOptions{Force: true},
			errHas: "(cannot be forced) - image has dependent child images",
		},
		{name: "with a child, by name", names: []string{"a"}, ref: "a", child: true, want: []string{"U a:latest"}, events: "untag"},
		{name: "absent", ref: "none", errHas: "No such image: none:latest"},
		{name: "malformed", ref: "A B", errHas: "invalid reference format"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, st, events := newService(t, Limits{})
			img, err := st.PutImage(t.Context(), bytes.NewReader(rootfs(t, "x")), storage.ImageSpec{}, tc.names)
			if err != nil {
				t.Fatal(err)
			}
			if tc.child {
				if _, err := st.PutImage(t.Context(), nil, storage.ImageSpec{Base: img.ID}, []string{"child"}); err != nil {
					t.Fatal(err)
				}
			}
			if tc.user != nil {
				tc.user.ContainerID = ctrID
				s.SetUsers(keepers{img.ID: {*tc.user}})
			}
			ref := tc.ref
			if ref == "ID" {
				ref = id.Short(img.ID)
			}
			removed, err := s.Remove(t.Context(), ref, tc.opts)
			if tc.errHas == "" && err != nil || tc.errHas != "" && (err == nil || !strings.Contains(err.Error(), tc.errHas)) {
				t.Errorf("Remove = %v, want %q", err, tc.errHas)
			}
			var got []string
			for _, r := range removed {
				if r.Deleted != "" {
					got = append(got, "D")
					continue
				}
				got = append(got, "U "+r.Untagged)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("Remove = %v, want %v", removed, tc.want)
			}
			if got := events.take(); got != tc.events {
				t.Errorf("events = %q, want %q", got, tc.events)
			}
			if _, err := st.Get(t.Context(), img.ID); (err != nil) != slices.Contains(tc.want, "D") {
				t.Errorf("Get after Remove = %v", err)
			}
		})
	}
}

func TestRemovePrunesParents(t *testing.T) {
	for _, noPrune := range []bool{false, true} {
		s, st, _ := newService(t, Limits{})
		ctx := t.Context()
		base, err := st.PutImage(ctx, bytes.NewReader(rootfs(t, "x")), storage.ImageSpec{}, []string{"base"})
		if err != nil {
			t.Fatal(err)
		}
		top := base
		for _, comment := range []string{"1", "2", "3"} {
			if top, err = st.PutImage(ctx, nil, storage.ImageSpec{Base: top.ID, Comment: comment}, nil); err != nil {
				t.Fatal(err)
			}
		}
		removed, err := s.Remove(ctx, top.ID, image.RemoveOptions{NoPrune: noPrune})
		want := 3
		if noPrune {
			want = 1
		}
		if err != nil || len(removed) != want {
			t.Errorf("noprune %v: Remove = %v, %v, want %d images gone", noPrune, removed, err, want)
		}
		if _, err := st.Get(ctx, "base"); err != nil {
			t.Errorf("noprune %v: %v", noPrune, err)
		}
	}
}

// TestDocuments checks what the store's library, other tools and registries read.
func TestDocuments(t *testing.T) {
	s, st, _ := newService(t, Limits{})
	imageID, err := s.Import(t.Context(), bytes.NewReader(rootfs(t, "x")), image.ImportOptions{Repo: "a", Changes: []string{"EXPOSE 80"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	bare := strings.TrimPrefix(imageID, "sha256:")
	record, err := st.Library().Image(bare)
	if err != nil || !slices.Equal(record.Names, []string{"docker.io/library/a:latest"}) {
		t.Fatalf("record = %+v, %v", record, err)
	}
	raw, err := st.Library().ImageBigData(bare, "manifest-"+record.Digest.String())
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		SchemaVersion int
		MediaType     string
		Config        struct{ Digest string }
		Layers        []struct{ Digest, MediaType string }
	}
	if err := json.Unmarshal(raw, &m); err != nil || m.SchemaVersion != 2 || m.Config.Digest != imageID || len(m.Layers) != 1 {
		t.Errorf("manifest = %s, %v", raw, err)
	}
	layer, err := st.Library().Layer(record.TopLayer)
	if err != nil || layer.UncompressedDigest.String() != m.Layers[0].Digest {
		t.Errorf("layer = %+v, %v, want the digest %s", layer, err, m.Layers[0].Digest)
	}
	if raw, err = st.Library().ImageBigData(bare, imageID); err != nil || !strings.Contains(string(raw), `"ExposedPorts":{"80/tcp":{}}`) {
		t.Errorf("config = %s, %v", raw, err)
	}
}
