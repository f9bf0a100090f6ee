package image

import (
	"encoding/json"
	"os"
	"time"
)

// Step describes the image that one step of a build makes on top of the one before.
type Step struct {
	Parent       string // id of the image of the step before; empty: nothing (FROM scratch)
	OS           string
	Architecture string
	Variant      string
	Config       Config
	Author       string
	Comment      string
	CreatedBy    string // the instruction, for the history
	Created      time.Time
	ContainerID  string // that ran the step; may be empty

	ContainerConfig json.RawMessage // of that container; may be empty

	Key string // what the step depends on, as one digest: the build finds the image again by it
}

// Built is what is known of an image that a step of a build made.
type Built struct {
	ID        string
	Parent    string
	Key       string
	CreatedBy string
	Created   time.Time
	Size      int64 // bytes of the layer that the step added
	Result    bool  // it is what a build ended with
}

// Past is one entry of an image's own history, as its config has it.
type Past struct {
	Created   time.Time
	CreatedBy string
	Author    string
	Comment   string
	Empty     bool // it added no layer
}

// View is the file system of an image, read only. The image stays as long as the view is open.
type View struct {
	Dir     string   // where it is mounted in the engine's mount namespace; free of links
	Root    *os.File // an O_PATH handle of Dir
	Release func() error
}

// Close ends the view.
func (v *View) Close() error { return v.Release() }
