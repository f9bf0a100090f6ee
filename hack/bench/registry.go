package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// How layers are compressed.
const (
	kindGzip = "gzip"
	kindZstd = "zstd"
)

// registry is Debian's docker-registry on loopback.
type registry struct {
	addr string
	cmd  *exec.Cmd
	log  *os.File
}

// startRegistry starts a registry that keeps its blobs below dir, and waits until it answers.
func startRegistry(ctx context.Context, dir string) (*registry, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil { // the registry takes no open socket; the port stays free for a while
		return nil, err
	}
	config := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %q}}\nhttp: {addr: %q}\n", filepath.Join(dir, "data"), addr)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	r := &registry{addr: addr, cmd: exec.CommandContext(context.WithoutCancel(ctx), "docker-registry", "serve", config)}
	if r.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	if err := r.cmd.Start(); err != nil {
		return nil, errors.Join(err, r.log.Close())
	}
	for began := time.Now(); ; {
		if answers, err := r.answers(ctx); answers || err != nil {
			return r, err
		}
		if time.Since(began) > startLimit {
			return nil, errors.Join(errors.New("docker-registry does not answer"), r.stop())
		}
		if err := pause(ctx, pollEvery); err != nil {
			return nil, errors.Join(err, r.stop())
		}
	}
}

func (r *registry) answers(ctx context.Context) (bool, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.addr+"/v2/", nil)
	if err != nil {
		return false, err
	}
	if resp, err := http.DefaultClient.Do(req); err == nil {
		return true, resp.Body.Close()
	}
	return false, nil
}

func (r *registry) stop() error {
	if err := r.cmd.Process.Signal(unix.SIGTERM); err != nil {
		return err
	}
	late := time.AfterFunc(stopLimit, func() { _ = r.cmd.Process.Kill() })
	defer late.Stop()
	r.cmd.Wait() //nolint:errcheck // it ends by the signal
	return r.log.Close()
}

// push puts an image into the registry as repo:tag, with layers compressed in one way.
func (r *registry) push(ctx context.Context, repo, tag, kind string, layers []layerFile) error {
	type descriptor struct {
		MediaType string `json:"mediaType"`
		Size      int    `json:"size"`
		Digest    string `json:"digest"`
	}
	mediaType := "application/vnd.oci.image.layer.v1.tar+" + kind
	described := make([]descriptor, 0, len(layers))
	for _, layer := range layers {
		content, err := squeeze(layer, kind)
		if err != nil {
			return err
		}
		digest, err := r.blob(ctx, repo, content)
		if err != nil {
			return err
		}
		described = append(described, descriptor{mediaType, len(content), digest})
	}
	config, err := imageConfig(layers)
	if err != nil {
		return err
	}
	digest, err := r.blob(ctx, repo, config)
	if err != nil {
		return err
	}
	const manifestType = "application/vnd.oci.image.manifest.v1+json"
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType, "layers": described,
		"config": descriptor{"application/vnd.oci.image.config.v1+json", len(config), digest},
	})
	if err != nil {
		return err
	}
	_, err = r.send(ctx, http.MethodPut, "http://"+r.addr+"/v2/"+repo+"/manifests/"+tag, manifestType, manifest)
	return err
}

// blob uploads content and returns its digest.
func (r *registry) blob(ctx context.Context, repo string, content []byte) (string, error) {
	sum := sha256.Sum256(content)
	digest := digestOf(sum[:])
	where, err := r.send(ctx, http.MethodPost, "http://"+r.addr+"/v2/"+repo+"/blobs/uploads/", "", nil)
	if err != nil {
		return "", err
	}
	query := where.Query()
	query.Set("digest", digest)
	where.RawQuery = query.Encode()
	_, err = r.send(ctx, http.MethodPut, where.String(), "application/octet-stream", content)
	return digest, err
}

func (r *registry) send(ctx context.Context, method, where, kind string, body []byte) (*url.URL, error) {
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
