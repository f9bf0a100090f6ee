package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// maxImages is how many images a worker has at most.
const maxImages = 4

func (w *worker) imageActs() []act {
	return []act{
		{"tag", 3, w.tag},
		{"image inspect", 3, w.imageInspect},
		{"image list", 2, w.imageList},
		{"history", 1, w.history},
		{"image remove", 5, w.imageRemove},
		{"commit", 2, w.commit},
		{"import", 2, w.importImage},
		{"save and load", 1, w.saveLoad},
		{"build", 3, w.build},
		{"image prune", 1, w.imagePrune},
	}
}

func (w *worker) imageName() string {
	return w.label() + "/" + w.name("i") + one(w.rng, []string{":latest", ":t.1_x-Y"})
}

// known returns the name of an image that is there.
func (w *worker) known() string {
	if i := one(w.rng, w.world.images); i != nil && len(i.names) > 0 {
		return i.names[0]
	}
	return w.base
}

func (w *worker) tag() {
	if len(w.world.images) > maxImages*2 {
		w.imageRemove()
		return
	}
	from, name := w.known(), w.imageName()
	if n := one(w.rng, w.world.images); n != nil && len(n.names) > 0 && chance(w.rng, 10) {
		name = n.names[0]
	}
	repo, tag, _ := strings.Cut(name, ":")
	c := w.request("POST /images/:name/tag", from).with("repo", repo, "tag", tag, "force", "1")
	if _, tagged := w.want(c, "a name for an image", made); tagged {
		w.world.addName(w.idOf(name), name)
	}
}

// idOf asks for the id of an image.
func (w *worker) idOf(name string) string {
	a, _ := w.want(&call{method: "GET", route: "GET /images/:name/json", version: "1.24", path: fill("/images/:name/json", []string{name})}, "the image is there", ok)
	return a.decoded("Id")
}

func (w *worker) imageInspect() {
	if chance(w.rng, 20) {
		w.want(w.request("GET /images/:name/json", w.imageName()), "no such image", missing)
		return
	}
	w.want(w.request("GET /images/:name/json", w.known()), "the image is there", ok)
}

func (w *worker) imageList() {
	c := w.request("GET /images/json").with("all", one(w.rng, []string{"", "1"}), "digests", one(w.rng, []string{"", "1"}),
		"filters", one(w.rng, []string{"", `{"dangling":["true"]}`, `{"label":{"fuzz":true}}`}))
	w.want(c, "a list", ok)
}

func (w *worker) history() {
	w.want(w.request("GET /images/:name/history", w.known()), "the image is there", ok)
}

func (w *worker) imageRemove() {
	i := one(w.rng, w.world.images)
	if i == nil {
		return
	}
	if len(i.names) == 0 {
		w.removeByID(i)
		return
	}
	name, force := one(w.rng, i.names), one(w.rng, []string{"", "1"})
	used := len(w.world.users(func(b *box) bool { return b.image != w.base })) > 0
	codes := []int{ok}
	if used {
		codes = append(codes, conflict)
	}
	a, right := w.want(w.request("DELETE /images/:name", name).with("force", force), "an own image, used: "+strconv.FormatBool(used), codes...)
	if right && a.status == ok {
		w.world.dropName(name)
		w.removed(a)
	}
	if len(i.names) > 0 {
		return
	}
	if !bytes.Contains(a.body, []byte(`"Deleted"`)) && used && i.id != w.world.baseID {
		return // it lives on without a name until its containers go
	}
	w.world.images = slices.DeleteFunc(w.world.images, func(o *ownImage) bool { return o == i })
}

// removed drops the images that an answer calls deleted.
func (w *worker) removed(a *answer) {
	var list []struct{ Deleted string }
	_ = json.Unmarshal(a.body, &list) // The form has been judged.
	for _, one := range list {
		w.world.images = slices.DeleteFunc(w.world.images, func(o *ownImage) bool { return o.id == one.Deleted })
	}
}

// removeByID removes an image that has no name.
func (w *worker) removeByID(i *ownImage) {
	a, right := w.want(w.request("DELETE /images/:name", i.id).with("force", "1"), "an own image without a name", ok, conflict, missing)
	if right && a.status != conflict {
		w.world.images = slices.DeleteFunc(w.world.images, func(o *ownImage) bool { return o == i })
	}
}

func (w *worker) commit() {
	b := w.box()
	if b == nil || len(w.world.images) > maxImages {
		return
	}
	c := w.request("POST /commit").with("container", w.ref(b), "comment", "a comment", "author", "fuzz", "pause", one(w.rng, []string{"", "0", "1"}),
		"changes", `LABEL fuzz=`+w.label())
	name := ""
	if chance(w.rng, 70) {
		name = w.imageName()
		repo, tag, _ := strings.Cut(name, ":")
		c.with("repo", repo, "tag", tag)
	}
	before := b.states()
	var codes []int
	if before&absent != 0 || b.image != w.base { // its image may have been removed by force
		codes = append(codes, missing)
	}
	if before != absent {
		codes = append(codes, made)
	}
	a, right := w.want(c, "a commit of "+b.String(), codes...)
	if !right || a.status != made {
		return
	}
	if id := a.decoded("Id"); name != "" {
		w.world.addName(id, name)
		w.world.imageNamed(name).bare = b.entry
	} else {
		w.world.images = append(w.world.images, &ownImage{id: id})
	}
}

func (w *worker) importImage() {
	if len(w.world.images) > maxImages {
		return
	}
	name := w.imageName()
	repo, tag, _ := strings.Cut(name, ":")
	c := w.request("POST /images/create").with("fromSrc", "-", "repo", repo, "tag", tag, "message", "by fuzz").tar(archiveOf("f", name))
	c.chunked = chance(w.rng, 30)
	if w.spoil(c) {
		w.world.ghosts["image "+name] = true
		w.try(c)
		return
	}
	if a, right := w.want(c, "an archive", ok); right {
		if bytes.Contains(a.body, []byte(`"error"`)) {
			w.report.found(w.number, "import: %.500q", a.body)
			return
		}
		w.world.addName(w.idOf(name), name)
		w.world.imageNamed(name).bare = true
	}
}

// saveLoad writes an image out and takes it in again.
func (w *worker) saveLoad() {
	i := one(w.rng, w.world.images)
	if i == nil || len(i.names) == 0 {
		return
	}
	c := w.request("GET /images/:name/get", i.names[0])
	if chance(w.rng, 30) {
		c = w.request("GET /images/get").with("names", i.names[0])
	}
	c.keep = true
	a, saved := w.want(c, "an own image", ok)
	if !saved || a.cut {
		return
	}
	load := w.request("POST /images/load").with("quiet", one(w.rng, []string{"", "0", "1"})).tar(a.body)
	if chance(w.rng, 40) {
		load.manner, load.cut = torn, w.rng.IntN(len(a.body))
		w.try(load)
		return
	}
	if chance(w.rng, 30) {
		load.body = a.body[:w.rng.IntN(len(a.body))]
		w.want(load, "half an archive", ok, bad)
		return
	}
	if a, loaded := w.want(load, "what was saved", ok); loaded && bytes.Contains(a.body, []byte(`"error"`)) {
		w.report.found(w.number, "load: %.500q", a.body)
	}
}

func (w *worker) build() {
	if len(w.world.images) > maxImages {
		return
	}
	lines := []string{"FROM " + w.base, "LABEL fuzz=" + w.label()}
	wrong := chance(w.rng, 15)
	for range 1 + w.rng.IntN(3) {
		lines = append(lines, one(w.rng, []string{"COPY f /f", "RUN true", "RUN echo x > /x && ls /", "ENV A=$A B=b", "ADD f /g/", "USER 0", "WORKDIR /w", "CMD [\"true\"]", "ARG A=1"}))
	}
	if wrong {
		lines = append(lines, one(w.rng, []string{"NOPE", "RUN exit 3", "COPY nowhere /", "FROM", "RUN --mount=type=nope true", "ENV", "ADD", "CMD [", "LABEL \x00"}))
	}
	name := w.imageName()
	c := w.request("POST /build").with("t", name, "q", one(w.rng, []string{"", "1"}), "nocache", one(w.rng, []string{"", "1"}), "rm", one(w.rng, []string{"", "0", "1"}), "forcerm", "1")
	c.tar(archiveOf("Dockerfile", strings.Join(lines, "\n")+"\n", "f", strconv.Itoa(w.rng.IntN(3))))
	c.chunked = chance(w.rng, 50)
	if w.spoil(c) {
		w.world.ghosts["image "+name] = true
		w.try(c)
		return
	}
	a, right := w.want(c, "a build", pick(wrong, []int{ok, bad, 501}, []int{ok})...)
	switch failed := bytes.Contains(a.body, []byte(`"error"`)); {
	case !right || wrong && (failed || a.status != ok):
	case failed:
		w.report.found(w.number, "build of %q: %.2000q", lines, a.body)
	default:
		w.world.addName(w.idOf(name), name)
	}
}

func (w *worker) imagePrune() {
	c := w.request("POST /images/prune").with("filters", `{"label":["fuzz=`+w.label()+`"]}`)
	a, pruned := w.want(c, "a prune", ok)
	if !pruned {
		return
	}
	var body struct{ ImagesDeleted []struct{ Deleted string } }
	_ = json.Unmarshal(a.body, &body) // The form has been judged.
	for _, gone := range body.ImagesDeleted {
		for _, i := range w.world.images {
			if i.id == gone.Deleted && len(i.names) > 0 {
				w.report.found(w.number, "prune removed %s, which has the names %v", i.id, i.names)
			}
		}
		w.world.images = slices.DeleteFunc(w.world.images, func(i *ownImage) bool { return i.id == gone.Deleted })
	}
}
