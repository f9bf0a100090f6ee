package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// box is a container of the model.
type box struct {
	name, id string
	is       state
	ends     bool // its process ends by itself
	entry    bool // it has an entrypoint, which images made of it have too
	tty      bool
	stdin    bool
	atOnce   bool // its stop signal is one that ends it
	image    string
	volumes  []string
	networks map[string]bool // those of its own worker that it is in
	noNet    bool
	execs    []*execution
	ran      int // how often it was started
	// Until this step of its worker, and this time, nothing is known of it: a call about it was broken off.
	unsure int
	calm   time.Time
}

// execution is a process added to a container.
type execution struct {
	id      string
	tty     bool
	stdin   bool
	tried   bool // somebody asked for its start
	started bool // and it was started
	run     int  // the box's ran when it was made
}

// possibleStates returns those that a box may be in now.
func (b *box) possibleStates() state {
	if b.ends && b.is&(running|paused) != 0 { // it may have been halted when it was over
		return b.is | exited
	}
	return b.is
}

// ownImage is an image that a worker made, by its names.
type ownImage struct {
	id    string
	names []string
	bare  bool // nothing in it can run
}

// world is what one worker knows to be there: it alone changes it.
type world struct {
	boxes    []*box
	images   []*ownImage
	volumes  []string
	networks map[string]string // names and ids
	// ghosts are names and ids that may come to be, or not: of calls that were broken off. By kind.
	ghosts map[string]bool
	serial int
	baseID string // the image that containers are made of
}

func newWorld() *world {
	return &world{networks: map[string]string{}, ghosts: map[string]bool{}}
}

// newName returns one that was never used.
func (w *worker) newName(kind string) string {
	w.world.serial++
	return fmt.Sprintf("%s-%s%d", w.ownLabel(), kind, w.world.serial)
}

// ownLabel returns the value of the label fuzz of everything that is this worker's.
func (w *worker) ownLabel() string { return fmt.Sprintf("w%d", w.number) }

// boxesWhere returns the boxes that a predicate holds for.
func (w *world) boxesWhere(of func(*box) bool) []*box {
	var list []*box
	for _, b := range w.boxes {
		if b.is != absent && of(b) {
			list = append(list, b)
		}
	}
	return list
}

// dropGone drops the boxes that are gone for sure.
func (w *world) dropGone(now int) {
	w.boxes = slices.DeleteFunc(w.boxes, func(b *box) bool { return b.is == absent && b.unsure <= now })
}

// hasName reports whether an image has a name.
func (i *ownImage) hasName(name string) bool { return slices.Contains(i.names, name) }

// imageNamed returns the own image of a name.
func (w *world) imageNamed(name string) *ownImage {
	for _, i := range w.images {
		if i.hasName(name) {
			return i
		}
	}
	return nil
}

// addName gives an image a name, and takes it from the one that had it.
func (w *world) addName(imageID, name string) {
	w.dropName(name)
	for _, i := range w.images {
		if i.id == imageID {
			i.names = append(i.names, name)
			return
		}
	}
	w.images = append(w.images, &ownImage{id: imageID, names: []string{name}})
}

func (w *world) dropName(name string) {
	for _, i := range w.images {
		i.names = slices.DeleteFunc(i.names, func(n string) bool { return n == name })
	}
}

// oneOf returns an element at random, the zero value of an empty list.
func oneOf[T any](rng *rand.Rand, list []T) (t T) {
	if len(list) == 0 {
		return t
	}
	return list[rng.IntN(len(list))]
}

// chance is true n times of a hundred.
func chance(rng *rand.Rand, n int) bool { return rng.IntN(100) < n }

// markUnsure notes that nothing is known of a box for a while.
func (w *worker) markUnsure(b *box) {
	if b.is != absent {
		b.is, b.unsure, b.calm = anyState, w.step+shaken, time.Now().Add(longest)
	}
}

// knows reports whether what the model says of a box holds.
func (w *worker) knows(b *box) bool { return b.unsure <= w.step && time.Now().After(b.calm) }
