package image

import "encoding/json"

// Commit describes an image to make of a container (API document 2, 4.2: commit).
type Commit struct {
	Repo    string // familiar name; empty leaves the image untagged
	Tag     string // empty: latest
	Author  string
	Comment string
	Changes []string // build instructions applied to Config

	Config      Config // of the container
	Parent      string // id of the image that the container was made of
	ContainerID string
	CreatedBy   string // the container's command, for the history

	ContainerConfig json.RawMessage // what the container was made with, to be shown with the image
}
