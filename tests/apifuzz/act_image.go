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
		{"tag", 3, w.tagImage},
		{"image inspect", 3, w.inspectImage},
		{"image list", 2, w.listImages},
		{"history", 1, w.showHistory},
		{"image remove", 5, w.removeImage},
		{"commit", 2, w.commitContainer},
		{"import", 2, w.importImage},
		{"save and load", 1, w.saveLoad},
		{"build", 3, w.buildImage},
		{"image prune", 1, w.pruneImages},
	}
}

func (w *worker) imageName() string {
	return w.ownLabel() + "/" + w.newName("i") + oneOf(w.rng, []string{":latest", ":t.1_x-Y"})
}

// knownImage returns the name of an image that is there.
func (w *worker) knownImage() string {
	if i := oneOf(w.rng, w.world.images); i != nil && len(i.names) > 0 {
		return i.names[0]
	}
	return w.base
}

func (w *worker) tagImage() {
	if len(w.world.images) > maxImages*2 {
		w.removeImage()
		return
	}
	from, name := w.knownImage(), w.imageName()
	if n := oneOf(w.rng, w.world.images); n != nil && len(n.names) > 0 && chance(w.rng, 10) {
		name = n.names[0]
	}
	repo, tag, _ := strings.Cut(name, ":")
	c := w.newCall("POST /images/:name/tag", from).withQuery("repo", repo, "tag", tag, "force", "1")
	if _, tagged := w.wantStatus(c, "a name for an image", made); tagged {
		w.world.addName(w.idOf(name), name)
	}
}

// idOf asks for the id of an image.
func (w *worker) idOf(name string) string {
	a, _ := w.wantStatus(&call{method: "GET", route: "GET /images/:name/json", version: "1.24", path: fillPath("/images/:name/json", []string{name})}, "the image is there", ok)
	return a.fieldText("Id")
}

func (w *worker) inspectImage() {
	if chance(w.rng, 20) {
		w.wantStatus(w.newCall("GET /images/:name/json", w.imageName()), "no such image", missing)
		return
	}
	w.wantStatus(w.newCall("GET /images/:name/json", w.knownImage()), "the image is there", ok)
}

func (w *worker) listImages() {
	c := w.newCall("GET /images/json").withQuery("all", oneOf(w.rng, []string{"", "1"}), "digests", oneOf(w.rng, []string{"", "1"}),
		"filters", oneOf(w.rng, []string{"", `{"dangling":["true"]}`, `{"label":{"fuzz":true}}`}))
	w.wantStatus(c, "a list", ok)
}

func (w *worker) showHistory() {
	w.wantStatus(w.newCall("GET /images/:name/history", w.knownImage()), "the image is there", ok)
}

func (w *worker) removeImage() {
	i := oneOf(w.rng, w.world.images)
	if i == nil {
		return
	}
	if len(i.names) == 0 {
		w.removeByID(i)
		return
	}
	name, force := oneOf(w.rng, i.names), oneOf(w.rng, []string{"", "1"})
	used := len(w.world.boxesWhere(func(b *box) bool { return b.image != w.base })) > 0
	codes := []int{ok}
	if used {
		codes = append(codes, conflict)
	}
	a, right := w.wantStatus(w.newCall("DELETE /images/:name", name).withQuery("force", force), "an own image, used: "+strconv.FormatBool(used), codes...)
	if right && a.status == ok {
		w.world.dropName(name)
		w.dropDeleted(a)
	}
	if len(i.names) > 0 {
		return
	}
	if !bytes.Contains(a.body, []byte(`"Deleted"`)) && used && i.id != w.world.baseID {
		return // it lives on without a name until its containers go
	}
	w.world.images = slices.DeleteFunc(w.world.images, func(o *ownImage) bool { return o == i })
}

// dropDeleted drops the images that an answer calls deleted.
func (w *worker) dropDeleted(a *answer) {
	var list []struct{ Deleted string }
	_ = json.Unmarshal(a.body, &list) // The form has been judged.
	for _, one := range list {
		w.world.images = slices.DeleteFunc(w.world.images, func(o *ownImage) bool { return o.id == one.Deleted })
	}
}

// removeByID removes an image that has no name.
func (w *worker) removeByID(i *ownImage) {
	a, right := w.wantStatus(w.newCall("DELETE /images/:name", i.id).withQuery("force", "1"), "an own image without a name", ok, conflict, missing)
	if right && a.status != conflict {
		w.world.images = slices.DeleteFunc(w.world.images, func(o *ownImage) bool { return o == i })
	}
}

func (w *worker) commitContainer() {
	b := w.pickBox()
	if b == nil || len(w.world.images) > maxImages {
		return
	}
	c := w.newCall("POST /commit").withQuery("container", w.refOf(b), "comment", "a comment", "author", "fuzz", "pause", oneOf(w.rng, []string{"", "0", "1"}),
		"changes", `LABEL fuzz=`+w.ownLabel())
	name := ""
	if chance(w.rng, 70) {
		name = w.imageName()
		repo, tag, _ := strings.Cut(name, ":")
		c.withQuery("repo", repo, "tag", tag)
	}
	before := b.possibleStates()
	var codes []int
	if before&absent != 0 || b.image != w.base { // its image may have been removed by force
		codes = append(codes, missing)
	}
	if before != absent {
		codes = append(codes, made)
	}
	a, right := w.wantStatus(c, "a commit of "+b.String(), codes...)
	if !right || a.status != made {
		return
	}
	if id := a.fieldText("Id"); name != "" {
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
	c := w.newCall("POST /images/create").withQuery("fromSrc", "-", "repo", repo, "tag", tag, "message", "by fuzz").withTar(archiveOf("f", name))
	c.chunked = chance(w.rng, 30)
	if w.spoilCall(c) {
		w.world.ghosts["image "+name] = true
		w.tryCall(c)
		return
	}
	if a, right := w.wantStatus(c, "an archive", ok); right {
		if bytes.Contains(a.body, []byte(`"error"`)) {
			w.report.addFinding(w.number, "import: %.500q", a.body)
			return
		}
		w.world.addName(w.idOf(name), name)
		w.world.imageNamed(name).bare = true
	}
}

// saveLoad writes an image out and takes it in again.
func (w *worker) saveLoad() {
	i := oneOf(w.rng, w.world.images)
	if i == nil || len(i.names) == 0 {
		return
	}
	c := w.newCall("GET /images/:name/get", i.names[0])
	if chance(w.rng, 30) {
		c = w.newCall("GET /images/get").withQuery("names", i.names[0])
	}
	c.keep = true
	a, saved := w.wantStatus(c, "an own image", ok)
	if !saved || a.cut {
		return
	}
	load := w.newCall("POST /images/load").withQuery("quiet", oneOf(w.rng, []string{"", "0", "1"})).withTar(a.body)
	if chance(w.rng, 40) {
		load.manner, load.cut = torn, w.rng.IntN(len(a.body))
		w.tryCall(load)
		return
	}
	if chance(w.rng, 30) {
		load.body = a.body[:w.rng.IntN(len(a.body))]
		w.wantStatus(load, "half an archive", ok, bad)
		return
	}
	if a, loaded := w.wantStatus(load, "what was saved", ok); loaded && bytes.Contains(a.body, []byte(`"error"`)) {
		w.report.addFinding(w.number, "load: %.500q", a.body)
	}
}

func (w *worker) buildImage() {
	if len(w.world.images) > maxImages {
		return
	}
	lines := []string{"FROM " + w.base, "LABEL fuzz=" + w.ownLabel()}
	wrong := chance(w.rng, 15)
	for range 1 + w.rng.IntN(3) {
		lines = append(lines, oneOf(w.rng, []string{"COPY f /f", "RUN true", "RUN echo x > /x && ls /", "ENV A=$A B=b", "ADD f /g/", "USER 0", "WORKDIR /w", "CMD [\"true\"]", "ARG A=1"}))
	}
	if wrong {
		lines = append(lines, oneOf(w.rng, []string{"NOPE", "RUN exit 3", "COPY nowhere /", "FROM", "RUN --mount=type=nope true", "ENV", "ADD", "CMD [", "LABEL \x00"}))
	}
	name := w.imageName()
	c := w.newCall("POST /build").withQuery("t", name, "q", oneOf(w.rng, []string{"", "1"}), "nocache", oneOf(w.rng, []string{"", "1"}), "rm", oneOf(w.rng, []string{"", "0", "1"}), "forcerm", "1")
	c.withTar(archiveOf("Dockerfile", strings.Join(lines, "\n")+"\n", "f", strconv.Itoa(w.rng.IntN(3))))
	c.chunked = chance(w.rng, 50)
	if w.spoilCall(c) {
		w.world.ghosts["image "+name] = true
		w.tryCall(c)
		return
	}
	a, right := w.wantStatus(c, "a build", pick(wrong, []int{ok, bad, 501}, []int{ok})...)
	switch failed := bytes.Contains(a.body, []byte(`"error"`)); {
	case !right || wrong && (failed || a.status != ok):
	case failed:
		w.report.addFinding(w.number, "build of %q: %.2000q", lines, a.body)
	default:
		w.world.addName(w.idOf(name), name)
	}
}

func (w *worker) pruneImages() {
	c := w.newCall("POST /images/prune").withQuery("filters", `{"label":["fuzz=`+w.ownLabel()+`"]}`)
	a, pruned := w.wantStatus(c, "a prune", ok)
	if !pruned {
		return
	}
	var body struct{ ImagesDeleted []struct{ Deleted string } }
	_ = json.Unmarshal(a.body, &body) // The form has been judged.
	for _, gone := range body.ImagesDeleted {
		for _, i := range w.world.images {
			if i.id == gone.Deleted && len(i.names) > 0 {
				w.report.addFinding(w.number, "prune removed %s, which has the names %v", i.id, i.names)
			}
		}
		w.world.images = slices.DeleteFunc(w.world.images, func(i *ownImage) bool { return i.id == gone.Deleted })
	}
}
