package copying

import (
	"strings"
	"testing"

	"moss/engine/build/source"
)

// someContext is what most tests copy from.
func someContext(t testing.TB) *memory {
	return files(t, "a.txt", "b.txt", "c.md (600)", "d/x", "d/y (755)", "d/sub/z", "d/sub/l -> ../x", "e/x=other", "empty/", "private/ (700)",
		"private/key (600 7:8)", "to-d -> d", "to-a -> a.txt", "dangling -> nowhere", "up -> ../../etc/passwd", "out/l -> /d", "tool (4755)",
		"cap (755 security.capability=x)", "hard/one=same", "hard/two == hard/one", "bars/l/f", "file-sub/sub")
}

// someBase is the image that they copy into.
func someBase(t testing.TB) *memory {
	return files(t, "etc/passwd=root:x:0:0::/:\napp:x:1000:1001::/app:\n", "etc/group=root:x:0:\nstaff:x:50:\n", "tmp/ (1777)", "app/ (750 5:6)",
		"app/old", "app/sub/ (700)", "link -> app", "far -> /app/sub/deep", "usr/lib/", "lib -> usr/lib", "file", "loop -> loop", "app/l -> sub")
}

func TestCopy(t *testing.T) {
	cases := []struct {
		name string
		req  Request
		src  string // of the context, with spaces between
		dest string
		want string
	}{
		{name: "a file to a name", src: "a.txt", dest: "/x", want: "x=a.txt"},
		{name: "a file into a new folder", src: "a.txt", dest: "/x/", want: "x/\nx/a.txt=a.txt"},
		{name: "a file into new folders", src: "a.txt", dest: "/x/y/z", want: "x/\nx/y/\nx/y/z=a.txt"},
		{name: "a file into a folder that is there", src: "a.txt", dest: "/app", want: "app/ (750 5:6)\napp/a.txt=a.txt"},
		{name: "a sticky folder stays so", src: "a.txt", dest: "/tmp/", want: "tmp/ (1777)\ntmp/a.txt=a.txt"},
		{name: "a file in the place of one", src: "a.txt", dest: "/app/old", want: "app/ (750 5:6)\napp/old=a.txt"},
		{name: "relative to the working folder", req: Request{WorkDir: "/app/sub"}, src: "a.txt", dest: ".", want: "app/ (750 5:6)\napp/sub/ (700)\napp/sub/a.txt=a.txt"},
		{name: "an empty destination", req: Request{WorkDir: "/app"}, src: "a.txt", dest: "", want: "app/ (750 5:6)\napp/a.txt=a.txt"},
		{name: "above the working folder", req: Request{WorkDir: "/app"}, src: "a.txt", dest: "../x/..", want: "a.txt"},
		{name: "above the root", src: "a.txt", dest: "/../../x", want: "x=a.txt"},
		{name: "a new working folder", req: Request{WorkDir: "/w"}, src: "a.txt", dest: "./", want: "w/\nw/a.txt=a.txt"},
		{name: "what a folder holds", src: "d", dest: "/x", want: "x/\nx/sub/\nx/sub/l -> ../x\nx/sub/z=d/sub/z\nx/x=d/x\nx/y=d/y (755)"},
		{name: "a slash behind a folder", src: "d/", dest: "/x/", want: "x/\nx/sub/\nx/sub/l -> ../x\nx/sub/z=d/sub/z\nx/x=d/x\nx/y=d/y (755)"},
		{name: "a folder into one that is there", src: "d", dest: "/app", want: "app/ (750 5:6)\napp/sub/\napp/sub/l -> ../x\napp/sub/z=d/sub/z\napp/x=d/x\napp/y=d/y (755)"},
		{name: "an empty folder", src: "empty", dest: "/x", want: "x/"},
		{name: "an empty folder to one that is there", src: "empty", dest: "/app", want: ""},
		{name: "the new folder is not the source", src: "private", dest: "/x", want: "x/\nx/key=private/key (600)"},
		{name: "two files", src: "a.txt b.txt", dest: "/x/", want: "x/\nx/a.txt=a.txt\nx/b.txt=b.txt"},
		{name: "a file and a folder", src: "a.txt e", dest: "/x/", want: "x/\nx/a.txt=a.txt\nx/x=other"},
		{name: "the later one wins", src: "d e", dest: "/x/", want: "x/\nx/sub/\nx/sub/l -> ../x\nx/sub/z=d/sub/z\nx/x=other\nx/y=d/y (755)"},
		{name: "a pattern", src: "*.txt", dest: "/x/", want: "x/\nx/a.txt=a.txt\nx/b.txt=b.txt"},
		{name: "a pattern into a folder without a slash", src: "?.txt", dest: "/app", want: "app/ (750 5:6)\napp/a.txt=a.txt\napp/b.txt=b.txt"},
		{name: "a pattern of folders", src: "[de]", dest: "/x", want: "x/\nx/sub/\nx/sub/l -> ../x\nx/sub/z=d/sub/z\nx/x=other\nx/y=d/y (755)"},
		{name: "a pattern below a pattern", src: "*/x", dest: "/x/", want: "x/\nx/x=other"},
		{name: "a pattern below a link", src: "to-d/[xy]", dest: "/x/", want: "x/\nx/x=d/x\nx/y=d/y (755)"},
		{name: "a pattern that nothing fits", src: "nope*", dest: "/x/", want: ""},
		{name: "a pattern with one that fits", src: "nope* a.txt", dest: "/x/", want: "x/\nx/a.txt=a.txt"},
		{name: "a link to a file", src: "to-a", dest: "/x/", want: "x/\nx/to-a=a.txt"},
		{name: "a link to a folder", src: "to-d", dest: "/x", want: "x/\nx/sub/\nx/sub/l -> ../x\nx/sub/z=d/sub/z\nx/x=d/x\nx/y=d/y (755)"},
		{name: "a link in a folder stays", src: "out", dest: "/x", want: "x/\nx/l -> /d"},
		{name: "an absolute link in the source's way", src: "out/l/x", dest: "/x", want: "x=d/x"},
		{name: "above the context", src: "../../a.txt", dest: "/x", want: "x=a.txt"},
		{name: "an absolute source", src: "/d/x", dest: "/y", want: "y=d/x"},
		{name: "modes and capabilities", src: "tool cap", dest: "/x/", want: "x/\nx/cap=cap (755 security.capability=x)\nx/tool=tool (4755)"},
		{name: "hard links of one source", src: "hard", dest: "/link/", want: "app/ (750 5:6)\napp/one=same\napp/two == app/one"},
		{name: "a link in the image", src: "a.txt", dest: "/link/", want: "app/ (750 5:6)\napp/a.txt=a.txt"},
		{name: "a link at the destination", src: "a.txt", dest: "/lib", want: "usr/\nusr/lib/\nusr/lib/a.txt=a.txt"},
		{name: "a link that leads nowhere yet", src: "a.txt", dest: "/far/x", want: "app/ (750 5:6)\napp/sub/ (700)\napp/sub/deep/\napp/sub/deep/x=a.txt"},
		{name: "link", req: Request{Link: true}, src: "a.txt", dest: "/link/tmp/", want: "link/\nlink/tmp/\nlink/tmp/a.txt=a.txt"},
		{name: "link of a folder", req: Request{Link: true}, src: "e", dest: "/app", want: "app/\napp/x=other"},
		{name: "chown by name", req: Request{Chown: "app"}, src: "e", dest: "/x", want: "x/ (1000:1001)\nx/x=other (1000:1001)"},
		{name: "chown by names", req: Request{Chown: "app:staff"}, src: "a.txt", dest: "/x", want: "x=a.txt (1000:50)"},
		{name: "chown by number", req: Request{Chown: "7"}, src: "a.txt", dest: "/app/n/x", want: "app/ (750 5:6)\napp/n/ (7:7)\napp/n/x=a.txt (7:7)"},
		{name: "chown by numbers", req: Request{Chown: "7:4294967294"}, src: "a.txt", dest: "/x", want: "x=a.txt (7:4294967294)"},
		{name: "chown of a group", req: Request{Chown: ":staff"}, src: "a.txt", dest: "/x", want: "x=a.txt (0:50)"},
		{name: "chmod", req: Request{Chmod: "0640"}, src: "d/sub", dest: "/x", want: "x/ (640)\nx/l -> ../x\nx/z=d/sub/z (640)"},
		{name: "symbolic chmod", req: Request{Chmod: "u=rwX,go="}, src: "d", dest: "/x", want: "x/\nx/sub/ (700)\nx/sub/l -> ../x\nx/sub/z=d/sub/z (600)\nx/x=d/x (600)\nx/y=d/y (700)"},
		{name: "parents", req: Request{Parents: true}, src: "d/sub/z", dest: "/x/", want: "x/\nx/d/\nx/d/sub/\nx/d/sub/z=d/sub/z"},
		{name: "parents of a folder", req: Request{Parents: true}, src: "private", dest: "/x", want: "x/\nx/private/ (700)\nx/private/key=private/key (600)"},
		{name: "parents with a pivot", req: Request{Parents: true}, src: "d/./sub/z", dest: "/x/", want: "x/\nx/sub/\nx/sub/z=d/sub/z"},
		{name: "parents that are there", req: Request{Parents: true}, src: "d/./sub/z", dest: "/app/", want: "app/ (750 5:6)\napp/sub/\napp/sub/z=d/sub/z"},
		{name: "parents of a pattern", req: Request{Parents: true}, src: "**/x", dest: "/o/", want: "o/\no/d/\no/d/x=d/x\no/e/\no/e/x=other"},
		{name: "parents of a pattern that nothing fits", req: Request{Parents: true}, src: "d/q*", dest: "/x/", want: "x/"},
		{name: "parents of all", req: Request{Parents: true}, src: "e/./.", dest: "/x/", want: "x/\nx/x=other"},
		{name: "exclude", req: Request{Exclude: []string{"sub", "y"}}, src: "d", dest: "/x", want: "x/\nx/x=d/x"},
		{name: "exclude anywhere", req: Request{Exclude: []string{"**/z"}}, src: "d", dest: "/x", want: "x/\nx/sub/\nx/sub/l -> ../x\nx/x=d/x\nx/y=d/y (755)"},
		{name: "exclude but", req: Request{Exclude: []string{"*", "!sub/z"}}, src: "d", dest: "/x", want: "x/\nx/sub/\nx/sub/z=d/sub/z"},
		{name: "exclude all", req: Request{Exclude: []string{"**"}}, src: "d", dest: "/x", want: "x/"},
		{name: "exclude what a pattern fits", req: Request{Exclude: []string{"*.txt"}}, src: "?.*", dest: "/x/", want: "x/\nx/c.md=c.md (600)"},
		{name: "exclude and parents", req: Request{Exclude: []string{"**/sub"}, Parents: true}, src: "d", dest: "/x/", want: "x/\nx/d/\nx/d/x=d/x\nx/d/y=d/y (755)"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			req := tc.req
			req.Items, req.Dest = from(someContext(t), strings.Fields(tc.src)...), tc.dest
			got, err := writeLayer(t, req, someBase(t))
			if err != nil || got != tc.want {
				t.Errorf("COPY %s %s made\n%s\n(%v), want\n%s", tc.src, tc.dest, got, err, tc.want)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	cases := []struct {
		name string
		req  Request
		src  string
		dest string
		want string
	}{
		{"missing", Request{}, "nope", "/x", "COPY failed: file not found in build context or excluded by .dockerignore: stat nope: file does not exist"},
		{"missing for ADD", Request{Add: true}, "d/nope", "/x", "ADD failed: file not found in build context or excluded by .dockerignore: stat d/nope: file does not exist"},
		{"above the context", Request{}, "../nope", "/x", "COPY failed: forbidden path outside the build context: ../nope"},
		{"far above the context", Request{Add: true}, "d/../../../etc/pass*", "/x", "ADD failed: forbidden path outside the build context: d/../../../etc/pass*"},
		{"one of two missing", Request{}, "a.txt nope", "/x/", "stat nope: file does not exist"},
		{"a link to nothing", Request{}, "dangling", "/x", "stat dangling: file does not exist"},
		{"a link out of the context", Request{}, "up", "/x", "stat up: file does not exist"},
		{"parents missing", Request{Parents: true}, "d/nope", "/x", "stat d/nope: file does not exist"},
		{"no folder before a pattern", Request{}, "nope/*", "/x/", "stat nope: file does not exist"},
		{"two to a name", Request{}, "a.txt b.txt", "/x", "When using COPY with more than one source file, the destination must be a directory and end with a /"},
		{"a pattern to a name", Request{Add: true}, "*.txt", "/x", "When using ADD with more than one source file"},
		{"no pattern", Request{}, "a[", "/x", `the source "a[" is not a pattern`},
		{"nothing", Request{}, "", "/x", "no source files were specified"},
		{"a folder onto a file", Request{}, "d", "/file", "cannot copy to non-directory: /file"},
		{"a folder onto a file with a slash", Request{}, "d", "/file/", "mkdir /file: not a directory"},
		{"a file onto a folder below", Request{}, "file-sub", "/app", "cannot replace to directory /app/sub with file"},
		{"a file onto a folder of another source", Request{}, "d file-sub", "/x/", "cannot replace to directory /x/sub with file"},
		{"a file below a file", Request{}, "a.txt", "/file/x/y", "mkdir /file: not a directory"},
		{"a folder onto a link below", Request{}, "bars", "/app", "cannot copy to non-directory: /app/l"},
		{"a loop in the image", Request{}, "a.txt", "/loop/x", "too many levels of symbolic links"},
		{"an unknown user", Request{Chown: "who"}, "a.txt", "/x", "can't find uid for user who: no such user: who"},
		{"an unknown group", Request{Chown: "app:who"}, "a.txt", "/x", "can't find gid for group who: no such group: who"},
		{"no user", Request{Chown: "4294967295"}, "a.txt", "/x", "invalid chown parameter"},
		{"no mode", Request{Chmod: "888"}, "a.txt", "/x", "invalid chmod parameter: '888'. it should be octal string and between 0 and 07777"},
		{"too much of a mode", Request{Chmod: "17777"}, "a.txt", "/x", "it should be octal string and between 0 and 07777"},
		{"no symbolic mode", Request{Chmod: "u+q"}, "a.txt", "/x", "invalid chmod parameter: 'u+q'"},
		{"no --exclude", Request{Exclude: []string{"["}}, "a.txt", "/x", "invalid --exclude"},
		{"a whiteout", Request{}, "a.txt", "/.wh.etc", "names that begin with .wh. mean in layers that a file is removed"},
		{"a whiteout as a folder", Request{}, "a.txt", "/.wh.etc/", "names that begin with .wh."},
		{"a zero byte", Request{}, "a.txt", "/x\x00", "holds a zero byte"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			req := tc.req
			req.Items, req.Dest = from(someContext(t), strings.Fields(tc.src)...), tc.dest
			got, err := writeLayer(t, req, someBase(t))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("COPY %s %s = %v, want %q; it made %s", tc.src, tc.dest, err, tc.want, got)
			}
		})
	}
}

func TestOrigins(t *testing.T) {
	src := files(t, "bin/tool (755 1:2)", "doc=text (600)", "bin/.wh.x")
	cases := []struct {
		name string
		item Item
		dest string
		want string
	}{
		{"an image's owners stay", Item{src, FromImage, "bin/tool"}, "/x", "x=bin/tool (755 1:2)"},
		{"a download", Item{src, FromDownload, "doc"}, "/x/", "x/\nx/doc=text (600)"},
		{"a document", Item{src, FromInline, "doc"}, "/x", "x=text (600)"},
		{"a checkout", Item{files(t, "a", "b/c"), FromGit, "."}, "/x", "x/\nx/a=a\nx/b/\nx/b/c=b/c"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got, err := writeLayer(t, Request{Items: []Item{tc.item}, Dest: tc.dest}, nil)
			if err != nil || got != tc.want {
				t.Errorf("%s made\n%s\n(%v), want\n%s", tc.item.Path, got, err, tc.want)
			}
		})
	}
	t.Run("missing in an image", func(t *testing.T) {
		_, err := writeLayer(t, Request{Items: []Item{{src, FromImage, "nope"}}, Dest: "/"}, nil)
		if want := "COPY failed: stat nope: file does not exist"; err == nil || err.Error() != want {
			t.Errorf("COPY = %v, want %q", err, want)
		}
	})
	t.Run("names of removals", func(t *testing.T) {
		_, err := writeLayer(t, Request{Items: []Item{{src, FromImage, "bin"}}, Dest: "/"}, nil)
		if err == nil || !strings.Contains(err.Error(), "bin/.wh.x: names that begin with .wh.") {
			t.Errorf("COPY = %v, want an error", err)
		}
	})
}

func TestUnmatched(t *testing.T) {
	plan, err := NewPlan(t.Context(), Request{Items: from(someContext(t), "nope*", "*.txt", "x/**"), Dest: "/"})
	if err == nil {
		t.Fatalf("x/** is found: %v", plan.Unmatched())
	}
	plan, err = NewPlan(t.Context(), Request{Items: from(someContext(t), "nope*", "*.txt"), Dest: "/"})
	if err != nil || strings.Join(plan.Unmatched(), " ") != "nope*" {
		t.Errorf("Unmatched = %v, want nope*", err)
	}
	if bytes, count := plan.Size(); bytes != 10 || count != 2 {
		t.Errorf("Size = %d bytes, %d files, want 10, 2", bytes, count)
	}
}

func TestFolder(t *testing.T) {
	cases := []struct {
		path, owner string
		want        string
		there       bool
	}{
		{"/w", "", "w/", false},
		{"/w/x/y", "app", "w/ (1000:1001)\nw/x/ (1000:1001)\nw/x/y/ (1000:1001)", false},
		{"/app/w", "1000", "app/ (750 5:6)\napp/w/ (1000:1000)", false},
		{"/app", "7", "", true},
		{"/link/sub", "", "", true},
		{"/link/new", "nobody", "app/ (750 5:6)\napp/new/", false},
		{"/", "", "", true},
	}
	for _, tc := range cases {
		t.Run(tc.path, func(t *testing.T) {
			f := Folder{Path: tc.path, Owner: tc.owner, Created: then}
			there, err := f.Exists(t.Context(), someBase(t))
			if err != nil || there != tc.there {
				t.Errorf("Exists = %t, %v, want %t", there, err, tc.there)
			}
			var out strings.Builder
			err = f.WriteLayer(t.Context(), someBase(t), &out)
			if got := layerOf(t, []byte(out.String())); err != nil || got != tc.want {
				t.Errorf("WORKDIR %s made\n%s\n(%v), want\n%s", tc.path, got, err, tc.want)
			}
		})
	}
	for _, name := range []string{"/file", "/file/x"} {
		_, err := Folder{Path: name}.Exists(t.Context(), someBase(t))
		if want := "mkdir /file: not a directory"; err == nil || err.Error() != want {
			t.Errorf("Exists(%s) = %v, want %q", name, err, want)
		}
	}
}

func TestAccountsAreRead(t *testing.T) {
	cases := []struct {
		name string
		base source.Source
	}{
		{"a link", files(t, "etc/passwd -> ../p", "p=app:x:1:1::/:")},
		{"a pipe", files(t, "etc/passwd (p)")},
		{"a folder", files(t, "etc/passwd/")},
		{"none", files(t)},
		{"no image", nil},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got, err := writeLayer(t, Request{Items: from(someContext(t), "a.txt"), Dest: "/x", Chown: "app"}, tc.base)
			if err == nil || !strings.Contains(err.Error(), "no such user: app") {
				t.Errorf("COPY --chown=app = %v, want no such user; it made %s", err, got)
			}
		})
	}
}
