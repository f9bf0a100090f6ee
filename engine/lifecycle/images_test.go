package lifecycle

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"

	"moss/engine/container"
	"moss/engine/fault"
)

// mountsImage asks for the files of an image at /i.
func mountsImage(source, subpath string) func(*container.Config, *container.HostConfig) {
	return func(_ *container.Config, host *container.HostConfig) {
		host.Mounts = []container.MountConfig{
			{Type: "image", Source: source, Target: "/i", ImageOptions: &container.ImageMountOptions{Subpath: subpath}},
		}
	}
}

// TestMountedImages: a start binds the files read only and keeps nothing open, and the container keeps the image.
func TestMountedImages(t *testing.T) {
	w := newWorld(t)
	w.images.files = t.TempDir()
	w.must(os.MkdirAll(filepath.Join(w.images.files, "a", "b"), 0o755))
	w.must(os.Symlink("/a", filepath.Join(w.images.files, "link")))
	m := w.engine()
	id := w.create(m, "web", mountsImage("base", "link/b"))
	if users := m.inventory.ImageUsers(w.images.img.Parent); len(users) != 1 || users[0].ContainerID != id {
		t.Errorf("users of the mounted image: %+v, want %s", users, id)
	}
	w.must(m.Start(t.Context(), "web"))
	raw, err := os.ReadFile(filepath.Join(w.run, "tasks", id, "config.json"))
	w.must(err)
	var spec specs.Spec
	w.must(json.Unmarshal(raw, &spec))
	found := false
	for _, mount := range spec.Mounts {
		if mount.Destination != "/i" {
			continue
		}
		found = mount.Source == filepath.Join(w.images.files, "a", "b") && strings.Contains(strings.Join(mount.Options, ","), "ro")
	}
	if !found {
		t.Errorf("mounts %+v, want a/b of the image, read only, at /i", spec.Mounts)
	}
	if n := w.images.held.Load(); n != 0 {
		t.Errorf("%d views and holds are left", n)
	}
	w.must(m.Kill(t.Context(), "web", ""))
	w.must(m.Remove(t.Context(), "web", container.RemoveOptions{}))
	if users := m.inventory.ImageUsers(w.images.img.Parent); len(users) != 0 {
		t.Errorf("users after the removal: %+v", users)
	}
}

func TestMountedImagesRefused(t *testing.T) {
	w := newWorld(t)
	w.images.files = t.TempDir()
	w.must(os.WriteFile(filepath.Join(w.images.files, "file"), nil, 0o600))
	m := w.engine()
	cfg, host := container.Config{Image: "busybox"}, container.HostConfig{}
	mountsImage("nosuch", "")(&cfg, &host)
	if _, _, err := m.Create(t.Context(), "", cfg, host, nil); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "Mounts: No such image: nosuch:latest") {
		t.Errorf("an image that is not there: %v, want fault.Invalid", err)
	}
	for subpath, want := range map[string]string{"none": "does not exist", "file/x": "does not lead through folders"} {
		id := w.create(m, "", mountsImage("base", subpath))
		if err := m.Start(t.Context(), id); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("subpath %s: %v, want fault.Invalid with %q", subpath, err, want)
		}
	}
	if n := w.images.held.Load(); n != 0 {
		t.Errorf("%d views and holds are left", n)
	}
}
