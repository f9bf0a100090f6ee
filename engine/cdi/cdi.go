// Package cdi finds devices of the host by the names that files give them (Container Device Interface 1.1), and tells what a
// container needs to have for each. It changes nothing on the host.
package cdi

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"

	"moss/engine/container"
	"moss/engine/fault"
	"moss/engine/ocispec"
)

// maxSpec bounds a file, in bytes.
const maxSpec = 4 << 20

// Registry knows devices by the files in some folders, which it reads anew at each call: other programs write them at any time.
type Registry struct {
	dirs []Dir
}

// Dir is a folder with files of devices.
type Dir struct {
	Path string
	Own  bool // it is the user's: files of anybody else do not count
}

// New returns a registry. A name in a later folder hides those of earlier ones. Folders need not be there.
func New(dirs ...Dir) *Registry { return &Registry{dirs: slices.Clone(dirs)} }

// Dirs returns the paths of the folders.
func (r *Registry) Dirs() []string {
	paths := make([]string, 0, len(r.dirs))
	for _, d := range r.dirs {
		paths = append(paths, d.Path)
	}
	return paths
}

// found is what the folders have at one moment.
type found struct {
	devices map[string]*cdi.Device // by qualified name
	broken  []error                // files that do not count, and why
}

// read reads all folders.
func (r *Registry) read() found {
	all := found{devices: map[string]*cdi.Device{}}
	for priority, dir := range r.dirs {
		here, twice := map[string]*cdi.Device{}, map[string]bool{}
		for _, path := range filesIn(dir.Path, &all.broken) {
			spec, err := readSpec(path, priority, dir.Own)
			if err != nil {
				all.broken = append(all.broken, fmt.Errorf("%s: %w", path, err))
				continue
			}
			for _, d := range spec.Devices {
				name := parser.QualifiedName(spec.GetVendor(), spec.GetClass(), d.Name)
				if here[name] != nil {
					twice[name] = true
					all.broken = append(all.broken, fmt.Errorf("%s: another file has %s, too", path, name))
				}
				here[name] = spec.GetDevice(d.Name)
			}
		}
		maps.DeleteFunc(here, func(name string, _ *cdi.Device) bool { return twice[name] })
		maps.Copy(all.devices, here)
	}
	return all
}

// filesIn lists the files of devices in a folder. One that everybody can write to has none that count: a link there could make
// any file of the user's one of devices.
func filesIn(dir string, broken *[]error) (paths []string) {
	entries, err := os.ReadDir(dir)
	var st unix.Stat_t
	if err == nil && unix.Stat(dir, &st) == nil && st.Mode&unix.S_IWOTH != 0 {
		entries, err = nil, fmt.Errorf("%s: everybody can write to it", dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		*broken = append(*broken, err)
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".json" || ext == ".yaml") {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// readSpec reads a file that nobody but its owner can write, which is the user if own is set.
func readSpec(path string, priority int, own bool) (spec *cdi.Spec, err error) {
	defer func() { // the library's reader of names does not expect all of them (a class of one letter, in 1.1.0)
		if r := recover(); r != nil {
			spec, err = nil, fmt.Errorf("it cannot be read: %v", r)
		}
	}()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return nil, err
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, errors.New("it is no file")
	case st.Mode&0o022 != 0:
		return nil, errors.New("others than its owner can write it")
	case own && int(st.Uid) != os.Geteuid():
		return nil, errors.New("it is somebody else's")
	case st.Size > maxSpec:
		return nil, fmt.Errorf("it has %d bytes, more than %d", st.Size, maxSpec)
	}
	return cdi.ReadSpec(path, priority)
}

// Names lists all devices that there are, by their qualified names.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.read().devices)) }

// Resolve returns the qualified names of what is asked for. fault.Unsupported for what no device can be, fault.Invalid for names
// of devices that there are not.
func (r *Registry) Resolve(asked []container.DeviceRequest) ([]string, error) {
	if len(asked) == 0 {
		return nil, nil
	}
	all := r.read()
	var names []string
	for _, request := range asked {
		more := request.DeviceIDs
		if request.Driver != container.DriverCDI {
			vendor, err := all.gpuVendor(&request)
			if err != nil {
				return nil, err
			}
			more = gpuNames(vendor, &request)
		}
		for _, name := range more {
			if all.devices[name] == nil {
				return nil, all.noDevice(name)
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}

// gpuClass is the class of devices that the capability gpu stands for.
const gpuClass = "gpu"

// gpuVendor returns whose devices a request for GPUs is for: there must be those of one vendor alone.
func (f *found) gpuVendor(request *container.DeviceRequest) (string, error) {
	vendors := map[string]bool{}
	for name := range f.devices {
		if vendor, class, _ := parser.ParseDevice(name); class == gpuClass {
			vendors[vendor] = true
		}
	}
	of := slices.Sorted(maps.Keys(vendors))
	switch len(of) {
	case 0:
		return "", fault.Unsupported("could not select device driver %q with capabilities: %v: no CDI spec has devices of the class %s",
			request.Driver, request.Capabilities, gpuClass)
	case 1:
		return of[0], nil
	default:
		return "", fault.Invalid("could not select device driver %q with capabilities: %v: there are GPUs of %s; name them by CDI, "+
			"as %s/%s=all",
			request.Driver, request.Capabilities, strings.Join(of, " and "), of[0], gpuClass)
	}
}

// gpuNames returns the names of the devices that a request means: those that it names, the first few, or all.
func gpuNames(vendor string, request *container.DeviceRequest) []string {
	ids := request.DeviceIDs
	switch {
	case len(ids) > 0:
	case request.Count < 0:
		ids = []string{"all"}
	default:
		ids = make([]string, request.Count)
		for i := range ids {
			ids[i] = strconv.Itoa(i)
		}
	}
	names := make([]string, 0, len(ids))
	for _, id := range ids {
		names = append(names, parser.QualifiedName(vendor, gpuClass, id))
	}
	return names
}

// noDevice says why there is no device of a name, with the files that do not count.
func (f *found) noDevice(name string) error {
	err := fault.Invalid("CDI device injection failed: unresolvable CDI device %s", name)
	for _, why := range f.broken {
		err = fault.Invalid("%w; not read: %w", err, why)
	}
	return err
}

// Edits returns what a container needs for devices. Errors are those of Resolve, and fault.Unsupported for what no rootless
// container can have.
func (r *Registry) Edits(names []string) (ocispec.Additions, error) {
	var e edits
	all, done := r.read(), map[*cdi.Spec]bool{}
	for _, name := range names {
		device := all.devices[name]
		if device == nil {
			return ocispec.Additions{}, all.noDevice(name)
		}
		if spec := device.GetSpec(); !done[spec] {
			done[spec] = true
			if err := e.add(name, &spec.ContainerEdits); err != nil {
				return ocispec.Additions{}, err
			}
		}
		if err := e.add(name, &device.ContainerEdits); err != nil {
			return ocispec.Additions{}, err
		}
	}
	return ocispec.Additions(e), nil
}
