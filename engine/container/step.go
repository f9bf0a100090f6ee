package container

// Step is what a container is made of that runs one step of a build. It takes nothing of its image but the files, and only
// Config and Host are recorded: the rest is gone with the engine, and so is the container.
type Step struct {
	ImageID string // sha256:…
	Config  Config // whole
	Host    HostConfig

	Env   []string // NAME=value, for the process alone: nobody sees them outside
	Binds []Bind   // likewise
	Tmpfs []Tmpfs  // likewise
}
