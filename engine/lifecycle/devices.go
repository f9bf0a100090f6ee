package lifecycle

import (
	"moss/engine/container"
	"moss/engine/ocispec"
)

// deviceNames know devices of the host by their names.
type deviceNames interface {
	// Resolve returns the names of what is asked for. fault.Invalid and fault.Unsupported for what there is not.
	Resolve(asked []container.DeviceRequest) ([]string, error)
	// Edits returns what a container needs for devices.
	Edits(names []string) (ocispec.Additions, error)
}

// deviceAdditions are what a container needs for the devices that it asks for by name, as they are at this moment. fault.Invalid
// and fault.Unsupported for what cannot be had.
func deviceAdditions(names deviceNames, spec *container.Spec) (ocispec.Additions, error) {
	if len(spec.Host.DeviceRequests) == 0 {
		return ocispec.Additions{}, nil
	}
	found, err := names.Resolve(spec.Host.DeviceRequests)
	if err != nil {
		return ocispec.Additions{}, err
	}
	return names.Edits(found)
}
