package main

import (
	"path/filepath"

	"moss/engine/cdi"
)

// newDevices knows the devices that the system's folders name, and before them those of the user's own.
func newDevices(env func(string) string) *cdi.Registry {
	dirs := []cdi.Dir{{Path: "/etc/cdi"}, {Path: "/var/run/cdi"}}
	own := env("XDG_CONFIG_HOME")
	if !filepath.IsAbs(own) && filepath.IsAbs(env("HOME")) {
		own = filepath.Join(env("HOME"), ".config")
	}
	if filepath.IsAbs(own) {
		dirs = append(dirs, cdi.Dir{Path: filepath.Join(own, "cdi"), Own: true})
	}
	return cdi.New(dirs...)
}
