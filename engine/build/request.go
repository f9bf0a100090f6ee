// Package build makes images from Dockerfiles: it reads the instructions, finds what was done before in its cache, has
// containers run and layers made, and tells how far it is. It knows neither HTTP nor how images are stored.
package build

import (
	"io"
	"strconv"

	"moss/engine/container"
	"moss/engine/image"
)

// Request is one build (API document 2, 4.2: build).
type Request struct {
	Context    io.Reader // the context's archive, plain or compressed; not used with Remote
	Remote     string    // where the context is fetched: a git repository, or http(s); one text file is the Dockerfile itself
	Dockerfile string    // path in the context; empty: Dockerfile, or else dockerfile or Containerfile
	Tags       []string  // names for the result, as clients write them
	Target     string    // the stage to build; empty: the last
	Platform   string    // os[/arch[/variant]] of images to fetch; empty: this machine's

	Quiet       bool // only the id is told
	NoCache     bool
	Pull        bool // look for newer base images
	Remove      bool // containers of steps that succeeded
	ForceRemove bool // containers of steps that failed too
	Steps       bool // progress carries Step under aux, and stages' lines come as they happen

	Args      map[string]*string // build arguments; nil: declared without a value
	Labels    map[string]string
	CacheFrom []string // images whose steps count as done; empty: all of the cache

	Host    container.HostConfig          // limits, network, hosts: for the containers of RUN
	Auths   map[string]image.RegistryAuth // credentials by registry
	Secrets map[string]image.Secret       // for RUN --mount=type=secret, by id
}

// StepState is how far a step is.
type StepState string

// The states of a step.
const (
	StepStarted StepState = "started"
	StepCached  StepState = "cached"
	StepDone    StepState = "done"
	StepFailed  StepState = "failed"
)

// Step is what progress tells of one instruction, under aux, if the request asks for it.
type Step struct {
	Stage       int    // from 0
	StageName   string // as the Dockerfile has it; may be empty
	Number      int    // of the step, over all stages that are built, from 1
	Total       int    // steps in all
	Instruction string // as it is shown
	State       StepState
	Image       string  // id of the result; empty while there is none
	Seconds     float64 // it took; for the states that end it
}

// ExitError is a RUN whose command failed.
type ExitError struct {
	Command string // as clients know it: /bin/sh -c exit 3
	Code    int
	Err     error // says more, if there is more to say; may be nil
}

// Error words the failure as clients look for it.
func (e *ExitError) Error() string {
	if e.Err != nil {
		return e.Err.Error()
	}
	return "The command '" + e.Command + "' returned a non-zero code: " + strconv.Itoa(e.Code)
}

// Unwrap returns what says more.
func (e *ExitError) Unwrap() error { return e.Err }

// StreamCode is the code that the message of the error carries.
func (e *ExitError) StreamCode() int { return e.Code }
