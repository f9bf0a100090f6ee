package registry_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"moss/engine/fault"
	"moss/engine/image"
	"moss/imagesvc/registry"
	"moss/storage"
)

// startRegistry runs Debian's registry with a folder of its own and returns its address.
func startRegistry(t *testing.T) string {
	t.Helper()
	const program = "/usr/bin/docker-registry"
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("%s is needed: install docker-registry", program)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage:\n  filesystem: {rootdirectory: %s}\nhttp: {addr: %q}\n", dir, host)
	file := filepath.Join(dir, "config.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "serve", file)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		res, err := http.Get("http://" + host + "/v2/")
		if err == nil {
			_ = res.Body.Close()
			return host
		}
		if time.Now().After(deadline) {
			t.Fatalf("the registry does not answer: %v\n%s", err, out.Bytes())
		}
	}
}

func TestRealRegistry(t *testing.T) {
	host := startRegistry(t)
	c := newClient(t, registry.Config{})
	layer := noise(3 << 20)
	blob := storage.Blob{Digest: digest.FromBytes(layer), Size: int64(len(layer)), MediaType: "application/vnd.docker.image.rootfs.diff.tar.gzip"}
	config := storage.Blob{Digest: digest.FromString("{}"), Size: 2, MediaType: "application/vnd.docker.container.image.v1+json"}
	raw, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": map[string]any{"digest": config.Digest, "size": config.Size, "mediaType": config.MediaType},
		"layers": []any{map[string]any{"digest": blob.Digest, "size": blob.Size, "mediaType": blob.MediaType}},
	})
	if err != nil {
		t.Fatal(err)
	}
	push(t, c, host+"/a/one:v1", raw, func(d *registry.Destination) {
		if has, err := d.Has(t.Context(), blob); has || err != nil {
			t.Errorf("Has before Put: %t, %v", has, err)
		}
		if mounted, err := d.Mount(t.Context(), parse(t, host+"/a/absent"), blob); mounted || err != nil {
			t.Errorf("Mount of what is not there: %t, %v", mounted, err)
		}
		got, err := d.Put(t.Context(), storage.Blob{Size: -1}, bytes.NewReader(layer))
		if err != nil || got.Digest != blob.Digest || got.Size != blob.Size {
			t.Errorf("Put of a blob of which nothing is known: %+v, %v", got, err)
		}
		if _, err := d.Put(t.Context(), config, bytes.NewReader([]byte("{}"))); err != nil {
			t.Error(err)
		}
		if has, err := d.Has(t.Context(), blob); !has || err != nil {
			t.Errorf("Has after Put: %t, %v", has, err)
		}
	})
	push(t, c, host+"/b/two:v2", raw, func(d *registry.Destination) {
		for _, b := range []storage.Blob{blob, config} {
			if mounted, err := d.Mount(t.Context(), parse(t, host+"/a/one"), b); !mounted || err != nil {
				t.Errorf("Mount: %t, %v, want it done", mounted, err)
			}
		}
	})
	src := open(t, c, host+"/b/two:v2", image.RegistryAuth{})
	got, kind, err := src.Manifest(t.Context(), "")
	if err != nil || !bytes.Equal(got, raw) || kind != manifestType {
		t.Errorf("manifest %q (%s), %v, want %q", got, kind, err, raw)
	}
	if content, err := readBlob(t, src, blob); err != nil || !bytes.Equal(content, layer) {
		t.Errorf("blob: %d bytes, %v, want the %d that were sent", len(content), err, len(layer))
	}
	push(t, c, host+"/a/one:v0", raw, func(*registry.Destination) {})
	tags, err := c.Tags(t.Context(), parse(t, host+"/a/one"), image.RegistryAuth{})
	slices.Sort(tags)
	if err != nil || !slices.Equal(tags, []string{"v0", "v1"}) {
		t.Errorf("tags %q, %v, want v0 and v1", tags, err)
	}
	if _, err := c.Source(t.Context(), parse(t, host+"/a/one:none"), image.RegistryAuth{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("unknown tag: %v, want a NotFound", err)
	}
	if _, err := c.Tags(t.Context(), parse(t, host+"/no/such"), image.RegistryAuth{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("tags of an unknown repository: %v, want a NotFound", err)
	}
	found, err := c.Search(t.Context(), image.SearchOptions{Term: host + "/one"})
	if err != nil || len(found) != 1 || found[0].Name != "a/one" {
		t.Errorf("search: %+v, %v, want a/one", found, err)
	}
}

// push opens a destination, has something done with it, and puts the manifest.
func push(t *testing.T, c *registry.Client, name string, raw []byte, what func(*registry.Destination)) {
	t.Helper()
	d, err := c.Destination(t.Context(), parse(t, name), image.RegistryAuth{})
	if err != nil {
		t.Fatal(err)
	}
	what(d)
	sum, err := d.PutManifest(t.Context(), raw)
	if err != nil || sum != digest.FromBytes(raw) {
		t.Errorf("PutManifest: %s, %v, want %s", sum, err, digest.FromBytes(raw))
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
