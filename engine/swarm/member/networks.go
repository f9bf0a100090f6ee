package member

import (
	"github.com/moby/swarmkit/v2/api"
	"github.com/moby/swarmkit/v2/manager/allocator/networkallocator"
)

// noNetworks allocates nothing: tasks are in the network of their node. SwarmKit's own provider of that kind reports an error
// for each node, because it wants one in the network of published ports.
type noNetworks struct{ networkallocator.InertProvider }

// NewAllocator returns the allocator of a manager that leads.
func (noNetworks) NewAllocator(*networkallocator.Config) (networkallocator.NetworkAllocator, error) {
	return noAllocator{}, nil
}

type noAllocator struct{ networkallocator.Inert }

// AllocateAttachment attaches a node to nothing.
func (noAllocator) AllocateAttachment(*api.Node, *api.NetworkAttachment) error { return nil }

// IsAttachmentAllocated reports that a node has all that it gets.
func (noAllocator) IsAttachmentAllocated(*api.Node, *api.NetworkAttachment) bool { return true }
