package arg

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Volumes is what -v and --tmpfs ask for.
type Volumes struct {
	Binds     []string            // src:dst[:options]
	Anonymous map[string]struct{} // destinations
	Tmpfs     map[string]string   // destination: options
}

// Volume adds one -v value: [source:]destination[:options]. A source that holds a slash or starts with a dot is a path,
// made absolute from dir; any other is the name of a volume.
func (v *Volumes) Volume(text, dir string) error {
	parts := strings.Split(text, ":")
	if len(parts) > 3 {
		return fmt.Errorf("volume %q: want [source:]destination[:options]", text)
	}
	if slices.Contains(parts, "") {
		return fmt.Errorf("volume %q: an empty part; want [source:]destination[:options]", text)
	}
	if len(parts) == 1 {
		if err := checkDestination(text, parts[0]); err != nil {
			return err
		}
		if v.Anonymous == nil {
			v.Anonymous = map[string]struct{}{}
		}
		v.Anonymous[parts[0]] = struct{}{}
		return nil
	}
	if err := checkDestination(text, parts[1]); err != nil {
		return err
	}
	if source := parts[0]; source[0] == '.' || (source[0] != '/' && strings.Contains(source, "/")) {
		parts[0] = filepath.Join(dir, source)
	}
	v.Binds = append(v.Binds, strings.Join(parts, ":"))
	return nil
}

// Tmp adds one --tmpfs value: destination[:options].
func (v *Volumes) Tmp(text string) error {
	path, options, _ := strings.Cut(text, ":")
	if err := checkDestination(text, path); err != nil {
		return err
	}
	if v.Tmpfs == nil {
		v.Tmpfs = map[string]string{}
	}
	v.Tmpfs[path] = options
	return nil
}

func checkDestination(text, path string) error {
	if !strings.HasPrefix(path, "/") {
		return fmt.Errorf("volume %q: the path in the container, %q, must be absolute", text, path)
	}
	if strings.Trim(path, "/") == "" {
		return fmt.Errorf("volume %q: the container's root cannot be replaced", text)
	}
	return nil
}
