package copying

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"moss/engine/build/source"
)

// onDisk makes real files and returns them as a source.
func onDisk(t *testing.T, fill func(root *os.Root) error) *source.Root {
	t.Helper()
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() }) //nolint:errcheck // only read by then
	if err := fill(root); err != nil {
		t.Fatal(err)
	}
	dir, err := root.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() }) //nolint:errcheck // likewise
	return source.Rooted(dir)
}

// all does one thing after the other until one fails.
func all(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// TestRealFiles copies between the sources that builds use.
func TestRealFiles(t *testing.T) {
	base := onDisk(t, func(r *os.Root) error {
		return all(
			func() error { return r.MkdirAll("srv/data", 0o755) },
			func() error { return r.Chmod("srv", 0o711) },
			func() error { return r.Symlink("/srv", "link") },
			func() error { return r.Mkdir("etc", 0o755) },
			func() error { return r.WriteFile("etc/passwd", []byte("app:x:1000:1001::/:\n"), 0o644) },
			func() error { return r.Symlink("../../../../../../etc", "srv/out") },
			func() error { return r.Chtimes("srv", then, then) },
		)
	})
	stage := onDisk(t, func(r *os.Root) error {
		return all(
			func() error { return r.MkdirAll("bin/sub", 0o755) },
			func() error { return r.WriteFile("bin/tool", []byte("tool"), 0o755) },
			func() error { return r.Link("bin/tool", "bin/sub/same") },
			func() error { return r.Symlink("/bin", "usr") },
			func() error { return r.Chtimes("bin/tool", then, then) },
			func() error { return r.Chtimes("bin/sub", then, then) },
			func() error { return r.Chtimes("bin", then, then) },
		)
	})
	mine := fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid())
	cases := []struct {
		name string
		req  Request
		want string
	}{
		{"from a stage", Request{Items: []Item{{stage, FromImage, "/usr"}}, Dest: "/link/"}, "srv/ (711 MINE)\nsrv/sub/ (MINE)\nsrv/sub/same=tool (755 MINE)\nsrv/tool == srv/sub/same (755 MINE)"},
		{"from a tree", Request{Items: from(bulk(t, 1, 3), "src"), Dest: "/link/data", Chown: "app"}, "srv/ (711 MINE)\nsrv/data/ (AGO MINE)\nsrv/data/package-00000/ (1000:1001)\nsrv/data/package-00000/module-00000.js=xxx (1000:1001)"},
		{"through a link out of the image", Request{Items: from(source.SingleFile("f", []byte("1"), 0o600, then), "f"), Dest: "/srv/out/f"}, "etc/ (AGO MINE)\netc/f=1 (600)"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got, err := writeLayer(t, tc.req, base)
			want := strings.ReplaceAll(tc.want, "MINE", mine)
			if os.Getuid() == 0 && os.Getgid() == 0 {
				want = strings.ReplaceAll(strings.ReplaceAll(want, " (0:0)", ""), " 0:0)", ")")
			}
			got, want = withoutTimes(got), strings.ReplaceAll(want, "AGO ", "")
			want = strings.ReplaceAll(want, " (AGO)", "")
			if err != nil || got != want {
				t.Errorf("COPY made\n%s\n(%v), want\n%s", got, err, want)
			}
		})
	}
	t.Run("the same again", func(t *testing.T) {
		sums := map[string]bool{}
		for range 2 {
			plan, err := NewPlan(t.Context(), cases[0].req)
			if err != nil {
				t.Fatal(err)
			}
			kind, sum, err := plan.Digest(t.Context())
			if err != nil || kind != "dir" {
				t.Errorf("Digest = %s, %v, want a dir", kind, err)
			}
			sums[sum] = true
		}
		if len(sums) != 1 {
			t.Errorf("the same files have the digests %v", sums)
		}
	})
}

// withoutTimes drops when files were changed that were not changed then.
func withoutTimes(listing string) string {
	lines := strings.Split(listing, "\n")
	for i, line := range lines {
		name, attrs, ok := strings.Cut(line, " (")
		if !ok {
			continue
		}
		attrs, _, _ = strings.Cut(strings.TrimSuffix(attrs, ")"), "at ")
		if attrs = strings.TrimSpace(attrs); attrs != "" {
			attrs = " (" + attrs + ")"
		}
		lines[i] = name + attrs
	}
	return strings.Join(lines, "\n")
}

func TestDigest(t *testing.T) {
	sum := func(t *testing.T, req Request, lines ...string) string {
		t.Helper()
		src := files(t, lines...)
		for i := range req.Items {
			req.Items[i].Source = src
		}
		req.Dest = "/x/"
		plan, err := NewPlan(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		kind, hex, err := plan.Digest(t.Context())
		if err != nil || len(hex) != 64 {
			t.Fatalf("Digest = %s %q, %v", kind, hex, err)
		}
		return kind + ":" + hex
	}
	one, two := Request{Items: from(nil, "d")}, Request{Items: from(nil, "d", "f")}
	image := Request{Items: []Item{{Origin: FromImage, Path: "d"}}}
	same := sum(t, one, "d/a=1", "d/l -> a", "d/e/")
	cases := []struct {
		name  string
		req   Request
		lines []string
		same  bool
		kind  string
	}{
		{"as it is", one, []string{"d/e/", "d/l -> a", "d/a=1"}, true, "dir"},
		{"what is not copied", one, []string{"d/a=1", "d/l -> a", "d/e/", "other"}, true, "dir"},
		{"whose it is does not count", one, []string{"d/a=1 (5:5)", "d/l -> a", "d/e/"}, true, "dir"},
		{"whose it is counts", image, []string{"d/a=1 (5:5)", "d/l -> a", "d/e/"}, false, "dir"},
		{"content", one, []string{"d/a=2", "d/l -> a", "d/e/"}, false, "dir"},
		{"mode", one, []string{"d/a=1 (600)", "d/l -> a", "d/e/"}, false, "dir"},
		{"link", one, []string{"d/a=1", "d/l -> b", "d/e/"}, false, "dir"},
		{"name", one, []string{"d/b=1", "d/l -> a", "d/e/"}, false, "dir"},
		{"depth", one, []string{"d/e/a=1", "d/l -> a"}, false, "dir"},
		{"type", one, []string{"d/a=1", "d/l -> a", "d/e"}, false, "dir"},
		{"attribute", one, []string{"d/a=1 (644 user.x=1)", "d/l -> a", "d/e/"}, false, "dir"},
		{"chown", Request{Items: one.Items, Chown: "5"}, []string{"d/a=1", "d/l -> a", "d/e/"}, false, "dir"},
		{"chmod", Request{Items: one.Items, Chmod: "700"}, []string{"d/a=1", "d/l -> a", "d/e/"}, false, "dir"},
		{"two", two, []string{"d/a=1", "d/l -> a", "d/e/", "f"}, false, "multi"},
		{"a file", Request{Items: from(nil, "f")}, []string{"f"}, false, "file"},
		{"a pattern with one", Request{Items: from(nil, "f*")}, []string{"f"}, false, "file"},
		{"nothing", Request{Items: from(nil, "g*")}, []string{"f"}, false, "multi"},
	}
	for _, tc := range cases {
		got := sum(t, tc.req, tc.lines...)
		if kind, _, _ := strings.Cut(got, ":"); (got == same) != tc.same || kind != tc.kind {
			t.Errorf("%s: the digest is %s, the other one %s, want the same: %t, kind %s", tc.name, got, same, tc.same, tc.kind)
		}
	}
}

// TestCanceled ends a plan and a layer with their context.
func TestCanceled(t *testing.T) {
	src := bulk(t, 100, 10)
	plan, err := NewPlan(t.Context(), Request{Items: from(src, "."), Dest: "/"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := NewPlan(ctx, Request{Items: from(src, "."), Dest: "/"}); err == nil {
		t.Error("NewPlan goes on")
	}
	if _, _, err := plan.Digest(ctx); err == nil {
		t.Error("Digest goes on")
	}
	var out bytes.Buffer
	if err := plan.WriteLayer(ctx, nil, &out); err == nil || out.Len() > 0 {
		t.Errorf("WriteLayer = %v after %d bytes, want an error before the first", err, out.Len())
	}
}
