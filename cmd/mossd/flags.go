package main

import (
	"strings"

	"moss/engine/config"
)

// settingFlag collects the values of one setting from the command line, which package config checks. It is a pflag.Value.
type settingFlag struct {
	setting config.Setting
	values  *[]string
}

// String returns nothing: defaults are package config's.
func (f *settingFlag) String() string { return "" }

// Set adds a value.
func (f *settingFlag) Set(value string) error {
	*f.values = append(*f.values, value)
	return nil
}

// Type names the kind of value in the help text.
func (f *settingFlag) Type() string {
	switch {
	case f.setting.Switch:
		return "bool"
	case f.setting.Many:
		return "value..."
	case strings.HasPrefix(f.setting.Allowed, "an absolute path"):
		return "path"
	case strings.HasPrefix(f.setting.Allowed, "0 "):
		return "number"
	default:
		return "value"
	}
}
