package wire

import (
	"moss/api/types"
	"moss/engine/exec"
)

// ToExec returns the body as the engine takes it.
func ToExec(c *types.ExecCreate) exec.Config {
	return exec.Config{
		AttachStdin: c.AttachStdin, AttachStdout: c.AttachStdout, AttachStderr: c.AttachStderr,
		DetachKeys: c.DetachKeys, Tty: c.Tty, Cmd: c.Cmd, Privileged: c.Privileged, User: c.User,
		Env: c.Env, WorkingDir: c.WorkingDir,
	}
}

// NewExecInspect fills an inspect record. inContainer is the exec's container as inspect shows it.
func NewExecInspect(info exec.Info, inContainer *types.ContainerInspect) *types.ExecInspect {
	return &types.ExecInspect{
		ID:       info.ID,
		Running:  info.Running,
		ExitCode: info.ExitCode,
		ProcessConfig: types.ExecProcess{
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
