package wire

import (
	"moss/api/types"
	"moss/engine/container"
)

// ToUpdate returns the settings that the body asks for.
func ToUpdate(u *types.ContainerUpdate) container.HostConfig {
	h := ToHost(&u.HostConfig)
	h.RestartPolicy = container.RestartPolicy(u.RestartPolicy)
	return h
}
