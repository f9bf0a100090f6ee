package client_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"moss/api/client"
	"moss/api/client/clienttest"
)

// check is the error of a call that failed or returned something else than expected.
func check(err error, good bool, got any) error {
	if err == nil && !good {
		return fmt.Errorf("got %+v", got)
	}
	return err
}

const statJSON = `{"name":"etc","size":4096,"mode":2147484141,"mtime":"2026-01-02T03:04:05Z","linkTarget":"/private/etc"}`

func TestPathStat(t *testing.T) {
	for _, tc := range []struct{ name, header, value, fails string }{
		{"the documents' name", "X-Engine-Container-Path-Stat", base64.StdEncoding.EncodeToString([]byte(statJSON)), ""},
		{"another engine's name", "X-Docker-Container-Path-Stat", base64.StdEncoding.EncodeToString([]byte(statJSON)), ""},
		{"no header", "X-Other", "", "decode the path's stat"},
		{"no base64", "X-Engine-Container-Path-Stat", "%", "decode the path's stat"},
		{"no JSON", "X-Engine-Container-Path-Stat", "bm8=", "decode the path's stat"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			engine := clienttest.New(t)
			engine.Override["HEAD /containers/web/archive"] = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(tc.header, tc.value)
			}
			stat, err := newClient(t, engine).ContainerStatPath(t.Context(), "web", "/a b")
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("got %v, want an error with %q", err, tc.fails)
				}
				return
			}
			if err != nil || stat.Name != "etc" || stat.Size != 4096 || stat.Mode != fs.ModeDir|0o755 || stat.LinkTarget != "/private/etc" || stat.ModTime.Second() != 5 {
				t.Errorf("stat = %+v, %v", stat, err)
			}
			if got := engine.Requests()[0]; got != "HEAD /containers/web/archive?path=%2Fa+b" {
				t.Errorf("request %s", got)
			}
		})
	}
}

func TestCopyFrom(t *testing.T) {
	engine := clienttest.New(t)
	content := bytes.Repeat([]byte("moss"), 1<<20)
	cut := false
	engine.Override["GET /containers/web/archive"] = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Engine-Container-Path-Stat", base64.StdEncoding.EncodeToString([]byte(statJSON)))
		_, _ = w.Write(content)
		if cut {
			panic(http.ErrAbortHandler)
		}
	}
	c := newClient(t, engine)
	stream, stat, err := c.ContainerCopyFrom(t.Context(), "web", "etc")
	if err != nil || !stat.Mode.IsDir() {
		t.Fatalf("copy: %v, %+v", err, stat)
	}
	var got bytes.Buffer
	n, err := client.CopyBulk(&got, stream)
	_ = stream.Close()
	if err != nil || n != int64(len(content)) || !bytes.Equal(got.Bytes(), content) {
		t.Errorf("%d bytes, %v, want %d", n, err, len(content))
	}
	cut = true
	stream, _, err = c.ContainerCopyFrom(t.Context(), "web", "etc")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	var lost *client.LostError
	if _, err := io.Copy(io.Discard, stream); !errors.As(err, &lost) {
		t.Errorf("a stream that is cut gives %v, want a LostError", err)
	}
}

func TestCopyTo(t *testing.T) {
	engine := clienttest.New(t)
	var got []byte
	engine.Override["PUT /containers/web/archive"] = func(_ http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
		if kind := r.Header.Get("Content-Type"); kind != "application/x-tar" {
			t.Errorf("Content-Type %s", kind)
		}
	}
	content := bytes.Repeat([]byte("moss"), 1<<20)
	c := newClient(t, engine)
	err := c.ContainerCopyTo(t.Context(), "web", "/dst", bytes.NewReader(content), client.PutOptions{NoOverwriteDirNonDir: true})
	if err != nil || !bytes.Equal(got, content) {
		t.Errorf("copy = %v, %d bytes arrived of %d", err, len(got), len(content))
	}
	if want := "PUT /containers/web/archive?noOverwriteDirNonDir=true&path=%2Fdst"; engine.Requests()[0] != want {
		t.Errorf("request %s, want %s", engine.Requests()[0], want)
	}
	broken := errors.New("the file shrank")
	err = c.ContainerCopyTo(t.Context(), "web", "/dst", io.MultiReader(bytes.NewReader(content), brokenReader{broken}), client.PutOptions{})
	if !errors.Is(err, broken) {
		t.Errorf("a stream that breaks gives %v, want its own error", err)
	}
}

type brokenReader struct{ err error }

func (b brokenReader) Read([]byte) (int, error) { return 0, b.err }

// TestCopyToRefused has the engine answer before it has read the body, which goes on for ever.
func TestCopyToRefused(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["PUT /containers/web/archive"] = func(w http.ResponseWriter, _ *http.Request) {
		clienttest.Fail(w, http.StatusForbidden, "the root filesystem is read-only")
	}
	err := newClient(t, engine).ContainerCopyTo(t.Context(), "web", "/", endless{}, client.PutOptions{})
	if client.StatusOf(err) != http.StatusForbidden || err.Error() != "the root filesystem is read-only" {
		t.Errorf("got %v, want the engine's 403", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestExport(t *testing.T) {
	engine := clienttest.New(t)
	engine.Override["GET /containers/web/export"] = func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "tar") }
	stream, err := newClient(t, engine).ContainerExport(t.Context(), "web")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	if got, err := io.ReadAll(stream); err != nil || string(got) != "tar" {
		t.Errorf("read %q, %v", got, err)
	}
	engine.Override["GET /containers/web/export"] = func(w http.ResponseWriter, _ *http.Request) {
		clienttest.Fail(w, http.StatusNotFound, "No such container: web")
	}
	if _, err := newClient(t, engine).ContainerExport(t.Context(), "web"); client.StatusOf(err) != http.StatusNotFound {
		t.Errorf("got %v, want 404", err)
	}
}
