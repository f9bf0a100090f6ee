package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/pelletier/go-toml/v2"

	"moss/engine/fault"
)

// readFile returns the values of the file by key and the file's name. Without a file there are no values.
func readFile(opts Options, env func(string) string) (values map[string][]string, name string, err error) {
	name, required := opts.File, opts.FileRequired
	if name == "" {
		if name = env("MOSS_CONFIG"); name != "" {
			required = true
		} else if dir := xdgFolder(env, "XDG_CONFIG_HOME", ".config"); dir != "" {
			name = filepath.Join(dir, "moss", "moss.toml")
		}
	}
	if name == "" {
		return nil, "", nil
	}
	raw, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if required {
			return nil, "", fault.NotFound("no configuration file %s", name)
		}
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read configuration: %w", err)
	}
	values, err = parseFile(name, raw)
	return values, name, err
}

// parseFile returns the values of a file by key. It checks the syntax, the keys and the types of the values, not the values.
func parseFile(name string, raw []byte) (map[string][]string, error) {
	var doc map[string]any
	if err := toml.Unmarshal(raw, &doc); err != nil {
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			row, column := at.Position()
			return nil, fault.Invalid("configuration %s: line %d, column %d: %w", name, row, column, err)
		}
		return nil, fault.Invalid("configuration %s: %w", name, err)
	}
	values := make(map[string][]string, len(doc))
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		s, ok := findSetting(key)
		if !ok {
			return nil, fault.Invalid("configuration %s: unknown key %q; the keys are %s", name, key, keyList())
		}
		list, ok := toTexts(doc[key], s.many)
		if !ok {
			return nil, fault.Invalid("configuration %s: %s: %v has the wrong type, want %s", name, key, doc[key], s.allowed)
		}
		values[key] = list
	}
	return values, nil
}

// toTexts turns a TOML value into the text that a flag would have; a list only where many values are allowed.
func toTexts(v any, many bool) (list []string, ok bool) {
	switch v := v.(type) {
	case string:
		return []string{v}, true
	case bool:
		return []string{strconv.FormatBool(v)}, true
	case int64:
		return []string{strconv.FormatInt(v, 10)}, true
	case []any:
		if !many {
			return nil, false
		}
		list = make([]string, 0, len(v))
		for _, item := range v {
			text, isText := item.(string)
			if !isText {
				return nil, false
			}
			list = append(list, text)
		}
		return list, true
	default:
		return nil, false
	}
}
