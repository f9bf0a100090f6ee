package build

import (
	"strings"
	"testing"

	"moss/engine/image"
)

const pastDockerfile = "FROM base\nENV A=1\nRUN one\nCOPY f /f\nRUN two\nCMD [\"x\"]\n"

// alien makes an image look as if it had been pulled: what it was made of is not here.
func (r *rig) alien(img *image.Image, name string) {
	past := r.images.past[img.ID]
	fresh := newFakeImages(r.t)
	copied := *img
	copied.Parent = ""
	fresh.byID[img.ID], fresh.past[img.ID], fresh.names[name] = &copied, past, img.ID
	r.images, r.service.opt.Images, r.service.opt.Steps = fresh, fresh, fresh
	r.open()
	r.runner.ran, r.runner.count = nil, 0
}

func TestStepsOfAnImageFromElsewhereCount(t *testing.T) {
	for _, tc := range []struct {
		name, dockerfile, file string
		from                   []string
		cached, ran            int
	}{
		{"the same", pastDockerfile, "1", []string{"app"}, 5, 0},
		{"another source too", pastDockerfile, "1", []string{"nowhere", "base", "app"}, 5, 0},
		{"another last step", strings.Replace(pastDockerfile, `["x"]`, `["y"]`, 1), "1", []string{"app"}, 4, 0},
		{"another file", pastDockerfile, "2", []string{"app"}, 2, 1},
		{"another beginning", strings.Replace(pastDockerfile, "A=1", "A=2", 1), "1", []string{"app"}, 0, 2},
		{"more", pastDockerfile + "RUN three\n", "1", []string{"app"}, 5, 1},
		{"nothing", pastDockerfile, "1", nil, 0, 2},
		{"none that is here", pastDockerfile, "1", []string{"nowhere"}, 0, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			first := r.must(request(pastDockerfile, map[string]string{"f": "1"}))
			r.alien(r.images.byID[first.id], "app:latest")
			req := request(tc.dockerfile, map[string]string{"f": tc.file})
			req.CacheFrom = tc.from
			got := r.must(req)
			if n := strings.Count(got.text, "Using cache"); n != tc.cached || r.runner.count != tc.ran {
				t.Errorf("%d steps of the cache and %d commands, want %d and %d:\n%s", n, r.runner.count, tc.cached, tc.ran, got.text)
			}
			if tc.name == "the same" && got.id != first.id {
				t.Errorf("the same build made %s, want the image %s itself", got.id, first.id)
			}
			r.idle()
		})
	}
}

func TestWithSourcesOtherStepsDoNotCount(t *testing.T) {
	r := newRig(t)
	files := map[string]string{"f": "1"}
	first := r.must(request(pastDockerfile, files))
	r.images.names["app:latest"] = first.id
	req := request(pastDockerfile, files)
	req.CacheFrom = []string{"app"}
	if got := r.must(req); got.id != first.id || r.runner.count != 2 {
		t.Errorf("with the image itself: %s by %d commands, want %s by 2", got.id, r.runner.count, first.id)
	}
	req = request(pastDockerfile, files)
	req.CacheFrom = []string{"base"}
	if got := r.must(req); got.id == first.id || r.runner.count != 4 {
		t.Errorf("with another image: %s by %d commands, want another by 4", got.id, r.runner.count)
	}
	r.idle()
}

func TestContinues(t *testing.T) {
	r := newRig(t)
	a, b := r.images.put("a:latest", image.Config{}), r.images.put("b:latest", image.Config{})
	from := pastSource{image: a, past: append(r.images.past[a.ID], image.Past{CreatedBy: "more"})}
	if next, ok := from.isBasedOn(a, r.images.past[a.ID]); !ok || next != 1 {
		t.Errorf("on itself: %d, %t", next, ok)
	}
	if _, ok := from.isBasedOn(b, r.images.past[a.ID]); ok {
		t.Error("on an image with other layers")
	}
	if _, ok := from.isBasedOn(a, r.images.past[b.ID]); ok {
		t.Error("on an image with another history")
	}
	if _, ok := from.isBasedOn(a, from.past); ok {
		t.Error("on an image that is as long")
	}
	if next, ok := from.isBasedOn(nil, nil); !ok || next != 0 {
		t.Errorf("on nothing: %d, %t", next, ok)
	}
}
