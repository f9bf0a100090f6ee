package types

// ContainerUpdate is the body of containers/{id}/update (document 1, 2.3, end). Clients send all of their resources, most
// of them at zero; what of them a living container cannot change is refused by name and not dropped.
type ContainerUpdate struct {
	HostConfig
	RestartPolicy RestartPolicy `json:",omitzero" api:"1.23-"` // hides that of HostConfig, which is of all versions
}

// ContainerUpdated is the answer to containers/{id}/update.
type ContainerUpdated struct {
	Warnings []string
}

// ImageCommitted is the answer to commit.
type ImageCommitted struct {
	ID string `json:"Id"`
}
