package container

import (
	"time"

	"moss/engine/network"
	"moss/engine/pidfd"
)

// Record is all the engine knows of one container. It is what lies in the files of containers/<id>, and what readers
// get: a *Record that has been published is never changed again.
type Record struct {
	ID      string
	Name    string // without the leading slash
	Created time.Time

	Image     string // as the client wrote it
	ImageID   string // sha256:…
	Config    Config // merged with the image's
	Host      HostConfig
	Endpoints map[string]EndpointConfig // by network, running or not; nil in records of early versions: that of NetworkMode
	Path      string                    // the executable
	Args      []string                  // its arguments
	Warnings  []string                  // what create answered

	State          State
	Pid            int
	PidStart       uint64 // when that process began, in clock ticks after the boot: it tells it from a later one of the same number
	ExitCode       int
	Error          string // of the last start or exit
	OOMKilled      bool
	StartedAt      time.Time
	FinishedAt     time.Time
	RestartCount   int
	StoppedByUser  bool   // a manual stop or kill: unless-stopped stays down
	RestartAtStart bool   // ran when the engine shut down: the policy starts it again with the next one
	BootID         string // of the boot in which State was true
	Driver         string // storage driver
	LogPath        string // empty for drivers without a file
	HostnamePath   string
	HostsPath      string
	ResolvConf     string
	MountLabel     string
	ProcessLabel   string
	Mounts         []Mount
	RemoveVolumes  bool     // the removal that has begun takes the anonymous volumes along
	Links          []Link   // the containers it knows by an alias
	LinkedAs       []string `json:"-"` // how others know it: /web/db; in lists only
	Network        Network
	Health         *Health  // of the last start; nil without a health check
	End            *End     // of the process, while what it held is being released; nil otherwise
	Thaw           bool     // its processes are frozen for a moment only: an engine that finds it so lets them go on
	KilledMonitor  pidfd.ID `json:",omitzero"` // of the last end: see task.Exit
	Revision       uint64   // of what was written last; what is written later has a higher one
	MonitorSilent  bool     `json:"-"` // its monitor does not answer: what else is said of it is what was last known
	Build          bool     `json:"-"` // it runs a step of a build: it is gone with the engine, and has no record on the disk
}

// End is how a container's process ended.
type End struct {
	Code          int
	At            time.Time
	OOMKilled     bool
	Error         string   // why the runtime or the monitor failed; empty for a normal end
	KilledMonitor pidfd.ID `json:",omitzero"` // see task.Exit
}

// Mount is one mount point as inspect shows it (API document 1, 2.1).
type Mount struct {
	Type        string // bind, volume or image
	Name        string // of the volume
	Source      string // of an image its name
	Destination string
	Driver      string
	Mode        string
	RW          bool
	Propagation string
	Anonymous   bool // a volume that goes with its last container if volumes are removed with that
	NoCopy      bool // a volume into which nothing of the image is copied
	Bind        BindTerms
	Volume      VolumeTerms
	Image       ImageTerms
}

// Network is what a running container has of the network: nothing in Path unless the network namespace is its own.
type Network struct {
	network.Sandbox
	Leaving string // id of the network that it is being taken out of; an engine that finds it so goes on with that
	Etc     *Etc   // what the managed files say while that is not what they should; nil otherwise
}

// Etc is the engine's own part of a running container's managed files.
type Etc struct {
	Hosts  []string // whole lines
	Resolv string   // all of resolv.conf
}
