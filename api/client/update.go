package client

import (
	"context"
	"net/http"
	"net/url"
)

// Update is the body that changes a container's limits (API document 1, 2.3). Fields at their zero value stay as they are.
type Update struct {
	BlkioWeight       uint16         `json:",omitempty"`
	CPUShares         int64          `json:"CpuShares,omitempty"`
	CPUPeriod         int64          `json:"CpuPeriod,omitempty"` // microseconds
	CPUQuota          int64          `json:"CpuQuota,omitempty"`  // microseconds
	CpusetCpus        string         `json:",omitempty"`
	CpusetMems        string         `json:",omitempty"`
	Memory            int64          `json:",omitempty"` // bytes
	MemorySwap        int64          `json:",omitempty"` // bytes; -1: unlimited
	MemoryReservation int64          `json:",omitempty"` // bytes
	KernelMemory      int64          `json:",omitempty"` // bytes
	PidsLimit         int64          `json:",omitempty"` // -1: unlimited
	RestartPolicy     *RestartPolicy `json:",omitempty"`
}

// Commit says what image a container becomes.
type Commit struct {
	Repo, Tag       string // both may be empty
	Comment, Author string
	Changes         []string // build instructions
	Pause           bool     // while the file system is read
}

// ContainerUpdate changes a container's limits and returns the engine's warnings.
func (c *Client) ContainerUpdate(ctx context.Context, ref string, body Update) ([]string, error) {
	path, err := containerPath(ref, "/update")
	if err != nil {
		return nil, err
	}
	var out struct{ Warnings []string }
	err = c.call(ctx, request{method: http.MethodPost, path: path, json: body}, &out)
	return out.Warnings, err
}

// ContainerCommit makes an image of a container and returns its id.
func (c *Client) ContainerCommit(ctx context.Context, ref string, opts Commit) (string, error) {
	query := url.Values{"container": {ref}, "pause": {formatBool(opts.Pause)}}
	for key, value := range map[string]string{
		"repo": opts.Repo, "tag": opts.Tag, "comment": opts.Comment, "author": opts.Author,
	} {
		if value != "" {
			query.Set(key, value)
		}
	}
	if len(opts.Changes) > 0 {
		query["changes"] = opts.Changes
	}
	var out struct {
		ID string `json:"Id"`
	}
	err := c.call(ctx, request{method: http.MethodPost, path: "/commit", query: query}, &out)
	return out.ID, err
}
