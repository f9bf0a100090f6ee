// Package registry runs Debian's docker-registry on loopback for tests and measurements, and puts images into it. It knows
// nothing of engines.
package registry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sys/unix"
)

const (
	startLimit = 20 * time.Second
	stopLimit  = 20 * time.Second
	pollEvery  = 5 * time.Millisecond
)

const (
	manifestKind = "application/vnd.oci.image.manifest.v1+json"
	configKind   = "application/vnd.oci.image.config.v1+json"
	layerKind    = "application/vnd.oci.image.layer.v1.tar+" // and the compression
)

// Registry is one that runs.
type Registry struct {
	addr string
	cmd  *exec.Cmd
	log  *os.File
}

// Blob describes content that the registry has.
type Blob struct {
	MediaType string `json:"mediaType"`
	Size      int    `json:"size"`
	Digest    string `json:"digest"`
}

// Start starts a registry that keeps its blobs below dir, and waits until it listens. The kernel chooses the port.
func Start(ctx context.Context, dir string) (*Registry, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.yml")
	const settings = "version: 0.1\nlog: {accesslog: {disabled: true}}\nhttp: {addr: '127.0.0.1:0'}\n" +
		"storage: {filesystem: {rootdirectory: %q}}\n"
	text := fmt.Sprintf(settings, filepath.Join(dir, "data"))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	r := &Registry{cmd: exec.CommandContext(context.WithoutCancel(ctx), "docker-registry", "serve", config)}
	r.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir} // variables named REGISTRY_ would be settings
	var err error
	if r.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	if err := r.cmd.Start(); err != nil {
		return nil, errors.Join(err, r.log.Close())
	}
	if err := r.awaitAddr(ctx); err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	return r, nil
}

// awaitAddr waits until the registry has logged where it listens.
func (r *Registry) awaitAddr(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	listens := regexp.MustCompile(`listening on (127\.0\.0\.1:\d+)`)
	for {
		said, err := os.ReadFile(r.log.Name())
		if err != nil {
			return err
		}
		if m := listens.FindSubmatch(said); m != nil {
			r.addr = string(m[1])
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("docker-registry does not listen: %w\n%s", ctx.Err(), said)
		case <-tick.C:
		}
	}
}

// Addr is the host and the port that its images' names begin with.
func (r *Registry) Addr() string { return r.addr }

// Pid is that of the registry's process.
func (r *Registry) Pid() int { return r.cmd.Process.Pid }

// Stop ends the registry and waits for it.
func (r *Registry) Stop() error {
	if err := r.cmd.Process.Signal(unix.SIGTERM); err != nil {
		return err
	}
	late := time.AfterFunc(stopLimit, func() { _ = r.cmd.Process.Kill() })
	defer late.Stop()
	r.cmd.Wait() //nolint:errcheck // it ends by the signal
	return r.log.Close()
}

// PutLayer uploads the archive of a layer, compressed by gzip or zstd.
func (r *Registry) PutLayer(ctx context.Context, repo, compression string, content []byte) (Blob, error) {
	return r.putBlob(ctx, repo, layerKind+compression, content)
}

// PutImage uploads a config and a manifest of layers that are there, under some tags, and returns the manifest's digest.
func (r *Registry) PutImage(
	ctx context.Context, repo string, config []byte, layers []Blob, tags ...string,
) (digest string, err error) {
	described, err := r.putBlob(ctx, repo, configKind, config)
	if err != nil {
		return "", err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestKind, "config": described, "layers": layers,
	})
	if err != nil {
		return "", err
	}
	for _, tag := range tags {
		if _, err := r.sendRequest(ctx, http.MethodPut, "http://"+r.addr+"/v2/"+repo+"/manifests/"+tag, manifestKind, manifest); err != nil {
			return "", err
		}
	}
	return digestOf(manifest), nil
}

func (r *Registry) putBlob(ctx context.Context, repo, kind string, content []byte) (Blob, error) {
	blob := Blob{MediaType: kind, Size: len(content), Digest: digestOf(content)}
	where, err := r.sendRequest(ctx, http.MethodPost, "http://"+r.addr+"/v2/"+repo+"/blobs/uploads/", "", nil)
	if err != nil {
		return Blob{}, err
	}
	query := where.Query()
	query.Set("digest", blob.Digest)
	where.RawQuery = query.Encode()
	_, err = r.sendRequest(ctx, http.MethodPut, where.String(), "application/octet-stream", content)
	return blob, err
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (r *Registry) sendRequest(ctx context.Context, method, where, kind string, body []byte) (*url.URL, error) {
	req, err := http.NewRequestWithContext(ctx, method, where, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return nil, fmt.Errorf("%s %s: %s: %s", method, where, resp.Status, raw)
	}
	if at, err := resp.Location(); err == nil {
		return at, nil
	}
	return nil, nil //nolint:nilnil // not every answer has a place
}
