package copying

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"moss/engine/build/source"
	"moss/engine/fault"
	trees "moss/engine/tree"
)

// then is when all files of the tests were changed.
var then = time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)

// memory is a source that holds everything itself.
type memory struct {
	entries map[string]*source.Entry
	content map[string]string
	lists   int // calls of List
}

var _ source.Source = (*memory)(nil)

// files returns a source of lines like those of a listing:
//
//	dir/            mode 755, 0:0
//	a/file          mode 644, content "a/file"
//	a/file=hello    content "hello"
//	a/link -> to    a symbolic link
//	a/other == a/f  another name of a file, which stands before
//	name (700 5:6)  at the end: mode and owner; 4755 for setuid, p for a fifo
//
// Folders that are missing are made.
func files(t testing.TB, lines ...string) *memory {
	t.Helper()
	m := &memory{entries: map[string]*source.Entry{".": {Path: ".", Mode: fs.ModeDir | 0o755, ModTime: then}}, content: map[string]string{}}
	for i, line := range lines {
		line, attrs, _ := strings.Cut(line, " (")
		e := &source.Entry{Mode: 0o644, ModTime: then}
		name, link, isLink := strings.Cut(line, " -> ")
		name, same, isSame := strings.Cut(name, " == ")
		name, text, hasText := strings.Cut(name, "=")
		switch {
		case isLink:
			e.Mode, e.Link = fs.ModeSymlink|0o777, link
		case isSame:
			first := m.entries[same]
			first.Inode = cmp.Or(first.Inode, uint64(i+1000))
			again := *first
			e, text, hasText = &again, m.content[same], true
		case strings.HasSuffix(name, "/"):
			e.Mode = fs.ModeDir | 0o755
		}
		name = path.Clean(name)
		for dir := path.Dir(name); m.entries[dir] == nil; dir = path.Dir(dir) {
			m.entries[dir] = &source.Entry{Path: dir, Mode: fs.ModeDir | 0o755, ModTime: then}
		}
		if attrs != "" {
			attributes(t, e, strings.TrimSuffix(attrs, ")"))
		}
		e.Path = name
		if e.Mode.IsRegular() {
			if !hasText {
				text = name
			}
			m.content[name], e.Size = text, int64(len(text))
		}
		m.entries[name] = e
	}
	return m
}

func attributes(t testing.TB, e *source.Entry, attrs string) {
	t.Helper()
	for attr := range strings.FieldsSeq(attrs) {
		var mode int64
		if attr == "p" {
			e.Mode = fs.ModeNamedPipe | e.Mode.Perm()
		} else if uid, gid, ok := strings.Cut(attr, ":"); ok {
			_, err1 := fmt.Sscan(uid, &e.UID)
			_, err2 := fmt.Sscan(gid, &e.GID)
			if err := errors.Join(err1, err2); err != nil {
				t.Fatalf("whose is %q? %v", attr, err)
			}
		} else if _, err := fmt.Sscanf(attr, "%o", &mode); err == nil {
			e.Mode = e.Mode.Type() | goMode(mode)
		} else if key, value, ok := strings.Cut(attr, "="); ok {
			e.Xattrs = map[string]string{key: value}
		} else {
			t.Fatalf("what is %q?", attr)
		}
	}
}

func (m *memory) Stat(_ context.Context, name string, follow bool) (*source.Entry, error) {
	at, queue, links := ".", strings.Split(name, "/"), 0
	for len(queue) > 0 {
		part := queue[0]
		queue = queue[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		e := m.entries[path.Join(at, part)]
		switch {
		case e == nil:
			return nil, fault.NotFound("stat %s: no such file or directory", name)
		case e.Mode&fs.ModeSymlink != 0 && (follow || len(queue) > 0):
			if links++; links > 40 {
				return nil, fault.Invalid("stat %s: too many levels of symbolic links", name)
			}
			if path.IsAbs(e.Link) {
				at = "."
			}
			queue = append(strings.Split(e.Link, "/"), queue...)
		case len(queue) > 0 && !e.Mode.IsDir():
			return nil, fault.Invalid("stat %s: not a directory", name)
		default:
			at = e.Path
		}
	}
	return m.entries[at], nil
}

func (m *memory) List(_ context.Context, dir *source.Entry) ([]*source.Entry, error) {
	m.lists++
	var list []*source.Entry
	for name, e := range m.entries {
		if name != "." && path.Dir(name) == dir.Path {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b *source.Entry) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

func (m *memory) Open(_ context.Context, file *source.Entry) (io.ReadCloser, error) {
	text, ok := m.content[file.Path]
	if !ok {
		return nil, fmt.Errorf("%s has no content", file.Path)
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

func (m *memory) Digest(_ context.Context, file *source.Entry) (digest.Digest, error) {
	return digest.FromString(m.content[file.Path]), nil
}

// layerOf returns what a layer's archive holds, one line each as files takes them, and checks that it is one.
func layerOf(t testing.TB, archive []byte) string {
	t.Helper()
	var lines []string
	seen, said := map[string]bool{".": true}, map[string]bool{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("read the layer: %v", err)
		}
		name := strings.TrimSuffix(h.Name, "/")
		if name != path.Clean(name) || path.IsAbs(name) || strings.HasPrefix(name, "..") {
			t.Errorf("the layer has the name %q, which is not clean", h.Name)
		}
		if said[name] {
			t.Errorf("the layer has %q twice", name)
		}
		said[name] = true
		if dir := path.Dir(name); !seen[dir] && dir != "." {
			t.Errorf("the layer has %q before the folder that it is in", h.Name)
		}
		line := strings.ReplaceAll(h.Name, "\n", "\\n")
		switch h.Typeflag {
		case tar.TypeDir:
			seen[name] = true
		case tar.TypeReg:
			content, err := io.ReadAll(r)
			if err != nil {
				t.Fatalf("read %s of the layer: %v", h.Name, err)
			}
			if string(content) != h.Name {
				line += "=" + string(content)
			}
		case tar.TypeSymlink:
			line += " -> " + strings.ReplaceAll(h.Linkname, "\n", "\\n")
		case tar.TypeLink:
			line += " == " + strings.ReplaceAll(h.Linkname, "\n", "\\n")
		}
		lines = append(lines, line+attributesOf(h))
	}
	return strings.Join(lines, "\n")
}

// attributesOf returns what is unusual about an entry.
func attributesOf(h *tar.Header) string {
	var attrs []string
	usual := map[byte]int64{tar.TypeDir: 0o755, tar.TypeReg: 0o644, tar.TypeLink: 0o644, tar.TypeSymlink: 0o777, tar.TypeFifo: 0o644}
	if h.Mode != usual[h.Typeflag] {
		attrs = append(attrs, fmt.Sprintf("%o", h.Mode))
	}
	if h.Uid != 0 || h.Gid != 0 {
		attrs = append(attrs, fmt.Sprintf("%d:%d", h.Uid, h.Gid))
	}
	if h.Typeflag == tar.TypeFifo {
		attrs = append(attrs, "p")
	}
	if !h.ModTime.Equal(then) {
		attrs = append(attrs, "at "+h.ModTime.UTC().Format("2006-01-02"))
	}
	for key, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(key, trees.XattrRecord); ok {
			attrs = append(attrs, name+"="+value)
		}
	}
	if len(attrs) == 0 {
		return ""
	}
	return " (" + strings.Join(attrs, " ") + ")"
}

// writeLayer runs a whole instruction and returns its layer.
func writeLayer(t testing.TB, req Request, base source.Source) (string, error) {
	t.Helper()
	plan, err := NewPlan(t.Context(), req)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	if err := plan.WriteLayer(t.Context(), base, &out); err != nil {
		return "", err
	}
	var again bytes.Buffer
	if err := plan.WriteLayer(t.Context(), base, &again); err != nil || !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Errorf("the same plan wrote %d bytes and then %d others, %v", out.Len(), again.Len(), err)
	}
	return layerOf(t, out.Bytes()), nil
}

// from makes items of a context's paths.
func from(src source.Source, paths ...string) []Item {
	items := make([]Item, len(paths))
	for i, p := range paths {
		items[i] = Item{Source: src, Path: p}
	}
	return items
}
