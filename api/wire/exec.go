package wire

import (
	"moss/engine/container"
	"moss/engine/exec"
)

// ExecCreate is the body of containers/{id}/exec (document 2, 4.3). Env, WorkingDir and ConsoleSize are of later versions and
// read at every one: a command without them would do something else.
type ExecCreate struct {
	AttachStdin  bool
	AttachStdout bool
	AttachStderr bool
	DetachKeys   string `api:"1.22-"`
	Tty          bool
	Cmd          container.Strings
	Privileged   bool
	User         string
	Env          []string
	WorkingDir   string
	ConsoleSize  *[2]uint16 // height, width
}

// Config returns the body as the engine takes it.
func (c *ExecCreate) Config() exec.Config {
	return exec.Config{
		AttachStdin: c.AttachStdin, AttachStdout: c.AttachStdout, AttachStderr: c.AttachStderr,
		DetachKeys: c.DetachKeys, Tty: c.Tty, Cmd: c.Cmd, Privileged: c.Privileged, User: c.User,
		Env: c.Env, WorkingDir: c.WorkingDir,
	}
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
	ConsoleSize *[2]uint16 // height, width
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

// NewExecInspect fills an inspect record. inContainer is the exec's container as inspect shows it.
func NewExecInspect(info exec.Info, inContainer *ContainerInspect) *ExecInspect {
	return &ExecInspect{
		ID:       info.ID,
		Running:  info.Running,
		ExitCode: info.ExitCode,
		ProcessConfig: ExecProcess{
			Entrypoint: info.Config.Cmd[0], Arguments: orNone(info.Config.Cmd[1:]),
			Privileged: info.Config.Privileged, Tty: info.Config.Tty, User: info.Config.User,
		},
		OpenStdin:   info.Config.AttachStdin,
		OpenStderr:  info.Config.AttachStderr,
		OpenStdout:  info.Config.AttachStdout,
		Container:   inContainer,
		CanRemove:   info.ExitCode != nil,
		ContainerID: info.ContainerID,
		DetachKeys:  info.Config.DetachKeys,
		Pid:         info.Pid,
	}
}
