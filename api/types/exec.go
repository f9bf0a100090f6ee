package types

// ExecCreate is the body of containers/{id}/exec (document 2, 4.3). Env, WorkingDir and ConsoleSize are of later versions and
// read at every one: a command without them would do something else.
type ExecCreate struct {
	AttachStdin  bool   `json:",omitzero"`
	AttachStdout bool   `json:",omitzero"`
	AttachStderr bool   `json:",omitzero"`
	DetachKeys   string `json:",omitzero" api:"1.22-"`
	Tty          bool   `json:",omitzero"`
	Cmd          Strings
	Privileged   bool       `json:",omitzero"`
	User         string     `json:",omitzero"`
	Env          []string   `json:",omitzero"`
	WorkingDir   string     `json:",omitzero"`
	ConsoleSize  *[2]uint16 `json:",omitzero"` // height, width
}

// ExecCreated is the answer to containers/{id}/exec.
type ExecCreated struct {
	ID       string `json:"Id"`
	Warnings []string
}

// ExecStart is the body of exec/{id}/start. ConsoleSize is of later versions and read at every one.
type ExecStart struct {
	Detach      bool
	Tty         bool
	ConsoleSize *[2]uint16 `json:",omitzero"` // height, width
}

// ExecInspect is the answer to exec/{id}/json (document 1, 2.7).
type ExecInspect struct {
	ID            string
	Running       bool
	ExitCode      *int // null until it has ended
	ProcessConfig ExecProcess
	OpenStdin     bool
	OpenStderr    bool
	OpenStdout    bool
	Container     *ContainerInspect `api:"-1.21"`
	CanRemove     bool              `api:"1.22-"`
	ContainerID   string            `api:"1.22-"`
	DetachKeys    string            `api:"1.22-"`
	Pid           int               `api:"1.25-"`
}

// ExecProcess is the command of an exec.
type ExecProcess struct {
	Arguments  []string `json:"arguments"`
	Entrypoint string   `json:"entrypoint"`
	Privileged bool     `json:"privileged"`
	Tty        bool     `json:"tty"`
	User       string   `json:"user"`
}
